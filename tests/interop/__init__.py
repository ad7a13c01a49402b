"""Clients nobody here wrote hold conversations with the real daemon over a real relay."""
