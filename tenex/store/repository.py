"""All conversations of a data folder: which there are, how long they are, and their journals."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakValueDictionary

from tenex.core.conversation import Conversation
from tenex.core.errors import StoreDamaged, StoreError, StoreOtherVersion, TenexError, UsageError
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.core.rollback.whole import ConversationForked
from tenex.core.snapshot import SnapshotRecord, StateSnapshot
from tenex.core.state import State
from tenex.log import get_logger

from . import atomic, atomic_folder, segments
from .contents import Contents, Remains, read_contents, read_remains, write_contents
from .conversations import Worker
from .daemon_journal import DaemonFolder
from .disk import Disk
from .format import CONVERSATION
from .journal import FILE_BYTES, FileJournal
from .journal_reader import JOURNAL, MARK, NEWEST, VIEW, is_past_sound, mark_of, peek_file, read_surviving
from .tail import JournalTail

__all__ = ["NEWEST", "REBUILD", "RENAME", "ConversationFolder", "misnamed"]

WORKING: Final = 4
"""A journal may grow to so many times its bound while agents work: their transcripts would be most of a snapshot."""

REBUILD: Final = (
    "Restore the folder from a copy; or stop the daemon and make a new journal of what can be recovered, with "
    "`tenex conversations rebuild ID --from conversation.json` or `--from relay`. The damaged one is kept."
)
RENAME: Final = "Move the folder out of here, or give it its name back."
"""What to do about a folder that bears the name of another conversation."""

_ID: Final = re.compile(r"[0-9a-f]{64}")

log = get_logger(__name__)


class FolderTail:
    """Follows a journal in a folder (`store.conversations.Tail`)."""

    def __init__(self, tail: JournalTail) -> None:
        self._tail = tail

    async def read(self) -> list[Record]:
        """See `JournalTail.read`."""
        return await asyncio.to_thread(self._tail.read)


class ConversationFolder:
    """The folder `conversations/`; needs its lock to be held by us for `open`."""

    def __init__(self, root: Path, disk: Disk, clock: Clock) -> None:
        self.root = root
        self._disk = disk
        self._clock = clock
        self._journals: WeakValueDictionary[str, FileJournal] = WeakValueDictionary()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def place(self) -> str:
        """Where the records are."""
        return str(self.root)

    def path(self, conversation: str) -> Path:
        """A conversation's own folder, whether it exists or not.

        Raises:
            UsageError: that is not a conversation's id.
        """
        return path_in(self.root, conversation)

    async def open(self, conversation: ConversationId) -> tuple[FileJournal, list[Record]]:
        """A conversation's journal, to be written to, and the records to fold; they may begin with a snapshot.

        An older journal of it in this process is closed first.

        Raises:
            StoreDamaged: the file holds what we did not write; nothing was changed, and the folder bears a mark.
            AppendFailed: the disk does not let us read or repair it now.
            UsageError: that is not a conversation's id.
        """
        path = self.path(conversation) / JOURNAL
        remedy = (
            f"Restore the folder from a copy; or stop the daemon: `tenex conversations rebuild {conversation[:12]} "
            "--from conversation.json` makes a new journal of what can be recovered."
        )
        turn = self._opening.setdefault(conversation, asyncio.Lock())
        async with turn:  # two writers would fork it
            await self._close(conversation)
            journal, records = await FileJournal.open(path, CONVERSATION, self._disk, self._clock, remedy)
            if what := misnamed(conversation, records):
                await journal.close()
                sentence = f"{path}: {what}. Nothing was changed. {RENAME}"
                with suppress(OSError):  # the mark is a courtesy; the error is what counts
                    await self._disk.change(atomic.replace, path.with_name(MARK), f"{sentence}\n".encode())
                raise StoreDamaged(sentence)
            self._journals[conversation] = journal
        return journal, records

    async def read(self, conversation: ConversationId, since: int = 0) -> list[Record]:
        """The records of a conversation, all of them, without the lock and without repairing anything.

        With `since` only the newest files, as many as hold every record after it; they may begin with a snapshot.
        `NEWEST` gives the least that can be folded.

        Raises:
            StoreDamaged: the file holds what we did not write.
            UsageError: there is no such conversation.
        """
        records, loss = await self.read_left(conversation, since)
        if loss:
            raise StoreDamaged(f"{loss} Nothing was changed.")
        return records

    async def read_left(self, conversation: ConversationId, since: int = 0) -> tuple[list[Record], str]:
        """The same, also where an earlier file is missing: its past is lost, and nothing else.

        Returns:
            The records, which then begin with a snapshot, and the sentence that names it; else an empty one.

        Raises:
            StoreDamaged: the file holds what we did not write.
            UsageError: there is no such conversation.
        """
        path = self.path(conversation) / JOURNAL
        with self._explained(path):
            records, loss = await self._disk.run(read_surviving, path, CONVERSATION, since)
        _refuse_misnamed(path, conversation, records)
        return records, loss

    async def read_file(self, conversation: ConversationId, holding: int) -> list[Record]:
        """The records of the file of a journal that holds the record `holding`; `NEWEST` is in the newest.

        They begin with a snapshot unless it is the first file.

        Raises:
            StoreDamaged: the file holds what we did not write.
            UsageError: there is no such conversation.
        """
        path = self.path(conversation) / JOURNAL
        with self._explained(path):
            records = await self._disk.run(peek_file, path, CONVERSATION, holding)
        _refuse_misnamed(path, conversation, records)
        return records

    async def is_past_sound(self, conversation: ConversationId) -> bool:
        """Whether what is before the newest snapshot is all there, by checksums and numbers; no record is decoded."""
        try:
            return await self._disk.run(is_past_sound, self.path(conversation) / JOURNAL)
        except OSError:
            return False

    def tail(self, conversation: ConversationId, seq: int) -> "FolderTail":
        """Follows a journal after the record `seq`."""
        return FolderTail(JournalTail(self.path(conversation), seq))

    @contextmanager
    def _explained(self, path: Path) -> Iterator[None]:
        """Say of a journal that cannot be read what can be done."""
        remedy = REBUILD.replace("ID", path.parent.name[:12])
        try:
            yield
        except FileNotFoundError as fault:
            raise UsageError(f"There is no conversation {path.parent.name} in {self.root}.") from fault
        except OSError as fault:
            look = f"{path} cannot be read: {fault.strerror}. Look who owns it and what it is."
            raise StoreDamaged(f"{look} {remedy}") from fault
        except StoreOtherVersion:
            raise
        except StoreDamaged as fault:
            raise StoreDamaged(f"{fault} {remedy}") from fault

    async def rotate(self, conversation: Conversation) -> bool:
        """Have a journal that is open here, and long, go on in a new file; else do nothing.

        The state is read before the first await. Nothing is done where it is ahead of the disk, and a failure only
        means that the present file is used on.

        Returns:
            Whether the journal goes on in a new file, and still ends with the last record of that state.
        """
        return await rotate_if_long(self._journals.get(conversation.id), conversation)

    def length(self, conversation: ConversationId) -> int:
        """Durable bytes of a journal that is open here, for the index; 0 where it is not."""
        journal = self._journals.get(conversation)
        return journal.length if journal is not None else 0

    async def lengths(self) -> dict[ConversationId, int]:
        """Every conversation on disk with the bytes of all files of its journal, 0 where that is missing.

        Raises:
            StoreError: the folder cannot be read now, or is none; so `behind` and `quarantined`.
        """
        return await self._disk.run(_lengths, self.root)

    async def size(self, conversation: ConversationId) -> int:
        """Bytes of a journal, also of one that another process writes; 0 where there is none."""
        try:
            return (await asyncio.to_thread(segments.stat_all, str(self.path(conversation))))[0]
        except OSError:
            return 0

    async def workers(self) -> Sequence[Worker]:
        """None: the lock of the folder admits one daemon."""
        return ()

    async def behind(self) -> list[ConversationId]:
        """The conversations whose readable view is missing or older than their journal: a process ended between."""
        return await self._disk.run(_behind, self.root)

    async def quarantined(self) -> dict[ConversationId, str]:
        """The conversations that could not be read when they were last opened, each with the sentence why."""
        return await self._disk.run(_marks, self.root)

    async def last_written(self) -> int | None:
        """The second in which a journal was last written; None where there is none."""
        return await asyncio.to_thread(_last_written, self.root)

    async def contents(self, conversation: ConversationId) -> Contents:
        """The journal byte for byte; nothing where there is none.

        Raises:
            StoreDamaged: it is not whole.
        """
        path = self.path(conversation)
        if not await self._disk.run(segments.numbers, path):
            return []
        _, loss = await self.read_left(conversation)
        if loss:
            raise StoreDamaged(loss)
        return await self._disk.run(read_contents, path)

    async def remains(self, conversation: ConversationId) -> Remains:
        """What there is of a journal, whatever its state, after a `renew` that was cut short: what was before it.

        Raises:
            StoreError: the folder that was before cannot be put back now.
        """
        path = self.path(conversation)
        await self._disk.change(atomic_folder.put_back, path)
        return await self._disk.run(read_remains, path)

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """Store a conversation that is not here yet, whole or not at all; its view is not written.

        Raises:
            StoreError: something is there already, or the disk did not take it; nothing was changed.
        """
        await self._disk.change(atomic_folder.create, self.path(conversation), decisions)

    async def renew(
        self,
        conversation: ConversationId,
        there: Remains,  # noqa: ARG002 - no other process changes it: we hold the lock
        decisions: Sequence[Sequence[Record]],
    ) -> Path:
        """Put another journal, and its view, in the place of what there is; returns the folder where that is kept.

        Raises:
            StoreError: the disk did not take it; everything is where it was.
        """
        when = atomic.stamp(self._clock.now())
        return await self._disk.change(atomic_folder.renew, self.path(conversation), decisions, when)

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """Continue a journal that is not open from what is there to what is wanted.

        Raises:
            StoreError: the disk did not take it; a second call goes on.
        """
        path = self.path(conversation)
        try:
            await self._disk.change(write_contents, path, there, wanted)
        except OSError as fault:
            raise StoreError(f"{path} cannot be written: {fault.strerror}. Free some space, and try again.") from fault

    def daemon_records(self) -> DaemonFolder:
        """What belongs to no conversation: lessons, profiles, notices of failures."""
        return DaemonFolder(self.root, self._disk, self._clock)

    async def close(self) -> None:
        """Close every journal that is open here."""
        for conversation in list(self._journals):
            await self._close(conversation)

    async def _close(self, conversation: str) -> None:
        journal = self._journals.pop(conversation, None)
        if journal is not None:
            await journal.close()


def path_in(root: Path, conversation: str) -> Path:
    """A conversation's own folder, whether it exists or not.

    Raises:
        UsageError: that is not a conversation's id.
    """
    if not _ID.fullmatch(conversation):
        raise UsageError(
            f"{conversation[:80]!r} is not a conversation's id: it must be 64 lower-case hex digits. "
            "`tenex conversations list` shows them."
        )
    return root / conversation


class RotatingJournal(Protocol):
    """A journal that may go on after a snapshot."""

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""

    @property
    def is_long(self) -> bool:
        """Whether it is time for a snapshot."""

    @property
    def file_length(self) -> int:
        """Bytes since the last one."""

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on after a snapshot; False where it is not of the last record."""


