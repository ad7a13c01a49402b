"""Builds agents, models, tools, workflows and output states from the settings."""
