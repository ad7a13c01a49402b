"""What more daemons and conversations would do than there are here: simulated in virtual time, with measured costs.

A turn is three answers of models, which take no time of ours, and after each a piece of work of its daemon and an
append. Each daemon also receives every message from the relays, looks at the database once a second, and reads again
what others have changed. A daemon and the database each do one thing after another, in order of arrival; the
database does as many appends at once as it flushes together.
"""

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import psycopg

from tenex.core.ids import ConversationId
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.opening import open_shared
from tenex.store.postgres.conversations import CHANGES
from tests.cli.journals import worked
from tests.store.kit import asked

from .postgres import CROWD, Server, Worker
from .rig import Row

CONVERSATIONS: Final = (10_000, 100_000, 1_000_000)
WORKERS: Final = (1, 3, 10, 30, 100)
TURNS_PER_HOUR: Final = 1.0
"""Of each conversation: many are quiet, and a few have a turn in every minute."""
STEPS: Final = 3
"""Answers of models in a turn, each followed by work and an append."""
MESSAGES: Final = 2
"""Events of a turn that every daemon receives: the user's and the agent's."""
VERIFY: Final = 0.0003
"""Seconds for one of them: its signature, twice over."""
SECONDS: Final = 20
"""Of virtual time."""
FULL: Final = 0.8
"""Of its time: what is busier has queues that grow."""
FOLLOWED: Final = 30
SCANNED: Final = 100_000
APPEND: Final = 1 / 6_400
"""Seconds of the server: 16 writers made 6,400 to 8,500 commits in a second on two shared cores, of one record each."""
CONNECTIONS: Final = 8
SERVER_CONNECTIONS: Final = 100
"""What PostgreSQL permits unless it is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured, in seconds."""

    turn: float
    """Of a daemon's processor, for a turn."""
    append: float
    """Of the server, for an append, where several are flushed together."""
    scan: float
    """Of the server, to look at one conversation that has not changed."""
    follow: float
    """Of a daemon's processor, to read a conversation that another one has changed, once for a turn."""
    again: float
    """The same for what follows in that turn."""


@dataclass(slots=True)
class Resource:
    """Does one thing after another."""

    free_at: float = 0.0
    busy: float = 0.0

    def use(self, now: float, seconds: float) -> float:
        """When something that comes now and takes so long is done."""
        self.free_at = max(self.free_at, now) + seconds
        self.busy += seconds
        return self.free_at


@dataclass(slots=True)
class Simulation:
    """Daemons on one database, for `SECONDS`."""

    conversations: int
    workers: int
    costs: Costs
    random: Random
    delays: list[float] = field(default_factory=list)
    """Of each turn: what it took beside its models."""
    _events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    _number: int = 0

    def run(self) -> tuple[float, float, float]:
        """The part of its time in which the busiest daemon works, and the database; the 99th of 100 delays."""
        database = Resource()
        daemons = [Resource() for _ in range(self.workers)]
        rate = self.conversations * TURNS_PER_HOUR / 3600
        at = 0.0
        while (at := at + self.random.expovariate(rate)) < SECONDS:
            self._at(at, self._turn(daemons, database, at))
        each = self.costs.follow + (STEPS - 1) * self.costs.again
        followed = rate * (1 - 1 / self.workers) * each
        for daemon in daemons:
            for second in range(SECONDS):
                self._at(second + self.random.random(), self._look(daemon, database, followed))
        while self._events:
            now, _, happens = heapq.heappop(self._events)
            happens(now)
        delays = sorted(self.delays) or [0.0]
        busiest = max(daemon.busy for daemon in daemons)
        return busiest / SECONDS, database.busy / SECONDS, delays[int(len(delays) * 0.99) - 1]

    def _at(self, when: float, happens: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, happens))

    def _turn(self, daemons: Sequence[Resource], database: Resource, began: float) -> Callable[[float], None]:
        daemon = self.random.choice(daemons)

        def step(now: float, left: int = STEPS) -> None:
            if left == STEPS:
                for other in daemons:
                    other.use(now, MESSAGES * VERIFY)
            if not left:
                self.delays.append(now - began)
                return
            worked = daemon.use(now, self.costs.turn / STEPS)
            self._at(worked, lambda then: append(then, left))

        def append(now: float, left: int) -> None:
            self._at(database.use(now, self.costs.append), lambda then: step(then, left - 1))

        return step

    def _look(self, daemon: Resource, database: Resource, followed: float) -> Callable[[float], None]:
        def look(now: float) -> None:
            database.use(now, self.conversations * self.costs.scan)
            daemon.use(now, followed)

        return look


