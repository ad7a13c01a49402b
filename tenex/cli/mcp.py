"""`tenex mcp`: the Model Context Protocol."""

from .mcp_serve import serve
from .shared.register import group, register

mcp = group("Use the Model Context Protocol (MCP): offer these conversations to other programs.")


@mcp.callback()
def _commands() -> None:
    """Keep a group also where there is one command only."""


register(mcp, has_json=False)(serve)
