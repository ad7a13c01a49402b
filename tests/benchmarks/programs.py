"""How long `tenex --help` takes beyond an interpreter that does nothing."""

import subprocess
import sys
import time

from .rig import Row

TIMES = 7


def _quickest(*arguments: str) -> float:
    """Seconds of the least disturbed of some runs."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
    return min(took)


def measure() -> list[Row]:
    bare = _quickest("-c", "pass")
    helped = _quickest("-m", "tenex.cli.main", "--help")
    return [
        Row("a bare interpreter", bare, "s"),
        Row("`tenex --help` beyond that", helped - bare, "s", budget=0.2),
    ]
