"""What all rows share: how a figure is beside its budget, the floor of this machine, and processes of their own."""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tenex.nostr.events import Event, is_genuine, sign, unsigned_event
from tenex.nostr.keys import SecretKey

NOWHERE: Final = "ws://127.0.0.1:9"
"""No relay is there, and nothing waits for one."""
REPOSITORY: Final = Path(__file__).parents[2]
PATIENCE: Final = 600.0
"""Seconds for a process of a row."""


@dataclass(frozen=True, slots=True)
class Row:
    work: str
    figure: float
    unit: str
    _: KW_ONLY
    budget: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    floors: float | None = None
    """How many times what no implementation can do without, measured in the same minute."""
    grows: bool = False
    """It is a ratio that shows whether our work grows with the history: the one thing that must never miss."""

    @property
    def is_kept(self) -> bool:
        """Whether the figure keeps its budget; one without a budget does."""
        if self.budget is None:
            return True
        return self.figure <= self.budget if self.sense == "at most" else self.figure >= self.budget


@dataclass(frozen=True, slots=True)
class Floor:
    """What this machine takes now for what has to be done, in ms."""

    append: float
    sign: float
    verify: float

    @property
    def turn(self) -> float:
        """Of a turn: three durable appends one after another, a signature and a verification."""
        return 3 * self.append + self.sign + self.verify

    def rows(self) -> list[Row]:
        return [
            Row("floor: a durable append of 300 bytes, p50", self.append, "ms"),
            Row("floor: an id and a signature", self.sign, "ms"),
            Row("floor: a verification", self.verify, "ms"),
        ]


def notes(count: int, key: SecretKey, text: str = "x" * 300) -> list[Event]:
    """So many signed notes, a second apart."""
    return [sign(unsigned_event(key.public, number, 1, [["p", key.public]], text), key) for number in range(count)]


def notes_address(root: str, author: str) -> dict[str, Any]:
    """The address of a conversation in a thread of notes."""
    thread = {"form": "notes", "root": root, "root_kind": 1, "root_author": author}
    return {**thread, "root_relay": NOWHERE, "relays": [NOWHERE]}


def floor(place: Path) -> Floor:
    descriptor = os.open(place / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    appends = []
    for _ in range(200):
        began = time.perf_counter()
        os.write(descriptor, b"x" * 300)
        os.fdatasync(descriptor)
        appends.append(ms_since(began))
    os.close(descriptor)
    key = SecretKey.generate()
    began = time.perf_counter()
    events = notes(500, key)
    signing = ms_since(began) / len(events)
    began = time.perf_counter()
    assert all(map(is_genuine, events))
    return Floor(statistics.median(appends), signing, ms_since(began) / len(events))


def ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def percentile(values: Iterable[float], part: float) -> float:
    """The smallest value that `part` of all are not above."""
    ordered = sorted(values)
    return ordered[max(0, int(len(ordered) * part) - 1)]


def processor_ms(pid: int) -> float:
    """Milliseconds in which a process's living threads have had a processor (proc(5), schedstat)."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e6


def resident_mb(pid: int | Literal["self"] = "self") -> float:
    """MB of memory a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def environment_of(tree: Path) -> dict[str, str]:
    """Variables with which Python imports the code in `tree` before the installed one."""
    return {**os.environ, "PYTHONPATH": str(tree)}


async def in_process(module: str, *arguments: str, tree: Path = REPOSITORY) -> dict[str, Any]:
    """Run `python -m tests.benchmarks.<module>` of the code in `tree`; read the JSON object on its last line."""
    words = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    process = await asyncio.create_subprocess_exec(
        *words, cwd=tree, env=environment_of(tree), stdout=asyncio.subprocess.PIPE
    )
    try:
        message, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"tests.benchmarks.{module} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(message.splitlines()[-1])
    return found


def table(rows: Iterable[Row]) -> str:
    every = list(rows)
    width = max(len(row.work) for row in every)
    lines = [f"{'':<{width}} {'measured':>10} {'':<9} {'budget':>17} {'kept':>6} {'x floor':>8}"]
    for row in every:
        budget = f"{row.sense} {row.budget:g}" if row.budget is not None else ""
        kept = "" if row.budget is None else "yes" if row.is_kept else "NO"
        floors = f"{row.floors:.1f}" if row.floors is not None else ""
        lines.append(f"{row.work:<{width}} {row.figure:>10.2f} {row.unit:<9} {budget:>17} {kept:>6} {floors:>8}")
    return "\n".join(line.rstrip() for line in lines)
