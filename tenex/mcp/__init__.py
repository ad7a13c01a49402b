"""MCP servers: how they are configured, started, kept running and called. It knows no tool, agent or phase of ours.

The SDK (the extra `mcp`) is imported only when the first server is started.
"""
