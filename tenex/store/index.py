"""The cache that finds a conversation by an event, and tells a start which journals it need not read.

Writes are collected and made in a thread of their own; reads by id are synchronous and see what is still to be written.
A damaged index is deleted: then every journal counts as unknown and is read once more.

Never: hold a fact that no journal holds, cursors aside; and those only cost a second look at a relay's past.
"""

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from tenex.core.conversation import fold
from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Record

from . import schema
from .folder import ConversationFolder
from .schema import Batch
from .summary import Row, events_of, summarise
from .tables import Tables

log = structlog.get_logger(__name__)

REMEMBERED: Final = 20_000
"""Event ids kept in memory, about 4 MB: what several relays repeat within some minutes."""

WAITING_MOST: Final = 5_000
"""Rows and ids that may wait for the disk before `note` waits too."""


class Index:
    """`conversations/index.sqlite`; one per process that writes."""

    def __init__(self, path: Path) -> None:
        """Open the index, or make a new one where there is none or it is damaged; blocks for some ms.

        Raises:
            StoreError: the file cannot be made.
        """
        self._tables = Tables(path)
        self._recent: dict[str, ConversationId] = {}
        self._waiting = Batch()
        self._going = Batch()
        self._flush: asyncio.Task[None] | None = None
        self._closed = False

    # ---- finding ------------------------------------------------------------------------------------------------

    def conversation_of(self, event_id: str) -> ConversationId | None:
        """The conversation an event belongs to; about 10 us where the file has to be asked."""
        found = self._recent.get(event_id) or self._waiting.events.get(event_id) or self._going.events.get(event_id)
        if found is None:
            row = self._tables.ask("select conversation from events where event_id = ?", event_id)
            found = ConversationId(row) if isinstance(row, str) else None
        if found is not None:
            self._remember(event_id, found)
        return found

    def has_event(self, event_id: str) -> bool:
        """Whether an event is in some conversation's journal."""
        return self.conversation_of(event_id) is not None

    def cursor(self, relay: str) -> Millis | None:
        """Up to when a relay's events have been heard; None if that is not known."""
        for batch in (self._waiting, self._going):
            if relay in batch.cursors:
                return batch.cursors[relay]
        row = self._tables.ask("select at from cursors where relay = ?", relay)
        return Millis(row) if isinstance(row, int) else None

    async def rows(self, limit: int = -1) -> list[Row]:
        """The conversations last updated, newest first; all of them if `limit` is negative."""
        await self.flush()
        try:
            return await self._tables.run(schema.newest, limit)
        except sqlite3.Error as fault:
            self._tables.report(fault)
            return []

    async def stale(self, folder: ConversationFolder) -> list[ConversationId]:
        """The conversations a start must read: not settled, unknown here, or of another length than on disk."""
        await self.flush()
        lengths = await folder.lengths()
        try:
            return await self._tables.run(schema.stale, lengths)
        except sqlite3.Error as fault:
            self._tables.report(fault)
            return list(lengths)

    async def catch_up(self, folder: ConversationFolder) -> list[ConversationId]:
        """Read what the index does not know, also all of it where the index is new; returns what is unfinished.

        A conversation that cannot be read counts as unfinished: whoever opens it judges it.
        """
        unfinished: list[ConversationId] = []
        stale = await self.stale(folder)
        lengths = await folder.lengths() if stale else {}
        for name in stale:
            try:
                row = self._take(name, await folder.read(name), lengths.get(name, 0))
            except (StoreError, ValueError, LookupError):
                unfinished.append(name)
                continue
            if not row.settled:
                unfinished.append(name)
            if len(self._waiting) > WAITING_MOST:
                await self.flush()
        return unfinished

    # ---- noting -------------------------------------------------------------------------------------------------

    def hear(self, row: Row, events: Iterable[str]) -> None:
        """Note where a conversation stands and which events are new in it; written soon. Never blocks or raises."""
        self._waiting.rows[row.id] = row
        for event_id in events:
            self._waiting.events[event_id] = row.id
            self._remember(event_id, row.id)
        self._start_flush()

    async def note(
        self,
        conversation_id: ConversationId,
        *,
        bytes: int,  # noqa: A002 - the column's name
        seq: int,
        settled: bool,
        status: str,
        phase: str,
        title: str,
        updated: Millis,
        events: Iterable[str] = (),
    ) -> None:
        """As `hear`, from values, and waits where the disk lags behind."""
        row = Row(
            id=conversation_id,
            bytes=bytes,
            seq=seq,
            settled=settled,
            status=status,
            phase=phase,
            title=title,
            updated=updated,
        )
        self.hear(row, events)
        if len(self._waiting) > WAITING_MOST:
            await self.flush()

    def set_cursor(self, relay: str, at: Millis) -> None:
        """Note up to when a relay's events have been heard; written soon."""
        self._waiting.cursors[relay] = at
        self._start_flush()

    async def flush(self) -> None:
        """Return when everything noted so far is written, or could not be; a failure is logged and tried again."""
        self._start_flush()
        while self._flush is not None and not self._flush.done():
            await asyncio.wait({self._flush})

    async def close(self) -> None:
        """Write what is left and let go of the file; a second call does nothing."""
        if not self._closed:
            await self.flush()
            self._closed = True
            self._tables.close()

    # ---- inside -------------------------------------------------------------------------------------------------

    def _take(self, name: ConversationId, records: list[Record], length: int) -> Row:
        row = summarise(fold(name, records), length)
        self.hear(row, events_of(records))
        return row

    def _remember(self, event_id: str, conversation: ConversationId) -> None:
        self._recent.pop(event_id, None)  # to the end, as the newest
        self._recent[event_id] = conversation
        if len(self._recent) > REMEMBERED:
            del self._recent[next(iter(self._recent))]

    def _start_flush(self) -> None:
        if len(self._waiting) and not self._closed and (self._flush is None or self._flush.done()):
            self._flush = asyncio.get_running_loop().create_task(self._write_all(), name="index.flush")

    async def _write_all(self) -> None:
        while len(self._waiting):
            self._going, self._waiting = self._waiting, Batch()
            try:
                await self._tables.run(schema.write, self._going)
            except sqlite3.Error as fault:
                self._waiting = self._waiting.over(self._going)
                self._tables.report(fault)
                return  # the next note tries again
            finally:
                self._going = Batch()
