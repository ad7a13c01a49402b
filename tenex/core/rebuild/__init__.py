"""Journals of other origin: rebuilt or imported."""
