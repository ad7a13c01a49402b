"""A disk that refuses blocks: after a failed flush the system shows bytes that the disk does not have.

Twice: on a pretended disk, which keeps what has been flushed page by page; and on a real file system. There the device
is a loop over a sparse image on a tmpfs that is full, so only blocks that were used before can be written. Linux then
reports the failure once; the next flush succeeds, in this process and in others, and every reader is shown the lost
bytes until they leave its memory. Here they leave it by unmounting. Where nothing may be mounted the pretended disk
takes the place of the real one.
"""

import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tenex.core.errors import AppendFailed
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek

from .kit import StillClock, closed, started

BLOCK = 4096


class Device(Protocol):
    """A disk that can be made to refuse new blocks."""

    path: Path

    def disk(self) -> Disk:
        """The threads and calls that write to it."""
        ...

    def refuse(self) -> None:
        """Take no block that is not in use now."""
        ...

    def accept(self) -> None:
        """Take blocks again."""
        ...

    def forget(self) -> None:
        """Have the system read everything from the device again."""
        ...


def done(*words: str) -> str | None:
    """What a command printed; None if it failed or is not there."""
    if shutil.which(words[0]) is None:
        return None
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if ran.returncode else ran.stdout.strip()


class Pretended:
    """What Linux does with pages: a flush writes those that are dirty, and forgets that those it lost ever were."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stored: dict[int, dict[int, bytes]] = {}
        self._dirty: dict[int, set[int]] = {}
        self._refuses = False
        self._write = os.write
        self.path = folder / ("c" * 64) / "journal.jsonl"

    def disk(self) -> Disk:
        return Disk(write=self.write, sync=self.sync)

    def refuse(self) -> None:
        self._refuses = True

    def accept(self) -> None:
        self._refuses = False

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
                if self._refuses and page not in stored:
                    is_lost = True
                    continue
                file.seek(page * BLOCK)
                stored[page] = file.read(BLOCK)
        if is_lost:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def forget(self) -> None:
        for path in self._folder.rglob("*"):
            stored = self._stored.get(path.stat().st_ino)
            if path.is_file() and stored is not None:
                pages = range(-(-path.stat().st_size // BLOCK))
                path.write_bytes(b"".join(stored.get(page, bytes(BLOCK)) for page in pages))


class Mounted:
    """A disk of 24 MB on a loop."""

    def __init__(self, backing: Path, mounted: Path, loop: str) -> None:
        self._backing, self._mounted, self._loop = backing, mounted, loop
        self.path = mounted / ("c" * 64) / "journal.jsonl"

    def disk(self) -> Disk:
        return Disk()

    def refuse(self) -> None:
        os.sync()
        assert done("fstrim", str(self._mounted)) is not None
        with (self._backing / "filler").open("wb", buffering=0) as filler:
            for size in (65_536, 4_096):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError:
                    continue

    def accept(self) -> None:
        (self._backing / "filler").unlink()

    def forget(self) -> None:
        assert done("umount", str(self._mounted)) is not None
        assert done("mount", self._loop, str(self._mounted)) is not None


@pytest.fixture(params=["pretended", "real where it can be"])
def device(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    with ExitStack() as stack:
        mounted = _mounted(tmp_path, stack) if request.param != "pretended" else None
        if mounted is not None:
            yield mounted
            return
        folder = tmp_path / "pretended"
        folder.mkdir()
        pretended = Pretended(folder)
        monkeypatch.setattr(os, "write", pretended.write)
        monkeypatch.setattr(os, "fsync", lambda descriptor: pretended.sync(descriptor))
        yield pretended


def _mounted(tmp_path: Path, stack: ExitStack) -> Mounted | None:
    """The real one; None where this machine lets us mount nothing, or has no ext4 or no loop device."""
    backing, mounted = tmp_path / "backing", tmp_path / "mounted"
    backing.mkdir()
    mounted.mkdir()
    if done("mount", "-t", "tmpfs", "-o", "size=40m", "none", str(backing)) is None:
        return None
    stack.callback(done, "umount", "--lazy", str(backing))
    image = backing / "image"
    image.write_bytes(bytes(24 * 2**20))
    # without a journal of its own: with one the file system turns read-only at the first fault, and nothing is lied
    made = done("mkfs.ext4", "-q", "-b", str(BLOCK), "-O", "^has_journal", "-E", "lazy_itable_init=0", str(image))
    loop = done("losetup", "-f", "--show", str(image))
    if made is None or not loop:
        return None
    stack.callback(done, "losetup", "-d", loop)
    if done("mount", loop, str(mounted)) is None:
        return None
    stack.callback(done, "umount", str(mounted))
    return Mounted(backing, mounted, loop)


async def begun(device: Device, disk: Disk) -> FileJournal:
    """A journal of two records that ends where a block does, on a device that has no other.

    A write that begins in a block it has and ends in one it has not would be called a success by the loop device.
    """
    journal, _ = await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    bare = len(CONVERSATION.encode_decisions([[started(), closed(2, "")]]))
    await journal.append([[started(), closed(2, "x" * (BLOCK - bare))]])
    assert journal.length == BLOCK
    device.refuse()
    return journal


async def written(device: Device) -> None:
    """And a process that died when the flush of the third had failed."""
    disk = device.disk()
    journal = await begun(device, disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda *_: None)  # it did not come to taking the bytes back
        with pytest.raises(AppendFailed, match=r"No space left|Input/output error"):
            await journal.append([[closed(3, "x" * BLOCK)]])
    disk.close()
    device.accept()


async def test_the_system_shows_bytes_that_the_device_does_not_have(device: Device) -> None:
    """Why the test below is not idle: reading, and flushing what was read, prove nothing."""
    await written(device)
    with device.path.open("rb+") as file:
        os.fsync(file.fileno())
    shown = device.path.read_bytes()
    assert [record.seq for record in peek(device.path, CONVERSATION)] == [1, 2, 3]
    device.forget()
    there = device.path.read_bytes()
    assert there != shown
    assert CONVERSATION.decode_lines(there)[0] == CONVERSATION.decode_lines(shown)[0][:2]


async def test_what_was_read_and_acted_on_is_on_the_device(device: Device) -> None:
    await written(device)
    disk = device.disk()
    journal, records = await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    await journal.append([[closed(len(records) + 1, "y" * 20_000)]])
    disk.close()
    device.forget()
    after = peek(device.path, CONVERSATION)
    assert after[: len(records)] == records
    assert len(after) == len(records) + 1


async def test_a_process_that_saw_its_flush_fail_goes_on_when_the_device_does(device: Device) -> None:
    disk = device.disk()
    journal = await begun(device, disk)
    for _ in range(2):
        with pytest.raises(AppendFailed):
            await journal.append([[closed(3, "x" * BLOCK)]])
        with pytest.raises(AppendFailed, match=r"cannot be (read now|written to)"):
            await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    device.accept()
    journal, records = await FileJournal.open(device.path, CONVERSATION, disk, StillClock())
    assert [record.seq for record in records] == [1, 2]
    await journal.append([[closed(3, "x" * BLOCK)]])
    disk.close()
    device.forget()
    assert [record.seq for record in peek(device.path, CONVERSATION)] == [1, 2, 3]
