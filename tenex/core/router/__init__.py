"""The router: its question and what it has learnt."""
