"""The SQLite cache that finds a conversation by an event, and shows a start which journals it need not read.

Writes are collected and made in a thread of their own; reads by id are synchronous and see what is still to be written.
An index that is damaged or removed is rebuilt: every journal then counts as unknown and is read again, at a start
before anything else, and in the background while the daemon runs.
"""

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Record
from tenex.log import get_logger

from . import schema, sqlite
from .conversations import Conversations
from .index_row import Known, News, Row, as_import, news_of, summarise
from .lock import anywhere
from .schema import UNKNOWN_LENGTH, Batch
from .search import Filter, listed
from .sqlite import Tables

log = get_logger(__name__)

REMEMBERED: Final = 20_000
"""Event ids kept in memory, about 4 MB: what several relays repeat within some minutes."""

WAITING_MOST: Final = 5_000
"""Rows, ids and messages that may wait for the disk while journals are read, before that waits too."""

MESSAGES_MOST: Final = 20_000
"""Messages that may wait while the disk takes none, perhaps 10 MB; more are left to a later look at the journals."""

FOLLOWED: Final = 128
"""States kept of conversations that other processes write, some 15 MB: work appends to one several times a minute."""

PAUSE: Final = 0.05
"""Seconds in which news gather before they are written: a write of its own for each append would cost every append in a
burst 0.4 ms. What a killed process had not written is read from the journals again."""

Shown = Callable[[Sequence[ConversationId]], Iterable[ConversationId]]
"""Hands on what is to be read, one by one, and may show how far that is."""

T = TypeVar("T")

_IMPORTED: Final = "select id from conversations where id = ? and imported > 0"
_STARTED: Final = "select started from conversations where id = ?"
_TITLE: Final = "select title from conversations where id = ?"

Foreign = Callable[[Sequence[Record]], bool]
"""Whether a whole journal was written in another folder."""


