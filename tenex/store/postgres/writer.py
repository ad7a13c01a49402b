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

from typing import Any, Final, Literal, LiteralString

import psycopg

from tenex.core.errors import AppendConflict, AppendFailed, DatabaseFailed, HeldElsewhere, StoreDamaged
from tenex.core.ids import ConversationId
from tenex.log import get_logger
from tenex.store.journal import End

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
_BEGIN_FILE: Final[LiteralString] = """
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


class PostgresWriter:
    """Appends to one conversation under its lease (`store.journal.Writer`)."""

    def __init__(self, database: Database, leases: Leases, lease: Lease, taken: Taken) -> None:
        """Continue a conversation whose lease was taken.

        Args:
            database: where it is.
            leases: those of this worker.
            lease: that of the conversation.
            taken: its row.
        """
        self.id: ConversationId = lease.id
        self.place = f"conversation {lease.id[:12]} in {database.place}"
        self.dead = ""
        self.end = End(taken.next_seq, taken.bytes, taken.file_bytes, taken.snapshot_bytes)
        self._database = database
        self._leases = leases
        self._lease = lease

    @property
    def may_start(self) -> bool:
        """Whether more than half of the lease is left."""
        return self._lease.may_start

    async def append(self, data: bytes, next_seq: int) -> None:
        """See `Writer`; a call that was cancelled leaves the writer dead, as its result is not known."""
        first = self.end.next_seq
        lines = data.decode().split("\n")[:-1]
        try:
            await self._store(first, lines, len(data))
        except AppendFailed as fault:
            self.dead = str(fault)
            raise
        except BaseException:
            self.dead = f"an append to {self.id} was cut off; open it again"
            raise
        end = self.end
        self.end = End(next_seq, end.bytes + len(data), end.file_bytes + len(data), end.snapshot_bytes)

    async def begin_file(self, seq: int, data: bytes) -> bool:
        """See `Writer`: the line of a snapshot is stored beside those of records.

        Raises:
            Unavailable: it is not known whether it was stored.
            StoreDamaged: there is a snapshot in its place; nothing was stored.
        """
        parameters = {
            "id": self.id,
            "token": self._lease.token,
            "worker": self._leases.worker,
            "next": self.end.next_seq,
            "seq": seq,
            "bytes": len(data),
            "line": data.decode().rstrip("\n"),
        }

        async def begin(connection: Connection) -> int:
            cursor = await connection.execute(_BEGIN_FILE, parameters)
            return cursor.rowcount

        try:
            count = await self._database.run(begin)
        except psycopg.IntegrityError as fault:
            raise StoreDamaged(f"{self.id} has a snapshot of which its row does not know") from fault
        if not count:
            return False
        self.end = End(
            next_seq=self.end.next_seq,
            bytes=self.end.bytes + len(data),
            file_bytes=len(data),
            snapshot_bytes=len(data),
        )
        return True

    async def close(self) -> None:
        """Give the lease back."""
        self.dead = self.dead or f"the journal of {self.id} was closed; open it again."
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
