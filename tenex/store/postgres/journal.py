"""Appending to one journal in the database: a decision is one statement, which checks the token and renews the lease.

    append ──► stored                                                     done
           ├─► no row: the token is another's ──────────────────────────► HeldElsewhere
           ├─► no row: the conversation is at another seq ──────────────► AppendConflict
           └─► no answer ──► ask, holding the row: our lines are there ─► done
                             ├─ nothing is there ──► append, once more
                             ├─ others are there ─────────────────────► as above
                             └─ no answer ────────────────────────────► AppendFailed: open it again

To ask it takes the lock of the conversation's row, which a statement under way holds until it has ended: one that waits
for a standby, too. Its own commit comes after ours in the log of the server, so where a standby has to acknowledge it,
that standby has both.

A statement that was sent may begin after that, where the server was paused before it read it. It does no harm: the
second one has the same seq and token, so one of the two finds the row changed, and that is asked again. Where we give
up, opening the journal takes the lease again: its token counts up before the records are read.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, LiteralString

import psycopg

from tenex.core.errors import AppendConflict, AppendFailed, DatabaseFailed, HeldElsewhere, InternalError, StoreDamaged
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.core.snapshot import SnapshotRecord
from tenex.log import get_logger
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FILE_BYTES, PER_SNAPSHOT

from .database import Connection, Database, Unavailable
from .leases import Lease, Leases, Taken

_APPEND: Final[LiteralString] = """
with held as (
    update tenex_conversations
    set next_seq = %(next)s, bytes = bytes + %(bytes)s, file_bytes = file_bytes + %(bytes)s,
        expires = clock_timestamp() + %(lease)s, changed = clock_timestamp()
    where id = %(id)s and token = %(token)s and holder = %(worker)s and next_seq = %(first)s
    returning id
)
insert into tenex_records (conversation, seq, token, line)
select held.id, new.seq, %(token)s, new.line
from held, unnest(%(seqs)s::bigint[], %(lines)s::text[]) as new (seq, line)
"""
_ROTATE: Final[LiteralString] = """
with held as (
    update tenex_conversations
    set files = files + 1, bytes = bytes + %(bytes)s, file_bytes = %(bytes)s, snapshot_bytes = %(bytes)s,
        changed = clock_timestamp()
    where id = %(id)s and token = %(token)s and holder = %(worker)s and next_seq = %(next)s
    returning id, files
)
insert into tenex_snapshots (conversation, file, seq, token, line)
select held.id, held.files, %(seq)s, %(token)s, %(line)s::text from held
"""
_LOCK: Final[LiteralString] = "select token, holder, next_seq from tenex_conversations where id = %s for update"
_AFTER: Final[LiteralString] = "select line from tenex_records where conversation = %s and seq >= %s order by seq"

log = get_logger(__name__)

Outcome = Literal["ours", "nothing", "another token", "another seq"]
"""What there is of an append whose result was not known."""


class PostgresJournal:
    """The records of one conversation, in order (`core.ports.Journal`)."""

    def __init__(
        self,
        database: Database,
        leases: Leases,
        lease: Lease,
        taken: Taken,
        disk: Disk,
        closed: Callable[["PostgresJournal"], None],
    ) -> None:
        """Continue a conversation whose lease was taken.

        Args:
            database: where it is.
            leases: those of this worker.
            lease: that of the conversation.
            taken: its row.
            disk: has the threads that encode.
            closed: called once, when the journal is closed.
        """
        self.id: ConversationId = lease.id
        self._database = database
        self._leases = leases
        self._lease = lease
        self._disk = disk
        self._closed = closed
        self._next_seq = taken.next_seq
        self._bytes = taken.bytes
        self._file_bytes = taken.file_bytes
        self._expect(taken.snapshot_bytes)
        self._dead = ""
        self._is_closed = False
        self._turn = asyncio.Lock()

    @property
    def next_seq(self) -> int:
        """The seq the next record must have."""
        return self._next_seq

    @property
    def may_start(self) -> bool:
        """Whether more than half of the lease is left."""
        return not self._dead and self._lease.may_start

    @property
    def length(self) -> int:
        """Bytes that are durable, of all lines, as if they were in files."""
        return self._bytes

    @property
    def file_length(self) -> int:
        """Those since the newest snapshot, with it."""
        return self._file_bytes

    @property
    def is_long(self) -> bool:
        """Whether it is time for another snapshot."""
        return self._file_bytes >= self._long

    async def append(self, decisions: Sequence[Sequence[Record]]) -> None:
        """Make records durable, all of them or none, in order; callers at the same time take turns.

        A cancelled call has either appended everything or failed by the time it raises.

        Raises:
            HeldElsewhere: another worker has taken the conversation over; it sees what was stored.
            AppendConflict: the conversation is at another seq; nothing was stored.
            AppendFailed: it is not known whether they were stored. After each of these every later append fails too;
                open the journal again.
            InternalError: a record has another seq than the next, or cannot be stored; nothing was stored.
        """
        async with self._turn:
            if self._dead:
                raise AppendFailed(self._dead)
            first = self._next_seq
            seqs = [record.seq for decision in decisions for record in decision]
            if seqs != list(range(first, first + len(seqs))):
                raise InternalError(f"{self.id}: records have the seqs {seqs[:8]}, but {first} is next")
            if not seqs:
                return
            data = CONVERSATION.encode_decisions(decisions)
            lines = data.decode().split("\n")[:-1]
            began = time.perf_counter()
            try:
                await self._store(first, lines, len(data))
            except AppendFailed as fault:
                self._dead = str(fault)
                raise
            except BaseException:
                self._dead = f"an append to {self.id} was cut off; open it again"
                raise
            finally:
                if self._disk.timed is not None:
                    self._disk.timed("append", time.perf_counter() - began)
            self._next_seq = first + len(lines)
            self._bytes += len(data)
            self._file_bytes += len(data)

    async def rotate(self, snapshot: SnapshotRecord) -> bool:
        """Go on after a snapshot, from which the conversation is folded from now on.

        Returns:
            False where the snapshot is not of the last record, or another worker has the conversation; nothing was
            done.

        Raises:
            Unavailable: it is not known whether the snapshot was stored; the journal goes on in both cases.
            StoreDamaged: there is a snapshot in its place; nothing was stored.
            InternalError: the snapshot could not be read again; nothing was stored.
        """
        async with self._turn:
            if self._dead or self._next_seq == 1 or snapshot.seq != self._next_seq - 1:
                return False
            self._long = self._file_bytes * 2  # if this fails it is not tried again at once
            data = await self._disk.run(_encoded, snapshot)
            parameters = {
                "id": self.id,
                "token": self._lease.token,
                "worker": self._leases.worker,
                "next": self._next_seq,
                "seq": snapshot.seq,
                "bytes": len(data),
                "line": data.decode().rstrip("\n"),
            }

            async def rotate(connection: Connection) -> int:
                cursor = await connection.execute(_ROTATE, parameters)
                return cursor.rowcount

            try:
                count = await self._database.run(rotate)
            except psycopg.IntegrityError as fault:
                raise StoreDamaged(f"{self.id} has a snapshot of which its row does not know") from fault
            if not count:
                return False
            self._bytes += len(data)
            self._file_bytes = len(data)
            self._expect(len(data))
            return True

    async def close(self) -> None:
        """Give the lease back, after the append under way; a second call does nothing."""
        async with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            self._dead = self._dead or f"the journal of {self.id} was closed; open it again."
            self._closed(self)
            if not self._lease.is_lost:
                await self._leases.give_back(self._lease)

    async def _store(self, first: int, lines: list[str], length: int) -> None:
        parameters = {
            "id": self.id,
            "token": self._lease.token,
            "worker": self._leases.worker,
            "first": first,
            "next": first + len(lines),
            "bytes": length,
            "lease": self._leases.length,
            "seqs": list(range(first, first + len(lines))),
            "lines": lines,
        }

        async def insert(connection: Connection) -> int:
            cursor = await connection.execute(_APPEND, parameters)
            return cursor.rowcount

        why = "it was rolled back"
        for is_again in (False, True):
            asked_at = self._leases.now()
            try:
                if await self._database.run(insert, is_doubted=True):
                    self._leases.extend(self._lease, asked_at)
                    return
                outcome = await self._look(first, lines)
            except psycopg.IntegrityError:  # lines of which the row does not know: a part of a database was restored
                outcome = "another seq"
            except Unavailable as fault:
                why = str(fault)
                outcome = await self._look_after(first, lines, fault)
                if outcome == "ours":  # of any other outcome the error says why
                    log.warning("append.unknown", conversation=self.id, seq=first, reason=why)
            if outcome == "ours":
                return
            if outcome != "nothing" or is_again:
                raise self._refusal(outcome, first, why)

    async def _look_after(self, first: int, lines: list[str], fault: Unavailable) -> Outcome:
        """What there is after a failure of the connection.

        Raises:
            AppendFailed: that cannot be found out now either.
        """
        try:
            return await self._look(first, lines)
        except Unavailable:
            raise DatabaseFailed(
                f"{fault}. It is not known whether {len(lines)} records from {first} on were stored; the conversation "
                "continues when it is opened again."
            ) from fault

    async def _look(self, first: int, lines: list[str]) -> Outcome:
        async def look(connection: Connection) -> tuple[Any, list[str]]:
            async with connection.transaction():
                row = await (await connection.execute(_LOCK, [self.id])).fetchone()
                stored = await (await connection.execute(_AFTER, [self.id, first])).fetchall()
            return row, [line for (line,) in stored]

        row, stored = await self._database.run(look, is_doubted=True)
        if row is None or row[:2] != (self._lease.token, self._leases.worker):
            return "another token"
        if stored == lines:
            return "ours"
        return "nothing" if not stored and row[2] == first else "another seq"

    def _refusal(self, outcome: Outcome, first: int, why: str) -> AppendFailed:
        if outcome == "another token":
            self._leases.drop(self._lease)
            return HeldElsewhere(f"another worker has taken over the conversation {self.id[:12]}")
        if outcome == "another seq":
            self._leases.happened("append_conflict", 0.0)
            return AppendConflict(f"the conversation {self.id[:12]} is not at record {first}; open it again")
        return DatabaseFailed(
            f"Record {first} of {self.id[:12]} was not stored, tried twice: {why}. It is tried again."
        )

    def _expect(self, snapshot: int) -> None:
        self._long = max(FILE_BYTES, PER_SNAPSHOT * snapshot)


def _encoded(snapshot: SnapshotRecord) -> bytes:
    """The line of a snapshot, which reads back as it was written."""
    data = CONVERSATION.encode_decisions([[snapshot]])
    again, _, _ = CONVERSATION.decode_lines(data)
    if CONVERSATION.encode_decisions([again]) != data:
        raise InternalError(f"the snapshot of seq {snapshot.seq} does not read back as it was written")
    return data
