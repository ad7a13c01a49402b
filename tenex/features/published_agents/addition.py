"""`tenex agents add` with the address of a definition: an agent of somebody else, shown before it is written."""

import asyncio
import difflib
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from tenex.cli.shared import files, output
from tenex.cli.shared.agent_files import check_name, load_agents
from tenex.cli.shared.options import Globals
from tenex.configuration.own_tools import find_own_tools
from tenex.core.approvals.shown_values import visible
from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import EventId, Slug
from tenex.core.text.foreign import decode
from tenex.nostr.keys import EventAddress, KeyRing, npub, parse_event_address
from tenex.nostr.threading.base import is_hex64
from tenex.nostr.urls import normalise_url
from tenex.prompting import AgentDefinition
from tenex.settings import Settings, resolve_paths

from .definitions import PublishedAgent, fetch_definition, read_definition
from .files import (
    COPIES,
    AgentFile,
    Kind,
    agent_file,
    is_version_of,
    kind_in,
    merged,
    slug_for,
)

ORIGIN_LINE: Final = 'origin: {"author": '
"""How the line begins that differs between any two versions."""
MARK: Final = "  | "
"""Before each line of an author's words, so that none can look like one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line says about a definition."""

    address: EventAddress
    name: str
    kind: Kind | None
    relays: tuple[str, ...]
    is_agreed: bool
    """Whether no question is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What would be written."""

    slug: str
    kind: Kind
    file: Path
    text: str
    copy: Path
    definition: AgentFile
    has_key: bool = False
    """Whether there is a key of that name."""


def read_wanted(
    address: str, event: str, name: str, kind: Kind | None, relays: Sequence[str], *, is_agreed: bool
) -> Wanted:
    """Check the words of the command line.

    Raises:
        UsageError: one of them is wrong.
    """
    if event and (address or not is_hex64(event)):
        raise UsageError("--event is the id of a definition, 64 hex digits in lower case, in place of an address.")
    try:
        urls = tuple(dict.fromkeys(map(normalise_url, relays)))
        where = EventAddress(id=EventId(event)) if event else parse_event_address(address)
    except ValueError as error:
        raise UsageError(f"This cannot be looked up: {error}.") from error
    return Wanted(address=where, name=name, kind=kind, relays=urls, is_agreed=is_agreed)


def add_agent(given: Globals, wanted: Wanted) -> None:
    """Fetch a definition, show it, and write the agent's file once the operator has agreed."""
    settings = given.settings()
    relays = list(dict.fromkeys([*wanted.relays, *map(normalise_url, settings.relays.urls)]))
    with output.without_logs():
        event = asyncio.run(fetch_definition(wanted.address, relays))
    agent = read_definition(event)
    earlier = _earlier(settings, wanted, agent)
    if earlier is None:
        change = _new(settings, wanted, agent)
        _show_agent(agent, change)
        _agree(wanted, given, "Add this agent?")
    elif earlier.origin.get("event") == agent.event:
        facts = {"slug": str(earlier.slug), "files": [], "changed": False}
        given.show(facts, "", f"{earlier.slug} is of this very definition, in {earlier.source}; nothing was changed.")
        return
    else:
        change = _newer(settings, wanted, agent, earlier)
        _agree(wanted, given, "Take these changes over?")
    _write(given, change)
    facts = {
        "slug": change.slug,
        "files": [str(change.file)],
        "changed": True,
        "kind": change.kind,
        "author": npub(agent.author),
        "event": str(agent.event),
        "tools": list(change.definition.tools),
        "tools_left_out": list(change.definition.missing),
    }
    note = f"See what its model will read with `tenex agents show {change.slug} --prompt`."
    reload = "It takes effect at the daemon's next start or `tenex reload`."
    given.show(facts, str(change.file), note, reload)


def _earlier(settings: Settings, wanted: Wanted, agent: PublishedAgent) -> AgentDefinition | None:
    """The agent that an older version of this definition, or this one, was made into."""
    library = load_agents(settings)
    slug = wanted.name or slug_for(agent)
    versions = [one for one in library.definitions.values() if is_version_of(one, slug, agent)]
    if wanted.name:
        versions = [one for one in versions if one.slug == wanted.name]
    if len(versions) > 1:
        names = " or ".join(str(one.slug) for one in versions)
        raise UsageError(f"Several agents here are of this definition. Say which one: --name {names}.")
    other = library.definitions.get(Slug(slug))
    if not versions and other is not None:
        raise UsageError(f"{slug} exists already, in {other.source}, and is not of this definition: give --name SLUG.")
    broken = [one.source for one in library.disabled if one.slug == slug]
    if not versions and broken:
        raise UsageError(f"{slug} exists already, in {broken[0]}, and has a fault; `tenex config check` shows it.")
    return versions[0] if versions else None


