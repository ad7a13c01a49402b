"""A journal that is open: what may be appended to it, and when it goes on in a new file, whatever holds it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from tenex.core.errors import AppendFailed, InternalError
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.log import get_logger

from .disk import Disk
from .format import Codec

FILE_BYTES: Final = 2**20
"""From this length on a journal goes on in another file: so much is read in about 100 ms, and a start has a second for
all its unfinished conversations."""

PER_SNAPSHOT: Final = 8
"""A file is at least so many times as long as the snapshot it began with: no more than an eighth of a journal is
snapshots."""

log = get_logger(__name__)


class End(NamedTuple):
    """Where a journal ends, durably."""

    next_seq: int
    """The seq the next record must have."""
    bytes: int
    """Of all its files."""
    file_bytes: int
    """Of its newest file."""
    snapshot_bytes: int
    """Of the snapshot with which the newest file begins; 0 where that is the first one."""


class Writer(Protocol):
    """The right to append to one journal. Its methods are called one after another."""

    @property
    def place(self) -> str:
        """Where the journal is, for messages."""

    @property
    def end(self) -> End:
        """Where the journal ends; right also after a call that failed or was cancelled, unless the writer is dead."""

    @property
    def dead(self) -> str:
        """Why nothing can be appended any more; empty while it can."""

    @property
    def may_start(self) -> bool:
        """Whether effects may start: no other process can become the writer for a while yet."""

    async def append(self, data: bytes, next_seq: int) -> None:
        """Make whole decisions durable, all of them or none.

        Args:
            data: their lines.
            next_seq: the seq that follows the last of their records.

        Raises:
            AppendConflict: another process has appended; nothing was stored, and the writer is dead.
            HeldElsewhere: another worker has the conversation; the writer is dead.
            AppendFailed: it is not known what was stored; the writer is dead.
        """

    async def begin_file(self, seq: int, data: bytes) -> bool:
        """Go on in a new file that begins with the line of a snapshot.

        Args:
            seq: that of the snapshot, and of the last record.
            data: the line.

        Returns:
            Whether that is so; False where another worker has the conversation.

        Raises:
            OSError: the disk took no new file; the present one is used on, unless the writer is dead.
            StoreError: it is not known whether the file was begun, or it was begun before; the writer goes on.
        """

    async def close(self) -> None:
        """Close the journal."""


class StoredJournal:
    """The records of one conversation, or of the daemon, in order, in one file after another (`core.ports.Journal`)."""

    def __init__(
        self, writer: Writer, codec: Codec, disk: Disk, closed: Callable[["StoredJournal"], None] = lambda _: None
    ) -> None:
        """Continue a journal that has been opened.

        Args:
            writer: appends to it.
            codec: makes lines of its records.
            disk: has the threads that encode snapshots, and takes the time of appends.
            closed: called once, when the journal is closed.
        """
        self.writer = writer
        self._codec = codec
        self._disk = disk
        self._closed = closed
        self._is_closed = False
        self._turn = asyncio.Lock()
        self._expect()

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""
        return self.writer.end.next_seq

    @property
    def may_start(self) -> bool:
        """Whether effects may start: no other process can become the writer for a while yet."""
        return not self.writer.dead and self.writer.may_start

    @property
    def length(self) -> int:
        """Bytes that are durable, in all files together."""
        return self.writer.end.bytes

    @property
    def file_length(self) -> int:
        """Durable bytes of the file that is written to."""
        return self.writer.end.file_bytes

    @property
    def is_long(self) -> bool:
        """Whether it is time for another file."""
        return self.file_length >= self._long

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, each decision whole or not at all, in order; callers at the same time take turns.

        A cancelled call has either appended everything or failed by the time it raises.

        Raises:
            HeldElsewhere: another worker has taken the conversation over; it sees what was stored.
            AppendConflict: another process has appended; nothing was stored.
            AppendFailed: it is not known whether they were stored. After each of these every later append fails too;
                open the journal again.
            InternalError: a record has another seq than the next, or cannot be stored; nothing was stored.
        """
        async with self._turn:
            if self.writer.dead:
                raise AppendFailed(self.writer.dead)
            seq = self.next_seq
            for decision in decisions:
                for record in decision:
                    if record.seq != seq:
                        what = f"{type(record).__name__} has seq {record.seq}, but {seq} is next"
                        raise InternalError(f"{self.writer.place}: {what}")
                    seq += 1
            data = self._codec.encode_decisions(decisions)
            if not data:
                return
            began = time.perf_counter()
            try:
                await self.writer.append(data, seq)
            finally:
                if self._disk.timed is not None:
                    self._disk.timed("append", time.perf_counter() - began)

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on in a new file that begins with a snapshot; the present one stays as it is.

        Until the new file is there, durable and whole, nothing has happened.

        Returns:
            False where the snapshot is not of the last record, or another worker has the conversation; nothing was
            done.

        Raises:
            OSError: the disk took no new file. The present one is used on; or, where the new name may or may not
                survive a power cut, the journal is dead and must be opened again.
            StoreError: it is not known whether the file was begun; the journal goes on in both cases.
            InternalError: the snapshot could not be read again; the present file is used on.
        """
        async with self._turn:
            if self.writer.dead or self.next_seq == 1 or snapshot.seq != self.next_seq - 1:
                return False
            self._long = self.file_length * 2  # if this fails it is not tried again at once
            data = await self._disk.run(self._encoded, snapshot)
            if not await self.writer.begin_file(snapshot.seq, data):
                return False
            self._expect()
            log.info("journal.rotated", place=self.writer.place, seq=snapshot.seq, bytes=len(data))
            return True

    async def close(self) -> None:
        """Close the journal after the append under way; a second call does nothing."""
        async with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            self._closed(self)
            await self.writer.close()

    def _encoded(self, snapshot: SnapshotRecord) -> bytes:
        """The line of a snapshot, which reads back as it was written; blocks."""
        data = self._codec.encode_decisions([[snapshot]])
        again, _, _ = self._codec.decode_lines(data)
        if self._codec.encode_decisions([again]) != data:
            what = f"the snapshot of seq {snapshot.seq} does not read back as it was written"
            raise InternalError(f"{self.writer.place}: {what}")
        return data

    def _expect(self) -> None:
        self._long = max(FILE_BYTES, PER_SNAPSHOT * self.writer.end.snapshot_bytes)
