"""The records of the daemons of one database: lessons, profiles and notices, which they share.

They are among the records and snapshots of conversations, under a name that no conversation has, and no row of
`tenex_conversations` is theirs: they have no lease. Who appends says which seq is next, and the primary key refuses the
second of two that say the same.
"""

from collections.abc import Sequence
from typing import Final, LiteralString

import psycopg

from tenex.core.errors import AppendConflict, DatabaseFailed, StoreDamaged, StoreOtherVersion
from tenex.core.record import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.store.daemon_journal import DAEMON, FOLDER
from tenex.store.disk import Disk
from tenex.store.journal import FILE_BYTES
from tenex.store.reading import decode_file

from .database import READING, Connection, Database, Unavailable

NAME: Final = FOLDER
"""In the place of a conversation's id."""

_SNAPSHOT: Final[LiteralString] = (
    "select seq, line from tenex_snapshots where conversation = %s order by file desc limit 1"
)
_RECORDS: Final[LiteralString] = "select line from tenex_records where conversation = %s and seq > %s order by seq"
_APPEND: Final[LiteralString] = """
insert into tenex_records (conversation, seq, token, line)
select %(name)s, new.seq, 0, new.line from unnest(%(seqs)s::bigint[], %(lines)s::text[]) as new (seq, line)
where %(last)s = (select coalesce(max(seq), 0) from tenex_records where conversation = %(name)s)
"""
_ROTATE: Final[LiteralString] = """
insert into tenex_snapshots (conversation, file, seq, token, line)
select %(name)s, (select coalesce(max(file), 1) + 1 from tenex_snapshots where conversation = %(name)s), %(seq)s, 0,
    %(line)s
where %(seq)s = (select max(seq) from tenex_records where conversation = %(name)s)
on conflict do nothing
"""


class PostgresDaemonRecords:
    """The records in a database (`store.daemon_journal.DaemonRecords`)."""

    def __init__(self, database: Database, disk: Disk) -> None:
        self._database = database
        self._disk = disk

    async def open(self) -> tuple["PostgresDaemonLines", list[Record]]:
        """See `DaemonRecords`."""
        try:
            records, length = await self._read()
        except Unavailable as fault:
            raise DatabaseFailed(f"{fault}. It is tried again.") from fault
        return PostgresDaemonLines(self._database, self._disk, records[-1].seq if records else 0, length), records

    async def peek(self) -> list[Record]:
        """See `DaemonRecords`."""
        records, _ = await self._read()
        return records

    async def _read(self) -> tuple[list[Record], int]:
        """The records to fold, and their bytes."""
        lines: list[str] = []
        after = 0
        for seq, line in await self._database.rows(_SNAPSHOT, [NAME], READING):
            lines = [line]
            after = seq
        lines += [line for (line,) in await self._database.rows(_RECORDS, [NAME, after], READING)]
        records = await self._disk.run(_decoded, self._database.place, lines)
        return records, sum(len(line) + 1 for line in lines)


class PostgresDaemonLines:
    """The journal of the daemons, as one of them appends to it (`store.daemon_journal.DaemonLines`)."""

    def __init__(self, database: Database, disk: Disk, last: int, length: int) -> None:
        """Continue after the record `last`, with so many bytes since the newest snapshot."""
        self._database = database
        self._disk = disk
        self._last = last
        self._length = length
        self._long = max(FILE_BYTES, 2 * length)

    @property
    def next_seq(self) -> int:
        """The seq the next record must have, as far as is known."""
        return self._last + 1

    @property
    def is_long(self) -> bool:
        """Whether it is time for a snapshot."""
        return self._length >= self._long

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, all of them or none.

        Raises:
            AppendConflict: another daemon was first; nothing was stored.
            AppendFailed: it is not known whether they were stored.
        """
        data = DAEMON.encode_decisions(decisions)
        lines = data.decode().split("\n")[:-1]
        parameters = {
            "name": NAME,
            "last": self._last,
            "seqs": list(range(self.next_seq, self.next_seq + len(lines))),
            "lines": lines,
        }

        async def append(connection: Connection) -> int:
            return (await connection.execute(_APPEND, parameters)).rowcount

        try:
            count = await self._database.run(append, is_doubted=True)
        except psycopg.IntegrityError:
            count = 0
        except Unavailable as fault:
            raise DatabaseFailed(f"{fault}. It is not known whether it was stored.") from fault
        if not count:
            raise AppendConflict(f"another daemon has written record {self.next_seq} of {NAME}")
        self._last += len(lines)
        self._length += len(data)

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on after a snapshot, from which a start folds; False where another daemon has appended since."""
        self._long = 2 * self._length  # if it fails it is not tried again at once
        data = DAEMON.encode_decisions([[snapshot]])
        parameters = {"name": NAME, "seq": snapshot.seq, "line": data.decode().rstrip("\n")}

        async def rotate(connection: Connection) -> int:
            return (await connection.execute(_ROTATE, parameters)).rowcount

        if not await self._database.run(rotate):
            return False
        self._length = len(data)
        self._long = max(FILE_BYTES, 2 * len(data))
        return True

    async def newer(self) -> list[Record]:
        """What other daemons have appended since. Raises as `DaemonLines.newer`."""
        try:
            rows = await self._database.rows(_RECORDS, [NAME, self._last], READING)
        except Unavailable as fault:
            raise DatabaseFailed(f"{fault}. It is tried again.") from fault
        if not rows:
            return []
        lines = [line for (line,) in rows]
        records = await self._disk.run(_decoded, self._database.place, lines, self._last + 1)
        self._last = records[-1].seq
        self._length += sum(len(line) + 1 for line in lines)
        return records

    async def close(self) -> None:
        """Do nothing: nothing is held."""


def _decoded(place: str, lines: Sequence[str], first: int = 1) -> list[Record]:
    """The records of lines, of which the first has this seq or is a snapshot.

    Raises:
        StoreDamaged: a line is not what we wrote, or one is missing.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    try:
        return decode_file(data, DAEMON, f"{NAME} in {place}", first, may_be_torn=False)
    except StoreOtherVersion:
        raise
    except StoreDamaged as fault:
        raise StoreDamaged(f"{fault} Restore it from a backup; conversations go on meanwhile.") from fault
