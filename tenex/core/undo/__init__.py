"""Undo: files of the workspace go back, the conversation goes on."""
