"""One journal as a thing to append to: durable when `append` returns, dead once the disk has said no.

Never: try a failed write again; what a disk says after its first error proves nothing. Opening again reads the truth.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, Self

from tenex.core.errors import AppendFailed, Bug
from tenex.core.ports import Clock
from tenex.core.records import Record

from . import atomic
from .disk import Disk
from .format import Codec
from .loading import load

_OWNERS: Final = count(1)


class FileJournal:
    """The facts of one conversation, or of the daemon, in order, in one file (`core.ports.Journal`)."""

    __slots__ = (
        "__weakref__",
        "_codec",
        "_dead",
        "_descriptor",
        "_disk",
        "_is_new",
        "_length",
        "_next_seq",
        "_owner",
        "_turn",
        "path",
    )

    def __init__(self, path: Path, codec: Codec, disk: Disk, *, next_seq: int, length: int, is_new: bool) -> None:
        """Stand at the end of a journal that has been loaded; use `open`."""
        self.path = path
        self._codec = codec
        self._disk = disk
        self._next_seq = next_seq
        self._length = length
        self._is_new = is_new
        self._owner = next(_OWNERS)
        self._descriptor: int | None = None
        self._dead = ""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: Path, codec: Codec, disk: Disk, clock: Clock, remedy: str = ""
    ) -> tuple[Self, list[Record]]:
        """Read a journal and stand at its end. A missing one is made, with its folder, by the first append.

        Args:
            path: `<folder>/journal.jsonl`.
            codec: its kinds of record.
            disk: the threads and system calls to use.
            clock: says when, for the name of a torn tail that is set aside.
            remedy: a sentence that says what to do about damage.

        Raises:
            StoreDamaged: it holds what we did not write; nothing was changed, and the folder bears the mark.
            AppendFailed: the disk does not let us read or mend it now.
        """
        stamp = datetime.fromtimestamp(clock.now() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        loaded = await disk.run(load, path, codec, stamp, remedy)
        next_seq = len(loaded.records) + 1
        journal = cls(path, codec, disk, next_seq=next_seq, length=loaded.length, is_new=not loaded.exists)
        return journal, loaded.records

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""
        return self._next_seq

    @property
    def length(self) -> int:
        """Bytes of the records that are durable."""
        return self._length

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, each decision whole or not at all, in order; callers at the same time take turns.

        A cancelled call has either appended everything or failed by the time it raises.

        Raises:
            AppendFailed: the disk did not take them, or somebody else has changed the file. Every later append
                fails too; open the journal again.
            Bug: a record has another seq than the next, or cannot be stored; nothing was written.
        """
        async with self._turn:
            if self._dead:
                raise AppendFailed(self._dead)
            seq = self._next_seq
            for decision in decisions:
                for record in decision:
                    if record.seq != seq:
                        raise Bug(f"{self.path}: {type(record).__name__} has seq {record.seq}, but {seq} is next")
                    seq += 1
            data = self._codec.encode_decisions(decisions)
            if not data:
                return
            self._descriptor = self._disk.files.take(self._owner)
            began = time.perf_counter()
            try:
                await self._disk.run(self._write, data, seq)
            finally:
                self._hand_back()
                self._took("append", began)

    async def close(self) -> None:
        """Let go of the file, after the append under way; a second call does nothing."""
        async with self._turn:
            self._dead = self._dead or f"{self.path} was closed; open it again."
            self._disk.files.drop(self._owner)

    def _hand_back(self) -> None:
        if self._descriptor is not None:
            self._disk.files.put(self._owner, self._descriptor)
        if self._dead or self._descriptor is None:
            self._disk.files.drop(self._owner)
        self._descriptor = None

    def _took(self, work: str, began: float) -> None:
        if self._disk.timed is not None:
            self._disk.timed(work, time.perf_counter() - began)

    def _write(self, data: bytes, next_seq: int) -> None:
        """Write and flush, in one of the disk's threads; the only place where the journal moves on."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            found = os.fstat(self._descriptor)
            if found.st_size != self._length or not found.st_nlink:
                self._dead = f"{self.path} was changed or removed by somebody else; open it again."
                raise AppendFailed(self._dead)
            try:
                self._flush(self._descriptor, data)
            except OSError:
                with suppress(OSError):  # nobody was told of these bytes: the next to open need not meet them
                    os.ftruncate(self._descriptor, self._length)
                raise
        except OSError as fault:
            self._dead = (
                f"{self.path} did not take {len(data)} bytes: {fault.strerror}. Make room or mend the disk; "
                "the conversation goes on when it is opened again."
            )
            raise AppendFailed(self._dead) from fault
        self._length += len(data)
        self._next_seq = next_seq
        self._is_new = False

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        if not self._is_new:
            return os.open(self.path, flags)
        atomic.make_folder(self.path.parent)
        # exclusive: a file that has come since we looked holds somebody else's facts
        return os.open(self.path, flags | os.O_CREAT | os.O_EXCL, atomic.FILE_MODE)

    def _flush(self, descriptor: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._disk.write(descriptor, rest) :]
        began = time.perf_counter()
        self._disk.sync(descriptor)
        self._took("flush", began)
        if self._is_new:  # a flushed file whose name is lost is lost
            atomic.sync_folder(self.path.parent)
            atomic.sync_folder(self.path.parent.parent)
