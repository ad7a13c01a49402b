"""Appending: durable, whole, in order, and dead after the first failure."""

import asyncio
import errno
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import AppendFailed, InternalError
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.store import atomic, segments
from tenex.store.disk import Disk

from .kit import (
    CONVERSATION_ID,
    asked,
    cancel_writing,
    decisions_of,
    fails,
    kind_of_conversation,
    names,
    opened,
    opened_with,
    seqs,
)


def open_below(folder: Path) -> int:
    """How many of this process's descriptors are files in a folder."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone when it is looked at
            found += link.readlink().is_relative_to(folder)
    return found


async def test_an_append_is_durable_with_its_names_and_for_the_owner_alone(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    before = os.umask(0)
    try:
        journal = await opened(path, disk)
        await journal.append([[]])
        assert (journal.next_seq, journal.length, path.parent.exists()) == (1, 0, False)
        await journal.append(decisions_of(2, 1))
    finally:
        os.umask(before)
    assert (kind_of_conversation(path), kind_of_conversation(path.parent)) == (0o600, 0o700)
    assert {str(path.parent), str(path.parent.parent), str(path.parent.parent.parent)} <= set(synced)
    synced.clear()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for seq in range(4, 60):  # callers at the same time take turns
            group.create_task(journal.append([[asked(seq)]]))
    assert synced == []
    assert (journal.next_seq, journal.length) == (60, path.stat().st_size)
    assert seqs(path) == list(range(1, 60))


async def test_a_first_append_makes_the_name_of_a_folder_durable_that_another_process_made(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That process may have died before it could."""
    path.parent.mkdir(parents=True)
    journal = await opened(path, disk)
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink()))
    await journal.append(decisions_of(1))
    assert synced == [path.parent, path.parent.parent]


