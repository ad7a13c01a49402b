"""`make bench`: every budget of the design that needs no fault, measured in one run and printed as one table.

The floor, what no implementation can do without, is measured in the same minutes: on a machine that others use too, the
ratios matter more than the figures. Only growth fails: where a turn or the memory of a long conversation
costs more than at its beginning, or the time for foreign text grows faster than the text, the exit code is 1.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from . import (
    against,
    appends,
    calls,
    commands,
    crowd,
    events,
    pages,
    postgres,
    readers,
    scale,
    start,
    tools,
    turns,
    views,
)
from .rig import Row, floor, table

ROWS = (
    "calls",
    "turns",
    "appends",
    "events",
    "crowd",
    "start",
    "tools",
    "views",
    "pages",
    "commands",
    "help",
    "readers",
)
OPTIONAL = ("postgres", "scale")
"""Measured only where it is named: it takes minutes, or needs programs that are not everywhere."""


async def measure(place: Path, chosen: Sequence[str], counts: Sequence[int]) -> list[Row]:
    rows = floor(place).rows()
    ways: dict[str, Callable[[], Awaitable[list[Row]]]] = {
        "calls": lambda: calls.measure(place / "calls"),
        "turns": lambda: turns.measure(place / "turns", counts, lambda: floor(place)),
        "appends": lambda: appends.measure(place, floor(place)),
        "events": lambda: events.measure(place),
        "crowd": lambda: crowd.measure(place / "crowd"),
        "start": lambda: start.measure(place / "start"),
        "tools": lambda: tools.measure(place / "tools"),
        "views": lambda: views.measure(place / "views"),
        "pages": lambda: pages.measure(place / "pages"),
        "commands": lambda: commands.measure(place / "commands"),
        "help": start.measure_help,
        "readers": readers.measure,
        "postgres": lambda: postgres.measure(place / "postgres"),
        "scale": lambda: scale.measure(place / "scale"),
    }
    for name in chosen:
        print(f"measuring: {name} ...", file=sys.stderr, flush=True)
        rows += await ways[name]()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure against the budgets of the design.")
    parser.add_argument("--quick", action="store_true", help="a conversation of 1,000 turns instead of 10,000")
    parser.add_argument("--turns", help="where in a conversation to measure, in turns: 10,1000,10000")
    parser.add_argument("--only", action="append", choices=ROWS + OPTIONAL, help="measure this; may be repeated")
    parser.add_argument("--against", metavar="COMMIT", help="compare with a recorded commit, and measure no budget")
    parser.add_argument("--rounds", type=int, default=3, help="of a comparison; each is about ten seconds")
    chosen = parser.parse_args()
    turns_at = chosen.turns or ("10,1000" if chosen.quick else "10,1000,10000")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory(prefix="tenex-bench-") as place:
        if chosen.against:
            rows = asyncio.run(against.measure(chosen.against, Path(place), chosen.rounds))
        else:
            counts = [int(part) for part in turns_at.split(",")]
            rows = asyncio.run(measure(Path(place), chosen.only or ROWS, counts))
    print(f"{os.cpu_count()} cores; the load before and now: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(table(rows))
    grown = [row.work for row in rows if row.grows and not row.is_kept]
    if grown:
        print(f"grows with the history, or faster than the text: {'; '.join(grown)}")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
