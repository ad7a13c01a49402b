"""What the server for MCP clients offers."""

from typing import Final

from tenex.feature import Command, Feature

MCP_SERVE: Final = Feature(
    name="mcp_serve",
    commands=[Command("mcp serve", "tenex.features.mcp_serve.cli:serve", has_json=False)],
)