async def test_a_record_out_of_order_is_a_bug_and_writes_nothing(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    for wrong in ([[asked(1)]], [[asked(3)]], [[asked(2), asked(2)]], [[asked(2)], [asked(4)]]):
        with pytest.raises(InternalError, match="is next"):
            await journal.append(wrong)
    await journal.append([[asked(2)]])
    assert seqs(path) == [1, 2]


async def test_a_writer_that_lost_its_file_to_another_fails_for_good(path: Path, disk: Disk) -> None:
    """The one that did not see the other's facts does not fork them."""
    first, second = await opened(path, disk), await opened(path, disk)
    await first.append(decisions_of(1))
    with pytest.raises(AppendFailed, match="File exists"):
        await second.append(decisions_of(1))
    third = await opened(path, disk)
    await first.append([[asked(2)]])
    for _ in range(2):
        with pytest.raises(AppendFailed, match="by another process; open it again"):
            await third.append([[asked(2)]])
    with path.open("rb") as theirs:
        for operation in (fcntl.LOCK_EX, fcntl.LOCK_UN):
            fcntl.flock(theirs, operation)
            with pytest.raises(AppendFailed, match="is being written to by another process"):
                await first.append([[asked(3)]])
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(AppendFailed, match="is being written to by another process; open it again"):
            await opened(path, disk)  # which does not wait
    assert not open_below(path.parent)
    assert seqs(path) == [1, 2]
    fourth = await opened(path, disk)
    await fourth.append([[asked(3)]])
    shutil.rmtree(path.parent)
    with pytest.raises(AppendFailed, match="changed or removed"):
        await fourth.append([[asked(4)]])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_write_that_fails_half_way_leaves_whole_decisions_and_a_dead_journal(
    path: Path, disk: Disk, number: int
) -> None:
    calls: list[int] = []

    def write(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) == 3:
            raise OSError(number, os.strerror(number))
        return os.write(descriptor, data[:40] if len(calls) == 2 else data)

    disk.write = write
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    with pytest.raises(AppendFailed, match=os.strerror(number)):
        await journal.append(decisions_of(2, first=2))
    with pytest.raises(AppendFailed, match="opened again"):
        await journal.append(decisions_of(2, first=2))
    assert (len(calls), journal.next_seq) == (3, 2)
    again = await opened(path, disk)
    assert names(path.parent) == ["journal.jsonl"], "the part that was written is gone"
    await again.append(decisions_of(2, first=2))
    assert seqs(path) == [1, 2, 3]


async def test_a_failed_flush_is_not_retried_and_its_file_is_never_written_to_again(path: Path, disk: Disk) -> None:
    """After an error of fdatasync the kernel may call lost pages clean: what was durable continues in a copy."""
    journal = await opened(path, disk)
    await journal.append(decisions_of(1))
    first = path.stat().st_ino
    journal = await opened(path, disk)
    assert path.stat().st_ino == first
    disk.sync = fails(errno.EIO)
    with pytest.raises(AppendFailed, match="Input/output error"):
        await journal.append([[asked(2)]])
    disk.sync = os.fdatasync
    again = await opened(path, disk)
    assert path.stat().st_ino != first
    await again.append([[asked(2)]])
    with pytest.raises(AppendFailed):
        await journal.append([[asked(2)]])
    assert seqs(path) == [1, 2]


async def test_a_cancelled_append_has_happened_or_not_when_it_returns(path: Path, disk: Disk) -> None:
    journal = await opened(path, disk)
    await cancel_writing(journal.append(decisions_of(3)), disk)
    assert journal.next_seq == 4
    await journal.append([[asked(4)]])
    assert seqs(path) == [1, 2, 3, 4]


async def test_many_journals_share_few_descriptors_and_a_closed_one_takes_nothing(tmp_path: Path) -> None:
    disk = Disk(open_files=3)
    journals = [await opened(tmp_path / f"{number:064x}" / "journal.jsonl", disk) for number in range(5)]
    for seq in range(1, 4):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for journal in journals:
                group.create_task(journal.append(decisions_of(1, first=seq)))
    assert open_below(tmp_path) == len(disk.files) == 3
    for journal in journals:
        assert seqs(Path(journal.writer.place)) == [1, 2, 3]
        for _ in range(2):
            await journal.close()
        with pytest.raises(AppendFailed, match="closed"):
            await journal.append([[asked(4)]])
    assert len(disk.files) == 0
    disk.close()


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


# ---- two writers ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def begun(path: Path, disk: Disk) -> Path:
    """The path of a journal of three records."""
    journal = await opened(path, disk)
    await journal.append(decisions_of(3))
    await journal.close()
    return path


@pytest.fixture
async def theirs() -> AsyncIterator[Disk]:
    """The threads of another process."""
    disk = Disk()
    yield disk
    disk.close()


def snapshot(records: Sequence[Record]) -> StateSnapshot:
    return StateSnapshot.of(fold(CONVERSATION_ID, records))


async def ends_well(path: Path, disk: Disk) -> None:
    """Ours opens the journal again and appends; no record is lost or doubled."""
    ours = await opened(path, disk)
    await ours.append([[asked(ours.next_seq)]])
    assert seqs(path) == list(range(1, ours.next_seq))


async def test_a_writer_fails_for_good_where_another_process_continued_in_a_new_file(
    begun: Path, disk: Disk, theirs: Disk
) -> None:
    """Its own file has not changed, and yet it is closed."""
    ours, records = await opened_with(begun, disk)
    theirs.flushed = disk.flushed  # nothing is lost, so nothing has to be copied
    other, beside = await opened(begun, theirs), await opened(begun, disk)
    assert await other.rotate(snapshot(records))
    with pytest.raises(AppendFailed, match="by another process"):
        await beside.rotate(snapshot(records))
    for _ in range(2):
        with pytest.raises(AppendFailed, match="by another process; open it again"):
            await ours.append([[asked(ours.next_seq)]])
    assert not await ours.rotate(snapshot(records)), "it is dead"
    await ends_well(begun, disk)
    with pytest.raises(AppendFailed, match="by another process"):
        await other.append([[asked(other.next_seq)]])


def before_call(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, work: Callable[[], Coroutine[Any, Any, None]]
) -> list[str]:
    """Do work of another process before the first call that ours makes in a thread; its error, or an empty text."""
    loop, outcome, real = asyncio.get_running_loop(), list[str](), getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        if not outcome:
            outcome.append("")
            try:
                asyncio.run_coroutine_threadsafe(work(), loop).result(10)
            except AppendFailed as fault:
                outcome[0] = str(fault)
        return real(*arguments, **more)

    monkeypatch.setattr(owner, name, call)
    return outcome


@pytest.mark.parametrize("work", ["written to", "summed up", "copied"])
async def test_no_other_process_appends_while_a_journal_is(
    begun: Path, disk: Disk, theirs: Disk, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """It would be in no snapshot, or in no copy, and the conversation would continue without it."""
    ours, records = await opened_with(begun, disk)
    other = await opened(begun, theirs)
    owner, name = (disk, "write") if work == "written to" else (atomic, "replace")
    outcome = before_call(monkeypatch, owner, name, lambda: other.append([[asked(4)]]))
    if work == "summed up":
        assert await ours.rotate(snapshot(records))
    elif work == "copied":  # by a process that has not flushed it itself
        disk.flushed.doubt(begun)
        ours = await opened(begun, disk)
    await ours.append([[asked(4)]])
    assert "is being written to by another process" in outcome[0]
    assert seqs(begun) == [1, 2, 3, 4]


@pytest.mark.parametrize("work", ["opens", "rotates"])
async def test_a_change_between_check_and_lock_is_seen(
    begun: Path, disk: Disk, theirs: Disk, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """The file we have is then no longer the one that is written to."""
    other, records = await opened_with(begun, theirs)

    async def interfere() -> None:
        if work == "rotates":
            assert await other.rotate(snapshot(records))
        else:
            theirs.flushed.doubt(begun)
            await opened(begun, theirs)

    before_call(monkeypatch, fcntl, "flock", interfere)
    with pytest.raises(AppendFailed, match="was changed by another process; open it again"):
        await opened(begun, disk)
    await ends_well(begun, disk)
    assert segments.numbers(begun.parent) == ([1, 2] if work == "rotates" else [1])
