"""Approvals: a call that leaves the sandbox runs only after a rule of the operator, or a person, has allowed it."""
