"""`tenex conversations export`, `import` and `rebuild`: one file for a conversation, and repair of a damaged one."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from tenex.core.conversation import fold
from tenex.core.errors import StoreDamaged, StoreError, UsageError
from tenex.core.ids import ConversationId, Slug
from tenex.core.records import ConversationImported, Record
from tenex.core.text.amounts import count
from tenex.runtime.clock import SystemClock
from tenex.settings import Settings, resolve_paths
from tenex.store.archive import Carried, is_packed, packed, plain, unpacked
from tenex.store.atomic import replace
from tenex.store.atomic_folder import as_one_decision
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.journal_reader import VIEW
from tenex.store.lock import FolderLock
from tenex.store.view import Views
from tenex.store.view_reader import read_view

from .shared import output
from .shared.lookup import NewestIdArgument, find, find_named, on_folder, read_records
from .shared.options import Globals
from .shared.own_keys import PROJECT

if TYPE_CHECKING:
    from tenex.operations.recovery import RebuildResult, Recovery
    from tenex.store.postgres.conversations import PostgresConversations

SOURCES: Final = ("conversation.json", "relay")
_ID: Final = re.compile(r"[0-9a-f]{64}")

OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file; default: standard output.")
]
HtmlOption = Annotated[bool, typer.Option("--html", help="Write a page to read in a browser, without scripts.")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="An exported conversation, or the <id>.json of an older program.")
]
RebuildIdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its beginning; the whole id where nothing of it is left.")
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="SOURCE", help="conversation.json, or relay: the thread as the relays have it.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Also where the journal is not damaged.")]


async def export(
    given: Globals,
    folder: Conversations,
    id: NewestIdArgument = "",  # noqa: A002
    out: OutOption = None,
    html: HtmlOption = False,
) -> None:
    """Write all records of a conversation to one file with a checksum; it holds no keys."""
    if given.as_json and out is None:
        raise UsageError("--json describes the file written by --out; add --out FILE.")
    name = await find(folder, id)
    records = await read_records(folder, name)
    content = _as_page(name, records) if html else packed(name, records, SystemClock().now())
    if out is None:
        sys.stdout.buffer.write(content)
        return
    if out.exists():
        raise UsageError(f"{out} exists; nothing was written. Choose another name.")
    try:
        replace(out.absolute(), content)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}.") from error
    use = "Open it in a browser." if html else f"`tenex conversations import {out}` reads it."
    note = f"{out}: {len(content):,} bytes. {use}"
    given.show({"id": name, "file": str(out), "bytes": len(content)}, "", note)


def _as_page(name: ConversationId, records: list[Record]) -> bytes:
    from tenex.web.export import as_html  # templates and Markdown take a while to load

    return as_html(name, records).encode()


def import_(given: Globals, file: FileArgument) -> None:
    """Import a conversation from a file, completely or not at all. Stop the daemon of this folder first."""
    settings = given.settings()
    root = _conversations_of(settings)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    lost: list[str] = []
    with FolderLock(root):
        if is_packed(content):
            try:
                carried = unpacked(content)
            except StoreDamaged as error:
                raise StoreDamaged(f"{file}: {error} Nothing was changed.") from error

            async def import_carried(folder: Conversations, disk: Disk) -> bool:
                folder.path(carried.id)  # raises where it is not an id
                await _claim(folder, settings)
                await _recovery(folder, disk, settings).refuse_message_id(carried.id)
                return await _import(folder, disk, carried, Slug(settings.conversations.agent))

            is_new = on_folder(given, import_carried)
            name = carried.id
            records = len(carried.records)
            what = "imported" if is_new else "already here, unchanged"
        else:
            name = ConversationId(str(read_view(file).get("id") or file.stem))

            async def import_file(folder: Conversations, disk: Disk) -> "RebuildResult":
                folder.path(name)  # raises where it is not an id
                await _claim(folder, settings)
                return await _recovery(folder, disk, settings).import_file(file, name)

            imported = on_folder(given, import_file)
            records = imported.records
            what = "imported"
            lost = list(imported.lost)
            is_new = False
    lines = [f"{name}: {records:,} records, {what}.", *_lost(lost)]
    given.show({"id": name, "records": records, "result": what, "lost": lost}, output.sentences(lines))
    if is_new:
        output.message("Unfinished work in it was closed: nothing runs and nothing is sent until someone writes in it.")


async def _import(folder: Conversations, disk: Disk, carried: Carried, agent: Slug) -> bool:
    """Whether it was new here; of what the file brings only the messages count (`core.rebuild.reducers`).

    Raises:
        StoreError: another state of that conversation is here.
    """
    if await folder.remains(carried.id):
        known = plain((await folder.read_left(carried.id))[0])
        is_import = known[:-1] == list(carried.records) and isinstance(known[-1], ConversationImported)
        if is_import or known == list(carried.records):
            return False
        pairs = enumerate(zip(known, carried.records, strict=False), 1)
        differs = next((number for number, (here, there) in pairs if here != there), None)
        where = f"they differ from record {differs} on" if differs else "one continues where the other ends"
        raise StoreError(
            f"{carried.id} is in {folder.place} with {len(known)} records; the file has {len(carried.records)}, and "
            f"{where}. Nothing was changed. Import it into another data folder, with --data."
        )
    from tenex.operations.imports import import_record

    closing = import_record(fold(carried.id, carried.records), agent, SystemClock().now())
    records = [*carried.records, closing]
    await folder.create(carried.id, as_one_decision(records))
    try:
        await Views(folder, disk).show(fold(carried.id, records))
    except OSError as error:  # the records are stored; a view can be written again at any time
        view = folder.path(carried.id) / VIEW
        output.message(f"{view} could not be written: {error.strerror}. The daemon's next start writes it.")
    return True


def rebuild(
    given: Globals,
    id: RebuildIdArgument,  # noqa: A002
    source: FromOption = SOURCES[0],
    force: ForceOption = False,
) -> None:
    """Write a new journal from what can be recovered, and list what is lost. The damaged one is kept as a backup."""
    from tenex.telemetry import configure

    if source not in SOURCES:
        raise UsageError(f"{source[:40]!r} is not a source. Choose {' or '.join(SOURCES)}.")
    settings = given.settings()
    conversations = _conversations_of(settings)

    async def work(folder: Conversations, disk: Disk) -> Any:
        await _claim(folder, settings)
        is_whole_id = _ID.fullmatch(id.lower()) is not None
        name = ConversationId(id.lower()) if is_whole_id else await find_named(folder, id)
        kind: Any = source
        return await _recovery(folder, disk, settings).rebuild(name, kind, force=force)

    telemetry = configure("error", "auto")  # relays that fail are reported in what is lost
    try:
        with FolderLock(conversations):
            made = on_folder(given, work)
    finally:
        telemetry.close()
    go_on = "Write in the conversation to continue it."
    if made.waiting:
        waiting = count(made.waiting, "message waits", "messages wait")
        go_on = f"{waiting} for an answer, which the daemon gives when it starts."
    lines = [
        f"{made.id}: {count(made.records, 'record')}, with {count(made.messages, 'message')} of users.",
        *_lost(made.lost),
        f"The old files are in {made.aside}. {go_on}",
    ]
    row = {"id": made.id, "records": made.records, "messages": made.messages, "waiting": made.waiting}
    given.show({**row, "lost": list(made.lost), "aside": str(made.aside)}, output.sentences(lines))


def _lost(sentences: Iterable[str]) -> list[str]:
    return [f"  lost: {output.one_line(sentence)}" for sentence in sentences]


def _conversations_of(settings: Settings) -> Path:
    """The folder of conversations.

    Raises:
        UsageError: there is no data folder, and taking the lock would make it.
    """
    where = resolve_paths(settings)
    if not where.data.is_dir():
        raise UsageError(f"{where.data}: no such folder. `tenex init` makes it; --data names another.")
    return where.conversations


async def _claim(folder: Conversations, settings: Settings) -> None:
    """Refuse a database of another project, or one that would lose what is written to it.

    Raises:
        ConfigurationError: it is.
    """
    if not settings.store:
        return
    from tenex.nostr.keys import KeyRing

    project = KeyRing(*resolve_paths(settings).key_folders).read(PROJECT).public
    await cast("PostgresConversations", folder).claim(project)


def _recovery(folder: Conversations, disk: Disk, settings: Settings) -> "Recovery":
    from tenex.operations.recovery import Recovery

    return Recovery(settings, resolve_paths(settings), folder, disk, SystemClock())
