"""A daemon under strace that dies at, or is refused, one system call of many.

strace counts for each thread and each call by itself: of the threads, the first to make its n-th call is met; so the
disk's work is in one. Given a path, only calls that name it, or a descriptor of it, are counted. Programs that the
daemon starts are not traced.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from . import person
from .kit import Folder, Process, running
from .moments import Orders, command

PLANNED = "Design the architecture of hello.py that prints hello"
TALK = ("Let's brainstorm ideas for a greeting script", PLANNED)
"""Takes the offline model through all seven phases."""
WAY = ["brainstorm", "plan", "execute", "verification", "chores", "reflection"]


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
        return [
            "strace",
            "-f",
            "-b",
            "execve",
            "-qq",
            "-o",
            str(folder.marks / "trace"),
            *only,
            "-e",
            f"trace={self.call}",
            "-e",
            f"inject={self.call}:{self.fault}:when={self.at}",
        ]

    def __str__(self) -> str:
        where = "rotating" if self.rotates else self.where.rpartition("/")[2]
        return "-".join(filter(None, [self.call, where, str(self.at)]))


@asynccontextmanager
async def injected(folder: Folder, point: Point, name: str) -> AsyncIterator[Process]:
    """The daemon with that fault ahead of it; it may die before it is ready."""
    orders = Orders(data=str(folder.data), marks=str(folder.marks), one_thread=True, rotates=point.rotates)
    async with running([*point.words(folder, name), *command(orders)], PYTHONDONTWRITEBYTECODE="1") as tracer:
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
            assert state.phase == "brainstorm"
            self._writing = self._writing or asyncio.create_task(self._write())
            await asyncio.shield(self._writing)
            self._writing = None

    async def _write(self) -> None:
        self.sent.append(await self.folder.write(TALK[len(self.sent)], to=self.name))

    def _rested(self) -> object:
        state = self.folder.state(self.name)
        is_over = state.status == ("waiting" if len(self.sent) < len(TALK) else "ended")
        return state if is_over and len(state.seen) >= len(self.sent) and not state.turn and not state.outbox else None

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
