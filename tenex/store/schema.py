"""The index's tables, and every statement that writes them, as functions over a connection.

A conversation has a number of its own here, because its id would be most of every other table. `facets` are the
agents, phases and users (by their role) a conversation may be looked for by, and its room (direct messages) or chat;
`words` holds the text of `messages` under the same number.

Two journals may say that the same event is theirs: one was copied, or imported with forged ids. `events` holds every
such claim, and a question decides between them (`OWNER`), so the answer does not depend on which journal was read
first: an index that has grown and one that was built from the journals give the same one. (ADR 44.)

Every function that takes a connection raises `sqlite3.Error` where the index is damaged, of another version, or cannot
be read or written now; nothing is written then.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.messages import Usage
from tenex.core.port_values import Passage
from tenex.core.rollback.whole import stretches

from .atomic import FILE_MODE, make_folder
from .index_row import Known, News, Row
from .search_words import TOKENIZER, clean, indexed

VERSION: Final = 10
"""Of the tables; an index of another version is deleted and rebuilt."""

BUSY_MS: Final = 5_000
"""How long one process waits for another's write, which is a batch of some ms."""

UNKNOWN_LENGTH: Final = -1
"""As no journal has it: the row of a conversation that the index knows in part, so it is read again."""

_TABLES: Final = f"""
create table conversations (
    number integer primary key, id text not null unique, bytes integer not null, seq integer not null,
    settled integer not null, status text not null, place text not null, cycle integer not null, title text not null,
    started integer not null, updated integer not null, spending text not null, imported integer not null
);
create index newest on conversations (updated);
create table events (
    event_id text not null, conversation integer not null, imported integer not null,
    primary key (event_id, conversation)
) without rowid;
create index events_of on events (conversation);
create table facets (
    conversation integer not null, kind text not null, value text not null, primary key (conversation, kind, value)
) without rowid;
create table messages (
    number integer primary key, conversation integer not null, seq integer not null, at integer not null,
    name text not null, author text not null, undone integer not null default 0, unique (conversation, seq)
);
create index messages_by on messages (author, conversation) where author <> '';
create table rollbacks (
    conversation integer not null, seq integer not null, back_to integer not null, primary key (conversation, seq)
) without rowid;
create table places (
    event_id text not null, conversation integer not null, seq integer not null, primary key (event_id, conversation)
) without rowid;
create index places_of on places (conversation);
create virtual table words using fts5(text, tokenize='{TOKENIZER}');
create table cursors (relay text primary key, at integer not null) without rowid;
pragma user_version = {VERSION};
"""

ROOM: Final = "room"
"""The facet that holds the people of a conversation in direct messages."""
CHAT: Final = "chat"
"""The facet that holds the chat that a conversation was begun in."""

_MOST: Final = 2**63 - 1

_NAMES: Final = [one.name for one in fields(Row)]
COLUMNS: Final = ", ".join(_NAMES)
"""Of `conversations`: the fields of a row, by their names."""

CLAIMS: Final = """
select c.id from events e join conversations c on c.number = e.conversation
where e.event_id = ? and e.imported = {imported} order by c.id <> e.event_id, c.imported > 0, c.started, c.id
"""
"""The conversations that an event belongs to by their journals: the one that it began, then the oldest begun here."""

OWNER: Final = CLAIMS.format(imported=0)
"""Those that received or published it here; the first one has it."""
IMPORTED: Final = CLAIMS.format(imported=1)
"""Those that were imported with it."""

_FACET_OF: Final = """
select f.value from facets f join conversations c on c.number = f.conversation where c.id = ? and f.kind = '{kind}'
"""
ROOM_OF: Final = _FACET_OF.format(kind=ROOM)
CHAT_OF: Final = _FACET_OF.format(kind=CHAT)
NEWEST_IN: Final = """
select c.id from facets f join conversations c on c.number = f.conversation
where f.kind in ('room', 'chat') and f.value = ? and c.imported = 0 order by c.started desc, c.id desc limit 1
"""
"""Reads all facets, some ms; the newest of each is remembered (`runtime.inbox`)."""

_TWICE: Final = """
select c.id, o.id, count(*) from events e join events f on f.event_id = e.event_id and f.conversation <> e.conversation
join conversations c on c.number = e.conversation join conversations o on o.number = f.conversation
where (e.imported, c.id <> e.event_id, c.imported > 0, c.started, c.id)
    > (f.imported, o.id <> f.event_id, o.imported > 0, o.started, o.id)
group by c.id, o.id order by c.id, o.id
"""

