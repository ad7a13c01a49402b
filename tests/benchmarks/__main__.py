"""`python -m tests.benchmarks [--turns 10,1000]`: one turn, relay in to reply seen on the relay, beside its budget.

Three parties as in life: the daemon in a process of its own, with its files on a real disk and every record fsynced;
the embedded relay; and a person's client on real sockets. The mind answers at once. A turn is a person's note, the
router, one agent, and its reply as the person's own subscription brings it.

Each figure is taken over a window of turns back to back; between windows turns are paced, because the embedded relay
resets a socket at 6,001 frames a minute. The same run measures the floor (a durable append, a signature, a
verification), so that figures of a noisy machine can be read as ratios.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from tenex.cli.talk import Heard, Talk, talking
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import is_genuine, sign, unsigned_event
from tenex.nostr.keys import SecretKey, parse_public_key

WINDOW = 60
"""Turns of a window: at one frame a turn, less than what a connection may send in a second."""
PACE = 0.012
"""Seconds between turns outside the windows."""
BUDGET_P50, BUDGET_P99, BUDGET_GROWTH, BUDGET_BYTES = 4.0, 8.0, 1.2, 700
SAID = "Tell me something about this, in a sentence or two, as you would to a friend."


class Person:
    """A person who writes, and waits for the answer."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._answer: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        talk.on_heard(self._heard)

    def _heard(self, heard: Heard) -> None:
        if not self._answer.done():
            self._answer.set_result(heard)

    async def turn(self) -> float:
        """Write and wait; returns ms."""
        self._answer = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        sending = asyncio.create_task(self._talk.send(SAID))
        await asyncio.wait_for(self._answer, 10)
        took = (time.perf_counter() - began) * 1000
        await sending
        return took


async def measure(data: Path, counts: Sequence[int]) -> None:
    """Hold one conversation for as long as it takes."""
    owner = SecretKey.generate()
    async with embedded_relay() as url:
        daemon = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.benchmarks.daemon", str(data), url, owner.npub, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert daemon.stdout is not None
            said = (await asyncio.wait_for(daemon.stdout.readline(), 30)).split()
            async with talking(url, owner, parse_public_key(said[1].decode())) as talk:
                windows = await take(Person(talk), counts)
                root = str(talk.root)
        finally:
            daemon.terminate()
            await daemon.wait()
    report(data, root, windows)


async def take(person: Person, counts: Sequence[int]) -> dict[int, list[float]]:
    """Take all turns; the times of each window by the turn it begins at."""
    windows: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(max(counts) + WINDOW):
        took = await person.turn()
        measured = [times for count, times in windows.items() if count <= number < count + WINDOW]
        for times in measured:
            times.append(took)
        if not measured:
            await asyncio.sleep(PACE)
    return windows


def report(data: Path, root: str, windows: dict[int, list[float]]) -> None:
    """Print the figures beside their budgets."""
    print(f"one turn, relay in -> route -> agent -> reply on the relay, every record fsynced ({os.cpu_count()} cores)")
    print(f"{'turn':>8} {'p50 ms':>8} {'budget':>7} {'p99 ms':>8} {'budget':>7} {'growth':>7} {'budget':>7}")
    early = statistics.median(next(iter(windows.values())))
    for count, times in windows.items():
        p50, p99 = statistics.median(times), sorted(times)[int(len(times) * 0.99) - 1]
        print(
            f"{count:>8} {p50:>8.2f} {BUDGET_P50:>7.1f} {p99:>8.2f} {BUDGET_P99:>7.1f} {p50 / early:>7.2f} "
            f"{BUDGET_GROWTH:>7.1f}"
        )
    lines = (data / "conversations" / root / "journal.jsonl").read_bytes().splitlines(keepends=True)
    turns = max(windows) + WINDOW
    each = sum(map(len, lines)) / len(lines)
    print(f"records per turn {len(lines) / turns:.1f}, bytes per record {each:.0f} (budget {BUDGET_BYTES})")
    floor(data)


def floor(data: Path) -> None:
    """What no implementation can do without, on this machine and now."""
    descriptor = os.open(data / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    appends = []
    for _ in range(200):
        began = time.perf_counter()
        os.write(descriptor, b"x" * 300)
        os.fdatasync(descriptor)
        appends.append((time.perf_counter() - began) * 1000)
    os.close(descriptor)
    key = SecretKey.generate()
    began = time.perf_counter()
    events = [sign(unsigned_event(key.public, number, 1, [["p", key.public]], "x" * 300), key) for number in range(500)]
    signing = (time.perf_counter() - began) * 2
    began = time.perf_counter()
    assert all(map(is_genuine, events))
    verifying = (time.perf_counter() - began) * 2
    print(
        f"the floor now: a durable append of 300 bytes p50 {statistics.median(appends):.2f} ms, "
        f"an id and a signature {signing:.3f} ms, a verification {verifying:.3f} ms"
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", default="10,1000", help="where to measure, in turns")
    counts = [int(part) for part in parser.parse_args().turns.split(",")]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory(prefix="tenex-bench-") as folder:
        asyncio.run(measure(Path(folder), counts))


if __name__ == "__main__":
    main()
