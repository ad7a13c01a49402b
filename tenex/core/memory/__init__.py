"""Memory: what the router and the agents are shown of the past."""