_CHANGED: Final = ", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])
_PUT: Final = (
    f"insert into conversations ({COLUMNS}) values ({', '.join('?' * len(_NAMES))}) "  # noqa: S608 - our own words
    f"on conflict (id) do update set {_CHANGED}"
)
_AT: Final = "conversation = ? and seq = ?"
_NUMBER: Final = "select number from conversations where id = ?"


@dataclass(slots=True)
class Batch:
    """What is to be written next; newer values replace older ones."""

    rows: dict[ConversationId, Row] = field(default_factory=dict)
    events: dict[str, dict[ConversationId, bool]] = field(default_factory=dict)
    """Whose events they are by which journals, and whether only by an import."""
    messages: dict[tuple[ConversationId, int], Passage] = field(default_factory=dict)
    facets: dict[tuple[ConversationId, str, str], None] = field(default_factory=dict)
    cursors: dict[str, Millis] = field(default_factory=dict)
    complete: set[ConversationId] = field(default_factory=set)
    """Those read from their beginning: what the tables hold of them goes first."""
    imports: set[ConversationId] = field(default_factory=set)
    """Those whose events in the tables came with an import."""
    rollbacks: dict[tuple[ConversationId, int], int] = field(default_factory=dict)
    places: dict[tuple[str, ConversationId], int] = field(default_factory=dict)
    """Which message an event holds, by its seq."""
    withdrawn: dict[tuple[ConversationId, int], None] = field(default_factory=dict)
    """Messages that their authors deleted, also those that the tables hold."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.events) + len(self.messages) + len(self.cursors)

    def add(self, row: Row, news: News, *, replaces: bool = False) -> None:
        """Add a conversation's row and news; with `replaces` they are all there is."""
        if replaces:
            self.forget(row.id)
        self.rows[row.id] = row
        if news.is_import:
            self.imports.add(row.id)
            for claims in self.events.values():
                if row.id in claims:
                    claims[row.id] = True
        for event in news.imported:
            self.events.setdefault(event, {})[row.id] = True
        for event in news.events:
            self.events.setdefault(event, {})[row.id] = False
        self.rollbacks.update({(row.id, seq): to for seq, to in news.rollbacks})
        self.messages.update({(row.id, message.seq): message for message in news.messages})
        self.places.update({(event, row.id): seq for event, seq in news.places})
        self.withdrawn.update(dict.fromkeys((row.id, seq) for seq in news.withdrawn))
        self.facets.update(dict.fromkeys((row.id, "agent", agent) for agent in news.agents))
        self.facets.update(dict.fromkeys((row.id, "phase", phase.value) for phase in news.phases))
        self.facets.update(dict.fromkeys((row.id, role.value, key) for role, key in news.people))
        self.facets.update(dict.fromkeys((row.id, ROOM, room) for room in news.rooms))
        self.facets.update(dict.fromkeys((row.id, CHAT, chat) for chat in news.chats))

    def forget(self, conversation: ConversationId) -> None:
        """Drop what waits here of a conversation, and have the tables drop theirs."""
        if self.rows.pop(conversation, None) is not None:  # whatever waits, its row waits with it
            kept = {
                event: {name: is_import for name, is_import in claims.items() if name != conversation}
                for event, claims in self.events.items()
            }
            self.events = {event: claims for event, claims in kept.items() if claims}
            self.rollbacks = {key: to for key, to in self.rollbacks.items() if key[0] != conversation}
            self.imports.discard(conversation)
            self.messages = {key: message for key, message in self.messages.items() if key[0] != conversation}
            self.facets = {key: None for key in self.facets if key[0] != conversation}
            self.places = {key: seq for key, seq in self.places.items() if key[1] != conversation}
            self.withdrawn = {key: None for key in self.withdrawn if key[0] != conversation}
        self.complete.add(conversation)

    def drop_messages(self) -> set[ConversationId]:
        """Drop waiting messages, so that memory stays bounded; returns the conversations now known in part."""
        partly = {conversation for conversation, _ in self.messages}
        self.messages = {}
        self.mark(partly)
        return partly

    def mark(self, partly: Iterable[ConversationId]) -> None:
        """Mark the rows of these conversations as known in part."""
        self.rows |= {name: replace(self.rows[name], bytes=UNKNOWN_LENGTH) for name in partly}

    def over(self, older: "Batch") -> "Batch":
        """Both, where this one has the last word."""
        for conversation in self.complete:
            older.forget(conversation)
        for claims in older.events.values():
            claims.update(dict.fromkeys(claims.keys() & self.imports, True))
        shared = {event: older.events[event] | claims for event, claims in self.events.items() if event in older.events}
        return Batch(
            rows={**older.rows, **self.rows},
            events={**older.events, **self.events, **shared},
            messages={**older.messages, **self.messages},
            facets={**older.facets, **self.facets},
            cursors={**older.cursors, **self.cursors},
            complete=older.complete | self.complete,
            imports=older.imports | self.imports,
            rollbacks={**older.rollbacks, **self.rollbacks},
            places={**older.places, **self.places},
            withdrawn={**older.withdrawn, **self.withdrawn},
        )


