"""The pages of `tenex web`: a long conversation, fifty tabs, and what a daemon notices of them.

The pages are a process of their own, as a user starts it, and a client reads them as a browser does. Where there is
Chromium, the long conversation is also opened and scrolled in it.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tenex.cli.init import prepare
from tenex.core.conversation import new_conversation
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.nostr.keys import KeyRing
from tenex.store.disk import Disk
from tenex.store.journal import StoredJournal
from tenex.store.repository import ConversationFolder
from tests.cli.journals import Decisions, renamed
from tests.fakes.scenario import Scenario, one_turn, plain_model
from tests.store.kit import StillClock

from .rig import NOWHERE, Row, ms_since, percentile, processor_ms, resident_mb

TURNS = 10_000
TABS = 50
TURNS_OF_A_TAB = 100
"""In each conversation that a tab shows."""
AT_ONCE = 100
"""Decisions that are written with one flush."""
WATCHED = 5.0
"""Seconds over which a daemon that has nothing to do is watched."""
IDLE = 20.0
"""Milliseconds of processor time a second, at most, of a daemon that has nothing to do."""
EARLIER = 5
"""Times that earlier entries are asked for before the page is scrolled."""
TEXT = "Tell me something about this, in a sentence or two, as you would to a friend."
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

GAPS = """
() => {
  window.gaps = [];
  let last = performance.now();
  const next = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}
