"""Models that owners choose for agents in clients of TENEX (kind 24020)."""
