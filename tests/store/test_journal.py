"""Appending: durable, whole, in order, and dead after the first no."""

import asyncio
import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tenex.core.errors import AppendFailed, InternalError
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek

from .kit import StillClock, asked, closed, decisions_of, fails


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations" / ("c" * 64) / "journal.jsonl"


async def opened(path: Path, disk: Disk) -> FileJournal:
    journal, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    return journal


async def seqs(path: Path, disk: Disk) -> list[int]:
    """The seqs of what is on disk, as a new process would read it."""
    journal, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    await journal.close()
    return [record.seq for record in records]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def size_of(path: Path) -> int:
    return path.stat().st_size


def inode_of(path: Path) -> int:
    return path.stat().st_ino


def open_below(folder: Path) -> int:
    """How many of this process's descriptors are files in a folder."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone when it is looked at
            found += link.readlink().is_relative_to(folder)
    return found


def mount(*words: str) -> bool:
    return not subprocess.run(["mount", *words], capture_output=True, check=False).returncode


async def test_nothing_is_made_before_the_first_append(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    assert (journal.next_seq, journal.length) == (1, 0)
    assert not path.parent.exists()
    await journal.append([])
    await journal.append([[]])
    assert not path.parent.exists()


async def test_what_was_appended_is_there_for_the_next_process_and_for_the_owner_alone(path: Path, disk: Disk) -> None:
    before = os.umask(0)
    try:
        journal = await opened(path, disk)
        await journal.append(decisions_of(2, 1))
    finally:
        os.umask(before)
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    assert journal.next_seq == 4
    await journal.append([[asked(4)]])
    assert journal.length == size_of(path)
    assert await seqs(path, disk) == [1, 2, 3, 4]


async def test_names_are_durable_after_the_first_append(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    assert {str(path.parent), str(path.parent.parent), str(path.parent.parent.parent)} <= set(synced)
    synced.clear()
    await journal.append([[asked(2)]])
    assert synced == []


async def test_appends_at_the_same_time_keep_their_order(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for seq in range(2, 60):
            group.create_task(journal.append([[asked(seq)]]))
    assert await seqs(path, disk) == list(range(1, 60))


async def test_a_record_out_of_order_is_a_bug_and_writes_nothing(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    for wrong in ([[asked(1)]], [[asked(3)]], [[asked(2), asked(2)]], [[asked(2)], [asked(4)]]):
        with pytest.raises(InternalError, match="is next"):
            await journal.append(wrong)
    await journal.append([[asked(2)]])
    assert await seqs(path, disk) == [1, 2]


async def test_a_writer_that_lost_its_file_to_another_fails_for_good(path: Path, disk: Disk) -> None:
    """The fence against two writers: the one that did not see the other's facts does not fork them."""
    first, second = await opened(path, disk), await opened(path, disk)
    await first.append(decisions_of(1))
    with pytest.raises(AppendFailed, match="File exists"):
        await second.append(decisions_of(1))
    third = await opened(path, disk)
    await first.append([[asked(2)]])
    for _ in range(2):
        with pytest.raises(AppendFailed, match="by another process; open it again"):
            await third.append([[asked(2)]])
    assert await seqs(path, disk) == [1, 2]


async def test_a_writer_that_met_another_at_its_file_fails_for_good_and_closes_it(path: Path, disk: Disk) -> None:
    """What the other wrote meanwhile may be just as long as what was there."""
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    with path.open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(AppendFailed, match="is being written to by another process"):
            await journal.append([[asked(2)]])
    assert not open_below(path.parent)
    with pytest.raises(AppendFailed, match="is being written to by another process"):
        await journal.append([[asked(2)]])
    assert await seqs(path, disk) == [1]


