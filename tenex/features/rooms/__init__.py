"""Rooms: which groups of relays (NIP-29) the project's keys are members of."""
