"""Lessons of agents, read, edited and removed by a person."""
