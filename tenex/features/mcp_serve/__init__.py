"""Conversations offered to MCP clients, such as Claude Code: `tenex mcp serve`."""