"""
"""Notes the time between two frames of a page."""


def lived(turns: int) -> Scenario:
    """A conversation of so many turns, each a cycle of its own."""
    scenario = Scenario(one_turn(then="END"), plain_model)
    for number in range(turns):
        scenario.converse(f"{TEXT} ({number})")
    return scenario


async def write(
    folder: ConversationFolder, name: ConversationId, decisions: Sequence[Sequence[Record]]
) -> StoredJournal:
    """A conversation on disk, in files as a daemon makes them."""
    journal, _ = await folder.open(name)
    state = new_conversation(name)
    for place in range(0, len(decisions), AT_ONCE):
        part = decisions[place : place + AT_ONCE]
        await journal.append(part)
        for decision in part:
            for record in decision:
                state.apply(record)
        await folder.rotate(state)
    return journal


@asynccontextmanager
async def process_of(*words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A process for as long as the block lasts, and the first line that it prints."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *words, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        yield process, line
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def opened(client: httpx2.AsyncClient, url: str) -> float:
    """Milliseconds until a page is there."""
    began = time.perf_counter()
    answer = await client.get(url)
    assert answer.status_code == 200, answer.text
    return ms_since(began)


async def tab(client: httpx2.AsyncClient, url: str, is_open: asyncio.Event) -> None:
    """A tab that shows a conversation, until something has happened in it."""
    page = (await client.get(url)).text
    after = page.partition("events?after=")[2].partition('"')[0]
    async with client.stream("GET", f"{url}/events?after={after}") as stream:
        async for line in stream.aiter_lines():
            if line == "event: daemon":
                is_open.set()
            if line == "event: entry":
                return


async def use_of(pid: int, seconds: float = WATCHED) -> float:
    """Milliseconds of processor time that a process takes in a second."""
    before = processor_ms(pid)
    await asyncio.sleep(seconds)
    return (processor_ms(pid) - before) / seconds


async def in_browser(link: str, path: str) -> list[Row]:
    """How long a real browser takes to open a page and to scroll in it; nothing without Chromium."""
    if CHROMIUM is None:
        return []
    from playwright.async_api import async_playwright

    base = link.partition("/login#")[0]
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        await page.goto(link)
        await page.wait_for_url(f"{base}/")
        began = time.perf_counter()
        await page.goto(f"{base}{path}")
        await page.locator("#newest").wait_for(state="attached")
        loaded = ms_since(began)
        for number in range(EARLIER):
            await page.locator("#earlier").click()
            await page.locator("#story .entry").nth(100 * (number + 1)).wait_for(state="attached")
        await page.evaluate(GAPS)
        for step in range(60):
            await page.mouse.wheel(0, 900 if step < 30 else -900)
            await page.wait_for_timeout(30)
        gaps = sorted(await page.evaluate("window.gaps"))
        await browser.close()
    return [
        Row("pages: the same in Chromium, 390 px wide", loaded, "ms", budget=1_000),
        Row(f"pages: scrolling {100 * (EARLIER + 1)} entries, the longest frame", gaps[-1], "ms", budget=50),
        Row("pages: the same, p99 of the frames", percentile(gaps, 0.99), "ms"),
    ]


@dataclass(frozen=True, kw_only=True)
class Served:
    """The pages of a folder in a process, and a client that is logged in."""

    pid: int
    base: str
    client: httpx2.AsyncClient

    @asynccontextmanager
    async def tabs(self, names: Sequence[ConversationId]) -> AsyncIterator[list[asyncio.Task[None]]]:
        """A tab for each conversation, once all of them are shown; the tasks end when something has happened there."""
        shown = [asyncio.Event() for _ in names]
        tasks = [
            asyncio.create_task(tab(self.client, f"{self.base}/c/{name}", event))
            for name, event in zip(names, shown, strict=True)
        ]
        try:
            await asyncio.wait_for(asyncio.gather(*(event.wait() for event in shown)), 120)
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def served(place: Path) -> AsyncIterator[Served]:
    """Pages as `tenex web` serves them."""
    limits = httpx2.Limits(max_connections=4 * TABS)
    async with (
        process_of("tenex", "web", "--data", str(place), "--port", "0") as (process, link),
        httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client,
    ):
        base, _, token = link.partition("/login#")
        origin = "/".join(base.split("/")[:3])
        await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
        yield Served(pid=process.pid, base=base, client=client)


async def measure(place: Path) -> list[Row]:
    written, beside = place / "written", place / "beside"
    prepare(written, None, [NOWHERE])
    disk = Disk()
    folder = ConversationFolder(written / "conversations", disk, StillClock())
    long = ConversationId("a" * 64)
    await write(folder, long, renamed(long, lived(TURNS).journal))
    short = lived(TURNS_OF_A_TAB)
    first = len(short.journal)
    short.converse(TEXT)
    names = [ConversationId(f"{number:064x}") for number in range(1, TABS + 1)]
    journals = {name: await write(folder, name, renamed(name, short.journal[:first])) for name in names}
    shutil.copytree(written, beside)  # a daemon appends that it has not written these
    rows = await opened_and_followed(written, long, journals, short.journal[first:])
    await folder.close()
    disk.close()
    return rows + await beside_a_daemon(beside, names)


async def opened_and_followed(
    place: Path, long: ConversationId, journals: Mapping[ConversationId, StoredJournal], more: Decisions
) -> list[Row]:
    """A long conversation opened, and tabs that follow what is appended to others."""
    async with served(place) as pages:
        cold = await opened(pages.client, f"{pages.base}/c/{long}")
        again = [await opened(pages.client, f"{pages.base}/c/{long}") for _ in range(10)]
        rows = [
            Row(f"pages: {TURNS:,} turns, the first time", cold, "ms", budget=1_000),
            Row("pages: the same again, p50", percentile(again, 0.5), "ms"),
        ]
        async with process_of("tenex", "web", "--data", str(place), "--link") as (_, link):
            rows += await in_browser(link, f"/c/{long}")
        async with pages.tabs(list(journals)) as tabs:
            began = time.perf_counter()
            for name, journal in journals.items():
                await journal.append(renamed(name, more))
            await asyncio.wait_for(asyncio.gather(*tabs), 60)
        rows += [
            Row(f"pages: an append reaches the last of {TABS} tabs", ms_since(began), "ms"),
            Row(f"pages: memory with {TABS} tabs", resident_mb(pages.pid), "MB", budget=100),
        ]
    return rows


async def beside_a_daemon(place: Path, names: Sequence[ConversationId]) -> list[Row]:
    """What a daemon that has nothing to do takes without tabs and with them."""
    owner = KeyRing(place / "keys").get("owner").npub
    async with process_of("tests.benchmarks.daemon", str(place), NOWHERE, owner) as (daemon, _):
        while await use_of(daemon.pid, 1.0) > IDLE:  # it reads what it has not written
            pass
        alone = await use_of(daemon.pid)
        async with served(place) as pages, pages.tabs(names):
            beside = await use_of(daemon.pid)
    return [
        Row("pages: processor time of an idle daemon, without tabs", alone, "ms/s"),
        Row(f"pages: the same beside {TABS} tabs", beside, "ms/s"),
    ]
