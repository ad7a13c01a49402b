"""Measures against the performance budgets: `make bench`. Never a test: nothing here passes or fails."""
