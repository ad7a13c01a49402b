"""The cycle: the request that is under way."""
