"""The real daemon under strace: killed at, or refused, one system call of many, in all phases.

strace counts for each thread and each call by itself: of the threads, the first to make its n-th call is met; so the
disk's work is in one. Given a path, only calls that name it, or a descriptor of it, are counted. Programs that the
daemon starts are not traced.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.programs import needs_strace

from . import person
from .kit import Folder, Process, ordered, orders_for, running
from .oracle import Survived, check, survey

pytestmark = needs_strace

TALK = ("Let's brainstorm ideas for a greeting script", "Design the architecture of hello.py that prints hello")
"""Takes the offline model through all phases."""
WAY = ["brainstorm", "plan", "execute", "verification", "chores", "reflection"]
JOURNAL = "<id>/journal.jsonl"
DAEMON = "conversations/_daemon/journal.jsonl"
INDEX = "conversations/index.sqlite"
WAL = "conversations/index.sqlite-wal"
REASONS = {"error=EIO": "Input/output error", "error=ENOSPC": "No space left on device"}
EIO, ENOSPC = REASONS


@dataclass(frozen=True, slots=True)
class Point:
    """One call of a daemon's life, counted from 1."""

    call: str
    at: int
    where: str = ""
    """Below the data folder, `<id>` for the conversation's own; empty: anywhere."""
    fault: str = "signal=KILL"
    """In the syntax of strace's `inject=`."""
    rotates: bool = False
    """Journals go on in another file whenever the view is written."""

    def words(self, folder: Folder, name: str) -> list[str]:
        """The command that runs another with this fault in it."""
        path = folder.data / self.where.replace("<id>", f"conversations/{name}")
        only = ["-P", str(path)] if self.where else []
        head = ["strace", "-f", "-b", "execve", "-qq", "-o", str(folder.marks / "trace"), *only]
        return [*head, "-e", f"trace={self.call}", "-e", f"inject={self.call}:{self.fault}:when={self.at}"]


@asynccontextmanager
async def injected(folder: Folder, point: Point, name: str) -> AsyncIterator[Process]:
    """The daemon with that fault ahead of it; it may die before it is ready."""
    command = [sys.executable, "-m", *orders_for(folder, one_thread=True, rotates=point.rotates)]
    async with running([*point.words(folder, name), *command], PYTHONDONTWRITEBYTECODE="1") as tracer:
        try:
            yield tracer
        finally:
            for pid in children(tracer.pid):  # else they would go on without their tracer
                os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes a process has started and that have not been waited for."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass
class Talk:
    """A person who writes the next message once the daemon waits for it; outlives daemons."""

    folder: Folder
    sent: list[str]
    _writing: asyncio.Task[None] | None = None
    """The message being written; written once, also where a daemon dies meanwhile."""

    @classmethod
    async def begin(cls, folder: Folder) -> "Talk":
        """The first message is on the relay before there is a daemon."""
        return cls(folder, [await folder.write(TALK[0])])

    @property
    def name(self) -> str:
        return self.sent[0]

    async def finish(self) -> None:
        """Write what is left to be written, and wait for the end."""
        while True:
            state = await person.until(self._rested)
            if len(self.sent) == len(TALK):
                return
            assert state.cycle.phase == "brainstorm"
            self._writing = self._writing or asyncio.create_task(self._write())
            await asyncio.shield(self._writing)
            self._writing = None

    async def _write(self) -> None:
        self.sent.append(await self.folder.write(TALK[len(self.sent)], to=self.name))

    def _rested(self) -> object:
        state = self.folder.state(self.name)
        is_over = state.cycle.status == ("waiting" if len(self.sent) < len(TALK) else "ended")
        return (
            state
            if is_over
            and len(state.identity.seen) >= len(self.sent)
            and not state.work.turn
            and not state.delivery.outbox
            else None
        )

    async def finish_or(self, process: Process) -> bool:
        """The same, as long as a process lives; returns whether it came to the end."""
        ending = asyncio.ensure_future(process.ended())
        talking = asyncio.ensure_future(self.finish())
        try:
            await asyncio.wait([ending, talking], return_when=asyncio.FIRST_COMPLETED)
            return talking.done() and talking.exception() is None
        finally:
            for task in (ending, talking):
                task.cancel()
            await asyncio.gather(ending, talking, return_exceptions=True)

    async def check(self, deaths: list[Survived], *, quarrels: int = 0) -> None:
        await check(self.folder, self.name, deaths, way=WAY, messages=self.sent, quarrels=quarrels)
        assert (self.folder.workspace / "hello.py").read_text() == 'print("hello")\n'


