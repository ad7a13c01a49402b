"""Rollback and fork: a conversation goes back to an earlier record."""
