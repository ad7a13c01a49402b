"""Files that people send, for tools, programs and models."""
