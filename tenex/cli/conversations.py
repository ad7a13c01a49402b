"""`tenex conversations`: what is on disk, told to a person.

Reads the files only, so it works beside a running daemon and after one.

Never: write.
"""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tenex.core.errors import UsageError

from . import output
from .options import DataOption, JsonOption, data_folder, group, open_settings

if TYPE_CHECKING:
    from tenex.store.folder import ConversationFolder

T = TypeVar("T")

conversations = group("List and show conversations.")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it the newest.", show_default=False)
]


@conversations.command("list")
def list_(ctx: typer.Context, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List conversations, the newest first."""
    rows = _run(ctx, data, _rows)
    if as_json:
        output.result_json(rows)
    elif not rows:
        output.say(f"There are no conversations in {_folder(ctx, data)}.")
    else:
        head = ("id", "status", "phase", "cycle", "updated", "title")
        output.result(output.table(head, [[_cell(row, name) for name in head] for row in rows]))


@conversations.command()
def show(
    ctx: typer.Context, id: IdArgument = "", data: DataOption = None, as_json: JsonOption = False  # noqa: A002
) -> None:  # fmt: skip
    """Tell a conversation from its journal: who said what, which phase, which tools."""
    if as_json:
        output.result(_run(ctx, data, lambda folder: _view(folder, id)))
        return
    _run(ctx, data, lambda folder: _tell(folder, id))


@conversations.command()
def path(ctx: typer.Context, id: IdArgument = "", data: DataOption = None) -> None:  # noqa: A002
    """Print where a conversation's files are; without an id, where all are."""
    if not id:
        output.result(str(_folder(ctx, data)))
        return
    output.result(str(_run(ctx, data, lambda folder: _path(folder, id))))


StatsIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it all together.", show_default=False)
]


@conversations.command()
def stats(
    ctx: typer.Context, id: StatsIdArgument = "", data: DataOption = None, as_json: JsonOption = False  # noqa: A002
) -> None:  # fmt: skip
    """Add up what conversations have taken: time, turns, tokens and money, by phase, model and agent."""
    if id:
        _run(ctx, data, lambda folder: _stats_of(folder, id, as_json=as_json))
    else:
        _run(ctx, data, lambda folder: _stats_of_all(folder, as_json=as_json))


def _folder(ctx: typer.Context, data: Path | None) -> Path:
    from tenex.settings import places

    # a look at files must not fail for a fault in the settings: without a file, the default place
    settings = open_settings(ctx, data)
    return places(settings).conversations


def _run(ctx: typer.Context, data: Path | None, work: "Any") -> Any:
    from tenex.flow.clock import SystemClock
    from tenex.store.disk import Disk
    from tenex.store.folder import ConversationFolder

    async def main() -> Any:
        disk = Disk()
        try:
            result: Coroutine[Any, Any, Any] = work(ConversationFolder(_folder(ctx, data), disk, SystemClock()))
            return await result
        finally:
            disk.close()

    data_folder(ctx, data)
    return asyncio.run(main())


async def _rows(folder: "ConversationFolder") -> list[dict[str, Any]]:
    marks = await folder.quarantined()
    rows = []
    for name in await folder.lengths():
        row: dict[str, Any] = {"id": name}
        try:
            view = json.loads((folder.path(name) / "conversation.json").read_text("utf-8"))
            row |= {key: view.get(key) for key in ("status", "phase", "cycle", "title")}
            row["updated"] = str(view.get("updatedAt", ""))
        except (OSError, ValueError):
            row |= {"status": "unread", "title": "(conversation.json cannot be read; the journal is the truth)"}
        if name in marks:
            row |= {"status": "quarantined", "fault": marks[name]}
        rows.append(row)
    return sorted(rows, key=lambda row: str(row.get("updated", "")), reverse=True)


def _cell(row: dict[str, Any], name: str) -> str:
    value = str(row.get(name) or "")
    if name == "id":
        return value[:12]
    if name == "updated":
        return value[:19].replace("T", " ")
    return value if len(value) <= 60 else value[:59] + "…"


async def _find(folder: "ConversationFolder", start: str) -> str:
    names = list(await folder.lengths())
    if not start:
        rows = await _rows(folder)
        if not rows:
            raise UsageError(f"There are no conversations in {folder.root}.")
        return str(rows[0]["id"])
    found = [name for name in names if name.startswith(start.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"No conversation begins with {start[:70]}. `tenex conversations list` shows them.")
    raise UsageError(f"{len(found)} conversations begin with {start}; give more of the id.")


async def _path(folder: "ConversationFolder", start: str) -> Path:
    return folder.path(await _find(folder, start))


async def _view(folder: "ConversationFolder", start: str) -> str:
    from tenex.core.conversation import fold
    from tenex.core.ids import ConversationId
    from tenex.store.view import render

    name = ConversationId(await _find(folder, start))
    return render(fold(name, await folder.read(name))).rstrip("\n")


async def _tell(folder: "ConversationFolder", start: str) -> None:
    from tenex.core.conversation import fold
    from tenex.core.ids import ConversationId

    from .screen import Screen
    from .story import Story

    name = ConversationId(await _find(folder, start))
    records = await folder.read(name)
    conversation = fold(name, records)
    screen, story = Screen(), Story()
    screen.say(f"{conversation.title}\n{name}", "bold")
    for record in records:
        for line in story.tell(record):
            screen.show(line)
    screen.say(f"{conversation.status} in {conversation.phase}, cycle {conversation.cycle} · {folder.path(name)}")


async def _stats_of(folder: "ConversationFolder", start: str, *, as_json: bool) -> None:
    from tenex.core.ids import ConversationId
    from tenex.store.stats import Stats
    from tenex.store.stats import as_json as told

    from .stats import as_text

    name = ConversationId(await _find(folder, start))
    figures = Stats.of(name, await folder.read(name))
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
    if as_json:
        output.result_json(all_as_json(found))
    elif not found.each:
        output.say(f"There are no conversations in {folder.root}.")
    else:
        output.result(as_text(total(found.each.values())))
