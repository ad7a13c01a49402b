"""What an append costs: one decision, several that waited and share it, and several conversations at once."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.disk import Disk
from tenex.store.journal import FileJournal
from tenex.store.repository import ConversationFolder
from tests.store.kit import StillClock, decisions_of

from .rig import Floor, Row, ms_since, percentile

TIMES = 200
SHARED = 16
"""Signals that waited together."""
BESIDE = 8
"""Conversations that append at the same time."""


class _Writer:
    """A journal, and decisions to append to it."""

    def __init__(self, folder: ConversationFolder, journal: FileJournal, conversation: ConversationId) -> None:
        self._journal, self._folder, self._conversation = journal, folder, conversation

    @classmethod
    async def of(cls, folder: ConversationFolder, number: int) -> "_Writer":
        conversation = ConversationId(f"{number:064x}")
        journal, _ = await folder.open(conversation)
        return cls(folder, journal, conversation)

    async def append(self, decisions: int) -> float:
        """Append so many decisions of two records at once; returns ms."""
        first = self._journal.next_seq
        made: Sequence[Sequence[Record]] = decisions_of(*[2] * decisions, first=first)
        began = time.perf_counter()
        await self._journal.append(made)
        return ms_since(began)


async def measure(place: Path, floor: Floor) -> list[Row]:
    """Append alone, together, and side by side."""
    disk = Disk()
    folder = ConversationFolder(place / "appends", disk, StillClock())
    one = await _Writer.of(folder, 0)
    await one.append(1)  # it makes the files
    alone = percentile([await one.append(1) for _ in range(TIMES)], 0.5)
    shared = percentile([await one.append(SHARED) for _ in range(TIMES)], 0.5)
    many = [await _Writer.of(folder, number) for number in range(1, BESIDE + 1)]
    for writer in many:
        await writer.append(1)

    async def go_on(writer: _Writer) -> None:
        for _ in range(TIMES // BESIDE):
            await writer.append(1)

    began = time.perf_counter()
    for writer in many:
        await go_on(writer)
    in_turn = ms_since(began)
    began = time.perf_counter()
    await asyncio.gather(*map(go_on, many))
    beside = ms_since(began)
    await folder.close()
    disk.close()
    return [
        Row(work="append of one decision, p50", figure=alone, unit="ms", floors=alone / floor.append),
        Row(
            work=f"append of {SHARED} decisions that waited, to each",
            figure=shared / SHARED,
            unit="ms",
            floors=shared / SHARED / floor.append,
        ),
        Row(
            work=f"appends of {BESIDE} conversations at once, to each",
            figure=beside / TIMES,
            unit="ms",
            floors=beside / TIMES / floor.append,
        ),
        Row(work="the same one after another, against at once", figure=in_turn / beside, unit="x"),
    ]
