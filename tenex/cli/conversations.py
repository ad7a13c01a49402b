"""`tenex conversations`: list, search, show and add up what is on disk.

The commands here only read files, so they work with and without a running daemon.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import agents, output
from .lookup import AllIdArgument, NewestIdArgument, find, on_folder, read_folder, read_records
from .options import DataOption, JsonOption, group, project_paths
from .rollback import fork, rollback
from .transfer import export, import_, rebuild
from .verify import replay, verify

if TYPE_CHECKING:
    from tenex.store.repository import ConversationFolder

conversations = group("List, show, search and roll back conversations.")

PhaseOption = Annotated[str, typer.Option(metavar="PHASE", help="Only those whose current phase is this one.")]
WasInOption = Annotated[str, typer.Option("--was-in", metavar="PHASE", help="Only those that have been in this phase.")]
StatusOption = Annotated[str, typer.Option(metavar="STATUS", help="Only those that are active, waiting, ended, ...")]
AgentOption = Annotated[
    str, typer.Option(metavar="AGENT", help="Only those in which this agent worked or was addressed: slug or key.")
]
SinceOption = Annotated[
    str, typer.Option(metavar="WHEN", help="Not before: 2026-11-21, '2026-11-21 14:30', yesterday, '2 days ago'.")
]
UntilOption = Annotated[str, typer.Option(metavar="WHEN", help="Not after; a day counts to its end.")]
ThoughtsOption = Annotated[bool, typer.Option("--thoughts", help="Also what agents wrote for themselves.")]


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

    agent = agents.full_name(ctx, data, agent)
    wanted = list_search.make_filter(phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    rows = read_folder(ctx, data, lambda folder: list_search.rows(folder, wanted, limit or -1))
    if as_json:
        output.result_json(rows)
    elif not rows:
        which = " of that kind" if wanted != list_search.make_filter() else ""
        output.message(f"There are no conversations{which} in {project_paths(ctx, data).conversations}.")
    else:
        head = ("id", "status", "phase", "cycle", "updated", "title")
        output.result(output.table(head, [[_cell(row, name) for name in head] for row in rows]))


def _cell(row: dict[str, Any], name: str) -> str:
    value = str(row.get(name) or "")
    if name == "phase" and "with" in row:
        return f"@{row['with']}"
    if name == "id":
        return value[:12]
    return value[:19].replace("T", " ") if name == "updated" else output.shorten(value)


@conversations.command()
def search(
    ctx: typer.Context,
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
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search messages and titles, the best match first. --since and --until apply to the messages."""
    from . import list_search

    agent = agents.full_name(ctx, data, agent)
    wanted = list_search.make_filter(phase=phase, was_in=was_in, status=status, agent=agent, since=since, until=until)
    found = read_folder(ctx, data, lambda folder: list_search.search(folder, " ".join(words), wanted, limit))
    if as_json:
        output.result_json(list_search.as_json(found))
    elif not found:
        output.message("Nothing was found.")
    else:
        output.result(list_search.as_text(found))


@conversations.command()
def show(
    ctx: typer.Context,
    id: NewestIdArgument = "",  # noqa: A002
    thoughts: ThoughtsOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a conversation from its journal: messages, phases and tool calls."""
    read_folder(ctx, data, lambda folder: _show(folder, id, thoughts=thoughts, as_json=as_json))


async def _show(folder: "ConversationFolder", start: str, *, thoughts: bool, as_json: bool) -> None:
    from tenex.core.conversation import fold

    name = await find(folder, start)
    records = await read_records(folder, name)
    conversation = fold(name, records)
    if as_json:
        from tenex.store.view import render

        output.result(output.escape_json(render(conversation).rstrip("\n")))
        return
    from tenex.operations.transcript import TranscriptRenderer

    from .console import Screen

    screen, renderer = Screen(), TranscriptRenderer(thoughts=thoughts)
    screen.message(f"{conversation.title}\n{name}", "bold")
    for record in records:
        for line in renderer.render(record):
            screen.show(line)
    state = f"{conversation.status} {conversation.position}"
    screen.message(f"{state} · {folder.path(name)}")


@conversations.command()
def path(
    ctx: typer.Context,
    id: AllIdArgument = "",  # noqa: A002
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the folder of a conversation, or of all."""

    async def path_of(folder: "ConversationFolder") -> Path:
        return folder.path(await find(folder, id))

    found = read_folder(ctx, data, path_of) if id else project_paths(ctx, data).conversations
    if as_json:
        output.result_json({**({"id": found.stem} if id else {}), "path": str(found)})
    else:
        output.result(str(found))


for _command in (verify, replay, rollback, fork, export, rebuild):
    conversations.command()(_command)
conversations.command("import")(import_)


@conversations.command()
def stats(
    ctx: typer.Context,
    id: AllIdArgument = "",  # noqa: A002
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up time, turns, tokens and costs of one conversation or of all, by phase, model and agent."""
    from .stats import stats_of, stats_of_all

    if id:
        on_folder(ctx, data, lambda folder, _: stats_of(folder, id, as_json=as_json))
    else:
        on_folder(ctx, data, lambda folder, _: stats_of_all(folder, as_json=as_json))
