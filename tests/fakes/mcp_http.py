"""An MCP server at an address of this machine, made with the SDK: `python mcp_http.py PORT`."""

import os
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("at an address")


@server.tool()
def pid() -> str:
    """Give the number of the process."""
    return str(os.getpid())


@server.tool()
def die() -> str:
    """End in the call."""
    os._exit(3)


@server.tool()
async def grow(context: Context) -> str:
    """Have one tool more from then on."""
    server.add_tool(grown)
    await context.notify_tools_changed()
    return "grown"


def grown() -> str:
    """New."""
    return "new"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
