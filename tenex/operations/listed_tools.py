"""The tools that a running daemon has listed of its MCP servers, for commands that start no server themselves."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from tenex.configuration.mcp import why_no_tool
from tenex.configuration.own_tools import OwnTools
from tenex.core.approvals.rules import ApprovalRule
from tenex.core.config import Replay
from tenex.core.errors import InternalError, TenexError
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.work.tool_names import FIND_TOOLS, SERVER_MARK, server_of
from tenex.mcp.config import Configured, prefix_of
from tenex.mcp.names import tool_name
from tenex.plugins.names import RESERVED
from tenex.prompting import PromptLibrary
from tenex.settings import ProjectPaths
from tenex.tools.tool import Tool

from .daemon_start import ask_when_started

ORDER: Final = "mcp_tools"
"""The request of the control socket."""
_PATTERN: Final = frozenset("*?[")


class ListedTools:
    """Tools that are shown and never called: a `tools.changing.ToolSource`."""

    def __init__(self, servers: Iterable[Mapping[str, Any]]) -> None:
        """Take the answer of a daemon: a server without tools has listed none yet."""
        tools = {str(server["prefix"]): tuple(map(_tool, server["tools"])) for server in servers if server["tools"]}
        self._tools = {tool.name: tool for listed in tools.values() for tool in listed}
        self.prefixes = frozenset(tools)
        """Of the servers whose tools are known."""

    def tools(self) -> Mapping[str, Tool]:
        """Those of all servers, by name."""
        return self._tools

    async def wait_for(self, name: str) -> None:
        """Return at once: no server is started here."""


NOTHING_LISTED: Final = ListedTools(())


def _tool(listed: Mapping[str, Any]) -> Tool:
    return Tool(
        name=listed["name"],
        description=listed["description"],
        parameters=listed["parameters"],
        access=Access(listed["access"]),
        replay=Replay(listed["replay"]),
        asks=listed["asks"],
        body=_never,
    )


async def _never(_: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
    raise InternalError(f"a tool that is only listed was called by {context.agent}")


async def listed_tools(where: ProjectPaths) -> ListedTools:
    """What the daemon of a folder has listed; nothing where none runs, or does not answer."""
    try:
        return ListedTools(await ask_when_started(where.socket, where.conversations, ORDER, wait=0))
    except (OSError, TenexError, LookupError, TypeError, ValueError):
        return NOTHING_LISTED


# ---- names of tools that there are not ----


def unknown_in_rules(
    rules: Iterable[ApprovalRule], own: OwnTools, library: PromptLibrary, servers: Configured, listed: ListedTools
) -> Iterator[str]:
    """A sentence for each rule whose tool there is not, with the nearest name, as far as that can be known."""
    methods = {name for agent in library.definitions.values() for name in agent.methods}
    names = {*own.names, *methods, *RESERVED, FIND_TOOLS}
    for rule in rules:
        if SERVER_MARK in rule.tool:
            why = _unknown_of_server(rule.tool, servers, listed)
        else:
            why = _unknown(rule.tool, names, has_servers=bool(servers.servers))
        if why:
            yield f"{rule.name}: {why}, so this rule does nothing"


def unknown_in_agents(own: OwnTools, library: PromptLibrary, servers: Configured, listed: ListedTools) -> Iterator[str]:
    """A sentence for each tool that an agent is given and its server does not have, as far as that can be known."""
    added = own.settings.tools.added
    places = dict(own.additions())
    for agent in library.definitions.values():
        places[agent.source] = [name for name in agent.tools if name not in added(agent.slug)]
    for place, names in places.items():
        for name in filter(server_of, names):
            why = "" if why_no_tool(name, servers) else _unknown_of_server(name, servers, listed)
            if why:
                yield f"{place}: {why}"


def _unknown(tool: str, names: Iterable[str], *, has_servers: bool) -> str:
    if any(fnmatchcase(name, tool) for name in names):
        return ""
    if has_servers and not _PATTERN.isdisjoint(tool):
        return ""  # it may fit tools of servers
    return f"there is no tool {tool}{_did_you_mean(tool, names)}"


def _unknown_of_server(tool: str, servers: Configured, listed: ListedTools) -> str:
    """Why a name of a server's tool fits none; "" where it does, or the server has not said what it has."""
    prefix, _, _ = tool.partition(SERVER_MARK)
    meant = [server for server in servers.servers if fnmatchcase(server.prefix, prefix)]
    if any(fnmatchcase(prefix_of(name), prefix) for name in servers.faults):
        return ""
    if not meant:
        near = _did_you_mean(prefix, [server.prefix for server in servers.servers])
        return f"no MCP server is configured whose tools begin with {prefix}{SERVER_MARK}{near}"
    names: set[str] = set()
    for server in meant:
        if server.prefix in listed.prefixes:
            names |= {name for name in listed.tools() if name.startswith(f"{server.prefix}{SERVER_MARK}")}
        elif server.tools:
            names |= {tool_name(server.prefix, name) for name in server.tools}
        else:
            return ""
    if any(fnmatchcase(name, tool) for name in names):
        return ""
    return f"there is no tool {tool}{_did_you_mean(tool, names)}"


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
