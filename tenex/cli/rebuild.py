"""`tenex conversations rebuild`: a new journal for a conversation whose own is damaged or gone."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId

from . import output
from .options import DataOption, JsonOption, open_settings

if TYPE_CHECKING:
    from tenex.operations.recovery import RebuildResult
    from tenex.settings import Settings
    from tenex.store.repository import ConversationFolder

SOURCES = ("conversation.json", "relay")
_ID = re.compile(r"[0-9a-f]{64}")

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; the whole id where nothing of it is left.")
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="SOURCE", help="conversation.json, or relay: the thread as the relays keep it.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Also where the journal is whole.")]


def rebuild(
    ctx: typer.Context,
    id: IdArgument,  # noqa: A002
    source: FromOption = SOURCES[0],
    force: ForceOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new journal of what can be regained, and say what is lost. The damaged one is kept beside it."""
    from tenex.settings import resolve_paths
    from tenex.store.lock import FolderLock
    from tenex.telemetry import configure

    from .conversations import _run

    if source not in SOURCES:
        raise UsageError(f"{source[:40]!r} is no source; there are {' and '.join(SOURCES)}.")
    settings = open_settings(ctx, data)
    telemetry = configure("error", "auto")  # relays that come and go are told in what is lost
    try:
        with FolderLock(resolve_paths(settings).conversations):
            made: RebuildResult = _run(ctx, data, lambda folder: _rebuild(folder, settings, id, source, force=force))
    finally:
        telemetry.close()
    if as_json:
        output.result_json(_as_json(made))
        return
    output.result(
        f"{made.id}: {made.messages} messages of people and {made.turns} turns regained. It goes on when you write."
    )
    for sentence in made.lost:
        output.result(f"  lost: {output.one_line(sentence)}")
    output.result(f"What was there is in {made.aside}.")


def _as_json(made: "RebuildResult") -> dict[str, Any]:
    return {
        "id": made.id,
        "records": made.records,
        "messages": made.messages,
        "turns": made.turns,
        "lost": list(made.lost),
        "aside": str(made.aside),
    }


async def _rebuild(
    folder: "ConversationFolder", settings: "Settings", start: str, source: Any, *, force: bool
) -> "RebuildResult":
    from tenex.operations.recovery import Recovery
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.disk import Disk

    from .conversations import _named

    is_whole_id = _ID.fullmatch(start.lower()) is not None
    name = ConversationId(start.lower() if is_whole_id else await _named(folder, start))
    disk = Disk()
    try:
        regaining = Recovery(settings, resolve_paths(settings), folder, disk, SystemClock())
        return await regaining.rebuild(name, source, force=force)
    finally:
        disk.close()
