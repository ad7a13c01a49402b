"""Agents of others as agents of phases, by the Agent Client Protocol: their processes, sessions, models and calls."""
