"""Adds a history: its journal, and beside it what it must always render and add up to. Never overwrites."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import tenex.workflows  # noqa: F401 - registers the kinds of conversation
from tenex.core.conversation import fold
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW, peek
from tenex.store.stats import Stats, as_json
from tenex.store.view_json import render

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


def main(name: str, source: str) -> None:
    """Add the conversation of a folder.

    Raises:
        FileExistsError: there is a history of that name.
    """
    folder = ROOT / name
    folder.mkdir()
    for path in sorted(Path(source).glob("journal*.jsonl")):
        shutil.copyfile(path, folder / path.name)
    conversation, records = whole(folder)
    (folder / VIEW).write_text(shown(conversation, records), encoding="utf-8")
    (folder / STATS).write_text(sums(conversation, records), encoding="utf-8")
    print(f"added {folder.relative_to(ROOT)}: {len(records)} records")


if __name__ == "__main__":
    main(*sys.argv[1:])
