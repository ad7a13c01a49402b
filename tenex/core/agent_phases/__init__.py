"""Phases of an agent's own: its program, its tools, and when it moves on."""
