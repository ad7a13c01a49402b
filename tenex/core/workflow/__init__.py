"""Rules of a conversation between speakers: transitions, conditions, rounds and context variables."""
