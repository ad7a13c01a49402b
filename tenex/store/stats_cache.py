"""`conversations/stats.json`: what each conversation has taken, so that only those are read that have changed since.

It is a cache that who counts leaves for the next one: a daemon spends nothing on it. An entry holds while the journal
has its length and was not written since; a journal that has grown is counted on from the entry's record. Without the
file, or where it cannot be written, everything is counted again.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tenex.core.ids import ConversationId

from . import atomic
from .conversations import Conversations
from .record_log import Head
from .stats import Counted, Stats, count

NAME: Final = "stats.json"
VERSION: Final = 1
"""Of what is counted. It is raised with a change of `stats.count` that no release has yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A conversation as it was when it was counted."""

    head: Head
    """The length of the journal, and when it was last written."""
    counted: Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The whole file."""

    version: str
    entries: dict[ConversationId, Entry] = field(default_factory=dict)


_FILE: Final = TypeAdapter(File)


class StatsCache:
    """The figures of a folder's conversations; a new one reads what the last one has saved."""

    def __init__(self, folder: Conversations, version: str) -> None:
        """Use a folder's file as this version of the program."""
        self._folder = folder
        self._path = folder.root / NAME
        self._version = f"{version} {VERSION}"
        self._entries: dict[ConversationId, Entry] = {}
        self._is_changed = False

    async def load(self) -> None:
        """Read the file; one that is missing, damaged or of another version holds nothing."""
        self._entries = await asyncio.to_thread(_entries, self._path, self._version)

    async def stats(self, conversation: ConversationId, head: Head) -> tuple[Stats, str]:
        """What a conversation has taken whose journal looks like this, and what of its past is missing.

        Raises:
            StoreDamaged: the journal holds what we did not write.
            UsageError: there is no such conversation.
        """
        entry = self._entries.get(conversation)
        if entry is not None and entry.head == head:
            return entry.counted.stats, ""
        counted = None
        missing = ""
        if entry is not None and entry.head.bytes < head.bytes:
            counted = await self._count_on(conversation, entry.counted)
        if counted is None:
            records, missing = await self._folder.read_left(conversation)
            counted = await asyncio.to_thread(count, conversation, records)
        if missing:
            self._entries.pop(conversation, None)
        else:
            self._entries[conversation] = Entry(head=head, counted=counted)
        self._is_changed = True
        return counted.stats, missing

    async def save(self, there: Collection[ConversationId]) -> None:
        """Write what is new, without conversations that are gone; nothing where the folder cannot be written."""
        kept = {name: entry for name, entry in self._entries.items() if name in there}
        if not self._is_changed and len(kept) == len(self._entries):
            return
        data = _FILE.dump_json(File(version=self._version, entries=kept))
        with suppress(OSError):
            await asyncio.to_thread(atomic.replace, self._path, data)

    async def _count_on(self, conversation: ConversationId, before: Counted) -> Counted | None:
        """Count what was appended; None where the journal does not hold the last record that was counted."""
        records, _ = await self._folder.read_left(conversation, before.seq)
        if not any(record.seq == before.seq and record.at == before.at for record in records):
            return None
        return await asyncio.to_thread(count, conversation, records, before)


def _entries(path: Path, version: str) -> dict[ConversationId, Entry]:
    try:
        found = _FILE.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}
    return found.entries if found.version == version else {}
