"""The process of the pages is kept running, its failures are named, and nothing of it is left."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenex.app import page_process
from tenex.app.page_process import PageProcess
from tenex.cli.status import _pages
from tenex.core.messages import NO_USAGE
from tenex.features.metrics.gauges import Gauges
from tenex.operations.doctor.daemon import problems_in_status
from tests.service.person import until

SERVES = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
with place.open("a") as file:
    print(os.getpid(), file=file)
print("http://127.0.0.1:1", flush=True)
time.sleep(600)
"""
FAILS = 'import sys; sys.exit("tenex: web.port: 127.0.0.1:1 cannot be used")'


@asynccontextmanager
async def kept(code: str, place: Path) -> AsyncIterator[PageProcess]:
    """A process that is kept running while the block lasts."""
    pages = PageProcess([sys.executable, "-c", code, str(place / "pids")], place, draw=lambda _low, _high: 0.0)
    task = asyncio.create_task(pages.run())
    try:
        yield pages
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def pids(place: Path) -> list[int]:
    path = place / "pids"
    return list(map(int, path.read_text().split())) if path.exists() else []


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def running(pages: PageProcess, starts: int) -> Callable[[], bool]:
    return lambda: pages.state == "running" and pages.starts == starts


async def test_it_is_started_again_and_ends_with_its_task(tmp_path: Path) -> None:
    async with kept(SERVES, tmp_path) as pages:
        await until(running(pages, 1))
        assert pages.address == "http://127.0.0.1:1"
        os.kill(pids(tmp_path)[0], signal.SIGKILL)
        await until(running(pages, 2))
        assert pages.losses == 1
        first, second = pids(tmp_path)
        assert is_gone(first)
    assert pages.state == "stopped"
    await until(lambda: is_gone(second))


async def test_a_start_that_fails_is_named_and_tried_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process, "LEAST_PAUSE", 0.0)
    drawn: list[float] = []

    def draw(_low: float, high: float) -> float:
        drawn.append(high)
        return 0.0

    pages = PageProcess([sys.executable, "-c", FAILS], tmp_path, draw=draw)
    task = asyncio.create_task(pages.run())
    await until(lambda: pages.losses >= 3)
    task.cancel()
    await asyncio.wait([task])
    assert drawn[:3] == [0.5, 1.0, 2.0]
    assert pages.starts == 0
    assert pages.why == "tenex: web.port: 127.0.0.1:1 cannot be used"
    shown = {**pages.status(), "state": "waiting"}
    assert "NOT SERVED (waiting): tenex: web.port" in _pages(shown)
    status = {"configuration": {"file": "f"}, "relays": [], "models": {}, "web": shown}
    kinds: dict[str, list[Any]] = {name: [] for name in ("open", "suspended", "quarantined")}
    (finding,) = problems_in_status({**status, "conversations": kinds})
    assert (finding.location, "cannot be used" in finding.message) == ("web.enabled", True)


async def test_its_state_is_a_metric_only_where_it_is_wanted() -> None:
    def samples(pages: PageProcess | None) -> dict[str, float]:
        pool: Any = SimpleNamespace(status=tuple)
        web = pages.status if pages is not None else lambda: None
        gauges = Gauges(lambda: pool, tuple, int, lambda: NO_USAGE, web=web)
        families = [family for family in gauges.collect() if family.name.startswith("tenex_pages")]
        assert len(families) == 2
        return {sample.name: sample.value for family in families for sample in family.samples}

    assert samples(None) == {}
    pages = PageProcess([], Path())
    assert samples(pages) == {"tenex_pages_running": 0.0, "tenex_pages_losses_total": 0.0}
