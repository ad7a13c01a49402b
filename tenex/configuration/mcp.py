"""The MCP servers of the settings and of the file that they name, which may not be in the workspace."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tenex.core.work.tool_names import SERVER_MARK, all_of_server, server_of
from tenex.mcp.config import Configured, prefix_of, read_servers
from tenex.prompting.agents import AgentDefinition
from tenex.settings import Settings, resolve_paths

_PATTERN: Final = frozenset("*?[")


def read_mcp(settings: Settings, environment: Mapping[str, str] | None = None) -> Configured:
    """The servers, and what is wrong with others; blocks."""
    where = resolve_paths(settings)
    named = settings.mcp.servers_file
    file = None if named is None else where.data / Path(named).expanduser()
    faults: dict[str, str] = {}
    if file is not None and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(where.workspace)):
        faults[str(file)] = f"{file}: is in the workspace, where agents write. Move it, and correct mcp.servers_file."
        file = None
    tables = {name: server.model_dump(exclude_unset=True) for name, server in settings.mcp.servers.items()}
    read = read_servers(
        file, tables, os.environ if environment is None else environment, str(settings.file or settings.data)
    )
    return Configured(servers=read.servers, faults={**faults, **read.faults})


def why_no_tool(name: str, configured: Configured) -> str:
    """Why an agent gets nothing by a name of tools of a server; "" where it may, and for every other name."""
    server = server_of(name)
    if not server:
        return ""
    prefixes = {server.prefix for server in configured.servers} | set(map(prefix_of, configured.faults))
    if server not in prefixes:
        there = ", ".join(f"{prefix}{SERVER_MARK}*" for prefix in sorted(prefixes)) or "no servers"
        return f"{name} names no MCP server that is configured; there are: {there}"
    every = all_of_server(name)
    if name != every and not _PATTERN.isdisjoint(name):
        return f"{name} fits no tool; name each one, or all of the server by {every}"
    return ""


def unknown_servers(
    definitions: Iterable[AgentDefinition], configured: Configured, added: Callable[[str], Collection[str]]
) -> Iterator[str]:
    """A sentence for each name in an agent's file that gives it no tool of a server, but those that settings add."""
    for definition in definitions:
        for name in definition.tools:
            why = why_no_tool(name, configured)
            if why and name not in added(definition.slug):
                yield f"{definition.source}: {why}"
