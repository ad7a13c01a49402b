"""The index's tables: every statement of SQL there is here, as functions over a connection.

Never: know a thread or a loop; `tables` does.
"""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenex.core.ids import ConversationId, Millis

from .atomic import FILE_MODE, make_folder
from .summary import Row

VERSION: Final = 1
"""Of the tables; an index of another version is thrown away and made anew."""

BUSY_MS: Final = 5_000
"""How long one process waits for another's write, which is a batch of some ms."""

_TABLES: Final = f"""
create table conversations (
    id text primary key, bytes integer not null, seq integer not null, settled integer not null,
    status text not null, phase text not null, title text not null, updated integer not null
) without rowid;
create index newest on conversations (updated);
create table events (event_id text primary key, conversation text not null) without rowid;
create table cursors (relay text primary key, at integer not null) without rowid;
pragma user_version = {VERSION};
"""

_COLUMNS: Final = "id, bytes, seq, settled, status, phase, title, updated"


@dataclass(slots=True)
class Batch:
    """What is to be written next; newer values replace older ones."""

    rows: dict[ConversationId, Row] = field(default_factory=dict)
    events: dict[str, ConversationId] = field(default_factory=dict)
    cursors: dict[str, Millis] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows) + len(self.events) + len(self.cursors)

    def over(self, older: "Batch") -> "Batch":
        """Both, where this one has the last word."""
        return Batch(
            rows={**older.rows, **self.rows},
            events={**older.events, **self.events},
            cursors={**older.cursors, **self.cursors},
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
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    version = connection.execute("pragma user_version").fetchone()[0]
    if version == 0 and not connection.execute("select count(*) from sqlite_master").fetchone()[0]:
        connection.executescript(f"begin immediate; {_TABLES} commit;")
    elif version != VERSION:
        raise sqlite3.DatabaseError(f"the index has version {version}, but {VERSION} is ours")
    connection.execute(f"select {_COLUMNS} from conversations limit 1").fetchone()  # noqa: S608 - our own words


def write(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write a batch, whole or not at all.

    Raises:
        sqlite3.Error: nothing was written.
    """
    connection.execute("begin immediate")
    try:
        connection.executemany(
            "insert or replace into conversations values (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (row.id, row.bytes, row.seq, row.settled, row.status, row.phase, row.title, row.updated)
                for row in batch.rows.values()
            ],
        )
        connection.executemany("insert or replace into events values (?, ?)", batch.events.items())
        connection.executemany("insert or replace into cursors values (?, ?)", batch.cursors.items())
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def stale(connection: sqlite3.Connection, lengths: Mapping[ConversationId, int]) -> list[ConversationId]:
    """The conversations that are not settled, unknown here, or known with another length; forgets those that are gone.

    Raises:
        sqlite3.Error: the index cannot be used.
    """
    with closing(connection.execute("select id, bytes, settled from conversations")) as found:
        known = {name: (length, settled) for name, length, settled in found}
    gone = [(name,) for name in known.keys() - lengths.keys()]
    if gone:
        connection.executemany("delete from conversations where id = ?", gone)
        connection.execute("delete from events where conversation not in (select id from conversations)")
    return [name for name, length in lengths.items() if known.get(name) != (length, 1)]


def newest(connection: sqlite3.Connection, limit: int) -> list[Row]:
    """The rows last updated, newest first; all of them if `limit` is negative.

    Raises:
        sqlite3.Error: the index cannot be read.
    """
    query = f"select {_COLUMNS} from conversations order by updated desc, id limit ?"  # noqa: S608 - our own words
    with closing(connection.execute(query, (limit,))) as found:
        return [
            Row(
                id=ConversationId(name),
                bytes=length,
                seq=seq,
                settled=bool(settled),
                status=status,
                phase=phase,
                title=title,
                updated=Millis(updated),
            )
            for name, length, seq, settled, status, phase, title, updated in found
        ]
