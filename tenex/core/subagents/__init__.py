"""Sub-agents: agents that an agent calls like tools."""
