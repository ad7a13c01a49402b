"""Measures against the budgets of DESIGN section 11: `make bench`. Never a test: nothing here passes or fails."""
