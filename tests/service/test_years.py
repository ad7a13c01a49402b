"""Ten thousand turns of one conversation through the daemon itself: neither memory, nor time, nor what is read grows.

Everything is real but the relay, which takes what is published at once, and the model, which answers at once.
"""

import asyncio
import gc
import json
import logging
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from tenex.app import Application
from tenex.core.ids import ConversationId
from tenex.store import segments
from tenex.store.journal import FILE_BYTES
from tests.benchmarks.daemon import Instant
from tests.benchmarks.people import Crowd, among_people
from tests.benchmarks.rig import resident_mb

from .kit import ROOT, TENEX, environment

TURNS = 10_000
EARLY, MEASURED = 2_000, 500
"""Turns after which all bounded caches but that of 20,000 event ids are full; turns over which time is taken."""
LONGEST = 40.0
"""Seconds of a processor for a command that reads the whole journal, 80 MB and more: an idle machine takes a third."""


@dataclass(frozen=True, slots=True)
class Look:
    """How large the daemon is, and what it has taken."""

    seconds: float
    """Of the processor, for the turns measured."""
    memory: float
    objects: int
    view: int

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.memory:.0f} MB, {self.objects} blocks, a view of {self.view} bytes"


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Log only what is wrong: a line for each event would be a third of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()


async def talk(crowd: Crowd, turns: int) -> None:
    crowd.go_on(turns)
    async with asyncio.timeout(60 + turns):
        await crowd.done.wait()


async def measured(app: Application, crowd: Crowd, name: ConversationId) -> Look:
    """Talk on for a while, and look."""
    began = time.process_time()
    await talk(crowd, MEASURED)
    seconds = time.process_time() - began
    gc.collect()
    view = app.places.conversations / name / "conversation.json"
    return Look(seconds, resident_mb(), sys.getallocatedblocks(), view.stat().st_size)


async def command(*words: str | Path) -> tuple[str, float]:
    """Run `tenex`: its output, and the seconds it had a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = await asyncio.create_subprocess_exec(
        *TENEX,
        *map(str, words),
        cwd=ROOT,
        env=environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(5 * LONGEST):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{words}: {(err or out).decode()}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out.decode(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.soak
@pytest.mark.usefixtures("_quiet")
async def test_a_conversation_of_ten_thousand_turns_costs_the_same_as_at_its_beginning(tmp_path: Path) -> None:
    async with among_people(tmp_path, Instant()) as (app, crowd):
        crowd.begin(1, 1)
        async with asyncio.timeout(30):
            await crowd.done.wait()
        (name,) = crowd.conversations
        folder = app.places.conversations / name
        await talk(crowd, EARLY - MEASURED - 1)
        early = await measured(app, crowd, name)
        await talk(crowd, TURNS - EARLY - MEASURED)
        late = await measured(app, crowd, name)
    print(f"after {EARLY:,} turns: {early}\nafter {TURNS:,}: {late}")
    assert late.seconds <= 1.5 * early.seconds
    assert late.memory <= 1.3 * early.memory
    assert late.view <= 2 * early.view, "it holds from 100 to 199 turns"
    assert len(segments.numbers(folder)) > TURNS // 500, "a journal goes on in other files"
    assert segments.current(folder).stat().st_size < 5 * FILE_BYTES
    view = json.loads((folder / "conversation.json").read_text())
    assert view["status"] == "waiting"
    assert len(view["orchestratorTurns"]) < 200
    last = view["orchestratorTurns"][-1]["turnId"]
    assert last == f"turn-{TURNS}"

    took: dict[str, float] = {}
    for words in (
        ("verify", name),
        ("replay", name, "--json"),
        ("stats", name, "--json"),
        ("show", name, "--json"),
        ("search", "friend", "--json"),
        ("list", "--json"),
    ):
        out, took[words[0]] = await command("conversations", *words, "--data", tmp_path)
        if words[0] == "replay":
            assert json.loads(out)["usage"]["calls"] == 3 * TURNS
    print(f"seconds of a processor: {took}")
    assert max(took.values()) < LONGEST, took
