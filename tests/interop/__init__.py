"""Third-party clients hold conversations with the real daemon over a real relay."""
