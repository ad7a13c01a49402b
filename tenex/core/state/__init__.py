"""The state of a conversation as immutable values, one module per subject."""
