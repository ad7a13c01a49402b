"""`tenex conversations`: what is on disk, told to a person.

Reads the files only, so it works beside a running daemon and after one.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId
from tenex.operations.short_ids import conversation_of

from . import agents, output
from .options import DataOption, JsonOption, group, open_places, open_settings
from .rebuild import rebuild
from .rollback import fork, rollback
from .transfer import export, import_
from .verify import replay, verify

if TYPE_CHECKING:
    from tenex.core.ports import Clock
    from tenex.core.records import Record
    from tenex.operations.thread_import import Cast
    from tenex.store.disk import Disk
    from tenex.store.repository import ConversationFolder
    from tenex.store.search import Filter

T = TypeVar("T")

conversations = group("List, show and search conversations.")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it the newest.", show_default=False)
]


PhaseOption = Annotated[str, typer.Option(metavar="PHASE", help="Only those that stand in this phase.")]
WasInOption = Annotated[str, typer.Option("--was-in", metavar="PHASE", help="Only those that have been in it.")]
StatusOption = Annotated[str, typer.Option(metavar="STATUS", help="Only those that are active, waiting, ended, ...")]
AgentOption = Annotated[
    str, typer.Option(metavar="AGENT", help="Only those it worked in or was addressed in: its slug or key.")
]
SinceOption = Annotated[
    str, typer.Option(metavar="WHEN", help="Not before: 2026-11-21, '2026-11-21 14:30', yesterday, '2 days ago'.")
]
UntilOption = Annotated[str, typer.Option(metavar="WHEN", help="Not after; a day counts to its end.")]


@conversations.command("list")
def list_(
    ctx: typer.Context,
    phase: PhaseOption = "",
    was_in: WasInOption = "",
    status: StatusOption = "",
    agent: AgentOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations, the newest first."""
    from . import list_search

    agent = agents.whole_name(ctx, data, agent)
    wanted = list_search.filter_of(phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    root, rows = _read(ctx, data, lambda folder: _listed(folder, wanted, limit or -1))
    if as_json:
        output.result_json(rows)
    elif not rows:
        which = " of that kind" if wanted != list_search.filter_of() else ""
        output.say(f"There are no conversations{which} in {root}.")
    else:
        head = ("id", "status", "phase", "cycle", "updated", "title")
        output.result(output.table(head, [[_cell(row, name) for name in head] for row in rows]))


@conversations.command()
def search(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS...",
            help="All must be in one message or title, also as beginnings of longer words; "
            "in double quotes exactly so and in that order: '\"no such file\"'.",
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
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search what was said, and the titles; the best match comes first. --since and --until are about the messages."""
    from . import list_search

    agent = agents.whole_name(ctx, data, agent)
    wanted = list_search.filter_of(phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    found = _read(ctx, data, lambda folder: list_search.search(folder, " ".join(words), wanted, limit))
    if as_json:
        output.result_json(list_search.as_json(found))
    elif not found:
        output.say("Nothing was found.")
    else:
        output.result(list_search.as_text(found))


ThoughtsOption = Annotated[bool, typer.Option("--thoughts", help="Also what agents wrote for themselves.")]


@conversations.command()
def show(
    ctx: typer.Context,
    id: IdArgument = "",  # noqa: A002
    thoughts: ThoughtsOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell a conversation from its journal: who said what, which phase, which tools."""
    if as_json:
        output.result(output.json_escaped(_read(ctx, data, lambda folder: _view(folder, id))))
        return
    _read(ctx, data, lambda folder: _tell(folder, id, thoughts=thoughts))


@conversations.command()
def path(
    ctx: typer.Context,
    id: IdArgument = "",  # noqa: A002
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print where a conversation's files are; without an id, where all are."""
    found: Path = _read(ctx, data, lambda folder: _path(folder, id)) if id else open_places(ctx, data).conversations
    if as_json:
        output.result_json({**({"id": found.stem} if id else {}), "path": str(found)})
    else:
        output.result(str(found))


for _command in (verify, replay, rollback, fork, export, rebuild):
    conversations.command()(_command)
conversations.command("import")(import_)

StatsIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it all together.", show_default=False)
]


@conversations.command()
def stats(
    ctx: typer.Context,
    id: StatsIdArgument = "",  # noqa: A002
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up what conversations have taken: time, turns, tokens and money, by phase, model and agent."""
    if id:
        _run(ctx, data, lambda folder: _stats_of(folder, id, as_json=as_json))
    else:
        _run(ctx, data, lambda folder: _stats_of_all(folder, as_json=as_json))


def _read(ctx: typer.Context, data: Path | None, work: "Any") -> Any:
    """As `_run`, for what only reads: files of an older program are conversations too."""

    def cast() -> "Cast":
        from tenex.operations.recovery import cast_of
        from tenex.settings import resolve_paths

        settings = open_settings(ctx, data)
        return cast_of(settings, resolve_paths(settings))

    def make(root: Path, disk: "Disk", clock: "Clock") -> "ConversationFolder":
        from tenex.store.repository import ConversationFolder

        if not any(root.glob("*.json")):  # nearly always; the other class takes longer to load
            return ConversationFolder(root, disk, clock)
        from tenex.operations.recovery import LegacyImportJournals

        return LegacyImportJournals(root, disk, clock, cast)

    return _run(ctx, data, work, make)


def _run(ctx: typer.Context, data: Path | None, work: "Any", make: "Any" = None) -> Any:
    from tenex.runtime.clock import SystemClock
    from tenex.store.disk import Disk
    from tenex.store.repository import ConversationFolder

    async def main() -> Any:
        disk = Disk()
        try:
            result: Coroutine[Any, Any, Any] = work((make or ConversationFolder)(root, disk, SystemClock()))
            return await result
        finally:
            disk.close()

    root = open_places(ctx, data).conversations
    try:
        return asyncio.run(main())
    except PermissionError as fault:
        raise StoreError(
            f"{fault.filename or root}: {fault.strerror}. Ask as the user the daemon runs as, or as root."
        ) from fault


def _cell(row: dict[str, Any], name: str) -> str:
    value = str(row.get(name) or "")
    if name == "id":
        return value[:12]
    if name == "updated":
        return value[:19].replace("T", " ")
    return value if len(value) <= 60 else value[:59] + "…"


async def _listed(folder: "ConversationFolder", wanted: "Filter", limit: int) -> tuple[Path, list[dict[str, Any]]]:
    from . import list_search

    return folder.root, await list_search.rows(folder, wanted, limit)


async def _find(folder: "ConversationFolder", start: str) -> str:
    """The conversation whose id begins so; without a beginning the newest."""
    if not start:
        from . import list_search

        rows = await list_search.rows(folder, list_search.filter_of(), 1)
        if not rows:
            raise UsageError(f"There are no conversations in {folder.root}.")
        return str(rows[0]["id"])
    return await _named(folder, start)


async def _named(folder: "ConversationFolder", start: str) -> str:
    """The same where something is changed: a variable of a script that is empty must not mean the newest."""
    if not start:
        raise UsageError("The id is empty, so no conversation is named. `tenex conversations list` shows them.")
    return conversation_of(start, await folder.lengths())


async def _path(folder: "ConversationFolder", start: str) -> Path:
    return _place(folder, await _find(folder, start))


def _place(folder: "ConversationFolder", name: str) -> Path:
    """The folder of a conversation, or the file of an older program that was not taken in yet."""
    path = folder.path(ConversationId(name))
    return path if path.exists() else path.with_name(f"{name}.json")


async def _view(folder: "ConversationFolder", start: str) -> str:
    from tenex.core.conversation import fold
    from tenex.store.view import render

    name = ConversationId(await _find(folder, start))
    return render(fold(name, await _left(folder, name))).rstrip("\n")


async def _left(folder: "ConversationFolder", name: "ConversationId") -> "list[Record]":
    """The records that are there; what is missing is said."""
    records, gone = await folder.read_left(name)
    if gone:
        output.say(f"tenex: in part only: {gone}")
    return records


async def _tell(folder: "ConversationFolder", start: str, *, thoughts: bool) -> None:
    from tenex.core.conversation import fold
    from tenex.operations.transcript import TranscriptRenderer

    from .console import Screen

    name = ConversationId(await _find(folder, start))
    records = await _left(folder, name)
    conversation = fold(name, records)
    screen, story = Screen(), TranscriptRenderer(thoughts=thoughts)
    screen.say(f"{conversation.title}\n{name}", "bold")
    for record in records:
        for line in story.tell(record):
            screen.show(line)
    screen.say(f"{conversation.status} in {conversation.phase}, cycle {conversation.cycle} · {_place(folder, name)}")


async def _stats_of(folder: "ConversationFolder", start: str, *, as_json: bool) -> None:
    from tenex.store.stats import Stats
    from tenex.store.stats import as_json as told

    from .stats import as_text

    name = ConversationId(await _find(folder, start))
    figures = Stats.of(name, await _left(folder, name))
    if as_json:
        output.result_json({"id": name, **told(figures)})
    else:
        output.result(f"{name}\n{as_text(figures)}")


async def _stats_of_all(folder: "ConversationFolder", *, as_json: bool) -> None:
    from tenex.store.stats import total

    from .stats import all_as_json, as_text, gather

    found = await gather(folder)
    for name, fault in sorted(found.left_out.items()):
        output.say(f"tenex: left out {name[:12]}: {fault}")
    for name, fault in sorted(found.in_part.items()):
        output.say(f"tenex: {name[:12]} in part only: {fault}")
    if as_json:
        output.result_json(all_as_json(found))
    elif not found.each:
        output.say(f"There are no conversations {'to read ' if found.left_out else ''}in {folder.root}.")
    else:
        output.result(as_text(total(found.each.values())))
