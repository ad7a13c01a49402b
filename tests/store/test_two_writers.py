"""Two writers of one journal, whom no lock kept apart: the one that is behind fails, reads again, and forks nothing."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.core.state.snapshot import StateSnapshot
from tenex.store import atomic, segments
from tenex.store import journal as journals
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek
from tenex.store.repository import ConversationFolder
from tests.fakes.runtime import Daemon, World
from tests.fakes.scenario import ID, reply

from .kit import CONVERSATION_ID, StillClock, asked, decisions_of, started

OTHER = """
import asyncio, sys
from pathlib import Path
from tenex.core.state.snapshot import StateSnapshot
from tenex.core.conversation import fold
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tests.store.kit import CONVERSATION_ID, StillClock, asked

async def main():
    journal, records = await FileJournal.open(Path(sys.argv[1]), CONVERSATION, Disk(), StillClock())
    for work in sys.argv[2:]:
        print(">", work, flush=True)
        sys.stdin.readline()
        try:
            if work == "append":
                await journal.append([[asked(journal.next_seq)]])
            else:
                assert await journal.rotate(StateSnapshot.of(fold(CONVERSATION_ID, records)))
        except Exception as fault:
            print(">", type(fault).__name__, fault, flush=True)
        else:
            print("> done", flush=True)

