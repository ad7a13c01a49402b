"""Applies records to the state: one pure function per record kind."""
