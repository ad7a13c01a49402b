"""The whole flow on virtual time, with faults drawn from a seed at every port.

python -m tests.simulation SEED [--keep FOLDER]     plays one seed again, prints what happens, keeps what it left
"""
