"""Identity: whose conversation it is and where it lives."""