class Index:
    """`conversations/index.sqlite`; one per process that writes."""

    def __init__(self, path: Path, is_foreign: Foreign = lambda _: False, check: Callable[[], None] = anywhere) -> None:
        """Open the index, or make a new one where there is none or it is damaged; blocks for some ms.

        Where none can be made now, there is none until one can: everything works, and more journals are read.
        """
        self._is_foreign = is_foreign
        self._tables = Tables(path, self._lose, self._start_rebuild, check)
        self._folder: Conversations | None = None
        self._latest: dict[ConversationId, Row] = {}
        """What was noted during a rebuild."""
        self._followed: OrderedDict[ConversationId, Conversation] = OrderedDict()
        """What other processes have written, up to what the index knows; the newest last."""
        self._partly: set[ConversationId] = set()
        self._whole: set[ConversationId] | None = None
        """While an empty file is being filled: whose whole journal is in it; None: everybody's."""
        self._is_lost = False
        self._rebuilding: asyncio.Task[None] | None = None
        self._recent: OrderedDict[str, ConversationId] = OrderedDict()
        self._cursors: dict[str, Millis] = {}
        """Those that were found or set, by relay: none but this index changes them."""
        self._waiting = Batch()
        self._going = Batch()
        self._flush: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closed = False

    # ---- finding ------------------------------------------------------------------------------------------------

    def conversation_of(self, event_id: str) -> ConversationId | None:
        """The conversation that received or published an event; about 10 us where the file has to be asked."""
        found = self._recent.get(event_id)
        if found is None:
            row = self._tables.ask(schema.OWNER, event_id)
            found = self._first(event_id, row, is_import=False)
        if found is not None:
            self._remember(event_id, found)
        return found

    def has_event(self, event_id: str) -> bool:
        """Whether an event was received or published here."""
        return self.conversation_of(event_id) is not None

    def imported(self, id_: str) -> ConversationId | None:
        """The imported conversation that has this id, or that was imported with the event of this id."""
        for batch in (self._waiting, self._going):
            if (row := batch.rows.get(ConversationId(id_))) is not None:
                return row.id if row.imported else None
        if isinstance(found := self._tables.ask(_IMPORTED, id_), str):
            return ConversationId(found)
        return self._first(id_, self._tables.ask(schema.IMPORTED, id_), is_import=True)

    def room_of(self, conversation: ConversationId) -> str:
        """The room of a conversation in direct messages; "" for any other."""
        return self._facet_of(conversation, schema.ROOM, schema.ROOM_OF)

    def chat_of(self, conversation: ConversationId) -> str:
        """The chat that a conversation was begun in (`trust.chat_of`); "" for any other."""
        return self._facet_of(conversation, schema.CHAT, schema.CHAT_OF)

    def _facet_of(self, conversation: ConversationId, kind: str, statement: str) -> str:
        for batch in (self._waiting, self._going):
            for name, facet, value in batch.facets:
                if name == conversation and facet == kind:
                    return value
        row = self._tables.ask(statement, conversation)
        return row if isinstance(row, str) else ""

    def newest_in(self, room: str) -> tuple[ConversationId, str] | None:
        """The conversation with these people, or of this chat, that began last, with its title; None for none."""
        stored = self._tables.ask(schema.NEWEST_IN, room)
        names = [ConversationId(stored)] if isinstance(stored, str) else []
        for batch in (self._going, self._waiting):
            kinds = (schema.ROOM, schema.CHAT)
            places = [name for name, kind, value in batch.facets if kind in kinds and value == room]
            names += [name for name in places if name not in batch.rows or not batch.rows[name].imported]

        def started(name: ConversationId) -> int:
            for batch in (self._waiting, self._going):
                if name in batch.rows:
                    return batch.rows[name].started
            row = self._tables.ask(_STARTED, name)
            return row if isinstance(row, int) else 0

        newest = max(dict.fromkeys(names), key=lambda name: (started(name), name), default=None)
        return None if newest is None else (newest, self._title_of(newest))

    def _title_of(self, conversation: ConversationId) -> str:
        for batch in (self._waiting, self._going):
            if conversation in batch.rows:
                return batch.rows[conversation].title
        row = self._tables.ask(_TITLE, conversation)
        return row if isinstance(row, str) else ""

    def _first(self, event_id: str, stored: object, *, is_import: bool) -> ConversationId | None:
        """The conversation that has an event, of the stored one and those that are still to be written."""
        claims = {ConversationId(stored): is_import} if isinstance(stored, str) else {}
        rows: dict[ConversationId, Row] = {}
        for batch in (self._going, self._waiting):
            claims |= dict.fromkeys(claims.keys() & batch.imports, True)
            if event_id in batch.events:
                claims |= batch.events[event_id]
            rows |= {name: batch.rows[name] for name in claims if name in batch.rows}
        names = [name for name, one in claims.items() if one is is_import]
        if len(names) < 2:
            return next(iter(names), None)

        def order(name: ConversationId) -> tuple[bool, bool, int, str]:
            """As in `schema.CLAIMS`."""
            row = rows.get(name)
            started = row.started if row is not None else self._tables.ask(_STARTED, name)
            is_imported = bool(row.imported) if row is not None else self._tables.ask(_IMPORTED, name) is not None
            return name != event_id, is_imported, started if isinstance(started, int) else 0, name

        return min(names, key=order)

    def cursor(self, relay: str) -> Millis | None:
        """Up to when a relay's events have been received; None if that is not known."""
        at = self._cursors.get(relay)
        if at is None:
            row = self._tables.ask("select at from cursors where relay = ?", relay)
            if not isinstance(row, int):
                return None
            at = self._cursors[relay] = Millis(row)
        return at

    async def rows(self, filter_: Filter = Filter(), limit: int = -1) -> list[Row]:  # noqa: B008 - it is frozen
        """The conversations of a filter, last updated first; all of them if `limit` is negative."""
        try:
            return await self.ask(lambda connection: listed(connection, filter_, limit))
        except StoreError:
            return []

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """What a question finds in the tables, in a thread, once everything noted so far is written.

        Raises:
            StoreError: they cannot be read now.
        """
        await self.flush()
        try:
            return await self._tables.run(question)
        except sqlite3.Error as fault:
            self._tables.report(fault)
            raise StoreError(f"{self._tables.path} cannot be read now: {fault}") from fault

    def holds(self, conversation: ConversationId) -> bool:
        """Whether a conversation is in it."""
        is_waiting = any(conversation in batch.rows for batch in (self._waiting, self._going))
        return is_waiting or self._tables.ask(_STARTED, conversation) is not None

    @property
    def is_whole(self) -> bool:
        """Whether every conversation is in it: not while a lost index is being filled again."""
        return self._whole is None

    async def refresh(
        self, folder: Conversations, lengths: Mapping[ConversationId, int]
    ) -> tuple[list[Row], set[ConversationId]]:
        """Read what other processes have appended to these journals, and no more where they were followed just now.

        Returns:
            The rows that are new, and which of the conversations are unfinished, or cannot be read.
        """
        indexed = await self.ask(lambda connection: schema.known(connection, lengths))
        rows: list[Row] = []
        unfinished = {name for name, row in indexed.items() if not row.settled}
        for name in [name for name in lengths if name not in indexed or indexed[name].bytes != lengths[name]]:
            row = await self._follow(folder, name, lengths[name], indexed.get(name))
            if row is None:
                row = await self._read(folder, name, lengths[name], indexed.get(name), is_followed=True)
            if row is not None:
                rows.append(row)
            if row is not None and row.settled:
                unfinished.discard(name)
            else:
                unfinished.add(name)
        return rows, unfinished

    async def catch_up(self, folder: Conversations, shown: Shown = iter) -> list[ConversationId]:
        """Read what the index does not know, also all of it where the index is new; returns what is unfinished.

        A conversation that cannot be read counts as unfinished: opening it reports why. If the index is lost later,
        the whole folder is read again.
        """
        self._folder = folder
        await self.flush()
        lengths = await folder.lengths()
        stale: Mapping[ConversationId, Known | None] = dict.fromkeys(lengths)
        try:
            stale = await self._tables.run(schema.stale, lengths)
        except sqlite3.Error as fault:
            self._tables.report(fault)
        wanted = {name: known for name, known in stale.items() if known is None or known.bytes != lengths[name]}
        settled = await self._read_each(folder, wanted, lengths, shown)
        if wanted:
            await self._report_claims()
        return [name for name in stale if name not in settled]

    # ---- noting -------------------------------------------------------------------------------------------------

    def update(self, row: Row, news: News) -> None:
        """Record a conversation's row and news, written soon; never blocks or raises."""
        if self._rebuilding is not None:
            self._latest[row.id] = row
        if self._knows_in_part(row.id):
            row = replace(row, bytes=UNKNOWN_LENGTH)
        unclaimed: list[str] = []
        for event_id in (*news.events, *news.imported):
            other = self.conversation_of(event_id)
            if other is None and event_id in news.events:
                unclaimed.append(event_id)
            elif other not in (None, row.id):
                log.warning("event.claimed_twice", event_id=event_id, conversation=row.id, other=other)
        self._add(row, news)
        for event_id in unclaimed:
            self._remember(event_id, row.id)

    def set_cursor(self, relay: str, at: Millis) -> None:
        """Record up to when a relay's events have been received; written soon."""
        self._cursors[relay] = at
        self._waiting.cursors[relay] = at
        self._start_flush()

    async def flush(self) -> None:
        """Return when everything noted so far is written, or could not be; a failure is logged and tried again."""
        for _ in range(2):  # the batch under way, and the one that holds what waits now
            self._start_flush()
            if self._flush is not None:
                self._hurry.set()
                await asyncio.wait({self._flush})

    async def close(self) -> None:
        """Write what is left and close the file; a second call does nothing."""
        if not self._closed:
            if self._rebuilding is not None:
                self._rebuilding.cancel()
                await asyncio.wait({self._rebuilding})
            await self.flush()
            self._closed = True
            self._tables.close()

    # ---- inside -------------------------------------------------------------------------------------------------

    async def _read_each(
        self,
        folder: Conversations,
        wanted: Mapping[ConversationId, Known | None],
        lengths: Mapping[ConversationId, int],
        shown: Shown = iter,
    ) -> set[ConversationId]:
        """Index the journals; returns the conversations that are settled."""
        settled: set[ConversationId] = set()
        for name in shown(list(wanted)):
            row = await self._read(folder, name, lengths[name], wanted[name])
            if row is not None and row.settled:
                settled.add(name)
            if len(self._waiting) > WAITING_MOST:
                await self.flush()
        if wanted:
            log.info("index.caught_up", read=len(wanted), of=len(lengths))
        return settled

    async def _follow(
        self, folder: Conversations, name: ConversationId, length: int, known: Known | None
    ) -> Row | None:
        """Index what was appended since the state that is kept; None where the journal goes on from none."""
        state = self._followed.pop(name, None)
        if state is None or known is None or known.seq != state.next_seq - 1 or self._whole is not None:
            return None
        try:
            last, *new = await folder.tail(name, known.seq - 1).read()
            if (last.seq, last.at) != (known.seq, known.updated):  # another journal has taken its place
                return None
            row, news = await asyncio.to_thread(_applied, state, new, length)
        except (StoreError, OSError, ValueError, LookupError):
            return None
        self._keep_followed(state)
        self._add(row, news)
        return row

    def _keep_followed(self, state: Conversation) -> None:
        self._followed[state.id] = state
        if len(self._followed) > FOLLOWED:
            self._followed.popitem(last=False)

    async def _read(
        self,
        folder: Conversations,
        name: ConversationId,
        length: int,
        known: Known | None,
        *,
        is_followed: bool = False,
    ) -> Row | None:
        """Index a journal; None where it cannot be read."""
        while True:
            try:
                found = await gather(folder, name, length, known if self._whole is None else None, self._is_foreign)
            except (StoreError, UsageError, ValueError, LookupError):
                self._partly.add(name)
                return None
            latest = self._latest.get(name, found.row)
            went_on = latest.seq > found.row.seq  # and that would be forgotten
            if not went_on and (found.is_complete or self._whole is None):
                break
        row = replace(found.row, bytes=latest.bytes) if latest.seq == found.row.seq else found.row
        if found.is_complete:
            self._partly.discard(name)
            if self._whole is not None:
                self._whole.add(name)
        self._add(row, found.news, replaces=found.replaces)
        if is_followed:
            self._keep_followed(found.state)
        return row

    def _knows_in_part(self, conversation: ConversationId) -> bool:
        return conversation in self._partly or (self._whole is not None and conversation not in self._whole)

    def _lose(self) -> None:
        """An empty file is about to take the place of ours: what is written from now on is not all there is."""
        self._is_lost, self._whole = True, set()
        self._waiting.mark(list(self._waiting.rows))

    def _start_rebuild(self) -> None:
        self._start_flush()
        if self._folder is not None and not self._closed and self._rebuilding is None:
            task = asyncio.get_running_loop().create_task(self._rebuild(self._folder), name="index.rebuild")
            self._rebuilding = task

    async def _rebuild(self, folder: Conversations) -> None:
        try:
            while self._is_lost:
                self._is_lost = False
                try:
                    lengths = await folder.lengths()
                except StoreError as fault:
                    log.warning("index.not_rebuilt", why=str(fault))
                    self._is_lost = True
                    await asyncio.sleep(sqlite.RENEW_EVERY)
                    continue
                await self._read_each(folder, dict.fromkeys(lengths), lengths)
                await self.flush()
            self._whole = None
        finally:
            self._rebuilding = None
            self._latest = {}

    def _add(self, row: Row, news: News, *, replaces: bool = False) -> None:
        self._waiting.add(row, news, replaces=replaces)
        if replaces or news.is_import:
            self._recent.clear()
        for event_id in news.events:
            if self._recent.get(event_id) != row.id:
                self._recent.pop(event_id, None)
        self._start_flush()

    async def _report_claims(self) -> None:
        try:
            twice = await self.ask(schema.claimed_twice)
        except StoreError:  # it is reported
            return
        for name, other, count in twice:
            log.warning("events.claimed_twice", conversation=name, other=other, events=count)

    def _remember(self, event_id: str, conversation: ConversationId) -> None:
        self._recent.pop(event_id, None)  # to the end, as the newest
        self._recent[event_id] = conversation
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)  # a dict would look past the place of each that has gone

    def _start_flush(self) -> None:
        if len(self._waiting) and not self._closed and self._flush is None:
            self._flush = asyncio.get_running_loop().create_task(self._write(), name="index.flush")

    async def _write(self) -> None:
        """Write one batch; what has come meanwhile is another's."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), PAUSE)
        self._hurry.clear()
        self._going, self._waiting = self._waiting, Batch()
        failed = False
        try:
            await self._tables.run(schema.write, self._going)
        except sqlite3.Error as fault:
            failed = True  # the next note tries again
            self._waiting = self._waiting.over(self._going)
            self._waiting.mark([name for name in self._waiting.rows if self._knows_in_part(name)])
            if len(self._waiting.messages) > MESSAGES_MOST:
                self._partly |= self._waiting.drop_messages()
            self._tables.report(fault)
        finally:
            self._going = Batch()
            self._flush = None
        if not failed:
            self._start_flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a journal adds to the index."""

    state: Conversation
    row: Row
    news: News
    is_complete: bool
    """The news are all there is."""
    replaces: bool
    """What was known is to be dropped; not where a file of the journal is missing, of which the index may know more."""


