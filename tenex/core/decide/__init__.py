"""Decides which records follow from a signal. Start at `dispatch.decide`; one module per kind of input."""
