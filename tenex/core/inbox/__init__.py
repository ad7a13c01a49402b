"""The inbox: what users write, commands among it."""
