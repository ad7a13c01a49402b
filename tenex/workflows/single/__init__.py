"""One agent alone as a kind of conversation: no phases, no router, no quality gates."""
