"""A program that asks models, with little memory beside what it has when it begins, and prints each outcome."""

import asyncio
import json
import resource
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.llm.config import Price, ProviderConfig
from tests.llm.clients import WRITE, client_for, route, work

ROOM = 400 * 1024**2
"""Bytes of address space beside those it has."""


def main() -> int:
    """Ask the models of `argv`, each a JSON object: kind, url, purpose, stream, seconds; all have the memory of one."""
    for asked in map(json.loads, sys.argv[1:]):
        print(json.dumps(asyncio.run(_ask(**asked))))
    return 0


async def _ask(
    kind: str, url: str, purpose: str = "work", *, stream: bool = True, seconds: float = 40
) -> dict[str, object]:
    name = f"{kind}:test"
    provider = ProviderConfig(name=kind, base_url=url, api_key="none")
    prices = {name: Price(input=1.0, output=1.0)}
    client = client_for(provider, chain=(name,), prices=prices, stream=stream, timeout=seconds)
    client.check([name])
    before = _peak_at_first()
    began, lag = time.monotonic(), asyncio.create_task(_longest_pause())
    outcome: dict[str, object]
    try:
        step = await client.step(route() if purpose == "route" else replace(work(), tools=(WRITE,)))
        outcome = {"outcome": "answered", "message": step.text[:200], "calls": len(step.calls), "cost": None}
    except (ModelRefused, ModelUnavailable) as error:
        outcome = {"outcome": type(error).__name__, "message": str(error), "cost": error.usage.cost_usd}
    lag.cancel()
    await client.close()
    taken = {"mb": (_peak() - before) // 1024, "seconds": round(time.monotonic() - began, 2)}
    return {**outcome, **taken, "pause": round(_PAUSES[-1], 2)}


_PAUSES = [0.0]


async def _longest_pause() -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        _PAUSES.append(max(_PAUSES[-1], time.monotonic() - began - 0.01))


@cache
def _peak_at_first() -> int:
    """The memory at the first call, from which on it is limited."""
    _limit_memory()
    return _peak()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