def remove(path: Path) -> None:
    """Delete the index and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def connect(path: Path) -> sqlite3.Connection:
    """Open the index, made if missing.

    Raises:
        sqlite3.Error: it is damaged, or the disk does not let us.
        OSError: the file cannot be made.
    """
    make_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))  # SQLite gives its side files the same mode
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("pragma journal_mode = wal")
        # in WAL mode this can lose the newest rows at a power cut, which the journals' lengths give away
        connection.execute("pragma synchronous = normal")
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def read_only(path: Path) -> sqlite3.Connection:
    """Open an index that is there for reading; its content is not looked at.

    Where no process has it open, SQLite would make two files beside it and leave them there.
    """
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    address = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(address, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables where there are none, and see that they are ours."""
    if is_blank(connection):
        connection.executescript(f"begin immediate; {_TABLES} commit;")
    check(connection)


def is_blank(connection: sqlite3.Connection) -> bool:
    """Whether nothing was made in the file yet: all of the tables, or none of them, are there at any time."""
    version = connection.execute("pragma user_version").fetchone()[0]
    return version == 0 and not connection.execute("select count(*) from sqlite_master").fetchone()[0]


def check(connection: sqlite3.Connection) -> None:
    """See that the tables are ours; nothing is written."""
    version = connection.execute("pragma user_version").fetchone()[0]
    if version != VERSION:
        raise sqlite3.DatabaseError(f"the index has version {version}, but this tenex needs {VERSION}")
    for table, columns in (
        ("conversations", f"number, {COLUMNS}"),
        ("events", "event_id, conversation, imported"),
        ("words", "text"),
        ("facets", "conversation, kind, value"),
        ("messages", "number, conversation, seq, at, name, author, undone"),
        ("rollbacks", "conversation, seq, back_to"),
        ("places", "event_id, conversation, seq"),
        ("cursors", "relay, at"),
    ):
        connection.execute(f"select {columns} from {table} limit 1").fetchone()  # noqa: S608 - our own words


