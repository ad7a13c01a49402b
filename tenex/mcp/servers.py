"""All servers: started, stopped and replaced as they are configured, and their tools under the names models call."""

import asyncio
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from tenex.core.installation import pip_install
from tenex.log import get_logger

from .config import Configured, ServerConfig
from .connection import Launch, ServerConnection, ServerTool
from .names import tool_names

EXTRA: Final = "mcp"
"""The extra of ours that has the SDK."""
LEAST_VERSION: Final = Version("2.3")
"""Of the SDK: version 1 has other names and another protocol."""

SAME_NAME: Final = "another of its tools has the same name, as models may call it"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTool:
    """A tool of a server, with what it takes to call it."""

    name: str
    tool: ServerTool
    connection: ServerConnection

    @property
    def config(self) -> ServerConfig:
        """Its server as it is configured."""
        return self.connection.config


def missing_sdk() -> str:
    """Why no server can be used, with the command that helps; "" where the SDK is installed."""
    command = f"Run: {pip_install(extra=EXTRA)}"
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        return f"MCP servers need the extra `{EXTRA}`. {command}"
    try:
        is_new = Version(version) >= LEAST_VERSION
    except InvalidVersion:
        is_new = True
    return "" if is_new else f"The package mcp is too old ({version}). {command}"


class McpServers:
    """The servers of a daemon."""

    def __init__(
        self,
        launch: Launch,
        *,
        connect: Callable[..., ServerConnection] = ServerConnection,
        why_not: Callable[[], str] = missing_sdk,
    ) -> None:
        """Take how servers are started; `apply` says which."""
        self._launch = launch
        self._connect = connect
        self._why_not = why_not
        self._connections: dict[str, ServerConnection] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._tools: Mapping[str, NamedTool] = {}
        self._same_names: dict[str, dict[str, str]] = {}
        """By server, the tools that would share a name."""
        self.faults: Mapping[str, str] = {}
        """Why servers cannot be used, by name."""

    def apply(self, configured: Configured) -> None:
        """Start what is new, stop what is not configured any more, and replace what has changed."""
        faults = dict(configured.faults)
        wanted = {server.name: server for server in configured.servers}
        why = self._why_not() if wanted else ""
        if why:
            faults |= dict.fromkeys(wanted, why)
            wanted = {}
        for name, connection in tuple(self._connections.items()):
            if wanted.get(name) != connection.config:
                self._stop(name)
        for name, server in wanted.items():
            if name not in self._connections:
                self._begin(server)
        for name in sorted(faults.keys() - self.faults.keys()):
            log.error("mcp.server_refused", server=name, reason=faults[name])
        self._connections = {name: self._connections[name] for name in wanted}
        self.faults = faults
        self._name_tools()

    def _begin(self, server: ServerConfig) -> None:
        connection = self._connect(server, self._launch, self._name_tools)
        self._connections[server.name] = connection
        self._tasks[server.name] = asyncio.create_task(connection.run(), name=f"MCP server {server.name}")

    def connect_too(self, connection: ServerConnection, launch: Launch) -> ServerConnection:
        """Connect to the same server once more, started in another way; its calls are counted with those of the first.

        The caller runs it. Its list of tools is not used.
        """
        other = self._connect(connection.config, launch, lambda: None)
        other.counters = connection.counters
        return other

    def _stop(self, name: str) -> None:
        task = self._tasks.pop(name)
        self._connections.pop(name).stop(task)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def settle(self, seconds: float) -> None:
        """Return once every server is ready or has failed, or time is up: what begins then finds their tools."""
        waiting = [asyncio.ensure_future(connection.is_settled.wait()) for connection in self._connections.values()]
        if not waiting:
            return
        _, late = await asyncio.wait(waiting, timeout=seconds)
        for future in late:
            future.cancel()

    async def close(self) -> None:
        """Stop all servers; their processes have ended."""
        for name in tuple(self._connections):
            self._stop(name)
        if self._ending:
            await asyncio.wait(self._ending)
        self._tools = {}

    # ---- tools ----

    @property
    def tools(self) -> Mapping[str, NamedTool]:
        """The tools by the names models call them, in order; another mapping whenever one has changed."""
        return self._tools

    def _name_tools(self) -> None:
        named: dict[str, NamedTool] = {}
        self._same_names = {}
        for connection in self._connections.values():
            by_name = {tool.name: tool for tool in connection.tools}
            names, refused = tool_names(connection.config.prefix, [tool.name for tool in connection.tools])
            if refused:
                names_left_out = [connection.config.hidden(name) for name in refused]
                log.error("mcp.tools_left_out", server=connection.config.name, tools=names_left_out, reason=SAME_NAME)
                self._same_names[connection.config.name] = dict.fromkeys(names_left_out, SAME_NAME)
            for name, tool in names.items():
                named[name] = NamedTool(name=name, tool=by_name[tool], connection=connection)
        self._tools = named

    def _left_out(self, connection: ServerConnection) -> dict[str, str]:
        """The tools of a server that cannot be used, and why."""
        return {**connection.left_out, **self._same_names.get(connection.config.name, {})}

    def of(self, prefix: str) -> ServerConnection | None:
        """The server whose tools begin so; None for none."""
        return next((server for server in self._connections.values() if server.config.prefix == prefix), None)

    # ---- reports ----

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """The servers that can be used."""
        return tuple(self._connections.values())

    def status(self) -> list[dict[str, Any]]:
        """The state of each server, those with a fault last."""
        shown: list[dict[str, Any]] = []
        for connection in self._connections.values():
            counters = connection.counters
            left_out = [{"tool": tool, "why": why} for tool, why in sorted(self._left_out(connection).items())]
            shown.append(
                {
                    "name": connection.config.name,
                    "state": connection.state,
                    "why": connection.why,
                    **({"remark": connection.remark} if connection.remark else {}),
                    **({"leftOut": left_out} if left_out else {}),
                    "tools": len(connection.tools),
                    "protocol": connection.protocol,
                    "starts": counters.starts,
                    "losses": counters.losses,
                    "calls": counters.calls,
                    "failures": counters.failures,
                }
            )
        return [*shown, *({"name": name, "state": "refused", "why": why} for name, why in self.faults.items())]
