"""Ten thousand turns over the real store: nothing that is ours grows with them.

What the rules decide comes from the core itself; relays and models are left out, because they have no part in it.
"""

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.records import TurnClosed
from tenex.store import segments
from tenex.store.disk import Disk
from tenex.store.journal import FILE_BYTES, FileJournal
from tenex.store.repository import ConversationFolder
from tenex.store.view import SEGMENT, Views
from tests.fakes.scenario import ID, Scenario, reply

from .kit import StillClock

TURNS = 10_000
EARLY, LATE, MEASURED = 2_000, TURNS, 500
SHOWN_EVERY = 5
"""Turns between two views, of which each may begin a new file."""


def router(question: dict[str, Any]) -> dict[str, Any]:
    last = question["turns"][-1]["turn"] if question["turns"] else None
    answered = last is not None and question["messages"][-1]["after_turn"] != last
    return {"agents": ["USER" if answered else "project-manager"], "reason": "talk"}


class Talk:
    """A scenario whose journal is on disk and not in memory."""

    def __init__(self, folder: ConversationFolder, journal: FileJournal, views: Views) -> None:
        self.scenario = Scenario(router, lambda c, m: reply("I have read your message, and this is my answer. " * 4))
        self._folder, self._journal, self._views = folder, journal, views

    async def turn(self, number: int) -> None:
        self.scenario.user_writes(
            f"message {number}: explain something, in a sentence or two, as you would to a friend"
        )
        self.scenario.settle()
        await self._journal.append(self.scenario.journal)
        self.scenario.journal.clear()
        self.scenario.published.clear()
        if number % SHOWN_EVERY == 0:
            page = self._views.page(self.scenario.conversation)
            await self._folder.rotate(self.scenario.conversation)
            await self._views.write(page)


@pytest.mark.soak
async def test_memory_time_and_what_a_start_reads_are_the_same_after_ten_thousand_turns(tmp_path: Path) -> None:
    disk = Disk()
    folder = ConversationFolder(tmp_path / "conversations", disk, StillClock())
    journal, _ = await folder.open(ID)
    talk = Talk(folder, journal, Views(folder, disk))
    path, began = folder.path(ID), 0.0
    objects, seconds, views = dict[int, int](), dict[int, float](), dict[int, int]()
    for number in range(1, TURNS + 1):
        if number in (EARLY - MEASURED, LATE - MEASURED):
            began = time.process_time()
        await talk.turn(number)
        if number in (EARLY, LATE):
            seconds[number] = time.process_time() - began
            gc.collect()
            objects[number] = sys.getallocatedblocks()
            views[number] = (path / "conversation.json").stat().st_size
        assert segments.current(path).stat().st_size < 3 * FILE_BYTES
    print(f"objects {objects}, seconds of {MEASURED} turns {seconds}, views {views}")
    assert objects[LATE] - objects[EARLY] < (LATE - EARLY) / 10, "not even one small thing every ten turns"
    assert seconds[LATE] < seconds[EARLY] * 1.5, "CPU time, so that it does not depend on who else is there"
    assert views[LATE] < views[EARLY] * 1.2
    await folder.close()
    again, records = await folder.open(ID)
    assert fold(ID, records) == talk.scenario.conversation
    assert len(records) < 20_000
    everything = await folder.read(ID)
    assert [record.seq for record in everything] == list(range(1, again.next_seq))
    assert sum(isinstance(record, TurnClosed) for record in everything) == TURNS
    assert fold(ID, everything) == talk.scenario.conversation
    assert len(list(path.glob("orchestratorTurns-*.json"))) == TURNS // SEGMENT - 1
    assert os.fspath(segments.current(path)).endswith(f"journal-{len(segments.numbers(path)):06d}.jsonl")
    disk.close()
