"""Starts the MCP servers of a configuration for a command, as a daemon would, and stops them."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

from tenex.configuration.mcp import read_mcp
from tenex.configuration.mcp_launch import Launcher
from tenex.core.config import Replay
from tenex.core.errors import UsageError
from tenex.core.memory.window import tokens
from tenex.core.phases import Access
from tenex.mcp.config import Configured
from tenex.mcp.connection import ServerConnection
from tenex.mcp.servers import McpServers, NamedTool
from tenex.settings import Settings, resolve_paths, suggestion
from tenex.tools.sandbox import probe_bubblewrap

from .mcp_tools import traits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedTool:
    """A tool as agents would have it."""

    name: str
    server: str
    description: str
    access: Access
    replay: Replay
    asks: bool
    tokens: int
    """Estimated tokens that it takes in a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of starting the servers."""

    servers: tuple[dict[str, Any], ...]
    """As `McpServers.status` has them, with the seconds that the start took."""
    tools: tuple[TriedTool, ...]


def chosen(configured: Configured, name: str) -> Configured:
    """The server of a name, or all of them.

    Raises:
        UsageError: there is no such server.
    """
    names = [*(server.name for server in configured.servers), *configured.faults]
    if name and name not in names:
        raise UsageError(f"There is no MCP server {name!r}; {suggestion(name, names)}")
    return Configured(
        servers=tuple(server for server in configured.servers if name in ("", server.name)),
        faults={other: why for other, why in configured.faults.items() if name in ("", other)},
    )


async def try_servers(settings: Settings, name: str) -> Trial:
    """Start the server of a name, or all of them, and list their tools; they have ended on return.

    Raises:
        UsageError: there is no such server.
    """
    configured = chosen(read_mcp(settings), name)
    where = resolve_paths(settings)
    has_sandbox = await asyncio.to_thread(probe_bubblewrap)
    servers = McpServers(Launcher(where.workspace.resolve(), where.data.resolve(), has_sandbox))
    took: dict[str, float] = {}
    began = time.monotonic()

    async def measure(connection: ServerConnection) -> None:
        await connection.is_settled.wait()
        took[connection.config.name] = round(time.monotonic() - began, 2)

    try:
        servers.apply(configured)
        await asyncio.gather(*map(measure, servers.connections))  # a start has a bound of its own
        status = tuple({**state, "seconds": took.get(state["name"])} for state in servers.status())
        tools = tuple(_tried(named) for named in servers.tools.values())
    finally:
        await servers.close()
    return Trial(servers=status, tools=tools)


def _tried(named: NamedTool) -> TriedTool:
    traits = traits_of(named)
    tool = named.tool
    return TriedTool(
        name=named.name,
        server=named.config.name,
        description=tool.description,
        access=traits.access,
        replay=traits.replay,
        asks=traits.asks,
        tokens=tokens(named.name + tool.description + json.dumps(tool.schema)),
    )
