"""A disk that refuses blocks: after a failed flush the system shows bytes that the disk does not have (ADR 14).

Linux reports such a failure once; the next flush succeeds, in this process and in others, and every reader is shown the
lost bytes until they leave its memory. The disk here is pretended: it keeps what has been flushed page by page.
"""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from tenex.core.errors import AppendFailed
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek

from .kit import StillClock, closed, encoded, opened, started

BLOCK = 4096


class Device:
    """What Linux does with pages: a flush writes those that are dirty, and forgets that those it lost ever were."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stored: dict[int, dict[int, bytes]] = {}
        self._dirty: dict[int, set[int]] = {}
        self.refuses = False
        self._write = os.write
        self.path = folder / ("c" * 64) / "journal.jsonl"

    def disk(self) -> Disk:
        return Disk(write=self.write, sync=self.sync)

    def write(self, descriptor: int, data: memoryview | bytes) -> int:
        """Write, and note which pages that made dirty."""
        file = os.fstat(descriptor)
        is_appending = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        begin = file.st_size if is_appending else os.lseek(descriptor, 0, os.SEEK_CUR)
        if not file.st_size:  # a new file, perhaps with the number of one that is gone
            self._stored.pop(file.st_ino, None)
        count = self._write(descriptor, data)
        self._dirty.setdefault(file.st_ino, set()).update(range(begin // BLOCK, (begin + count - 1) // BLOCK + 1))
        return count

    def sync(self, descriptor: int) -> None:
        """Bring the dirty pages to the device; those without a block there are lost, and clean from now on."""
        inode, is_lost = os.fstat(descriptor).st_ino, False
        dirty, stored = self._dirty.pop(inode, None), self._stored.setdefault(inode, {})
        if dirty is None:  # a folder, or a file without writes
            return
        with Path(f"/proc/self/fd/{descriptor}").open("rb") as file:  # the descriptor may be for writing only
            for page in dirty:
                if self.refuses and page not in stored:
                    is_lost = True
                    continue
                file.seek(page * BLOCK)
                stored[page] = file.read(BLOCK)
        if is_lost:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def forget(self) -> None:
        """Have the system read everything from the device again."""
        for path in self._folder.rglob("*"):
            stored = self._stored.get(path.stat().st_ino)
            if path.is_file() and stored is not None:
                pages = range(-(-path.stat().st_size // BLOCK))
                path.write_bytes(b"".join(stored.get(page, bytes(BLOCK)) for page in pages))


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device(tmp_path)
    monkeypatch.setattr(os, "write", device.write)
    monkeypatch.setattr(os, "fsync", device.sync)
    return device


async def begun(device: Device, disk: Disk) -> FileJournal:
    """A journal of two records that ends where a block does, on a device that has no other."""
    journal = await opened(device.path, disk)
    bare = len(CONVERSATION.encode_decisions([[started(), closed(2, "")]]))
    await journal.append([[started(), closed(2, "x" * (BLOCK - bare))]])
    assert journal.length == BLOCK
    device.refuses = True
    return journal


async def test_what_was_read_and_acted_on_is_on_the_device(device: Device) -> None:
    """A process died when the flush of the third record had failed, before it had taken the bytes back."""
    disk = device.disk()
    journal = await begun(device, disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda *_: None)
        with pytest.raises(AppendFailed, match="Input/output error"):
            await journal.append([[closed(3, "x" * BLOCK)]])
    disk.close()
    device.refuses = False
    assert device.path.read_bytes().endswith(encoded(closed(3, "x" * BLOCK)))

    disk = device.disk()
    journal, records = await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    await journal.append([[closed(len(records) + 1, "y" * 20_000)]])
    disk.close()
    device.forget()
    after = peek(device.path, CONVERSATION)
    assert after[: len(records)] == records
    assert len(after) == len(records) + 1


async def test_a_process_that_saw_its_flush_fail_continues_when_the_device_does(device: Device) -> None:
    disk = device.disk()
    journal = await begun(device, disk)
    for _ in range(2):
        with pytest.raises(AppendFailed):
            await journal.append([[closed(3, "x" * BLOCK)]])
        with pytest.raises(AppendFailed, match=r"cannot be (read now|written to)"):
            await opened(device.path, disk)
    device.refuses = False
    journal, records = await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    assert [record.seq for record in records] == [1, 2]
    await journal.append([[closed(3, "x" * BLOCK)]])
    disk.close()
    device.forget()
    assert [record.seq for record in peek(device.path, CONVERSATION)] == [1, 2, 3]
