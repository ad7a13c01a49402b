"""A start with 10,000 conversations on disk, 100 of them unfinished; the index made again; and a search.

The time is taken from the start of the process to READY, beside that of the same start on an empty folder: what is
between the two is what the conversations cost. Then what it costs to make the index again, and to search it; and how
long `tenex --help` takes beyond an interpreter that does nothing.
"""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.nostr.keys import SecretKey
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.index_reader import open_catalogue
from tenex.store.repository import ConversationFolder
from tenex.store.search import Filter
from tenex.store.search_words import match_of
from tests.fakes.scenario import Scenario, diligent
from tests.store.kit import StillClock

from .rig import NOWHERE as NOWHERE
from .rig import Row, ms_since, notes_address, processor_ms

CONVERSATIONS = 10_000
UNFINISHED = 100


class Lives:
    """Journals like those of short talks, each of other words."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyz"
        lengths = (self._random.randint(3, 10) for _ in range(20_000))
        self._vocabulary = ["".join(self._random.choices(letters, k=length)) for length in lengths]
        self._author = SecretKey.generate().public
        self._settled, self._unfinished = self._play(ends=True), self._play(ends=False)

    def _play(self, *, ends: bool) -> list[tuple[r.Record, ...]]:
        def router(question: dict[str, Any]) -> dict[str, Any]:
            who = ["USER"] if question["turns"] else ["project-manager"]
            return {"agents": who, "reason": "talk"}

        scenario = Scenario(router, diligent)
        scenario.user_writes("hello")
        if ends:
            scenario.settle()
        return scenario.journal

    def make(self, root: Path, count: int, unfinished: int) -> None:
        """Write so many conversations, with views that are newer than their journals."""
        for number in range(count):
            name = f"{self._random.getrandbits(256):064x}"
            folder = root / name
            folder.mkdir(parents=True, mode=0o700)
            decisions = self._unfinished if number < unfinished else self._settled
            data = CONVERSATION.encode_decisions([list(self._renamed(name, decision)) for decision in decisions])
            (folder / "journal.jsonl").write_bytes(data)
            (folder / "conversation.json").write_text("{}\n")

    def words(self, count: int) -> str:
        """Some words, few of them common."""
        picks = (min(int(self._random.expovariate(1 / 3000)), len(self._vocabulary) - 1) for _ in range(count))
        return " ".join(self._vocabulary[pick] for pick in picks)

    def _renamed(self, name: str, decision: tuple[r.Record, ...]) -> Iterator[r.Record]:
        for record in decision:
            match record:
                case r.ConversationStarted():
                    address = notes_address(name, self._author)
                    yield replace(record, id=ConversationId(name), title=self.words(6), address=address)
                case r.MessageRecorded():
                    author = PublicKey(self._author)
                    yield replace(record, event_id=EventId(name), author=author, text=self.words(40), origin={})
                case r.MessageSent():
                    events = tuple(
                        replace(e, id=EventId(f"{self._random.getrandbits(256):064x}")) for e in record.events
                    )
                    yield replace(record, text=self.words(80), events=events)
                case _:
                    yield record


async def started(data: Path) -> tuple[float, float]:
    """Seconds from the start of a daemon's process to its READY, and those of them in which it had a processor."""
    began = time.perf_counter()
    words = ["-m", "tests.benchmarks.daemon", str(data), NOWHERE, SecretKey.generate().npub]
    daemon = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    assert daemon.stdout is not None
    line = await asyncio.wait_for(daemon.stdout.readline(), 120)
    took = time.perf_counter() - began
    assert line.startswith(b"READY "), line
    used = processor_ms(daemon.pid) / 1000
    daemon.kill()
    await daemon.wait()
    return took, used


def _quickest(*arguments: str) -> float:
    """Seconds of the least disturbed of some runs."""
    took = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
    return min(took)


async def measure_help() -> list[Row]:
    bare = _quickest("-c", "pass")
    helped = _quickest("-m", "tenex.main", "--help")
    return [
        Row("a bare interpreter", bare, "s"),
        Row("`tenex --help` beyond that", helped - bare, "s", budget=0.2),
    ]


async def measure(place: Path) -> list[Row]:
    lives, full, empty = Lives(), place / "full", place / "empty"
    root = full / "conversations"
    lives.make(root, CONVERSATIONS, UNFINISHED)
    disk = Disk()
    folder = ConversationFolder(root, disk, StillClock())
    began = time.perf_counter()
    index = Index(root / "index.sqlite")
    await index.catch_up(folder)
    await index.close()
    rebuilt = time.perf_counter() - began
    await started(empty)  # keys are made, and files come into the cache
    bare = min([await started(empty) for _ in range(3)])
    waited, used = await started(full)
    began = time.perf_counter()
    async with open_catalogue(folder) as catalogue:
        opened = ms_since(began)
        searched = []
        for query in (lives.words(1), lives.words(2), "a"):
            began = time.perf_counter()
            await catalogue.search(match_of(query), Filter(), 20)
            searched.append(ms_since(began))
    disk.close()
    what = f"a start with {CONVERSATIONS:,} conversations, {UNFINISHED} unfinished"
    return [
        Row(f"{what}: READY beyond an empty folder's", waited - bare[0], "s", budget=1),
        Row(f"{what}: processor time beyond that", used - bare[1], "s", budget=1),
        Row("a start with an empty folder, interpreter and imports included", bare[0], "s"),
        Row("the index rebuilt, to a conversation", rebuilt / CONVERSATIONS * 1000, "ms"),
        Row("comparing the index with the folder", opened, "ms"),
        Row("the slowest of three searches", max(searched), "ms"),
    ]
