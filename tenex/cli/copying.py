"""`tenex conversations copy`: from files to a database, and back."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenex.core.errors import StoreError, UsageError
from tenex.core.text.amounts import count

from .shared import output
from .shared.options import Globals
from .shared.own_keys import PROJECT

if TYPE_CHECKING:
    from tenex.operations.copying import Copied
    from tenex.settings import Settings

TargetOption = Annotated[
    str, typer.Option("--to", metavar="URL|DIR", help="The address of a database, or a folder for conversations.")
]


def copy(given: Globals, to: TargetOption) -> None:
    """Copy every conversation between files and a database, and compare the checksums.

    To an address the files of this data folder are copied; stop its daemon first. To a folder, such as the
    `conversations` of a data folder, the conversations of the database in the setting `store` are copied. What is there
    already is left as it is, so a second run goes on. Lessons of agents are copied with them.
    """
    settings = given.settings()
    is_to_database = to.startswith(("postgresql://", "postgres://"))
    if not is_to_database and not settings.store:
        raise UsageError("To a folder a database is copied, and the setting `store` names none.")
    done = asyncio.run(_to_database(settings, to) if is_to_database else _to_folder(settings, Path(to).absolute()))
    counts = {outcome: done.count(outcome) for outcome in ("copied", "same", "newer there")}
    lines = [f"{number} {outcome}" for outcome, number in counts.items() if number or outcome == "copied"]
    faults = [f"{name[:12]}: {output.one_line(why)}" for name, why in done.faults.items()]
    if done.lessons:
        lines.append(count(done.lessons, "lesson"))
    given.show(
        {**counts, "lessons": done.lessons, "faults": dict(done.faults)}, output.sentences([", ".join(lines), *faults])
    )
    if done.faults:
        raise StoreError(f"{len(done.faults)} conversations were not copied. Correct that, and run it again.")


async def _to_database(settings: "Settings", url: str) -> "Copied":
    from tenex.nostr.keys import KeyRing
    from tenex.operations.copying import copy_all
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.disk import Disk
    from tenex.store.lock import FolderLock
    from tenex.store.opening import open_shared
    from tenex.store.repository import ConversationFolder

    where = resolve_paths(settings)
    clock = SystemClock()
    if not where.conversations.is_dir():
        raise UsageError(f"{where.conversations}: no such folder. --data names another data folder.")
    disk = Disk()
    try:
        with FolderLock(where.conversations):
            async with open_shared(url, where.conversations, disk, clock) as target:
                await target.claim(KeyRing(*where.key_folders).read(PROJECT).public)
                return await copy_all(ConversationFolder(where.conversations, disk, clock), target, output.progress)
    finally:
        disk.close()


async def _to_folder(settings: "Settings", folder: Path) -> "Copied":
    from tenex.operations.copying import copy_all
    from tenex.runtime.clock import SystemClock
    from tenex.settings import resolve_paths
    from tenex.store.disk import Disk
    from tenex.store.lock import FolderLock
    from tenex.store.opening import open_shared
    from tenex.store.repository import ConversationFolder

    where = resolve_paths(settings)
    clock = SystemClock()
    disk = Disk()
    try:
        with FolderLock(folder):
            async with open_shared(settings.store, where.conversations, disk, clock) as source:
                return await copy_all(source, ConversationFolder(folder, disk, clock), output.progress)
    finally:
        disk.close()
