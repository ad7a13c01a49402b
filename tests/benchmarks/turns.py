"""One turn, relay in to reply seen on the relay, early and late in a long conversation.

Three parties as in life: the daemon in a process of its own, with its files on a real disk and every record fsynced;
the embedded relay; and a user's client on real sockets. The model answers at once. A turn is a user's note, the
router, one agent, and its reply as the user's own subscription brings it.

Each figure is taken over a window of turns back to back; between windows turns are paced, because the embedded relay
resets a socket at 6,001 frames a minute. A machine that others use too is now twice as fast and now half; so growth is
reported by a second daemon, whose conversation is young, and which takes its turns between the parts of each window.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tenex.cli.shared.nostr_client import ChatClient, ReceivedMessage, connected_client
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.store import segments

from .rig import REPOSITORY, Floor, Row, environment_of, ms_since, percentile, processor_ms, resident_mb

WINDOW = 100
"""Turns of a window: at one frame a turn, what a connection may send in a second."""
PART = 20
"""Turns over which processor time is taken."""
PACE = 0.012
"""Seconds between turns outside the windows."""
SETTLED = 1_000
"""Memory is compared from here on: before, caches of bounded size still fill."""
MESSAGE = "Tell me something about this, in a sentence or two, as you would to a friend."


@dataclass
class Window:
    """What was measured from one turn on."""

    times: list[float] = field(default_factory=list)
    parts: list[float] = field(default_factory=list)
    """Milliseconds of processor time of the daemon a turn, for each part."""
    beside: "Window | None" = None
    """The same of a young conversation, a part before each of ours."""
    memory: float = 0.0
    """MB the daemon holds."""
    newest: float = 0.0
    """KB of the file a start would read."""

    @property
    def p50(self) -> float:
        """Milliseconds."""
        return percentile(self.times, 0.5)

    @property
    def processor(self) -> float:
        """Milliseconds of a turn, the least disturbed ones."""
        return min(self.parts)

    def growth(self, of: Callable[["Window"], Sequence[float]]) -> float:
        """How many times what the young one takes, part by part."""
        assert self.beside is not None
        return statistics.median(ours / young for ours, young in zip(of(self), of(self.beside), strict=True))

    @property
    def middles(self) -> list[float]:
        """The middle of the times of each part, in ms."""
        return [percentile(self.times[at : at + PART], 0.5) for at in range(0, len(self.times), PART)]


class Person:
    """A user who writes, and waits for the answer."""

    def __init__(self, talk: ChatClient) -> None:
        self._talk = talk
        self._answer: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        talk.on_message = self._received

    def _received(self, received: ReceivedMessage) -> None:
        if not self._answer.done():
            self._answer.set_result(received)

    async def turn(self) -> float:
        self._answer = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        sending = asyncio.create_task(self._talk.send(MESSAGE))
        await asyncio.wait_for(self._answer, 10)
        took = ms_since(began)
        await sending
        return took


@dataclass
class Party:
    person: Person
    pid: int
    folder: Callable[[], Path]
    """That of their conversation."""
    sessions: int = 0
    """Connections the daemon has had, once it has ended."""

    async def hold(self, turns: int) -> None:
        for _ in range(turns):
            await self.person.turn()
            await asyncio.sleep(PACE)

    async def take(self, window: Window) -> None:
        before = processor_ms(self.pid)
        window.times += [await self.person.turn() for _ in range(PART)]
        window.parts.append((processor_ms(self.pid) - before) / PART)


@asynccontextmanager
async def party(data: Path, tree: Path = REPOSITORY) -> AsyncIterator[Party]:
    """A relay, a daemon of the code in `tree`, and somebody who writes to it."""
    owner = SecretKey.generate()
    async with embedded_relay() as url:
        words = [sys.executable, "-m", "tests.benchmarks.daemon", str(data), url, owner.npub]
        daemon = await asyncio.create_subprocess_exec(
            *words, cwd=tree, env=environment_of(tree), stdout=asyncio.subprocess.PIPE
        )
        members = None
        try:
            assert daemon.stdout is not None
            message = (await asyncio.wait_for(daemon.stdout.readline(), 30)).split()
            async with connected_client(url, owner, parse_public_key(message[1].decode())) as talk:
                members = Party(Person(talk), daemon.pid, lambda: data / "conversations" / str(talk.root))
                yield members
        finally:
            daemon.terminate()
            last, _ = await daemon.communicate()
            if members is not None:
                members.sessions = int(last or 1)


async def measure(data: Path, counts: Sequence[int], floor: Callable[[], Floor]) -> list[Row]:
    async with party(data / "long") as members:
        windows = await _take(members, counts, data)
        folder = members.folder()
    return [*_rows(windows, floor()), *_disk(folder, max(counts) + WINDOW, members.sessions)]


async def _take(members: Party, counts: Sequence[int], data: Path) -> dict[int, Window]:
    """Take all turns; each window by the turn it begins at."""
    windows = {count: Window() for count in counts}
    number = 0
    for count, window in windows.items():
        await members.hold(count - number - PART)
        if number:
            window.beside = Window()
            async with party(data / f"young-{count}") as young:
                await young.hold(counts[0])
                await members.hold(PART)  # it was idle, and its first turns would cost more
                for _ in range(WINDOW // PART):
                    await young.take(window.beside)
                    await members.take(window)
        else:
            await members.hold(min(count, PART))
            for _ in range(WINDOW // PART):
                await members.take(window)
        number = count + WINDOW
        window.memory = resident_mb(members.pid)
        window.newest = segments.current(members.folder()).stat().st_size / 1024
    return windows


def _rows(windows: dict[int, Window], floor: Floor) -> list[Row]:
    rows: list[Row] = []
    settled = next((window for count, window in windows.items() if count >= SETTLED), None)
    for count, window in windows.items():
        times = floor.turn
        p99 = percentile(window.times, 0.99)
        rows += [
            Row(f"turn {count:,}: p50", window.p50, "ms", budget=4, floors=window.p50 / times),
            Row(f"turn {count:,}: p99", p99, "ms", budget=8, floors=p99 / times),
            Row(
                f"turn {count:,}: the daemon's processor time", window.processor, "ms", floors=window.processor / times
            ),
            Row(f"turn {count:,}: the daemon's memory", window.memory, "MB"),
            Row(f"turn {count:,}: what a start would read", window.newest, "KB"),
        ]
        against = f"turn {count:,} against turn {next(iter(windows)):,}"
        if window.beside is not None:
            rows += [
                Row(f"{against}: p50", window.growth(lambda one: one.middles), "x", budget=1.2),
                Row(f"{against}: processor time", window.growth(lambda one: one.parts), "x", budget=1.2, grows=True),
            ]
        if settled is not None and window is not settled and count > SETTLED:
            rows.append(
                Row(
                    f"turn {count:,} against turn {SETTLED:,}: memory",
                    window.memory / settled.memory,
                    "x",
                    budget=1.2,
                    grows=True,
                )
            )
    return rows


def _disk(folder: Path, turns: int, sessions: int) -> list[Row]:
    records = snapshots = length = 0
    for number in segments.numbers(folder):
        lines = (folder / segments.name_of(number)).read_bytes().splitlines(keepends=True)
        length += sum(map(len, lines))
        begins = b'"type":"StateSnapshot"' in lines[0][:100]
        snapshots += len(lines[0]) if begins else 0
        records += len(lines) - begins
    return [
        Row("records to a turn", records / turns, ""),
        Row("bytes on disk to a record, snapshots included", length / records, "bytes", budget=700),
        Row("of them snapshots", snapshots / length * 100, "%"),
        Row("conversation.json", (folder / "conversation.json").stat().st_size / 1024, "KB"),
        Row("connections the relay ended meanwhile", sessions - 1, ""),
    ]
