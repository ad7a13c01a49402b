"""Scenarios for `tenex eval`: what a person writes, what models answer, what is expected, and the figures of a run.

`scenario` is the file, `scripted` the model that answers from it, `figures` what a run took, `expectations` what holds.
"""