async def rotate_if_long(journal: RotatingJournal | None, conversation: Conversation) -> bool:
    """Have a journal that is long go on after a snapshot of the state, which is read before the first await.

    Returns:
        Whether it goes on after it, and still ends with the last record of that state.
    """
    seq = conversation.next_seq
    if journal is None or not journal.is_long or journal.next_seq != seq:
        return False
    if conversation.work.runs and journal.file_length < WORKING * FILE_BYTES:
        return False
    try:
        return await journal.rotate(StateSnapshot.of(conversation)) and journal.next_seq == seq
    except (OSError, TenexError) as fault:
        log.error("journal.not_rotated", conversation=conversation.id, reason=str(fault))
        return False


def misnamed(conversation: ConversationId, records: Sequence[Record]) -> str:
    """What is wrong with a copied or renamed folder: two that continue one thread would publish everything twice."""
    match next(iter(records), None):
        case ConversationStarted(id=named) | ConversationForked(id=named) | StateSnapshot(state=State(id=named)) if (
            named != conversation
        ):
            return f"this is the journal of the conversation {named[:64]}, in the folder of another one"
    return ""


def _refuse_misnamed(path: Path, conversation: ConversationId, records: Sequence[Record]) -> None:
    if what := misnamed(conversation, records):
        raise StoreDamaged(f"{path}: {what}. Nothing was changed. {RENAME}")


