"""The whole flow on virtual time, with faults drawn from a seed at every port.

    python -m tests.simulation SEED     plays one seed again and prints what happens

Never: a fault that a real part could not have.
"""