def _new(settings: Settings, wanted: Wanted, agent: PublishedAgent) -> _Change:
    slug = wanted.name or slug_for(agent)
    if not slug:
        raise UsageError("The title of this agent makes no name here: give one with --name SLUG.")
    check_name(slug)
    where = resolve_paths(settings)
    kind = wanted.kind or "expert"
    definition = agent_file(agent, slug, kind, find_own_tools(settings, where).names)
    return _Change(
        slug=slug,
        kind=kind,
        file=where.agents / f"{slug}.md",
        text=definition.text,
        copy=where.data / COPIES / f"{slug}.md",
        definition=definition,
        has_key=slug in KeyRing(*where.key_folders).names(),
    )


def _newer(settings: Settings, wanted: Wanted, agent: PublishedAgent, earlier: AgentDefinition) -> _Change:
    """The file with the changes of another version, which are shown."""
    slug = str(earlier.slug)
    where = resolve_paths(settings)
    file = Path(earlier.source)
    copy = where.data / COPIES / f"{slug}.md"
    if wanted.kind is not None:
        raise UsageError(f"--kind is for a new agent, and {slug} is here already: change its file, {file}.")
    try:
        mine = decode(file.read_bytes())
        base = decode(copy.read_bytes())
    except (OSError, ValueError) as error:
        fix = f"move {file} away, and add the agent as a new one"
        raise ConfigurationError([f"{copy}: what was added cannot be compared with it ({error}); {fix}"]) from error
    kind = kind_in(base)
    definition = agent_file(agent, slug, kind, find_own_tools(settings, where).names)
    text = merged(mine, base, definition.text)
    output.message(f"{slug} of {npub(agent.author)} has changed ({_date(agent)}, event {agent.event}):")
    names = ("what you added", "what its author has published")
    before, after = (
        [line for line in each.split("\n") if not line.startswith(ORIGIN_LINE)] for each in (base, definition.text)
    )
    compared = difflib.unified_diff(before, after, *names, lineterm="")
    _quote("\n".join(compared))
    _show_left_out(agent, definition)
    if mine != base:
        output.message("What you changed in its file stays, also where its author has changed the same.")
    return _Change(slug=slug, kind=kind, file=file, text=text, copy=copy, definition=definition)


def _show_agent(agent: PublishedAgent, change: _Change) -> None:
    output.message(f"An agent by {npub(agent.author)} ({_date(agent)}, event {agent.event}).")
    output.message("Its author, whom you may not know, says of it:")
    facts = {"title": agent.title, "about": agent.description, "role": agent.role, "use when": agent.use_when}
    for name, text in facts.items():
        if text:
            _quote(f"{name}: {text}")
    output.message("Its instructions, which its model would follow:")
    _quote(agent.instructions)
    for name, text in agent.phases:
        output.message("More of them, for the phase that it names in the first line:")
        _quote(f"{name}\n{text}")
    asked = ", ".join(change.definition.tools) or "none"
    output.message(f"Tools that it asks for and would have: {asked}.")
    _show_left_out(agent, change.definition)
    what = "changes no files and runs no programs; --kind worker makes it one that may"
    if change.kind == "worker":
        what = "changes files and runs programs with these tools, within your rules of approval"
    if change.has_key:
        output.message(f"It would sign with the key of an earlier agent {change.slug}, as its continuation.")
    output.message(f"It would be the {change.kind} {change.slug}, in {change.file}, and {what}.")


def _show_left_out(agent: PublishedAgent, definition: AgentFile) -> None:
    lists = {
        "Tools that it asks for and that are not here": definition.missing,
        "MCP servers that it asks for, by the ids of their definitions": agent.servers,
        "Instructions for phases that are none here": definition.phases_left_out,
        "A model that it asks for; which one it has is your setting": (agent.model,) if agent.model else (),
    }
    for what, names in lists.items():
        if names:
            output.message(f"Left out. {what}:")
            _quote(", ".join(names))
    if definition.hidden:
        output.message(f"Left out. Characters that are not seen, and that a model reads: {definition.hidden}.")


def _quote(text: str) -> None:
    """Print an author's words: every line marked, and what is invisible as escapes."""
    output.quote(visible(text.replace("\r\n", "\n").expandtabs(4)), MARK)


def _date(agent: PublishedAgent) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(agent.created_at, UTC).strftime("%Y-%m-%d")
    return "no date"


def _agree(wanted: Wanted, given: Globals, question: str) -> None:
    """Ask the operator, unless they have agreed.

    Raises:
        UsageError: there is no terminal.
        typer.Abort: they decline.
    """
    if wanted.is_agreed:
        return
    if given.as_json or not sys.stdin.isatty():
        raise UsageError("Nothing was written. Add `--yes` to do it without a question.")
    if not typer.confirm(question, err=True):
        raise typer.Abort


def _write(given: Globals, change: _Change) -> None:
    if change.file.exists():
        files.replace(change.file, change.text)
    else:
        files.make_folder(change.file.parent)
        files.write_new(change.file, change.text)
    files.replace(change.copy, change.definition.text)
    files.add_trusted(given.folder(), [change.file])