def _ids(root: Path) -> list[ConversationId]:
    try:
        names = os.listdir(root)  # noqa: PTH208 - ten thousand names, of which no path is needed
    except FileNotFoundError:
        return []
    except OSError as fault:
        is_shut = isinstance(fault, PermissionError)
        fix = "Ask as the user the daemon runs as, or as root" if is_shut else "Look who owns it and what it is"
        raise StoreError(f"{root} cannot be read: {fault.strerror}. {fix}.") from fault
    return sorted(ConversationId(name) for name in names if _ID.fullmatch(name))


def _lengths(root: Path) -> dict[ConversationId, int]:
    lengths: dict[ConversationId, int] = {}
    base = os.fspath(root)
    for name in _ids(root):
        try:
            lengths[name] = segments.stat_all(f"{base}/{name}")[0]
        except FileNotFoundError:
            if (root / name / VIEW).exists():  # it had a journal once: opening it reports that
                lengths[name] = 0
        except OSError:
            lengths[name] = 0
    return lengths


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


def _last_written(root: Path) -> int | None:
    times = [int(path.stat().st_mtime) for path in root.glob(segments.ANY_FILE) if _ID.fullmatch(path.parent.name)]
    return max(times, default=None)


def _marks(root: Path) -> dict[ConversationId, str]:
    marks = ((name, mark_of(root / name)) for name in _ids(root))
    return {name: mark for name, mark in marks if mark is not None}
