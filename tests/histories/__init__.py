"""Journals kept for ever: what was written once must always be read, and mean what it meant.

python -m tests.histories.record NAME FOLDER     adds a conversation of a data folder, such as a simulation's
"""
