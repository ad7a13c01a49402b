"""Names of tools of MCP servers: `server__tool`, and `server__*` for all of a server."""

from typing import Final

PROGRAM_CALL: Final = "acp_call"
"""The tool as which a call is recorded that an agent makes by itself which is a program of others."""

FIND_TOOLS: Final = "find_tools"
"""The tool by which an agent finds those of servers, where it has too many to be shown all of them."""

SERVER_MARK: Final = "__"
"""Between the server and the tool; no tool of another kind has it in its name."""


def server_of(tool: str) -> str:
    """The server in the name of a tool; "" for a tool of no server."""
    server, mark, _ = tool.partition(SERVER_MARK)
    return server if mark else ""


def all_of_server(tool: str) -> str:
    """The name by which all tools of a tool's server are meant; "" for a tool of no server."""
    server = server_of(tool)
    return f"{server}{SERVER_MARK}*" if server else ""
