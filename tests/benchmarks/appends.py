"""What an append costs: one decision, several that waited and share it, and several conversations at once."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.disk import Disk
from tenex.store.journal import StoredJournal
from tenex.store.repository import ConversationFolder
from tests.store.kit import StillClock, decisions_of

from .rig import Floor, Row, ms_since, percentile

TIMES = 200
SHARED = 16
"""Signals that waited together."""
BESIDE = 8
"""Conversations that append at the same time."""


async def _append(journal: StoredJournal, decisions: int = 1) -> float:
    """Append so many decisions of two records at once; returns ms."""
    made: Sequence[Sequence[Record]] = decisions_of(*[2] * decisions, first=journal.next_seq)
    began = time.perf_counter()
    await journal.append(made)
    return ms_since(began)


async def measure(place: Path, floor: Floor) -> list[Row]:
    disk = Disk()
    folder = ConversationFolder(place / "appends", disk, StillClock())
    one, *many = [(await folder.open(ConversationId(f"{number:064x}")))[0] for number in range(BESIDE + 1)]
    for journal in (one, *many):
        await _append(journal)  # it makes the files
    alone = percentile([await _append(one) for _ in range(TIMES)], 0.5)
    shared = percentile([await _append(one, SHARED) for _ in range(TIMES)], 0.5)

    async def go_on(journal: StoredJournal) -> None:
        for _ in range(TIMES // BESIDE):
            await _append(journal)

    began = time.perf_counter()
    for journal in many:
        await go_on(journal)
    in_turn = ms_since(began)
    began = time.perf_counter()
    await asyncio.gather(*map(go_on, many))
    beside = ms_since(began)
    await folder.close()
    disk.close()
    return [
        Row("append of one decision, p50", alone, "ms", floors=alone / floor.append),
        Row(
            f"append of {SHARED} decisions that waited, to each",
            shared / SHARED,
            "ms",
            floors=shared / SHARED / floor.append,
        ),
        Row(
            f"appends of {BESIDE} conversations at once, to each",
            beside / TIMES,
            "ms",
            floors=beside / TIMES / floor.append,
        ),
        Row("the same one after another, against at once", in_turn / beside, "x"),
    ]
