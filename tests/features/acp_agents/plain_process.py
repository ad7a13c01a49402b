"""Sessions with agents that run as plain processes, and a clock that only goes on when a test says so."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenex.core.ids import Millis
from tenex.core.ports import Clock
from tenex.features.acp_agents.session import Session
from tenex.features.acp_agents.session_events import LINE_LIMIT, Begin, Event, Facts, PromptEnded, TextPiece
from tenex.runtime.clock import SystemClock

FAULTY = Path(__file__).parent / "faulty_agent.py"
PATIENCE = 30.0
"""Seconds for anything that a test waits for."""

Action = list[Any]


class PlainProcess:
    """An agent without a sandbox, in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._complaints = b""
        self._reading = asyncio.create_task(self._read(process.stderr), name="stderr")

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> "PlainProcess":
        """Start an agent in a folder."""
        return cls(
            await asyncio.create_subprocess_exec(
                *command,
                env=dict(environment),
                cwd=folder,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def stderr_tail(self) -> str:
        return self._complaints.decode("utf-8", "replace")[-2000:]

    async def wait(self) -> int:
        status = await self._process.wait()
        await asyncio.wait({self._reading}, timeout=1)
        return status

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _read(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(4096):
            self._complaints += chunk


@dataclass(slots=True, eq=False)
class _Waiter:
    due: int
    woken: asyncio.Event


class HeldClock:
    """Stands still but for `advance`."""

    def __init__(self) -> None:
        self._now = 1_700_000_000_000
        self._waiters: list[_Waiter] = []
        self._has_more = asyncio.Event()

    def now(self) -> Millis:
        return Millis(self._now)

    async def sleep_until(self, due: Millis) -> None:
        if due <= self._now:
            return
        waiter = _Waiter(due, asyncio.Event())
        self._waiters.append(waiter)
        self._has_more.set()
        try:
            await waiter.woken.wait()
        finally:
            self._waiters.remove(waiter)

    async def until_awaited(self, seconds: float) -> None:
        """Return once something waits for exactly so long from now."""
        for _ in range(10):
            await asyncio.sleep(0)  # what waits no longer is still in the list for a moment
        async with asyncio.timeout(PATIENCE):
            while not any(waiter.due == self._now + seconds * 1000 for waiter in self._waiters):
                self._has_more.clear()
                await self._has_more.wait()

    def advance(self, seconds: float) -> None:
        """Go on by so much, and wake what waits for it."""
        self._now += int(seconds * 1000)
        for waiter in self._waiters:
            if waiter.due <= self._now:
                waiter.woken.set()

    def set(self, seconds: float) -> None:
        """Set the time, as an operator does: what sleeps goes on to sleep."""
        self._now += int(seconds * 1000)
        for waiter in self._waiters:
            waiter.due += int(seconds * 1000)


@dataclass(slots=True)
class Faulty:
    """A session with the faulty agent."""

    session: Session
    process: PlainProcess
    log: Path

    async def begin(self, **begin: Any) -> Facts:
        """Begin with what is named, in /."""
        async with asyncio.timeout(PATIENCE):
            return await self.session.begin(self.process, Begin(cwd="/", **begin))

    async def prompt(self, *actions: Action) -> None:
        await self.session.prompt(json.dumps(actions))

    async def next(self) -> Event:
        async with asyncio.timeout(PATIENCE):
            return await self.session.next_event()

    async def rest(self) -> list[Event]:
        """All events up to the end of the prompt, and that."""
        events = [await self.next()]
        while not isinstance(events[-1], PromptEnded):
            events.append(await self.next())
        return events

    def received(self, method: str) -> list[dict[str, Any]]:
        """What the agent was sent under a method; "" for answers."""
        messages = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [message for message in messages if message.get("method", "") == method]


@asynccontextmanager
async def faulty(tmp_path: Path, *habits: str, clock: Clock | None = None) -> AsyncIterator[Faulty]:
    """A session with the faulty agent, which has these habits; it has not begun."""
    log = tmp_path / "received"
    command = [sys.executable, str(FAULTY), str(log), *habits]
    process = await PlainProcess.start(command, os.environ, tmp_path)
    agent = Faulty(Session(clock or SystemClock()), process, log)
    try:
        yield agent
    finally:
        process.kill()
        await process.wait()
        await agent.session.close(0)


def text_of(events: Sequence[Event]) -> str:
    """The text in events, without thoughts."""
    return "".join(event.text for event in events if isinstance(event, TextPiece) and not event.is_thought)
