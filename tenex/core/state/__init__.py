"""The state of a conversation as frozen values, one module per subject."""
