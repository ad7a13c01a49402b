"""People: who may do what, on whose behalf work is done, and who decided."""
