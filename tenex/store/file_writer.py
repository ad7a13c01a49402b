"""Appending to a journal in files: durable when `append` returns, unusable once the disk has refused."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, Self

from tenex.core.errors import AppendConflict, AppendFailed
from tenex.core.ports import Clock
from tenex.core.records import Record

from . import atomic, segments
from .disk import Disk
from .format import Codec
from .journal import End
from .journal_reader import Loaded, alone, load

_OWNERS: Final = count(1)


class FileWriter:
    """Appends to one journal, in one file after another (`store.journal.Writer`)."""

    def __init__(self, path: Path, disk: Disk, loaded: Loaded) -> None:
        """Continue a journal that has been loaded; use `open`."""
        self.path = path.with_name(segments.name_of(loaded.number))
        """Of the file that is written to."""
        self.dead = ""
        self.end = End(
            next_seq=loaded.records[-1].seq + 1 if loaded.records else 1,
            bytes=loaded.earlier + loaded.length,
            file_bytes=loaded.length,
            snapshot_bytes=loaded.snapshot,
        )
        self._disk = disk
        self._number = loaded.number
        self._is_new = not loaded.exists
        self._owner = next(_OWNERS)
        self._descriptor: int | None = None

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
        return cls(path, disk, loaded), loaded.records

    @property
    def place(self) -> str:
        """The path of the file that is written to."""
        return str(self.path)

    @property
    def may_start(self) -> bool:
        """Always: the lock of the folder is held for as long as this process lives."""
        return True

    async def append(self, data: bytes, next_seq: int) -> None:
        """See `Writer`."""
        self._descriptor = self._disk.files.take(self._owner)
        try:
            await self._disk.change(self._write, data, next_seq)
        finally:
            self._hand_back()

    async def begin_file(self, seq: int, data: bytes) -> bool:  # noqa: ARG002 - the line says it
        """See `Writer`."""
        self._disk.files.drop(self._owner)
        await self._disk.change(self._begin_file, data)
        return True

    async def close(self) -> None:
        """Close the file."""
        self.dead = self.dead or f"{self.path} was closed; open it again."
        self._disk.files.drop(self._owner)

    def _hand_back(self) -> None:
        if self._descriptor is not None:
            self._disk.files.put(self._owner, self._descriptor)
        if self.dead or self._descriptor is None:
            self._disk.files.drop(self._owner)
        self._descriptor = None

    def _write(self, data: bytes, next_seq: int) -> None:
        """Write and flush, in one of the disk's threads; the only place where the journal moves on."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            with self._alone(self._descriptor):
                found = os.fstat(self._descriptor)
                if found.st_size != self.end.file_bytes or not found.st_nlink or self._has_successor():
                    self.dead = f"{self.path} was changed or removed by another process; open it again."
                    raise AppendConflict(self.dead)
                try:
                    self._flush(self._descriptor, data)
                except OSError:
                    self._disk.flushed.doubt(self.path)
                    with suppress(OSError):  # these bytes were never acknowledged: the next to open need not see them
                        os.ftruncate(self._descriptor, self.end.file_bytes)
                    raise
        except OSError as fault:
            self.dead = (
                f"{self.path} did not take {len(data)} bytes: {fault.strerror}. Free some space or repair the disk; "
                "the conversation continues when it is opened again."
            )
            is_theirs = isinstance(fault, FileExistsError)  # another process has made the file
            raise (AppendConflict if is_theirs else AppendFailed)(self.dead) from fault
        end = self.end
        self.end = End(next_seq, end.bytes + len(data), end.file_bytes + len(data), end.snapshot_bytes)
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
        if self._disk.timed is not None:
            self._disk.timed("flush", time.perf_counter() - began)
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
            self.dead = self.dead or str(fault)
            raise

    def _begin_file(self, data: bytes) -> None:
        """Write the next file and continue in it, in one of the disk's threads."""
        target = self.path.with_name(segments.name_of(self._number + 1))
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            with self._alone(descriptor):
                if self.path.stat().st_size != self.end.file_bytes or self._has_successor():
                    self.dead = f"{self.path} was changed by another process; open it again."
                    raise AppendConflict(self.dead)
                try:
                    atomic.replace(target, data)
                except OSError as error:
                    if self._has_successor():
                        self.dead = f"{target} was begun, but {error.strerror}; open the journal again."
                    raise
        finally:
            os.close(descriptor)
        self.path = target
        self._number += 1
        self.end = End(
            next_seq=self.end.next_seq,
            bytes=self.end.bytes + len(data),
            file_bytes=len(data),
            snapshot_bytes=len(data),
        )
        self._disk.flushed.note(target, target.stat())

    def _has_successor(self) -> bool:
        """Whether another process has continued in the next file: then this one is closed, whatever its length."""
        return os.path.lexists(self.path.with_name(segments.name_of(self._number + 1)))
