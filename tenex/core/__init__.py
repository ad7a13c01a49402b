"""The rules, as values and pure functions: a graph permits, a router chooses, a journal records.

Start reading at `decide`, then `conversation`, then `pending`.

Never: await, read a clock, roll dice, or touch a file, a socket or a thread.
"""
