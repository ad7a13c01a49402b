"""This code against that of a recorded commit, in interleaved rounds: `make bench AGAINST=<commit>`.

Each round starts a daemon of either code and gives each the same turns, some at a time by turns; so both have the same
machine in the same seconds, and the ratios hold where the figures do not. Only the daemons differ: the client, the
relay and the installed packages are the same. A ratio below 1 is less than before.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .rig import REPOSITORY, Row, environment_of, in_process, percentile, resident_mb
from .turns import Window, party

FIRST = 10
"""Turns before a daemon's memory is first taken."""
WARM_UP = 40
"""Turns before processor time is taken: until then caches fill."""
PARTS = 5
"""Parts of a round."""
HELPS = 5
"""Times `--help` is run in a round."""


@dataclass
class Side:
    """What was measured of one of the two codes."""

    tree: Path
    windows: list[Window] = field(default_factory=list)
    """One of each round."""
    memory: list[float] = field(default_factory=list)
    """MB after the first turns, of each round."""
    helped: list[float] = field(default_factory=list)
    """Milliseconds of processor time of each `--help`."""
    held: float = 0.0
    """KB of each conversation that waits, still open."""

    @property
    def parts(self) -> list[float]:
        return [part for window in self.windows for part in window.parts]

    @property
    def middles(self) -> list[float]:
        return [middle for window in self.windows for middle in window.middles]


@contextmanager
def checked_out(commit: str, place: Path) -> Iterator[Path]:
    """A folder with the files of a commit."""
    tree = place / "recorded"
    git = ["git", "-C", str(REPOSITORY), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
    try:
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


async def measure(commit: str, place: Path, rounds: int) -> list[Row]:
    with checked_out(commit, place) as tree:
        then = Side(tree)
        now = Side(REPOSITORY)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
            order = (then, now) if number % 2 == 0 else (now, then)
            await _round(order, place / f"round-{number}")
        print("waiting conversations ...", file=sys.stderr, flush=True)
        for side in (then, now):
            found = await in_process("crowd", str(place / f"crowd-{side is now}"), tree=side.tree)
            side.held = found["held"] / max(1, found["waiting"]) * 1024
    return [
        *_rows("processor time of a turn", "ms", then.parts, now.parts),
        *_rows("p50 of a turn", "ms", then.middles, now.middles),
        *_rows(f"memory after {FIRST} turns", "MB", then.memory, now.memory),
        *_rows("memory of a waiting conversation", "KB", [then.held], [now.held]),
        *_rows("processor time of `tenex --help`", "ms", then.helped, now.helped),
    ]


async def _round(order: Sequence[Side], place: Path) -> None:
    first, second = order
    async with party(place / "first", first.tree) as one, party(place / "second", second.tree) as other:
        both = [(first, one), (second, other)]
        for side, members in both:
            await members.hold(FIRST)
            side.memory.append(resident_mb(members.pid))
            await members.hold(WARM_UP - FIRST)
            side.windows.append(Window())
        for _ in range(PARTS):
            for side, members in both:
                await members.take(side.windows[-1])
    for _ in range(HELPS):
        for side in order:
            side.helped.append(await asyncio.to_thread(_help_ms, side.tree))


def _help_ms(tree: Path) -> float:
    """Milliseconds of a processor that `tenex --help` takes."""
    words = [sys.executable, "-m", "tenex", "--help"]
    process = subprocess.Popen(words, cwd=tree, env=environment_of(tree), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (usage.ru_utime + usage.ru_stime) * 1000


def _rows(work: str, unit: str, then: Sequence[float], now: Sequence[float]) -> list[Row]:
    """The lower quartile of each, because what disturbs a measurement only adds to it, and the ratio of the two."""
    before = percentile(then, 0.25)
    after = percentile(now, 0.25)
    return [
        Row(f"{work}: recorded", before, unit),
        Row(f"{work}: now", after, unit),
        Row(f"{work}: ratio", after / before, "x"),
    ]
