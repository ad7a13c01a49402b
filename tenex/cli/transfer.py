"""`tenex conversations export` and `import`: a conversation as one file, out of a folder and into another."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenex.core.errors import StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId

from . import output
from .options import DataOption, JsonOption, open_settings

if TYPE_CHECKING:
    from tenex.operations.recovery import RebuildResult
    from tenex.settings import Settings
    from tenex.store.archive import Carried
    from tenex.store.repository import ConversationFolder

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; without it the newest.", show_default=False)
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write there; else to standard output.")
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="An exported conversation, or the <id>.json of an older program.")
]


def export(
    ctx: typer.Context,
    id: IdArgument = "",  # noqa: A002
    out: OutOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a conversation to one file with a checksum: all its records, and no keys. Works beside a daemon."""
    from .conversations import _run

    if as_json and out is None:
        raise UsageError("--json is about the file that --out writes; without it the conversation itself is printed.")
    name, packed = _run(ctx, data, lambda folder: _packed(folder, id))
    if out is None:
        sys.stdout.buffer.write(packed)
        return
    from tenex.store.atomic import replace

    if out.exists():
        raise UsageError(f"{out} exists; nothing was written. Choose another name.")
    try:
        replace(out.absolute(), packed)
    except OSError as fault:
        raise UsageError(f"{out} cannot be written: {fault.strerror}.") from fault
    if as_json:
        output.result_json({"id": name, "file": str(out), "bytes": len(packed)})
        return
    output.say(f"{out}: {len(packed):,} bytes. `tenex conversations import {out}` reads it back.")


async def _packed(folder: "ConversationFolder", start: str) -> tuple[ConversationId, bytes]:
    from tenex.runtime.clock import SystemClock
    from tenex.store.archive import packed

    from .conversations import _find

    name = ConversationId(await _find(folder, start))
    records, gone = await folder.read_left(name)
    if gone:
        output.say(f"tenex: in part only: {gone}")
    return name, packed(name, records, SystemClock().now())


def import_(ctx: typer.Context, file: FileArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Take a conversation in from a file, all of it or nothing. The daemon on this folder has to be stopped."""
    from tenex.settings import resolve_paths
    from tenex.store.archive import is_packed, unpacked
    from tenex.store.lock import FolderLock

    from .conversations import _run

    settings = open_settings(ctx, data)
    try:
        given = file.read_bytes()
    except OSError as fault:
        raise UsageError(f"{file} cannot be read: {fault.strerror}.") from fault
    with FolderLock(resolve_paths(settings).conversations):
        if not is_packed(given):
            taken = _run(ctx, data, lambda folder: _take_in(folder, settings, file))
            _tell(taken.id, taken.records, "taken in", lost=list(taken.lost), as_json=as_json)
            return
        try:
            carried = unpacked(given)
        except StoreDamaged as fault:
            raise StoreDamaged(f"{file}: {fault} Nothing was changed.") from fault
        is_new = _run(ctx, data, lambda folder: _import(folder, carried))
        _tell(carried.id, len(carried.records), "imported" if is_new else "already here, and the same", as_json=as_json)
        if is_new:
            output.say("What was open in it is over: nothing runs and nothing is sent before somebody writes in it.")


def _tell(name: str, records: int, what: str, *, lost: list[str] | None = None, as_json: bool) -> None:
    if as_json:
        output.result_json({"id": name, "records": records, "result": what, "lost": lost or []})
        return
    output.result(f"{name}: {records:,} records, {what}.")
    for sentence in lost or ():
        output.result(f"  lost: {output.one_line(sentence)}")


async def _import(folder: "ConversationFolder", carried: "Carried") -> bool:
    """Whether it was new here.

    Raises:
        StoreError: another state of that conversation is here.
    """
    import asyncio

    from tenex.core.conversation import fold
    from tenex.core.records import ConversationImported
    from tenex.store.archive import plain
    from tenex.store.atomic_folder import create
    from tenex.store.disk import Disk
    from tenex.store.journal_reader import VIEW
    from tenex.store.view import Views

    path = folder.path(carried.id)
    last = carried.records[-1]
    is_closed = isinstance(last, ConversationImported)
    records = [*carried.records, *(() if is_closed else (ConversationImported(seq=last.seq + 1, at=last.at),))]
    if path.exists():
        known = plain((await folder.read_left(carried.id))[0])
        if known in (records, list(carried.records)):
            return False
        same = next((n for n, pair in enumerate(zip(known, carried.records, strict=False)) if pair[0] != pair[1]), None)
        where = f"they differ from record {same + 1} on" if same is not None else "one goes on where the other ends"
        raise StoreError(
            f"{path} is here already, with {len(known)} records; the file has {len(carried.records)}, and {where}. "
            "Nothing was changed. Move the folder away to take the file's."
        )
    await asyncio.to_thread(create, path, [[record] for record in records])
    disk = Disk()
    try:
        await Views(folder, disk).show(fold(carried.id, records))
    except OSError as fault:  # the records are here, and no view is needed for them
        output.say(f"{path / VIEW} could not be written: {fault.strerror}. The daemon's next start writes it.")
    finally:
        disk.close()
    return True


async def _take_in(folder: "ConversationFolder", settings: "Settings", file: Path) -> "RebuildResult":
    from tenex.operations.recovery import Recovery
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.disk import Disk
    from tenex.store.view_reader import read_view

    told = read_view(file).get("id") or file.stem
    name = ConversationId(str(told))
    folder.path(name)  # refuses what is no id
    disk = Disk()
    try:
        return await Recovery(settings, resolve_paths(settings), folder, disk, SystemClock()).take_in(file, name)
    finally:
        disk.close()
