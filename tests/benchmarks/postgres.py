"""Daemons that share a database: what a turn costs there, how many do more than one, and how soon one replaces another.

The server is one of this run, on a Unix socket. Each daemon is a process of its own with users of its own, whose models
answer at once; all begin at the same moment. So everything is work of processors: on a machine of two cores, four
daemons and the server share those, and the share of the ideal is what that leaves.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg
import structlog

from tenex.cli.run import tune_gc
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.opening import open_conversations
from tenex.store.postgres import leases
from tests.fakes import postgres
from tests.store.kit import decisions_of

from .crowd import Crowd, among_people
from .daemon import Instant
from .rig import Row

CROWD: Final = (20, 4)
"""Conversations of each daemon at once, and their turns."""
ALONE: Final = (1, 30)
"""The same where one follows on the other: what a user waits for."""
DAEMONS: Final = (1, 2, 4)
ROUNDS: Final = 2
"""Each is measured so many times, in turns; the best counts, since others use the machine too."""
APPENDS: Final = 300
PATIENCE: Final = 300.0
LONG: Final = PATIENCE
"""Seconds of a lease where turns are counted: more daemons than processors would lose usual ones, and then wait for
conversations that another one goes on with."""
DEATH: Final = 120.0
"""Seconds within which a dead daemon has been replaced: several times as long as it takes, for a busy machine."""


class Held(Instant):
    """A model that never answers an agent."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "work":
            await asyncio.sleep(PATIENCE)
        return await super().step(request, on_text)


async def _worker(data: Path, url: str, keys: Path, *, holds: bool) -> None:
    """A daemon that carries out what it is sent, a line each: conversations and turns, or an empty line to the end."""
    loop = asyncio.get_running_loop()
    async with among_people(data, Held() if holds else Instant(), store=url, keys=keys) as (_, crowd):
        await _round(crowd, 2, 1) if not holds else crowd.begin(1, 1)
        tune_gc()
        print("ready", flush=True)
        while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            count, turns = map(int, line.split())
            took, processor = await _round(crowd, count, turns)
            print(json.dumps({"took": took, "processor": processor}), flush=True)


async def _round(crowd: Crowd, count: int, turns: int) -> tuple[float, float]:
    began = time.perf_counter()
    used = time.process_time()
    crowd.begin(count, turns)
    async with asyncio.timeout(PATIENCE):
        await crowd.done.wait()
    return time.perf_counter() - began, time.process_time() - used


class Worker:
    """Such a daemon, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, place: Path, url: str, *, holds: bool = False, lease: float = leases.LEASE) -> Self:
        data = Path(tempfile.mkdtemp(dir=place))
        words = [str(data), url, str(place / "keys"), "holds" if holds else "", str(lease)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.benchmarks.postgres", *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        worker = cls(process)
        await worker._line()
        return worker

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        if not line:
            raise RuntimeError("a daemon of the benchmark has ended")
        return line.decode()

    async def round(self, count: int, turns: int) -> dict[str, float]:
        """Seconds, and seconds of a processor, for so many conversations of so many turns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {turns}\n".encode())
        figures: dict[str, float] = json.loads(await self._line())
        return figures

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


async def _append_ms(url: str, root: Path) -> float:
    """The median of an append of one record."""
    disk = Disk()
    times = []
    async with open_conversations(url, root, disk, SystemClock()) as store:
        journal, _ = await store.open(ConversationId("a" * 64))
        for seq in range(1, APPENDS + 1):
            began = time.perf_counter()
            await journal.append(decisions_of(1, first=seq))
            times.append(time.perf_counter() - began)
        await journal.close()
    disk.close()
    return statistics.median(times) * 1000


async def _death_s(place: Path, url: str) -> float:
    """Seconds from a kill until another daemon has the conversation of the dead one."""
    workers = [await Worker.start(place, url, holds=True)]
    try:
        (name, dead) = await _holder(url, lambda _: True)
        workers.append(await Worker.start(place, url))
        await workers[0].stop()
        began = time.perf_counter()
        await _holder(url, lambda row: row[0] == name and row[1] != dead)
        return time.perf_counter() - began
    finally:
        for worker in workers:
            await worker.stop()