asyncio.run(main())
"""


class Other:
    """A process with the journal open, which does one thing at a time."""

    def __init__(self, path: Path, *work: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path), *work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()  # it has opened the journal

    def go(self) -> str:
        """Have it do the next thing; what came of it."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        outcome = self._read()
        self._read()
        return outcome

    def _read(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # among the lines of the log
            if line.startswith("> "):
                return line[2:].strip()
        return "it has ended"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
async def path(tmp_path: Path, disk: Disk) -> Path:
    """A journal of three records."""
    path = tmp_path / ("c" * 64) / "journal.jsonl"
    journal, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    await journal.append(decisions_of(3))
    await journal.close()
    return path


@pytest.mark.parametrize("work", ["append", "rotate"])
async def test_what_another_process_has_written_is_not_written_over(path: Path, disk: Disk, work: str) -> None:
    """Ours is behind from then on, whether theirs went into the same file or into the next."""
    other = Other(path, work, "append")
    try:
        ours, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
        assert other.go() == "done"
        for _ in range(2):
            with pytest.raises(AppendFailed, match="by another process; open it again"):
                await ours.append([[asked(ours.next_seq)]])
        assert not await ours.rotate(StateSnapshot.of(fold(CONVERSATION_ID, [started()])))
        again, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
        await again.append([[asked(again.next_seq)]])
        assert other.go().startswith("AppendFailed"), "and now theirs is behind"
    finally:
        other.end()
    records = peek(path, CONVERSATION)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert len(records) == (5 if work == "append" else 4)


async def test_of_two_who_rotate_one_does(path: Path, disk: Disk) -> None:
    """And the other, which has lost nothing, goes on in the new file once it has opened it."""
    other = Other(path, "rotate")
    try:
        ours, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
        assert other.go() == "done"
        with pytest.raises(AppendFailed, match="by another process"):
            await ours.rotate(StateSnapshot.of(fold(CONVERSATION_ID, records)))
    finally:
        other.end()
    again, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    assert again.path.name == "journal-000002.jsonl"
    await again.append([[asked(4)]])
    assert [record.seq for record in peek(path, CONVERSATION)] == [1, 2, 3, 4]


def identity(path: Path) -> int:
    """Which file has the name."""
    return path.stat().st_ino


async def stolen(path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[str]:
    """Have somebody else append whenever ours comes to a call; what came of it."""
    loop, outcome = asyncio.get_running_loop(), list[str]()
    disk = Disk()
    theirs, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    real = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        if not outcome:
            outcome.append("done")
            appending = asyncio.run_coroutine_threadsafe(theirs.append([[asked(theirs.next_seq)]]), loop)
            try:
                appending.result(10)
            except AppendFailed as fault:
                outcome[0] = str(fault)
            disk.close()
        return real(*arguments, **more)

    monkeypatch.setattr(owner, name, call)
    return outcome


async def test_no_other_process_appends_between_check_and_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen the file as they left it, and only one may go on from there."""
    disk = Disk()
    ours, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    outcome = await stolen(path, monkeypatch, disk, "write")
    await ours.append([[asked(4)]])
    assert "is being written to by another process" in outcome[0]
    assert [record.seq for record in peek(path, CONVERSATION)] == [1, 2, 3, 4]
    disk.close()


@pytest.mark.parametrize("work", ["summed up", "copied"])
async def test_no_other_process_appends_while(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """It would be in no snapshot, or in no copy, and the conversation would continue without it."""
    if work == "copied":  # by a process that has not flushed it itself
        disk = Disk()
        outcome = await stolen(path, monkeypatch, atomic, "replace")
    ours, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    if work == "summed up":
        outcome = await stolen(path, monkeypatch, atomic, "replace")
        assert await ours.rotate(StateSnapshot.of(fold(CONVERSATION_ID, records)))
    assert "is being written to by another process" in outcome[0]
    await ours.append([[asked(4)]])
    assert [record.seq for record in peek(path, CONVERSATION)] == [1, 2, 3, 4]
    assert len(records) == 3
    disk.close()


async def test_a_file_that_is_being_written_to_is_not_opened_and_later_is(path: Path) -> None:
    """And opening it does not wait for an end that may not come."""
    disk, theirs = Disk(), Disk()
    writing, going_on = Event(), Event()

    def sync(descriptor: int) -> None:
        writing.set()
        assert going_on.wait(10)
        os.fdatasync(descriptor)

    theirs.sync = sync
    other, _ = await FileJournal.open(path, CONVERSATION, theirs, StillClock())
    before = identity(path)
    appending = asyncio.create_task(other.append([[asked(4)]]))
    try:
        assert await asyncio.to_thread(writing.wait, 10)
        with pytest.raises(AppendFailed, match="is being written to by another process; open it again"):
            await FileJournal.open(path, CONVERSATION, disk, StillClock())
    finally:
        going_on.set()
    await appending
    assert (identity(path), segments.numbers(path.parent)) == (before, [1])
    _, records = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    assert [record.seq for record in records] == [1, 2, 3, 4]
    for one in (disk, theirs):
        one.close()


@pytest.mark.parametrize("work", ["opens", "rotates"])
async def test_a_change_between_check_and_lock_is_seen(path: Path, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    """The file we have is then no longer the one that is written to."""
    loop, done = asyncio.get_running_loop(), list[str]()
    disk, theirs = Disk(), Disk()
    other, records = await FileJournal.open(path, CONVERSATION, theirs, StillClock())

    async def interfere() -> None:
        if work == "rotates":
            assert await other.rotate(StateSnapshot.of(fold(CONVERSATION_ID, records)))
        else:
            await FileJournal.open(path, CONVERSATION, Disk(), StillClock())

    def opened(descriptor: int, operation: int) -> None:
        if not done:
            done.append(work)
            asyncio.run_coroutine_threadsafe(interfere(), loop).result(10)
        lock(descriptor, operation)

    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", opened)
    with pytest.raises(AppendFailed, match="was changed by another process; open it again"):
        await FileJournal.open(path, CONVERSATION, disk, StillClock())
    assert done
    ours, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    await ours.append([[asked(4)]])
    assert [record.seq for record in peek(path, CONVERSATION)] == [1, 2, 3, 4]
    assert segments.numbers(path.parent) == ([1, 2] if work == "rotates" else [1])
    for one in (disk, theirs):
        one.close()


# ---- with all that is above a journal ---------------------------------------------------------------------------


class OnDisk(World):
    """A world whose journals are files."""

    def __init__(self, root: Path, disk: Disk) -> None:
        super().__init__(answer_once, lambda _: reply("done"))
        self.folder = ConversationFolder(root, disk, StillClock())
        self.is_rotating = False

    async def open(self, conversation: ConversationId) -> tuple[Any, list[Record]]:
        """The files' journal."""
        return await self.folder.open(conversation)

    async def show(self, conversation: Conversation) -> None:
        """Go on in another file, where the test wants it."""
        if self.is_rotating:
            await self.folder.rotate(conversation)

    def exists(self, conversation: ConversationId) -> bool:
        """Whether it has a folder."""
        return self.folder.path(conversation).exists()


def answer_once(question: dict[str, Any]) -> dict[str, Any]:
    """A router that has each message answered, and then waits for the next."""
    turns, newest = question["turns"], question["messages"][-1]
    is_new = not turns or newest["after_turn"] == turns[-1]["turn"]
    return {"agents": ["project-manager"] if is_new else ["USER"], "reason": json.dumps(newest["text"])}


@asynccontextmanager
async def daemon(root: Path) -> AsyncIterator[tuple[OnDisk, Daemon]]:
    """A daemon that took no lock."""
    disk = Disk()
    world = OnDisk(root, disk)
    async with world.daemon() as alive:
        yield world, alive
    disk.close()


async def answered(root: Path, count: int) -> list[Record]:
    """Wait until so many messages have been answered and nothing is under way; the records."""

    def there() -> list[Record]:
        path = root / ID / "journal.jsonl"
        return peek(path, CONVERSATION) if path.exists() else []

    def rests(records: list[Record]) -> bool:
        state = fold(ID, records)
        return len(state.seen) == count and state.status == "waiting" and not state.turn and not state.outbox

    async with asyncio.timeout(60):
        while not rests(records := there()):
            await asyncio.sleep(0.02)  # files notify no one
    return records


@pytest.mark.parametrize("rotates", [False, True], ids=["in one file", "in another file"])
async def test_a_daemon_that_is_behind_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotates: bool
) -> None:
    """Two take turns, each with the conversation in memory as it left it."""
    monkeypatch.setattr(journals, "FILE_BYTES", 1)
    monkeypatch.setattr(journals, "PER_CHECKPOINT", 0)
    root = tmp_path / "conversations"
    async with daemon(root) as (first, one), daemon(root) as (second, two):
        first.is_rotating = second.is_rotating = rotates
        for number, here in enumerate((one, two, one, two), 1):
            here.write(f"message {number}", event_id=f"{number:064x}")
            records = await answered(root, number)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    wrote = [record.text for record in records if isinstance(record, r.MessageRecorded)]
    assert wrote == [f"message {number}" for number in range(1, 5)]
    turns = [record for record in records if isinstance(record, r.TurnOpened)]
    assert len(turns) == 4
    assert len(list((root / ID).glob("journal-*.jsonl"))) > 1 or not rotates
    sent = [event.id for record in records if isinstance(record, r.MessageSent) for event in record.events]
    assert sorted({**first.published, **second.published}) == sorted(sent)
