"""The web for agents: a tool that reads a page, and one that searches."""