async def test_a_journal_that_was_removed_takes_nothing_more(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    shutil.rmtree(path.parent)
    with pytest.raises(AppendFailed, match="changed or removed"):
        await journal.append([[asked(2)]])
    assert await seqs(path, disk) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_write_that_fails_half_way_leaves_whole_decisions_and_a_dead_journal(path: Path, number: int) -> None:
    calls: list[int] = []

    def write(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) == 3:
            raise OSError(number, os.strerror(number))
        return os.write(descriptor, data[:40] if len(calls) == 2 else data)

    disk = Disk(write=write)
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    with pytest.raises(AppendFailed, match=os.strerror(number)):
        await journal.append(decisions_of(2, first=2))
    with pytest.raises(AppendFailed, match="opened again"):
        await journal.append(decisions_of(2, first=2))
    assert len(calls) == 3
    assert journal.next_seq == 2
    assert await seqs(path, disk) == [1]
    assert [entry.name for entry in path.parent.iterdir()] == ["journal.jsonl"]
    again = await opened(path, disk)
    await again.append(decisions_of(2, first=2))
    assert await seqs(path, disk) == [1, 2, 3]
    disk.close()


async def test_a_failed_flush_is_not_retried_and_its_file_is_never_written_to_again(path: Path) -> None:
    """After an error of fdatasync the kernel may call lost pages clean: what was durable continues in a copy."""
    syncs = 0

    def sync(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == 2:
            raise OSError(errno.EIO, "Input/output error")
        os.fdatasync(descriptor)

    disk = Disk(sync=sync)
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    first = inode_of(path)
    assert await seqs(path, disk) == [1]
    assert inode_of(path) == first
    journal = await opened(path, disk)
    with pytest.raises(AppendFailed, match="Input/output error"):
        await journal.append([[asked(2)]])
    with pytest.raises(AppendFailed):
        await journal.append([[asked(2)]])
    assert syncs == 2
    again = await opened(path, disk)
    assert inode_of(path) != first
    await again.append([[asked(2)]])
    with pytest.raises(AppendFailed):
        await journal.append([[asked(2)]])
    assert await seqs(path, disk) == [1, 2]
    disk.close()


async def test_a_torn_tail_that_stayed_is_set_aside_when_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(descriptor: int, data: memoryview) -> int:
        os.write(descriptor, data[:-5])
        raise OSError(errno.EIO, "Input/output error")

    disk = Disk()
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write", write)
        patch.setattr(os, "ftruncate", fails(errno.EIO))
        with pytest.raises(AppendFailed):
            await journal.append(decisions_of(2, first=2))
    assert await seqs(path, disk) == [1]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["journal.jsonl", "journal.torn-20231114T221320Z-1"]
    disk.close()


async def test_a_cancelled_append_has_happened_or_not_when_it_returns(path: Path) -> None:
    loop = asyncio.get_running_loop()
    writing = asyncio.Event()

    def write(descriptor: int, data: memoryview) -> int:
        loop.call_soon_threadsafe(writing.set)
        return os.write(descriptor, data[:50])

    disk = Disk(write=write)
    journal = await opened(path, disk)
    task = asyncio.create_task(journal.append(decisions_of(3)))
    async with asyncio.timeout(60):
        await writing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert journal.next_seq == 4
    await journal.append([[asked(4)]])
    assert await seqs(path, disk) == [1, 2, 3, 4]
    disk.close()


async def test_a_closed_journal_takes_nothing(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    await journal.close()
    await journal.close()
    with pytest.raises(AppendFailed, match="closed"):
        await journal.append([[asked(2)]])
    assert len(disk.files) == 0


async def test_many_journals_share_few_descriptors(tmp_path: Path) -> None:
    disk = Disk(open_files=3)
    journals = [await opened(tmp_path / f"{number:064x}" / "journal.jsonl", disk) for number in range(12)]

    async def write(journal: FileJournal) -> None:
        await journal.append(decisions_of(1))
        for seq in range(2, 6):
            await journal.append([[asked(seq)]])
            await asyncio.sleep(0)  # let the others push this one out

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for journal in journals:
            group.create_task(write(journal))
    assert open_below(tmp_path) == len(disk.files) == 3
    for journal in journals:
        assert await seqs(journal.path, disk) == [1, 2, 3, 4, 5]
    disk.close()


FILLER = """
import asyncio, resource, signal, sys
from pathlib import Path
from tenex.core.errors import AppendFailed
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tests.store.kit import StillClock, closed, started

async def main():
    path, limit = Path(sys.argv[1]), int(sys.argv[2])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    journal, _ = await FileJournal.open(path, CONVERSATION, Disk(), StillClock())
    await journal.append([[started()]])
    while True:
        try:
            await journal.append([[closed(journal.next_seq), closed(journal.next_seq + 1, "x" * 5000)]])
        except AppendFailed as fault:
            print(journal.next_seq - 1, fault.__cause__.errno, flush=True)
            return
asyncio.run(main())
"""


def fill(path: Path, limit: int = 0) -> tuple[int, int]:
    """Append until the disk refuses: the last seq that was acknowledged, and the errno."""
    command = [sys.executable, "-c", FILLER, str(path), str(limit)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    last, number = map(int, ran.stdout.split())
    return last, number


async def test_a_file_that_may_not_grow_keeps_every_acknowledged_record(path: Path, disk: Disk) -> None:
    """RLIMIT_FSIZE gives a short write, then EFBIG: what a full disk does, on any machine."""
    last, number = fill(path, limit=64 * 1024 + 123)
    assert number == errno.EFBIG
    assert last > 10
    assert await seqs(path, disk) == list(range(1, last + 1))


async def test_a_full_disk_keeps_every_acknowledged_record_and_goes_on_with_room(tmp_path: Path, disk: Disk) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=256k", "none", str(small)):
        pytest.skip("this machine lets us mount nothing; the test with RLIMIT_FSIZE covers the same code")
    try:
        path = small / "c" / "journal.jsonl"
        last, number = fill(path)
        assert number == errno.ENOSPC
        assert [record.seq for record in peek(path, CONVERSATION)] == list(range(1, last + 1))
        with pytest.raises(AppendFailed, match="No space left"):  # for the copy: another process wrote these bytes
            await FileJournal.open(path, CONVERSATION, disk, StillClock())
        assert mount("-o", "remount,size=1m", str(small))
        journal, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
        assert [record.seq for record in records] == list(range(1, last + 1))
        with pytest.raises(AppendFailed, match="No space left"):
            await journal.append([[closed(last + 1, "x" * 1_000_000)]])
        assert await seqs(path, disk) == list(range(1, last + 1))
        assert mount("-o", "remount,size=4m", str(small))
        journal, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
        await journal.append([[closed(last + 1, "x" * 1_000_000)]])
        assert (await seqs(path, disk))[-1] == last + 1
    finally:
        disk.files.close()
        subprocess.run(["umount", str(small)], check=True)  # noqa: ASYNC221 - nothing else is at work here


async def test_the_time_of_an_append_is_reported_also_where_it_fails(path: Path) -> None:
    """Two pieces of work for each append: all of it, and the flush within."""
    measured: list[tuple[str, float]] = []
    disk = Disk(timed=lambda work, seconds: measured.append((work, seconds)))
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    (flush, within), (append, whole) = measured
    assert (flush, append) == ("flush", "append")
    assert 0 < within <= whole < 10
    os.truncate(path, 0)
    with pytest.raises(AppendFailed):
        await journal.append(decisions_of(1, first=2))
    assert [work for work, _ in measured] == ["flush", "append", "append"]
    disk.close()
