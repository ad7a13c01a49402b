"""Keys of the project and of agents that remote signers hold (NIP-46)."""
