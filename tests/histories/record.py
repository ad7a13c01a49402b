"""Adds a history: its journal, and beside it what it must always render and add up to. Never overwrites."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.ports import Notice
from tenex.core.records import ConversationStarted, Record
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW, peek
from tenex.store.segments import name_of
from tenex.store.stats import Stats, as_json
from tenex.store.view_json import render
from tests.store.kit import StillClock

from .agency_scenes import Decisions
from .scenes import SCENES

ROOT = Path(__file__).parent
STATS = "stats.json"
BOOK = ROOT / "of-the-daemon"
"""A folder of conversations in which there is only the daemon's own journal."""


def whole(folder: Path) -> tuple[ConversationId, list[Record]]:
    """A history's conversation and all its records."""
    records = list(peek(folder / JOURNAL, CONVERSATION))
    started = next(record for record in records if isinstance(record, ConversationStarted))
    return started.id, records


def shown(name: ConversationId, records: Sequence[Record]) -> str:
    """What `conversation.json` states of these records."""
    return render(fold(name, records))


def sums(name: ConversationId, records: Sequence[Record]) -> str:
    """What `tenex conversations stats --json` adds up."""
    return json.dumps(as_json(Stats.of(name, records)), indent=2) + "\n"


def _write(folder: Path, decisions: Decisions, split: int) -> None:
    first, second = (decisions[:split], decisions[split:]) if split else (decisions, [])
    (folder / JOURNAL).write_bytes(CONVERSATION.encode_decisions(first))
    if second:
        start = next(rec for rec in first[0] if isinstance(rec, ConversationStarted))
        stands = StateSnapshot.of(fold(start.id, [record for decision in first for record in decision]))
        (folder / name_of(2)).write_bytes(CONVERSATION.encode_decisions([[stands], *second]))


def _finish(folder: Path) -> None:
    name, records = whole(folder)
    (folder / VIEW).write_text(shown(name, records), encoding="utf-8")
    (folder / STATS).write_text(sums(name, records), encoding="utf-8")
    print(f"added {folder.relative_to(ROOT)}: {len(records)} records")


async def _book() -> None:
    """The daemon's own: lessons, a profile, and words of which one is over; the newest of its files shows all."""
    disk = Disk()
    notice = Notice(
        conversation=ConversationId("c" * 64),
        author=PublicKey("b" * 64),
        failure="damaged",
        written=5,
        address={"form": "notes", "relays": ["wss://r"]},
        origin={"id": "e" * 64, "tags": [["e", "f" * 64, ""], []]},
    )
    with (
        patch("tenex.store.journal.FILE_BYTES", 2_000),
        patch("tenex.store.journal.PER_CHECKPOINT", 0),
        patch("tenex.store.daemon_journal.LESSONS_KEPT", 2),
        patch("tenex.store.daemon_journal.KEYS_KEPT", 4),
    ):
        own = await DaemonJournal.open(BOOK, disk, StillClock())
        await own.published(PublicKey("a" * 64), 0, EventId("1" * 64), "hash", 100)
        await own.add_notice(notice)
        await own.add_notice(replace(notice, conversation=ConversationId("d" * 64), failure="disk"))
        await own.clear_notices(ConversationId("d" * 64))
        for number in range(7):
            agent = ("executor", "planner")[number % 2]
            await own.record(agent, notice.conversation, "Look twice", f"lesson {number}: 📖", "tests", f"key-{number}")
    await own.close()
    disk.close()
    print(f"added {BOOK.relative_to(ROOT)}")


def main(arguments: Sequence[str]) -> None:
    """Add what is not there yet.

    Raises:
        FileExistsError: there is a history of that name.
    """
    if arguments:
        name, source = arguments
        folder = ROOT / name
        folder.mkdir()
        for path in sorted(Path(source).glob("journal*.jsonl")):
            shutil.copyfile(path, folder / path.name)
        _finish(folder)
        return
    for name, (scene, split) in SCENES.items():
        if not (ROOT / name).exists():
            (ROOT / name).mkdir()
            _write(ROOT / name, scene(), split)
            _finish(ROOT / name)
    if not BOOK.exists():
        asyncio.run(_book())


if __name__ == "__main__":
    main(sys.argv[1:])
