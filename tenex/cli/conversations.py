"""`tenex conversations`: list, search and show what is on disk.

The commands here only read files, so they work with and without a running daemon.
"""

from datetime import datetime
from typing import Annotated, Final

import typer

from tenex.core.conversation import fold
from tenex.core.errors import UsageError
from tenex.core.projection import glance_of, status_of
from tenex.nostr.keys import parse_public_key
from tenex.operations.transcript import read_transcript
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.repository import NEWEST
from tenex.store.search import Filter
from tenex.store.view import render

from .copying import copy
from .rollback import fork, rollback
from .shared import list_search, output, times
from .shared.agent_files import full_name
from .shared.console import Screen
from .shared.lookup import AllIdArgument, NewestIdArgument, find, on_folder
from .shared.options import Globals, parse_phase
from .shared.register import group, register
from .stats import stats
from .transfer import export, import_, rebuild
from .verify import replay, verify

conversations = group("List, show, search and roll back conversations.")

PhaseOption = Annotated[str, typer.Option(metavar="PHASE", help="Only those whose current phase is this one.")]
WasInOption = Annotated[str, typer.Option("--was-in", metavar="PHASE", help="Only those that have been in this phase.")]
StatusOption = Annotated[str, typer.Option(metavar="STATUS", help="Only those that are active, held, ended, ...")]
AgentOption = Annotated[
    str, typer.Option(metavar="AGENT", help="Only those in which this agent worked or was addressed: slug or key.")
]
SinceOption = Annotated[
    str, typer.Option(metavar="WHEN", help="Not before: 2026-11-21, '2026-11-21 14:30', yesterday, '2 days ago'.")
]
UntilOption = Annotated[str, typer.Option(metavar="WHEN", help="Not after; a day counts to its end.")]
LAST: Final = 200
"""Entries that `show` prints unless it is asked for more: some screens, whatever was said before them."""

LastOption = Annotated[int, typer.Option("--last", metavar="N", min=1, help="Print at most the last N entries.")]
AllOption = Annotated[bool, typer.Option("--all", help="Print every entry from the beginning.")]
ThoughtsOption = Annotated[bool, typer.Option("--thoughts", help="Also what agents wrote for themselves.")]


@register(conversations, "list")
async def list_(
    given: Globals,
    folder: Conversations,
    *,
    phase: PhaseOption = "",
    was_in: WasInOption = "",
    status: StatusOption = "",
    agent: AgentOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None,
) -> None:
    """List conversations, the newest first."""
    wanted = _filter_of(given, phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    rows = await list_search.rows(folder, wanted, limit or -1)
    which = " of that kind" if wanted != Filter() else ""
    none = "" if rows else f"There are no conversations{which} in {folder.place}."
    given.show(rows, list_search.table(rows) if rows else "", none)


@register(conversations)
async def search(
    given: Globals,
    folder: Conversations,
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS...",
            help="All must occur in one message or title, whole or as the beginning of a word; "
            "double quotes search for an exact text: '\"no such file\"'.",
            show_default=False,
        ),
    ],
    phase: PhaseOption = "",
    was_in: WasInOption = "",
    status: StatusOption = "",
    agent: AgentOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many conversations.")] = 20,
) -> None:
    """Search messages and titles, the best match first. --since and --until apply to the messages."""
    wanted = _filter_of(given, phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    found = await list_search.search(folder, " ".join(words), wanted, limit)
    given.show(list_search.as_json(found), list_search.as_text(found), "" if found else "Nothing was found.")


@register(conversations)
async def show(
    given: Globals,
    folder: Conversations,
    *,
    id: NewestIdArgument = "",  # noqa: A002
    last: LastOption = LAST,
    all_: AllOption = False,
    thoughts: ThoughtsOption = False,
) -> None:
    """Print the end of a conversation from its journal: messages, phases and tool calls."""
    name = await find(folder, id)
    conversation = fold(name, await folder.read(name, NEWEST))
    if given.as_json:
        output.result(output.escape_json(render(conversation).rstrip("\n")))
        return
    transcript = await read_transcript(folder, name, None if all_ else last, thoughts=thoughts)
    if transcript.missing:
        output.message(f"tenex: incomplete: {transcript.missing}")
    screen = Screen()
    glance = glance_of(conversation)
    imported = " (imported)" if glance.imported else ""
    screen.message(f"{glance.title}{imported}\n{name}", "bold")
    if transcript.has_earlier:
        screen.message(f"The last {last} entries. `tenex conversations show {name[:12]} --all` prints all.")
    for line in transcript.lines:
        screen.show(line)
    screen.message(f"{status_of(conversation)} {glance.position} · {folder.path(name)}")


@register(conversations)
def path(given: Globals, id: AllIdArgument = "") -> None:  # noqa: A002
    """Print the folder of a conversation, or of all."""
    if not id:
        found = given.paths().conversations
        given.show({"path": str(found)}, str(found))
        return

    async def show_path(folder: Conversations, _: Disk) -> None:
        name = await find(folder, id)
        place = folder.path(name)
        if not place.is_dir():
            raise UsageError(
                f"{place} is not there: the daemon that wrote the conversation has its readable files. "
                f"`tenex conversations show {name[:12]}` shows it."
            )
        given.show({"id": name, "path": str(place)}, str(place))

    on_folder(given, show_path)


def _filter_of(given: Globals, *, status: str, phase: str, was_in: str, agent: str, since: str, until: str) -> Filter:
    """The options of a command as a filter of the index.

    Raises:
        UsageError: a value is not a status, phase, time or key.
    """
    now = datetime.now().astimezone()
    if status and status.lower() not in list_search.STATUSES:
        raise UsageError(f"{status[:40]!r} is not a status. Choose from {', '.join(list_search.STATUSES)}.")
    return Filter(
        status=status.lower(),
        phase=parse_phase(phase) or "",
        was_in=parse_phase(was_in) or "",
        agent=_agent(full_name(given, agent)),
        since=times.since(since, now) if since else None,
        until=times.until(until, now) if until else None,
    )


def _agent(word: str) -> str:
    """A slug unchanged, a key in any form as hex."""
    name = word.strip().removeprefix("@")
    if not name.lower().startswith(("npub1", "nprofile1", "nsec1", "nostr:")) and len(name) != 64:
        return name.lower()
    try:
        return parse_public_key(name)
    except ValueError as error:
        raise UsageError(f"--agent needs a slug or a key: {error}.") from error


for _command in (verify, replay, rollback, fork, export, copy, rebuild, stats):
    register(conversations)(_command)
register(conversations, "import")(import_)
