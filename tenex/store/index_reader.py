"""The index as a command sees it: read beside a running daemon or without one, and right in either case.

It is compared with the journals first. Where it is behind, which a daemon is for some ms and a killed one for good, the
journals in question are read into a copy in memory; where it is missing, damaged or of another version, all of them.
Rows alone take the newest file of a journal, however long it is.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId, EventId
from tenex.core.port_values import Passage

from . import schema
from .conversations import Conversations
from .index import Shown, gather
from .index_row import Known, Row
from .journal_reader import NEWEST
from .schema import Batch
from .search import Choices, Filter, Found, choices, listed, messages_before, search

NAME = "index.sqlite"

_EVENTS = (
    "select event_id from events join conversations on conversations.number = events.conversation "
    "where conversations.id = ? and events.imported = 0"
)

T = TypeVar("T")


class Catalogue:
    """What is known of a folder's conversations."""

    def __init__(self, folder: Conversations, shown: Shown, *, needs_past: bool = True) -> None:
        """See `open_catalogue`."""
        self._folder = folder
        self._shown = shown
        self._since = 0 if needs_past else NEWEST
        self._connection: sqlite3.Connection | None = None
        self.unread: dict[ConversationId, str] = {}
        """Conversations whose journal cannot be read, each with the sentence why."""
        self.fault = ""
        """Why the index was of no use; empty if it was, or there is none."""

    async def rows(self, filter_: Filter, limit: int = -1) -> list[Row]:
        """The conversations a filter lets through, last updated first; all of them if `limit` is negative."""
        return await self._ask(lambda connection: listed(connection, filter_, limit))

    async def search(self, match: str, filter_: Filter, limit: int) -> list[Found]:
        """The conversations with messages that match (`search.search`)."""
        return await self._ask(lambda connection: search(connection, match, filter_, limit))

    async def choices(self) -> Choices:
        """What the conversations can be filtered by (`search.choices`)."""
        return await self._ask(choices)

    async def messages_before(self, conversation: ConversationId, before: int, limit: int) -> list[Passage]:
        """The last messages of a conversation before a seq, the newest first (`search.messages_before`)."""
        return await self._ask(lambda connection: messages_before(connection, conversation, before, limit))

    async def open(self) -> None:
        """Read the index, and of the journals what it does not know."""
        before = await self._folder.lengths()
        try:
            self._connection = await asyncio.to_thread(_open, self._folder.root / NAME)
            if self._connection is None:
                await self._read_all(before)
            else:
                await self._catch_up(self._connection, before)
        except sqlite3.Error as fault:
            await self._fall_back(fault)

    async def claimed_twice(self) -> list[tuple[ConversationId, ConversationId, int]]:
        """The conversations that claim events of another one (`schema.claimed_twice`)."""
        return await self._ask(schema.claimed_twice)

    async def owners(self, events: Iterable[str]) -> dict[str, ConversationId]:
        """The conversations that received or published events here, of those that are known."""
        wanted = set(events)

        def found(connection: sqlite3.Connection) -> dict[str, ConversationId]:
            rows = {event: connection.execute(schema.OWNER, (event,)).fetchone() for event in wanted}
            return {event: ConversationId(row[0]) for event, row in rows.items() if row is not None}

        return await self._ask(found)

    async def room_of(self, conversation: ConversationId) -> str:
        """The room of a conversation in direct messages; "" for any other, and for one that is unknown."""

        def room(connection: sqlite3.Connection) -> str:
            row = connection.execute(schema.ROOM_OF, (conversation,)).fetchone()
            return "" if row is None else str(row[0])

        return await self._ask(room)

    def close(self) -> None:
        """Close the index; a second call does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        assert self._connection is not None, "open it first"
        try:
            return await asyncio.to_thread(question, self._connection)
        except sqlite3.Error as fault:
            if self.fault:
                raise
            await self._fall_back(fault)
        return await asyncio.to_thread(question, self._connection)

    async def _fall_back(self, fault: sqlite3.Error) -> None:
        self.fault = f"{self._folder.root / NAME} is of no use: {fault}"
        await self._read_all(await self._folder.lengths())

    async def _read_all(self, lengths: dict[ConversationId, int]) -> None:
        self.close()
        self._connection = _in_memory()
        await self._read(dict.fromkeys(lengths), lengths)

    async def _catch_up(self, connection: sqlite3.Connection, before: dict[ConversationId, int]) -> None:
        known = await asyncio.to_thread(schema.known, connection)
        after = await self._folder.lengths()
        # a daemon may have written between the three looks; what the index knows then lies between the two lengths
        behind = [
            name
            for name, length in after.items()
            if name not in known or not min(before.get(name, 0), length) <= known[name].bytes <= length
        ]
        gone = known.keys() - after.keys() - before.keys()
        if behind or gone:
            copy = _in_memory(connection)
            connection.close()
            self._connection = copy
            schema.forget(copy, gone)
            await self._read({name: known.get(name) for name in behind}, after)

    async def _read(self, wanted: dict[ConversationId, Known | None], lengths: dict[ConversationId, int]) -> None:
        assert self._connection is not None
        for name in self._shown(list(wanted)):
            batch = Batch()
            try:
                found = await gather(self._folder, name, lengths[name], wanted[name], since=self._since)
            except (StoreError, UsageError, ValueError, LookupError) as fault:
                self.unread[name] = str(fault)
                continue
            batch.add(found.row, found.news, replaces=found.replaces)
            await asyncio.to_thread(schema.write, self._connection, batch)


@asynccontextmanager
async def open_catalogue(
    folder: Conversations, shown: Shown = iter, *, needs_past: bool = True
) -> AsyncIterator[Catalogue]:
    """A folder's catalogue, for as long as the block lasts; needs no lock.

    Without `needs_past` only rows are asked for, and what they show: of journals that the index does not know, the
    messages, events, agents and phases before the newest file are not read.
    """
    catalogue = Catalogue(folder, shown, needs_past=needs_past)
    try:
        await catalogue.open()
        yield catalogue
    finally:
        catalogue.close()


async def read_one(folder: Conversations, conversation: ConversationId) -> sqlite3.Connection:
    """Private tables that hold one conversation alone, read from its journal.

    Raises:
        StoreError: the journal cannot be read.
        UsageError: there is no such conversation.
    """
    try:
        found = await gather(folder, conversation, 0)
    except (ValueError, LookupError) as fault:
        raise StoreError(f"The journal of {conversation} cannot be read: {fault}") from fault
    connection = _in_memory()
    batch = Batch()
    batch.add(found.row, found.news)
    await asyncio.to_thread(schema.write, connection, batch)
    return connection


def indexed_events(folder: Path) -> list[EventId]:
    """The events that a conversation received or published here by the index; none where there is none; blocks."""
    index = folder.parent / NAME
    if not index.is_file():
        return []
    try:
        with closing(schema.read_only(index)) as tables:
            return [EventId(str(row[0])) for row in tables.execute(_EVENTS, (folder.name,))]
    except sqlite3.Error:  # it is a cache: what it does not hold is not known
        return []


def is_import(folder: Path) -> bool:
    """Whether the index knows the conversation in a folder as imported; blocks."""
    index = folder.parent / NAME
    if not index.is_file():
        return False
    try:
        with closing(schema.read_only(index)) as tables:
            row = tables.execute("select imported from conversations where id = ?", (folder.name,)).fetchone()
            return bool(row and row[0])
    except sqlite3.Error:
        return False


def is_private(folder: Path) -> bool:
    """Whether the index knows the conversation in a folder as held in direct messages; blocks."""
    index = folder.parent / NAME
    if not index.is_file():
        return False
    try:
        with closing(schema.read_only(index)) as tables:
            return tables.execute(schema.ROOM_OF, (folder.name,)).fetchone() is not None
    except sqlite3.Error:
        return False


def _open(path: Path) -> sqlite3.Connection | None:
    """The index, for reading only; None where there is none, or a daemon is just making it.

    Raises:
        sqlite3.Error: it is damaged or of another version, or may not be read.
    """
    if not path.exists():
        return None
    connection = schema.read_only(path)
    try:
        if schema.is_blank(connection):
            connection.close()
            return None
        schema.check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _in_memory(source: sqlite3.Connection | None = None) -> sqlite3.Connection:
    """Private tables, empty or copied from another index."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("pragma temp_store = memory")  # users' messages go into no file of a shared folder
    if source is None:
        schema.prepare(connection)
    else:
        source.backup(connection)
    return connection
