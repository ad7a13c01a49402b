"""`tenex acp`: the agents of a running daemon in editors that speak the Agent Client Protocol."""
