"""Appending to one journal: durable when `append` returns, unusable once the disk has refused."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, Self

from tenex.core.errors import AppendConflict, AppendFailed, InternalError
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.log import get_logger

from . import atomic, segments
from .disk import Disk
from .format import Codec
from .journal_reader import Loaded, alone, load

FILE_BYTES: Final = 2**20
"""From this length on a journal goes on in another file: so much is read in about 100 ms, and a start has a second for
all its unfinished conversations."""

PER_SNAPSHOT: Final = 8
"""A file is at least so many times as long as the snapshot it began with: no more than an eighth of a journal is
snapshots."""

_OWNERS: Final = count(1)

log = get_logger(__name__)


class FileJournal:
    """The records of one conversation, or of the daemon, in order, in one file after another (`core.ports.Journal`)."""

    def __init__(self, path: Path, codec: Codec, disk: Disk, loaded: Loaded) -> None:
        """Continue a journal that has been loaded; use `open`."""
        self.path = path.with_name(segments.name_of(loaded.number))
        self._codec = codec
        self._disk = disk
        self._number = loaded.number
        self._earlier = loaded.earlier
        self._length = loaded.length
        self._next_seq = loaded.records[-1].seq + 1 if loaded.records else 1
        self._is_new = not loaded.exists
        self._expect(loaded.snapshot)
        self._owner = next(_OWNERS)
        self._descriptor: int | None = None
        self._dead = ""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: Path, codec: Codec, disk: Disk, clock: Clock, remedy: str = ""
    ) -> tuple[Self, list[Record]]:
        """Read a journal and continue at its end. A missing one is made, with its folder, by the first append.

        The records are those of the newest file: enough to fold, for they begin with a snapshot where there are more.

        `path` is that of the first file, `remedy` a sentence on what to do about damage.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed, and the folder bears the mark.
            AppendFailed: the disk does not let us read or repair it now.
        """
        loaded = await disk.change(load, path, codec, atomic.stamp(clock.now()), remedy, disk.flushed)
        return cls(path, codec, disk, loaded), loaded.records

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""
        return self._next_seq

    @property
    def may_start(self) -> bool:
        """Always: the lock of the folder is held for as long as this process lives."""
        return True

    @property
    def length(self) -> int:
        """Bytes that are durable, in all files together."""
        return self._earlier + self._length

    @property
    def file_length(self) -> int:
        """Durable bytes of the file that is written to."""
        return self._length

    @property
    def is_long(self) -> bool:
        """Whether it is time for another file."""
        return self._length >= self._long

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, each decision whole or not at all, in order; callers at the same time take turns.

        A cancelled call has either appended everything or failed by the time it raises.

        Raises:
            AppendConflict: another process has changed the file; nothing was written.
            AppendFailed: the disk did not take them. After either error every later append fails too; open the journal
                again.
            InternalError: a record has another seq than the next, or cannot be stored; nothing was written.
        """
        async with self._turn:
            if self._dead:
                raise AppendFailed(self._dead)
            seq = self._next_seq
            for decision in decisions:
                for record in decision:
                    if record.seq != seq:
                        raise InternalError(
                            f"{self.path}: {type(record).__name__} has seq {record.seq}, but {seq} is next"
                        )
                    seq += 1
            data = self._codec.encode_decisions(decisions)
            if not data:
                return
            self._descriptor = self._disk.files.take(self._owner)
            began = time.perf_counter()
            try:
                await self._disk.change(self._write, data, seq)
            finally:
                self._hand_back()
                self._report_time("append", began)

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on in a new file that begins with a snapshot; the present one stays as it is.

        Until the new file has its name, durable and whole, nothing has happened.

        Returns:
            False where the snapshot is not of the last record; nothing was done.

        Raises:
            OSError: the disk took no new file. The present one is used on; or, where the new name may or may not
                survive a power cut, the journal is dead and must be opened again.
            InternalError: the snapshot could not be read again; the present file is used on.
        """
        async with self._turn:
            if self._dead or self._is_new or snapshot.seq != self._next_seq - 1:
                return False
            self._long = self._length * 2  # if this fails it is not tried again at once
            self._disk.files.drop(self._owner)
            await self._disk.change(self._begin_file, snapshot)
            return True

    async def close(self) -> None:
        """Close the file, after the append under way; a second call does nothing."""
        async with self._turn:
            self._dead = self._dead or f"{self.path} was closed; open it again."
            self._disk.files.drop(self._owner)

    def _hand_back(self) -> None:
        if self._descriptor is not None:
            self._disk.files.put(self._owner, self._descriptor)
        if self._dead or self._descriptor is None:
            self._disk.files.drop(self._owner)
        self._descriptor = None

    def _report_time(self, work: str, began: float) -> None:
        if self._disk.timed is not None:
            self._disk.timed(work, time.perf_counter() - began)

    def _write(self, data: bytes, next_seq: int) -> None:
        """Write and flush, in one of the disk's threads; the only place where the journal moves on."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            with self._alone(self._descriptor):
                found = os.fstat(self._descriptor)
                if found.st_size != self._length or not found.st_nlink or self._has_successor():
                    self._dead = f"{self.path} was changed or removed by another process; open it again."
                    raise AppendConflict(self._dead)
                try:
                    self._flush(self._descriptor, data)
                except OSError:
                    self._disk.flushed.doubt(self.path)
                    with suppress(OSError):  # these bytes were never acknowledged: the next to open need not see them
                        os.ftruncate(self._descriptor, self._length)
                    raise
        except OSError as fault:
            self._dead = (
                f"{self.path} did not take {len(data)} bytes: {fault.strerror}. Free some space or repair the disk; "
                "the conversation continues when it is opened again."
            )
            is_theirs = isinstance(fault, FileExistsError)  # another process has made the file
            raise (AppendConflict if is_theirs else AppendFailed)(self._dead) from fault
        self._length += len(data)
        self._next_seq = next_seq
        self._is_new = False
        self._disk.flushed.note(self.path, os.fstat(self._descriptor))

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        if not self._is_new:
            return os.open(self.path, flags)
        atomic.make_folder(self.path.parent)
        # exclusive: a file that has appeared since holds another process's records
        return os.open(self.path, flags | os.O_CREAT | os.O_EXCL, atomic.FILE_MODE)

    def _flush(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._disk.write(descriptor, rest) :]
        began = time.perf_counter()
        self._disk.sync(descriptor)
        self._report_time("flush", began)
        if self._is_new:  # a flushed file whose name is lost is lost
            atomic.sync_folder(self.path.parent)
            atomic.sync_folder(self.path.parent.parent)

    @contextmanager
    def _alone(self, descriptor: int) -> Iterator[None]:
        """Close the journal where another process is writing: what is known of the file is about to be wrong."""
        try:
            with alone(descriptor, self.path):
                yield
        except AppendFailed as fault:
            self._dead = self._dead or str(fault)
            raise

    def _begin_file(self, snapshot: SnapshotRecord) -> None:
        """Write the next file and continue in it, in one of the disk's threads."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            with self._alone(descriptor):
                if self.path.stat().st_size != self._length or self._has_successor():
                    self._dead = f"{self.path} was changed by another process; open it again."
                    raise AppendConflict(self._dead)
                data = self._codec.encode_decisions([[snapshot]])
                again, _, _ = self._codec.decode_lines(data)
                if self._codec.encode_decisions([again]) != data:
                    raise InternalError(
                        f"{self.path}: the snapshot of seq {snapshot.seq} does not read back as it was written"
                    )
                target = self.path.with_name(segments.name_of(self._number + 1))
                try:
                    atomic.replace(target, data)
                except OSError as error:
                    if self._has_successor():
                        self._dead = f"{target} was begun, but {error.strerror}; open the journal again."
                    raise
        finally:
            os.close(descriptor)
        self._earlier += self._length
        self.path, self._number, self._length = target, self._number + 1, len(data)
        self._expect(len(data))
        self._disk.flushed.note(target, target.stat())
        log.info("journal.rotated", path=str(target), seq=snapshot.seq, bytes=len(data))

    def _expect(self, snapshot: int) -> None:
        self._long = max(FILE_BYTES, PER_SNAPSHOT * snapshot)

    def _has_successor(self) -> bool:
        """Whether another process has continued in the next file: then this one is closed, whatever its length."""
        return os.path.lexists(self.path.with_name(segments.name_of(self._number + 1)))
