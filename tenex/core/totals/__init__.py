"""Totals: what was used and spent."""
