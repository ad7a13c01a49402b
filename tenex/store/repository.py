"""Conversations in a folder of files: the journals in it, and who wrote them last."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenex.core.errors import StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record

from . import atomic, atomic_folder, segments
from .contents import Contents, Remains, write_contents
from .conversations import Conversations, is_id
from .daemon_journal import DaemonFolder
from .disk import Disk
from .file_writer import FileWriter
from .format import CONVERSATION
from .journal_reader import JOURNAL, MARK, NEWEST, VIEW, lost_files, mark_of, place_in, read_files
from .record_log import Head
from .tail import JournalTail

__all__ = ["NEWEST", "REBUILD", "ConversationFolder"]

REBUILD: Final = (
    "Restore the folder from a copy; or stop the daemon and make a new journal of what can be recovered, with "
    "`tenex conversations rebuild ID --from conversation.json` or `--from relay`. The damaged one is kept."
)


class ConversationFolder(Conversations):
    """The conversations of a data folder; needs its lock to be held by us for `open` and what changes something."""

    def __init__(self, root: Path, disk: Disk, clock: Clock) -> None:
        super().__init__(FolderLog(root, disk, clock), root, disk)


class FolderTail:
    """Follows a journal in a folder (`record_log.Tail`)."""

    def __init__(self, tail: JournalTail) -> None:
        self._tail = tail

    async def read(self) -> list[Record]:
        """See `JournalTail.read`."""
        return await asyncio.to_thread(self._tail.read)


class FolderLog:
    """The journals in a folder, each in a folder of its own (`record_log.RecordLog`)."""

    is_in_files = True
    remedy = REBUILD

    def __init__(self, root: Path, disk: Disk, clock: Clock) -> None:
        self.root = root
        self._disk = disk
        self._clock = clock

    @property
    def place(self) -> str:
        """The path of the folder."""
        return str(self.root)

    def place_of(self, conversation: ConversationId, file: int) -> str:
        """The path of a file."""
        return place_in(self.root / conversation, file)

    def lost_past(self, conversation: ConversationId, numbers: Sequence[int], seq: int) -> str:
        """See `RecordLog`."""
        return lost_files(self.root / conversation, numbers, seq)

    async def open(self, conversation: ConversationId) -> tuple[FileWriter, list[Record]]:
        """See `RecordLog`; a torn tail is moved to a file beside the journal."""
        remedy = REBUILD.replace("ID", conversation[:12])
        return await FileWriter.open(self.root / conversation / JOURNAL, CONVERSATION, self._disk, self._clock, remedy)

    async def files(self, conversation: ConversationId, since: int, until: int) -> Remains:
        """See `RecordLog`."""
        folder = self.root / conversation
        try:
            return await self._disk.run(read_files, folder, since, until)
        except OSError as fault:
            what = f"{folder} cannot be read: {fault.strerror}. Look who owns it and what it is."
            raise StoreDamaged(what) from fault

    def tail(self, conversation: ConversationId, seq: int) -> FolderTail:
        """See `RecordLog`."""
        return FolderTail(JournalTail(self.root / conversation, seq))

    async def heads(self) -> dict[ConversationId, Head]:
        """See `RecordLog`; of a journal that is missing beside its view both are 0."""
        return await self._disk.run(_heads, self.root)

    async def size(self, conversation: ConversationId) -> int:
        """See `RecordLog`; 0 also where it cannot be looked at."""
        try:
            return (await asyncio.to_thread(segments.stat_all, str(self.root / conversation)))[0]
        except OSError:
            return 0

    async def behind(self) -> list[ConversationId]:
        """See `RecordLog`."""
        return await self._disk.run(_behind, self.root)

    async def marks(self) -> dict[ConversationId, str]:
        """See `RecordLog`."""
        return await self._disk.run(_marks, self.root)

    async def mark(self, conversation: ConversationId, why: str) -> None:
        """See `RecordLog`."""
        with suppress(OSError):  # the mark is a courtesy; the error is what counts
            await self._disk.change(atomic.replace, self.root / conversation / MARK, f"{why}\n".encode())

    async def settle(self, conversation: ConversationId) -> None:
        """See `RecordLog`."""
        await self._disk.change(atomic_folder.put_back, self.root / conversation)

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """See `RecordLog`."""
        path = self.root / conversation
        try:
            await self._disk.change(write_contents, path, there, wanted)
        except OSError as fault:
            raise StoreError(f"{path} cannot be written: {fault.strerror}. Free some space, and try again.") from fault

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """See `RecordLog`."""
        await self._disk.change(atomic_folder.create, self.root / conversation, decisions)

    async def renew(
        self,
        conversation: ConversationId,
        there: Remains,  # noqa: ARG002 - no other process changes it: we hold the lock
        decisions: Sequence[Sequence[Record]],
    ) -> Path:
        """See `RecordLog`."""
        when = atomic.stamp(self._clock.now())
        return await self._disk.change(atomic_folder.renew, self.root / conversation, decisions, when)

    def daemon_records(self) -> DaemonFolder:
        """See `RecordLog`."""
        return DaemonFolder(self.root, self._disk, self._clock)


def _ids(root: Path) -> list[ConversationId]:
    try:
        names = os.listdir(root)  # noqa: PTH208 - ten thousand names, of which no path is needed
    except FileNotFoundError:
        return []
    except OSError as fault:
        is_shut = isinstance(fault, PermissionError)
        fix = "Ask as the user the daemon runs as, or as root" if is_shut else "Look who owns it and what it is"
        raise StoreError(f"{root} cannot be read: {fault.strerror}. {fix}.") from fault
    return sorted(ConversationId(name) for name in names if is_id(name))


def _heads(root: Path) -> dict[ConversationId, Head]:
    heads: dict[ConversationId, Head] = {}
    base = os.fspath(root)
    for name in _ids(root):
        try:
            length, written = segments.stat_all(f"{base}/{name}")
        except FileNotFoundError:
            if (root / name / VIEW).exists():  # it had a journal once: opening it reports that
                heads[name] = Head(0, 0)
        except OSError:
            heads[name] = Head(0, 0)
        else:
            heads[name] = Head(length, written / 1e9)
    return heads


def _behind(root: Path) -> list[ConversationId]:
    behind: list[ConversationId] = []
    base = os.fspath(root)
    for name in _ids(root):
        written = shown = 0
        with suppress(OSError):
            written = segments.stat_all(f"{base}/{name}")[1]
            shown = os.stat(f"{base}/{name}/{VIEW}").st_mtime_ns  # noqa: PTH116 - at every start for each conversation
        if shown < written:
            behind.append(name)
    return behind


def _marks(root: Path) -> dict[ConversationId, str]:
    marks = ((name, mark_of(root / name)) for name in _ids(root))
    return {name: mark for name, mark in marks if mark is not None}