async def _holder(url: str, is_wanted: Callable[[tuple[Any, ...]], bool]) -> tuple[Any, ...]:
    """The first conversation with its daemon that is wanted, as soon as there is one."""
    async with asyncio.timeout(DEATH):
        with psycopg.connect(url, autocommit=True) as connection:
            while True:
                rows = connection.execute("select id, holder from tenex_conversations where holder is not null")
                for row in filter(is_wanted, rows):
                    return row
                await asyncio.sleep(0.05)


class Server:
    """A server of this run, with an empty schema for each question."""

    def __init__(self) -> None:
        programs = postgres.programs()
        if programs is None:
            raise RuntimeError(postgres.MISSING)
        self._server = postgres.Server(programs)
        self._schemas = 0

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def schema(self) -> str:
        self._schemas += 1
        name = f"bench{self._schemas}"
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f"create schema {name}".encode())
        return f"{self._server.url}&options=-csearch_path%3D{name}"


async def _together(place: Path, url: str, daemons: int) -> tuple[float, float]:
    """Turns in a second of so many daemons together, and ms of a processor for each turn in them."""
    workers = [await Worker.start(place, url, lease=LONG) for _ in range(daemons)]
    try:
        began = time.perf_counter()
        figures = await asyncio.gather(*(worker.round(*CROWD) for worker in workers))
        took = time.perf_counter() - began
    finally:
        for worker in workers:
            await worker.stop()
    turns = daemons * CROWD[0] * CROWD[1]
    return turns / took, sum(figure["processor"] for figure in figures) / turns * 1000


async def _alone(place: Path, url: str) -> float:
    """Milliseconds of a turn where one follows on the other."""
    worker = await Worker.start(place, url)
    try:
        return (await worker.round(*ALONE))["took"] / ALONE[1] * 1000
    finally:
        await worker.stop()


async def measure(place: Path) -> list[Row]:
    place.mkdir()
    with Server() as server:
        turns: dict[str, list[float]] = {"files": [], "postgres": []}
        appends: dict[str, list[float]] = {"files": [], "postgres": []}
        rates: dict[int, list[tuple[float, float]]] = {daemons: [] for daemons in DAEMONS}
        files: list[tuple[float, float]] = []
        for number in range(ROUNDS):
            for kind in turns:
                url = server.schema() if kind == "postgres" else ""
                turns[kind].append(await _alone(place, url))
                appends[kind].append(await _append_ms(url, place / f"appends-{number}-{kind}"))
            files.append(await _together(place, "", 1))
            for daemons in DAEMONS:
                rates[daemons].append(await _together(place, server.schema(), daemons))
        death = await _death_s(place, server.schema())
    best = {daemons: max(figures) for daemons, figures in rates.items()}
    rows = [Row(f"{kind}: an append of one record, p50", min(figures), "ms") for kind, figures in appends.items()]
    rows += [Row(f"{kind}: a turn after another", min(figures), "ms") for kind, figures in turns.items()]
    rows.append(Row("postgres, against files: a turn after another", min(turns["postgres"]) / min(turns["files"]), "x"))
    rows.append(Row(f"files: turns of {CROWD[0]} conversations at once, 1 daemon", max(files)[0], "/s"))
    for daemons, (rate, processor) in best.items():
        what = f"postgres: the same, {daemons} daemon{'s' if daemons > 1 else ''}"
        rows.append(Row(what, rate, "/s"))
        rows.append(Row(f"{what}, share of the ideal", rate / (daemons * best[1][0]), "x"))
        rows.append(Row(f"{what}, processor time to a turn, without the server", processor, "ms"))
    rows.append(Row("postgres: from a daemon's death until another has its conversation", death, "s", budget=25))
    return rows


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    arguments: list[Any] = sys.argv[1:]
    leases.LEASE = float(arguments[4])  # type: ignore[misc]
    asyncio.run(_worker(Path(arguments[0]), arguments[1], Path(arguments[2]), holds=arguments[3] == "holds"))
