"""The rules, as values and pure functions: a graph permits, a router chooses, a journal records.

Start reading at `phases`, then `decide.dispatch`, `conversation` and `pending`.
"""