def _applied(state: Conversation, records: Sequence[Record], length: int) -> tuple[Row, News]:
    for record in records:
        state.apply(record)
    return summarise(state, length), news_of(records)


async def gather(
    folder: Conversations,
    conversation: ConversationId,
    length: int,
    known: Known | None = None,
    is_foreign: Foreign = lambda _: False,
    since: int = 0,
) -> Gathered:
    """Read what the index has to add of a journal: only what is new where it knows the rest, else all after `since`.

    A journal it knows holds the record it knows last, of the same ms; one that does not has replaced the other.

    `length` is that of the journal before it is read, in bytes.

    Raises:
        StoreDamaged: it holds what we did not write.
        UsageError: there is no such conversation.
        ValueError, LookupError: it cannot be folded.
    """

    def gathered(records: Sequence[Record], after: int, *, replaces: bool = False) -> Gathered:
        state = fold(conversation, records)
        row = summarise(state, length)
        news = news_of(record for record in records if record.seq > after)
        if not after and is_foreign(records):
            row, news = as_import(row, news)
        return Gathered(state=state, row=row, news=news, is_complete=not after, replaces=replaces)

    if known is not None and 0 < known.bytes <= length:
        records = await folder.read(conversation, known.seq)
        if any(record.seq == known.seq and record.at == known.updated for record in records):
            return await asyncio.to_thread(gathered, records, known.seq)
    records, gone = await folder.read_left(conversation, since)
    return await asyncio.to_thread(gathered, records, 0, replaces=not gone)
