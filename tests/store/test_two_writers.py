"""Two writers of one journal, whom no lock kept apart: the one that is behind fails, reads again, and forks nothing."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import AppendFailed
from tenex.core.records import Record
from tenex.core.state.snapshot import StateSnapshot
from tenex.store import atomic, segments
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek

from .kit import CONVERSATION_ID, StillClock, asked, decisions_of, opened


@pytest.fixture
async def path(path: Path, disk: Disk) -> Path:
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
    assert [record.seq for record in peek(path, CONVERSATION)] == list(range(1, ours.next_seq))


async def test_a_writer_fails_for_good_where_another_process_continued_in_a_new_file(
    path: Path, disk: Disk, theirs: Disk
) -> None:
    """Its own file has not changed, and yet it is closed."""
    ours, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    theirs.flushed = disk.flushed  # nothing is lost, so nothing has to be copied
    other, beside = await opened(path, theirs), await opened(path, disk)
    assert await other.rotate(snapshot(records))
    with pytest.raises(AppendFailed, match="by another process"):
        await beside.rotate(snapshot(records))
    for _ in range(2):
        with pytest.raises(AppendFailed, match="by another process; open it again"):
            await ours.append([[asked(ours.next_seq)]])
    assert not await ours.rotate(snapshot(records)), "it is dead"
    await ends_well(path, disk)
    with pytest.raises(AppendFailed, match="by another process"):
        await other.append([[asked(other.next_seq)]])


async def stolen(path: Path, theirs: Disk, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[str]:
    """Have another process append whenever ours comes to a call; what came of it."""
    loop, outcome = asyncio.get_running_loop(), list[str]()
    other = await opened(path, theirs)
    real = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        if not outcome:
            outcome.append("done")
            appending = asyncio.run_coroutine_threadsafe(other.append([[asked(other.next_seq)]]), loop)
            try:
                appending.result(10)
            except AppendFailed as fault:
                outcome[0] = str(fault)
        return real(*arguments, **more)

    monkeypatch.setattr(owner, name, call)
    return outcome


@pytest.mark.parametrize("work", ["written to", "summed up", "copied"])
async def test_no_other_process_appends_while_a_journal_is(
    path: Path, disk: Disk, theirs: Disk, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """It would be in no snapshot, or in no copy, and the conversation would continue without it."""
    ours, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    owner, name = (disk, "write") if work == "written to" else (atomic, "replace")
    outcome = await stolen(path, theirs, monkeypatch, owner, name)
    if work == "summed up":
        assert await ours.rotate(snapshot(records))
    elif work == "copied":  # by a process that has not flushed it itself
        disk.flushed.doubt(path)
        ours = await opened(path, disk)
    await ours.append([[asked(4)]])
    assert "is being written to by another process" in outcome[0]
    assert [record.seq for record in peek(path, CONVERSATION)] == [1, 2, 3, 4]


async def test_a_file_that_is_being_written_to_is_not_opened_and_later_is(path: Path, disk: Disk) -> None:
    """And opening it does not wait for an end that may not come."""
    with path.open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(AppendFailed, match="is being written to by another process; open it again"):
            await opened(path, disk)
    await ends_well(path, disk)


@pytest.mark.parametrize("work", ["opens", "rotates"])
async def test_a_change_between_check_and_lock_is_seen(
    path: Path, disk: Disk, theirs: Disk, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """The file we have is then no longer the one that is written to."""
    loop, done = asyncio.get_running_loop(), list[str]()
    other, records = await FileJournal.open(path, CONVERSATION, theirs, StillClock())

    async def interfere() -> None:
        if work == "rotates":
            assert await other.rotate(snapshot(records))
        else:
            theirs.flushed.doubt(path)
            await opened(path, theirs)

    def locked(descriptor: int, operation: int) -> None:
        if not done:
            done.append(work)
            asyncio.run_coroutine_threadsafe(interfere(), loop).result(10)
        lock(descriptor, operation)

    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", locked)
    with pytest.raises(AppendFailed, match="was changed by another process; open it again"):
        await opened(path, disk)
    await ends_well(path, disk)
    assert segments.numbers(path.parent) == ([1, 2] if work == "rotates" else [1])