def first_limit(workers: int, daemon: float, database: float, looking: float) -> str:
    """What is full first, of a simulation with such busy parts."""
    if workers * CONNECTIONS > SERVER_CONNECTIONS and max(daemon, database) < FULL:
        return "connections"
    if max(daemon, database) < FULL:
        return "none"
    if daemon > database:
        return "daemons"
    return "looking" if looking > database / 2 else "appends"


async def _follow_s(place: Path, url: str) -> tuple[float, float]:
    """Seconds of a processor to read a conversation that another daemon has changed, and what it appends next."""
    disk = Disk()
    async with open_shared(url, place / "data", disk, SystemClock()) as store:
        for number in range(FOLLOWED):
            name = ConversationId(f"{number:064x}")
            journal, _ = await store.open(name)
            await journal.append(worked(name))
            await journal.close()
        index = Index(place / "index.sqlite", lambda _: False)
        lengths = await store.lengths()
        used = time.process_time()
        await index.refresh(store, lengths)
        first = (time.process_time() - used) / len(lengths)
        for name in lengths:
            journal, _ = await store.open(name)
            await journal.append([[asked(journal.next_seq)]])
            await journal.close()
        lengths = await store.lengths()
        used = time.process_time()
        await index.refresh(store, lengths)
        again = (time.process_time() - used) / len(lengths)
        await index.close()
    disk.close()
    return first, again


def _scan_s(url: str) -> float:
    """Seconds of the server to look at one conversation that has not changed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into tenex_conversations (id, next_seq, changed) "
            "select 'scan' || n, 9, clock_timestamp() - interval '1 day' from generate_series(1, %s) n",
            [SCANNED],
        )
        connection.execute("vacuum analyze tenex_conversations")
        times = []
        for _ in range(5):
            began = time.perf_counter()
            asked = {"worker": "one", "grace": timedelta(seconds=5), "since": datetime.now(UTC)}
            connection.execute(CHANGES, asked).fetchall()
            times.append(time.perf_counter() - began)
    return min(times) / SCANNED


async def measure(place: Path) -> list[Row]:
    """The costs, and what is full first."""
    place.mkdir()
    with Server() as server:
        url = server.schema()
        follow, again = await _follow_s(place, url)
        worker = await Worker.start(place, server.schema())
        try:
            turn = (await worker.round(*CROWD))["processor"] / (CROWD[0] * CROWD[1])
        finally:
            await worker.stop()
        costs = Costs(turn=turn, append=APPEND, scan=_scan_s(url), follow=follow, again=again)
    rows = [
        Row("measured: processor time of a daemon to a turn", costs.turn * 1000, "ms"),
        Row("measured: the same to follow a conversation of another daemon", costs.follow * 1000, "ms"),
        Row("measured: the same for what it appends next", costs.again * 1000, "ms"),
        Row("measured: the server's look at a million conversations", costs.scan * 1e9, "ms"),
    ]
    for conversations in CONVERSATIONS:
        for workers in WORKERS:
            daemon, database, delay = Simulation(
                conversations=conversations, workers=workers, costs=costs, random=Random(1)
            ).run()
            looking = workers * conversations * costs.scan
            limit = first_limit(workers, daemon, database, looking)
            what = f"simulated: {conversations:,} conversations, {workers} daemons"
            rows.append(
                Row(f"{what}: daemon {daemon:.0%}, database {database:.0%}, full: {limit}; delay p99", delay, "s")
            )
    return rows
