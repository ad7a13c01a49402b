"""An MCP server at an address of this machine, made with the SDK: `python mcp_http.py PORT`."""

import os
import sys

from mcp.server import MCPServer

server = MCPServer("at an address")


@server.tool()
def pid() -> str:
    """Give the number of the process."""
    return str(os.getpid())


@server.tool()
def die() -> str:
    """End in the call."""
    os._exit(3)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