async def kill_and_go_on(folder: Folder, point: Point) -> bool:
    """Die there, start again, finish the talk and check; False if the daemon never made that call."""
    talk = await Talk.begin(folder)
    deaths: list[Survived] = []
    async with injected(folder, point, talk.name) as tracer:
        if await talk.finish_or(tracer):
            for pid in children(tracer.pid):  # none where its last record was there, but not yet flushed
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)  # it may still meet its point while it stops
        code = await tracer.ended()
        assert code in (0, -signal.SIGKILL), tracer.stderr
        if code:
            deaths.append(survey(folder, talk.name))
    if deaths:
        async with ordered(folder) as second:
            await talk.finish()
            assert await second.stop() == 0
            assert not second.errors, second.stderr
    await talk.check(deaths)
    return bool(deaths)


async def fail_and_go_on(folder: Folder, point: Point) -> bool:
    """The talk comes to its end in the same process, and nothing is done twice, for no process has died.

    Returns:
        Whether the daemon came to that call.
    """
    talk = await Talk.begin(folder)
    async with injected(folder, point, talk.name) as tracer:
        assert await talk.finish_or(tracer), tracer.stderr
        (pid,) = children(tracer.pid)
        os.kill(pid, signal.SIGTERM)
        assert await tracer.ended() == 0, tracer.stderr
        was_met = "(INJECTED)" in (folder.marks / "trace").read_text()
        suspended = [log["reason"] for log in tracer.logs if log["event"] == "conversation.suspended"]
        assert "Traceback" not in tracer.stderr, tracer.stderr
    if point.where == JOURNAL:
        assert len(suspended) == was_met, tracer.stderr
        assert all(REASONS[point.fault] in reason for reason in suspended)
    elif was_met:  # a view or an index that the disk did not take in the end is made at the next start
        async with ordered(folder) as again:
            assert await again.stop() == 0
    await talk.check([], quarrels=1)
    return was_met


@pytest.mark.parametrize("point", [Point("fdatasync", 21, JOURNAL), Point("rename", 3, rotates=True)])
async def test_a_daemon_killed_within_a_flush_or_while_a_file_is_named_goes_on(folder: Folder, point: Point) -> None:
    assert await kill_and_go_on(folder, point), "it never came to that call"


async def test_a_flush_that_fails_once_is_logged_and_outlived(folder: Folder) -> None:
    """A write that fails is what a full disk is (`test_disk`)."""
    assert await fail_and_go_on(folder, Point("fdatasync", 9, JOURNAL, EIO)), "it never came to that call"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("call", "where", "step"),
    [
        *((call, JOURNAL, 1) for call in ("write", "fdatasync")),
        *((call, DAEMON, 1) for call in ("write", "fdatasync")),
        *(("fdatasync", INDEX, 1), ("pwrite64", WAL, 9), ("fdatasync", WAL, 1), ("sendto", "", 2)),
        *((call, "", 1) for call in ("mkdir", "fsync", "rename", "unlink", "ftruncate", "write")),
        *((call, "rotating", 1) for call in ("write", "fsync", "fdatasync", "rename")),
    ],
)
async def test_a_daemon_killed_at_any_system_call_goes_on(
    tmp_path: Path, relay: str, call: str, where: str, step: int
) -> None:
    """What files are made of is met each time, pages of SQLite's and frames every how many-th."""
    for at in count(1, step):
        rotates = where == "rotating"
        point = Point(call, at, "" if rotates else where, rotates=rotates)
        if not await kill_and_go_on(Folder(tmp_path / f"data-{at}", relay), point):
            assert at > 1, f"it never calls {call} on {where}"
            return


@pytest.mark.soak
@pytest.mark.parametrize(
    ("call", "where", "fault", "step"),
    [
        *(("fdatasync", JOURNAL, EIO, 1), ("write", JOURNAL, ENOSPC, 1), ("write", JOURNAL, EIO, 5)),
        *(("fsync", "<id>", EIO, 1), ("rename", "", ENOSPC, 1), ("mkdir", "<id>", ENOSPC, 1)),
        *(("fdatasync", WAL, EIO, 1), ("pwrite64", WAL, ENOSPC, 9)),
    ],
)
async def test_any_call_that_fails_once_is_outlived(
    tmp_path: Path, relay: str, call: str, where: str, fault: str, step: int
) -> None:
    for at in count(1, step):
        if not await fail_and_go_on(Folder(tmp_path / f"data-{at}", relay), Point(call, at, where, fault)):
            assert at > 1, f"it never calls {call} on {where}"
            return