def write(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch, whole or not at all."""
    connection.execute("begin immediate")
    try:
        _forget(connection, batch.complete)
        _put(connection, batch)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _put(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.executemany(_PUT, [[_storable(getattr(row, name)) for name in _NAMES] for row in batch.rows.values()])
    claimed = {name for claims in batch.events.values() for name in claims}
    undone = {key[0] for key in batch.rollbacks}
    names = {*claimed, *undone, *batch.imports, *(key[0] for key in (*batch.messages, *batch.facets, *batch.withdrawn))}
    numbers = {name: connection.execute(_NUMBER, (name,)).fetchone()[0] for name in names}
    connection.executemany(
        "update events set imported = 1 where conversation = ?", [(numbers[name],) for name in batch.imports]
    )
    connection.executemany(
        "insert into events values (?, ?, ?) "
        "on conflict (event_id, conversation) do update set imported = min(imported, excluded.imported)",
        [
            (clean(event), numbers[name], is_import)
            for event, claims in batch.events.items()
            for name, is_import in claims.items()
        ],
    )
    connection.executemany(
        "insert or ignore into facets values (?, ?, ?)",
        [(numbers[name], kind, clean(value)) for name, kind, value in batch.facets],
    )
    for (name, seq), message in batch.messages.items():
        added = connection.execute(
            "insert or ignore into messages (conversation, seq, at, name, author) values (?, ?, ?, ?, ?)",
            (numbers[name], seq, _storable(message.at), clean(message.name), clean(message.author)),
        )
        if added.rowcount:  # a record never changes: what is known of it is right
            connection.execute(
                "insert into words (rowid, text) values (?, ?)", (added.lastrowid, indexed(message.text))
            )
    connection.executemany(
        "insert or replace into places values (?, ?, ?)",
        [(clean(event), numbers[name], seq) for (event, name), seq in batch.places.items() if name in numbers],
    )
    for name, seq in batch.withdrawn:
        place = (numbers[name], seq)
        connection.execute(f"delete from words where rowid in (select number from messages where {_AT})", place)  # noqa: S608 - our own words
        connection.execute(f"delete from messages where {_AT}", place)  # noqa: S608 - our own words
    connection.executemany(
        "insert or replace into rollbacks values (?, ?, ?)",
        [(numbers[name], seq, to) for (name, seq), to in batch.rollbacks.items()],
    )
    for name in undone:
        _mark_undone(connection, numbers[name])
    connection.executemany("insert or replace into cursors values (?, ?)", batch.cursors.items())


def _mark_undone(connection: sqlite3.Connection, number: int) -> None:
    """Mark the messages of a conversation that do not count since it went back; a rollback may bring some back."""
    query = "select seq, back_to from rollbacks where conversation = ? order by seq"
    rollbacks: list[tuple[int, int]] = connection.execute(query, (number,)).fetchall()
    last = rollbacks[-1][0]
    connection.execute("update messages set undone = 1 where conversation = ? and seq < ?", (number, last))
    connection.executemany(
        "update messages set undone = 0 where conversation = ? and seq between ? and ?",
        [(number, *stretch) for stretch in stretches(rollbacks, last)],
    )


def claimed_twice(connection: sqlite3.Connection) -> list[tuple[ConversationId, ConversationId, int]]:
    """The conversations that claim events of another one: which, of which, and how many events."""
    with closing(connection.execute(_TWICE)) as found:
        return [(ConversationId(name), ConversationId(other), count) for name, other, count in found]


def _storable(value: Any) -> Any:
    """A value as SQLite can hold it: a wrong clock or file must not cost other conversations their rows."""
    match value:
        case int():
            return max(-_MOST, min(value, _MOST))
        case str():
            return clean(value)
        case _:  # what was spent
            return json.dumps({day: {key: asdict(use) for key, use in by.items()} for day, by in value.items()})


def row_of(values: Iterable[Any]) -> Row:
    """A row of `COLUMNS` as a value."""
    found = dict(zip(_NAMES, values, strict=True))
    spending = {
        int(day): {PublicKey(key): Usage(**usage) for key, usage in by.items()}
        for day, by in json.loads(found["spending"]).items()
    }
    return Row(**{**found, "settled": bool(found["settled"]), "spending": spending})


def _forget(connection: sqlite3.Connection, conversations: Iterable[ConversationId]) -> None:
    for name in conversations:
        found = connection.execute(_NUMBER, (name,)).fetchone()
        if found is not None:
            connection.execute(
                "delete from words where rowid in (select number from messages where conversation = ?)", found
            )
            for table, column in (
                ("messages", "conversation"),
                ("facets", "conversation"),
                ("events", "conversation"),
                ("rollbacks", "conversation"),
                ("places", "conversation"),
                ("conversations", "number"),
            ):
                connection.execute(f"delete from {table} where {column} = ?", found)  # noqa: S608 - our own words


def forget(connection: sqlite3.Connection, conversations: Iterable[ConversationId]) -> None:
    """Drop all that is known of these."""
    write(connection, Batch(complete=set(conversations)))


def known(connection: sqlite3.Connection, names: Iterable[ConversationId] | None = None) -> dict[ConversationId, Known]:
    """Every conversation, or those of these names, as it was when its row was written."""
    query = "select id, bytes, seq, settled, updated from conversations"
    parameters: list[str] = []
    if names is not None:
        query += " where id in (select value from json_each(?))"
        parameters = [json.dumps(list(names))]
    with closing(connection.execute(query, parameters)) as found:
        return {
            ConversationId(name): Known(bytes=length, seq=seq, settled=bool(settled), updated=Millis(updated))
            for name, length, seq, settled, updated in found
        }


def stale(connection: sqlite3.Connection, lengths: Mapping[ConversationId, int]) -> dict[ConversationId, Known | None]:
    """The conversations that are not settled, unknown here, or known with another length; with what is known of them.

    One that is only unsettled need not be read: its row is as it was left. Those that are gone are forgotten.
    """
    rows = known(connection)
    gone = rows.keys() - lengths.keys()
    if gone:
        forget(connection, gone)
    here = {name: (rows.get(name), length) for name, length in lengths.items()}
    return {name: row for name, (row, length) in here.items() if row is None or row.bytes != length or not row.settled}
