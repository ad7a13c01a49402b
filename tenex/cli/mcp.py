"""`tenex mcp`: the MCP servers that are configured, whether they start, and their tools as agents have them."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.text.amounts import count

from .shared import output
from .shared.options import Globals
from .shared.register import group, register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenex.app.mcp_trial import Trial
    from tenex.mcp.config import ServerConfig

mcp = group("List and try MCP servers and their tools, or offer these conversations to MCP clients.")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="One server, as `tenex mcp list` names it; default: all.")
]


@register(mcp, "list")
def list_(given: Globals) -> None:
    """List the MCP servers that are configured, and why some cannot be used. None is started."""
    from tenex.configuration.mcp import read_mcp
    from tenex.configuration.mcp_launch import unstartable
    from tenex.mcp.servers import missing_sdk
    from tenex.settings import resolve_paths

    settings = given.settings()
    configured = read_mcp(settings)
    shown = []
    lines = []
    with output.without_logs():
        reasons = unstartable(configured, resolve_paths(settings))
    for server in configured.servers:
        why = reasons.get(server.name, "")
        shown.append({**_described(server), **({"fault": why} if why else {})})
        lines.append(_line(server) + (f". CANNOT BE STARTED: {output.one_line(why)}" if why else ""))
    for name, why in configured.faults.items():
        shown.append({"name": name, "fault": why})
        lines.append(f"{output.one_line(name)}  cannot be used: {output.one_line(why)}")
    none = "" if shown else "There are no MCP servers. config/tenex.example.toml shows how one is configured."
    given.show(shown, "\n".join(lines), none or missing_sdk())


@register(mcp, "test")
def try_(given: Globals, name: NameArgument = "") -> None:
    """Start MCP servers as the daemon would, and show whether they answer; the exit code is 1 where one does not."""
    trial = _try(given, name)
    lines = []
    for server in trial.servers:
        if server["state"] == "ready":
            tools = count(server["tools"], "tool")
            remark = f"; {server['remark']}" if server.get("remark") else ""
            lines.append(
                f"{server['name']}  ready in {server['seconds']:g} s, {tools}, MCP {server['protocol']}{remark}"
            )
            lines += [f"  {left}" for left in _left_out(server)]
        else:
            lines.append(f"{server['name']}  FAILED: {output.one_line(server['why'] or server['state'])}")
    none = "" if trial.servers else "There are no MCP servers."
    given.show(list(trial.servers), "\n".join(lines), none)
    if any(server["state"] != "ready" for server in trial.servers):
        raise typer.Exit(1)


@register(mcp)
def tools(given: Globals, name: NameArgument = "") -> None:
    """Start MCP servers and list their tools: where agents may use them, and whether a person is asked."""
    trial = _try(given, name)
    shown = [
        {
            "name": tool.name,
            "server": tool.server,
            "access": tool.access.value,
            "replay": tool.replay.value,
            "asks": tool.asks,
            "tokens": tool.tokens,
            "description": tool.description,
        }
        for tool in trial.tools
    ]
    rows = [
        [tool.name, tool.access.value, tool.replay.value, "asks" if tool.asks else "", str(tool.tokens)]
        for tool in trial.tools
    ]
    text = output.table(["TOOL", "ACCESS", "REPLAY", "PERSON", "TOKENS"], rows) if rows else ""
    failed = [server for server in trial.servers if server["state"] != "ready"]
    notes = [f"{server['name']} does not run: {output.one_line(server['why'])}" for server in failed]
    notes += [f"{server['name']}: {left}" for server in trial.servers for left in _left_out(server)]
    given.show(shown, text, *notes)
    if failed:
        raise typer.Exit(1)


def _left_out(server: "Mapping[str, Any]") -> list[str]:
    """A sentence for each tool of a server that cannot be used."""
    return [output.one_line(f"{left['tool']} is left out: {left['why']}") for left in server.get("leftOut", ())]


def _try(given: Globals, name: str) -> "Trial":
    from tenex.app.mcp_trial import try_servers
    from tenex.telemetry import configure

    settings = given.settings()
    telemetry = configure("error", "auto")
    try:
        return asyncio.run(try_servers(settings, name))
    finally:
        telemetry.close()


def _described(server: "ServerConfig") -> dict[str, Any]:
    return {
        "name": server.name,
        "tools": f"{server.prefix}__*",
        "command": server.command,
        "address": server.url.partition("?")[0],
        "trusted": server.trust,
        "sandbox": server.is_program and server.sandbox,
        "network": server.network or not (server.is_program and server.sandbox),
        "place": server.place,
    }


def _line(server: "ServerConfig") -> str:
    kind = f"program {server.command}" if server.is_program else f"address {server.url.partition('?')[0]}"
    where = ""
    if server.is_program:
        where = ", in the sandbox" if server.sandbox else ", WITHOUT A SANDBOX"
    trusted = ", trusted" if server.trust else ""
    return output.one_line(f"{server.name}  {kind}{where}{trusted}; agents have its tools by {server.prefix}__*")
