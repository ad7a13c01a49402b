"""`tenex agents`: who works here, with which tools, under which address.

Never: make a key; looking changes nothing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import Bug, ConfigurationError, UsageError

from . import output
from .options import DataOption, JsonOption, group, open_settings

if TYPE_CHECKING:
    from tenex.prompting import AgentDefinition, PromptLibrary
    from tenex.settings import Settings

KEY_NAMES = ("project", "owner")
"""Names in the keys folder that belong to no agent, and so are no slugs."""

agents = group("List and show the agents.")


@agents.command(name="list")
def list_(ctx: typer.Context, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the agents, the orchestrator among them."""
    settings = open_settings(ctx, data)
    rows = [_row(slug, agent, settings) for slug, agent in load_agents(settings).definitions.items()]
    if as_json:
        output.result_json(rows)
        return
    head = ("slug", "kind", "phases", "tools", "npub")
    output.result(output.table(head, [[_cell(row[name]) for name in head] for row in rows]))
    if any(row["npub"] is None for row in rows):
        output.say("an agent without an npub has no key yet; `tenex init` makes it")


@agents.command()
def show(
    ctx: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="As `tenex agents list` names it.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one agent, with its instructions."""
    settings = open_settings(ctx, data)
    known = {str(name): agent for name, agent in load_agents(settings).definitions.items()}
    if slug not in known:
        raise UsageError(f"there is no agent {slug!r}; there are: {', '.join(known)}")
    agent = known[slug]
    sections = [f"## In {phase}\n\n{text.strip()}" for phase, text in agent.in_phase.items()]
    row = {**_row(slug, agent, settings), "instructions": "\n\n".join((agent.body.strip(), *sections))}
    if as_json:
        output.result_json(row)
        return
    *facts, body = row.items()
    width = max(len(name) for name, _ in facts)
    output.result("\n".join(f"{name.ljust(width)}  {_cell(value)}" for name, value in facts))
    output.result(f"\n{body[1]}")


def load_agents(settings: "Settings") -> "PromptLibrary":
    """Read and check the built-in agents and the operator's own.

    Raises:
        ConfigurationError: with every fault found.
    """
    from tenex.prompting import PromptLibrary, builtin_prompts
    from tenex.settings import places

    folder = places(settings).agents
    library = PromptLibrary.load(builtin_prompts(), folder, tools=_tool_names(settings))
    taken = [
        f"{folder}: {slug} cannot be an agent's slug: keys of that name are in use"
        for slug in library.definitions
        if slug in KEY_NAMES
    ]
    if taken:
        raise ConfigurationError(taken)
    return library


def keyed_agents(library: "PromptLibrary") -> tuple[str, ...]:
    """The slugs of the agents with keys of their own: all but the orchestrator, which speaks with the project's."""
    return tuple(str(slug) for slug, agent in library.definitions.items() if agent.kind != "orchestrator")


def _tool_names(settings: "Settings") -> frozenset[str]:
    """Every tool there is, also one that is switched off here."""
    from tenex.settings import places
    from tenex.tools.check import CheckPolicy
    from tenex.tools.standard import standard_tools
    from tenex.tools.workspace import Workspace

    tools = standard_tools(Workspace(places(settings).workspace), _Unused(), check=CheckPolicy.SANDBOXED)
    return frozenset(tool.name for tool in tools)


class _Unused:
    """Stands where tools keep lessons; here they are only named."""

    async def record(self, **_: object) -> None:
        """Refuse: nobody calls a tool from here."""
        raise Bug("a tool was called while only its name was wanted")


def _row(slug: str, agent: "AgentDefinition", settings: "Settings") -> dict[str, Any]:
    return {
        "slug": str(slug),
        "name": agent.name,
        "kind": str(agent.kind),
        "role": agent.role,
        "use_when": agent.use_when,
        "phases": [str(phase) for phase in agent.phases],
        "tools": sorted(agent.tools),
        "model": agent.model or None,
        "npub": _npub("project" if agent.kind == "orchestrator" else str(slug), settings),
    }


def _npub(name: str, settings: "Settings") -> str | None:
    from tenex.nostr.keys import KeyRing
    from tenex.settings import places

    ring = KeyRing(Path(places(settings).keys))
    return ring.get(name).npub if name in ring.names() else None


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return str(value) if value else "-"
