"""All conversations of a database: which there are, how long they are, and their journals.

What each method does is said in `store.repository`; here is what differs. Views and the index are files in `root`, one
such folder for each worker.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, LiteralString, NamedTuple, Self
from weakref import WeakValueDictionary

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import (
    ConfigurationError,
    DatabaseFailed,
    HeldElsewhere,
    StoreDamaged,
    StoreError,
    StoreOtherVersion,
    UsageError,
)
from tenex.core.ids import ConversationId, EventId
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.log import get_logger
from tenex.store import atomic, atomic_folder
from tenex.store.contents import Contents, Remains, lines_of
from tenex.store.conversations import Change, Worker
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION, are_sound, is_sound
from tenex.store.journal_reader import NEWEST, UPGRADE, VIEW, covered_by, note_lost_end
from tenex.store.repository import misnamed, path_in, rotate_if_long
from tenex.store.view import Views

from . import leases
from .daemon_records import PostgresDaemonRecords
from .database import CONNECTIONS, READING, Connection, Database, Unavailable, faults_of
from .journal import PostgresJournal
from .leases import Lease, Leases, Taken

OVERLAP: Final = timedelta(seconds=20)
"""A change is seen by its time, which is set before it is committed; no statement takes longer."""
REMEDY: Final = (
    "Restore the database from a backup; or stop the daemon of this folder and make a new journal of what can be "
    "recovered, with `tenex conversations rebuild ID --from conversation.json` or `--from relay`. The damaged one is "
    "kept."
)

_SNAPSHOT: Final[LiteralString] = """
select seq, line from tenex_snapshots where conversation = %(id)s and seq <= greatest(
    %(since)s, (select min(seq) - 1 from tenex_records where conversation = %(id)s)
) order by file desc limit 1
"""
_RECORDS: Final[LiteralString] = "select line from tenex_records where conversation = %s and seq > %s order by seq"
_KNOWN: Final[LiteralString] = "select 1 from tenex_conversations where id = %s and next_seq > 1"
_PART: Final[LiteralString] = """
select seq, line, (select min(n.seq) from tenex_snapshots n where n.conversation = s.conversation and n.seq > s.seq)
from tenex_snapshots s where conversation = %(id)s and seq < greatest(
    %(holding)s, (select min(seq) from tenex_records where conversation = %(id)s)
) order by file desc limit 1
"""
_FIRST_PART: Final[LiteralString] = "select min(seq) from tenex_snapshots where conversation = %s"
_OF_PART: Final[LiteralString] = (
    "select line from tenex_records where conversation = %s and seq > %s and seq <= %s order by seq"
)
_SIZE: Final[LiteralString] = "select bytes from tenex_conversations where id = %s"
_MARK: Final[LiteralString] = "update tenex_conversations set quarantined = %s where id = %s"
CHANGES: Final[LiteralString] = """
select id, bytes,
    case when holder is null
        then coalesce(wanted = %(worker)s or expires < clock_timestamp() - %(grace)s::interval, true)
        else holder = %(worker)s
    end,
    coalesce(holder = %(worker)s and wanted is not null, false)
from tenex_conversations where changed > %(since)s and quarantined is null
"""
_WORKERS: Final[LiteralString] = """
select name, version, extract(epoch from clock_timestamp() - started)::bigint,
    extract(epoch from clock_timestamp() - seen)::bigint, drains, has_seen_it,
    (select count(*) from tenex_conversations c where c.holder = w.name),
    exists (select 1 from tenex_meta m where m.name = 'workspace' and m.value = w.name)
from tenex_workers w order by name
"""
_NOW: Final[LiteralString] = "select clock_timestamp(), exists (select 1 from tenex_meta where name = 'workspace')"
_DRAIN: Final[LiteralString] = "update tenex_workers set drains = %s, has_seen_it = false where name = %s"
_CLAIM: Final[LiteralString] = """
insert into tenex_meta as m values ('project', %s) on conflict (name) do update set value = m.value returning value
"""
_TAKE_EVENT: Final[LiteralString] = """
insert into tenex_events as e (id, owner) values (%s, %s) on conflict (id) do update set owner = e.owner returning owner
"""
_LINES: Final[LiteralString] = "select seq, line from tenex_records where conversation = %s order by seq"
_SNAPSHOTS: Final[LiteralString] = "select seq, line, file from tenex_snapshots where conversation = %s order by file"
_PUT: Final[LiteralString] = """
update tenex_conversations
set next_seq = %(next)s, bytes = %(bytes)s, file_bytes = %(file_bytes)s, snapshot_bytes = %(snapshot_bytes)s,
    files = %(files)s, changed = clock_timestamp(), quarantined = null
where id = %(id)s and token = %(token)s and holder = %(worker)s
"""
_CUT_RECORDS: Final[LiteralString] = "delete from tenex_records where conversation = %s and seq > %s"
_CUT_SNAPSHOTS: Final[LiteralString] = "delete from tenex_snapshots where conversation = %s and file > %s"
_PUT_RECORDS: Final[LiteralString] = """
insert into tenex_records (conversation, token, seq, line)
select %s::text, %s::bigint, new.seq, new.line from unnest(%s::bigint[], %s::text[]) as new (seq, line)
"""
_PUT_SNAPSHOT: Final[LiteralString] = (
    "insert into tenex_snapshots (conversation, file, seq, token, line) values (%s, %s, %s, %s, %s)"
)

OPENERS: Final = CONNECTIONS // 2
"""Conversations that are opened at once: a start has thousands, and appends need connections meanwhile."""
CHUNK: Final = 2_000
"""Records of a copy that are sent at once: some MB."""
_SEQ_LIMIT: Final = 2**63 - 1
_ERA: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Before all changes."""

log = get_logger(__name__)


class PostgresConversations:
    """The conversations of a database, as one worker uses them (`store.conversations.SharedConversations`)."""

    def __init__(self, database: Database, held: Leases, root: Path, disk: Disk, clock: Clock) -> None:
        self.root = root
        self._database = database
        self._leases = held
        self._disk = disk
        self._clock = clock
        self._journals: dict[str, PostgresJournal] = {}
        self._openers = asyncio.Semaphore(OPENERS)
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._seen_at: datetime | None = None
        self._foreign: set[str] = set()
        """Conversations that another version has written: they are no worse for that, and not for this worker."""

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        url: str,
        root: Path,
        disk: Disk,
        clock: Clock,
        *,
        lease: float = 0.0,
        worker: str = "",
        daemon: str = "",
    ) -> AsyncIterator[Self]:
        """Connect for as long as the block lasts.

        Args:
            url: the address of the database.
            root: the folder of readable files and the index.
            disk: has the threads that encode and decode.
            clock: the wall clock.
            lease: seconds of a lease; 0 for the usual.
            worker: the name of the worker; empty for that of the folder's daemon.
            daemon: the version of that daemon, where this is it; empty for a command beside it.

        Raises:
            Unavailable: the database cannot be reached.
            ConfigurationError: that is no address, or a newer program made the tables.
        """
        name = worker or await disk.run(leases.worker_name, root, is_daemon=bool(daemon))
        async with Database(url, is_daemon=bool(daemon)).opened() as database:
            held = Leases(database, name, lease or leases.LEASE)
            held.version = daemon
            store = cls(database, held, root, disk, clock)
            try:
                yield store
            finally:
                await store.close()
                await held.leave()

    @property
    def lost(self) -> Callable[[ConversationId], None]:
        """Called when a lease of this worker has run out, or was taken over."""
        return self._leases.lost

    @lost.setter
    def lost(self, call: Callable[[ConversationId], None]) -> None:
        self._leases.lost = call

    @property
    def renewed(self) -> Callable[[ConversationId], None]:
        """Called when a lease is sure again after a time in which nothing might start."""
        return self._leases.renewed

    @renewed.setter
    def renewed(self, call: Callable[[ConversationId], None]) -> None:
        self._leases.renewed = call

    @property
    def happened(self) -> Callable[[leases.Happening, float], None]:
        """Called with what happens to leases and appends, for metrics."""
        return self._leases.happened

    @happened.setter
    def happened(self, call: Callable[[leases.Happening, float], None]) -> None:
        self._leases.happened = call

    @property
    def workspace_lost(self) -> Callable[[], None]:
        """Called when agents may no longer use files here."""
        return self._leases.workspace_lost

    @workspace_lost.setter
    def workspace_lost(self, call: Callable[[], None]) -> None:
        self._leases.workspace_lost = call

    @property
    def has_workspace(self) -> bool:
        """Whether agents may use files here: one worker at a time has the workspace of the project."""
        return self._leases.has_workspace

    @property
    def drains(self) -> bool:
        """Whether this worker is to take nothing more."""
        return self._leases.drains

    @property
    def fault(self) -> str:
        """Why the database could not be used some seconds ago; empty where it could."""
        return self._leases.fault

    @property
    def daemons(self) -> int:
        """How many workers run, this one among them, as far as is known."""
        return self._leases.others + 1

    @property
    def place(self) -> str:
        """Where the records are."""
        return self._database.place

    async def claim(self, project: str) -> None:
        """Make the database that of a project, before anything is written to it.

        Raises:
            ConfigurationError: it is another one's, or would lose what is written to it.
        """
        faults, _ = await self.faults()
        if faults:
            raise ConfigurationError([f"store: {self._database.place}: {fault}" for fault in faults])

        async def claim(connection: Connection) -> str:
            row = await (await connection.execute(_CLAIM, [project])).fetchone()
            return str(row[0]) if row else ""

        owner = await self._database.run(claim)
        if owner != project:
            fault = f"{self._database.place} holds the conversations of another project, whose key is {owner[:12]}"
            fix = "give each project a database or a schema, and each of its workers the same keys"
            raise ConfigurationError([f"store: {fault}; {fix}"])

    async def faults(self) -> tuple[list[str], list[str]]:
        """Why the database would lose what is written to it, and what else deserves attention; each with its fix."""
        return await faults_of(self._database)

    async def join(self) -> None:
        """Be listed as a worker, and have the workspace where no other one has it.

        Raises:
            Unavailable: the database cannot be used now.
        """
        await self._leases.report()

    async def keep_leases(self) -> None:
        """Renew the leases of open journals until cancelled."""
        await self._leases.keep()

    def path(self, conversation: str) -> Path:
        """The folder of a conversation's readable files, whether it exists or not.

        Raises:
            UsageError: that is not a conversation's id.
        """
        return path_in(self.root, conversation)

    async def open(self, conversation: ConversationId) -> tuple[PostgresJournal, list[Record]]:
        """A conversation's journal, once this worker has its lease, and the records to fold.

        Raises:
            HeldElsewhere: another worker writes it, or is to.
            StoreDamaged: it holds what we did not write; nothing was changed but its mark, and what another version has
                written gets none.
            AppendFailed: the database cannot be used now.
            UsageError: that is not a conversation's id.
        """
        view = self.path(conversation) / VIEW
        turn = self._opening.setdefault(conversation, asyncio.Lock())
        async with turn, self._openers:
            await self._close(conversation)
            if self._leases.drains:
                raise HeldElsewhere(
                    f"this worker is drained, and leaves the conversation {conversation[:12]} to others"
                )
            try:
                lease, taken = await self._leases.take(conversation)
            except Unavailable as fault:
                raise DatabaseFailed(f"{fault}. It is tried again.") from fault
            try:
                records = await self._checked(conversation, taken)
                last = records[-1].seq if records else 0
                await self._disk.change(note_lost_end, view, Path(self._place(conversation)), last)
            except StoreOtherVersion as fault:
                await self._leases.give_back(lease)
                self._foreign.add(conversation)
                if await self._is_left_to_another_version():
                    raise HeldElsewhere(f"{fault} A daemon of another version goes on with it.") from fault
                raise
            except StoreDamaged as fault:
                await self._quarantine(lease, str(fault))
                raise
            except Unavailable as fault:
                await self._leases.give_back(lease)
                raise DatabaseFailed(f"{fault}. It is tried again.") from fault
            except BaseException:
                await self._leases.give_back(lease)
                raise
            journal = PostgresJournal(self._database, self._leases, lease, taken, self._disk, self._closed)
            self._journals[conversation] = journal
        return journal, records

    async def _checked(self, conversation: ConversationId, taken: Taken) -> list[Record]:
        """The records to fold, which agree with the row of the conversation; it is no longer in quarantine.

        Raises:
            StoreDamaged: they do not, or hold what we did not write.
            Unavailable: the database cannot be used now.
        """
        records = await self._read(conversation, NEWEST)
        last = records[-1].seq if records else 0
        if taken.next_seq != last + 1:
            what = f"it ends with record {last}, though {taken.next_seq - 1} were stored"
            raise self._damaged(conversation, what)
        view = self.path(conversation) / VIEW
        if not records and await asyncio.to_thread(_is_unreadable, view):  # else `operations.recovery` reads it
            raise self._damaged(conversation, f"it is missing, though {view} is there")
        if taken.quarantined is not None:
            await self._mark(conversation, None)
        return records

    async def read(self, conversation: ConversationId, since: int = 0) -> list[Record]:
        """The records of a conversation, all of them or those from the newest snapshot before `since` on; no lease.

        Raises:
            StoreDamaged: it holds what we did not write.
            UsageError: there is no such conversation.
            Unavailable: the database cannot be used now.
        """
        records, loss = await self.read_left(conversation, since)
        if loss:
            raise StoreDamaged(f"{loss} Nothing was changed.")
        return records

    async def _known(self, conversation: ConversationId, records: list[Record]) -> list[Record]:
        """The records of a conversation that exists.

        Raises:
            UsageError: there is no such conversation.
        """
        if not records:
            self.path(conversation)
            if not await self._database.rows(_KNOWN, [conversation]):
                raise UsageError(f"There is no conversation {conversation} in {self._database.place}.")
        return records

    async def read_left(self, conversation: ConversationId, since: int = 0) -> tuple[list[Record], str]:
        """The same where only a snapshot is left of the past, as a rebuild leaves it; and the sentence that says so."""
        records = await self._known(conversation, await self._read(conversation, since))
        first = records[0] if records else None
        is_cut = isinstance(first, StateSnapshot) and first.seq > since
        return records, self._lost_past(conversation, records) if is_cut else ""

    def _lost_past(self, conversation: ConversationId, records: Sequence[Record]) -> str:
        what = f"nothing is known of what was before record {records[0].seq + 1}"
        return f"{self._place(conversation)}: {what}. The daemon goes on from the state after it."

    async def read_file(self, conversation: ConversationId, holding: int) -> list[Record]:
        """The records from one snapshot to the next, between which the record `holding` is; raises as `read` does."""
        last = min(holding, _SEQ_LIMIT)
        snapshots = await self._database.rows(_PART, {"id": conversation, "holding": last}, READING)
        lines = [line for _, line, _ in snapshots]
        after = snapshots[0][0] if snapshots else 0
        if snapshots:
            until = snapshots[0][2]
        else:
            ((until,),) = await self._database.rows(_FIRST_PART, [conversation])
        parameters = [conversation, after, _SEQ_LIMIT if until is None else until]
        lines += [line for (line,) in await self._database.rows(_OF_PART, parameters, READING)]
        return await self._known(conversation, await self._records_of(conversation, lines))

    async def is_past_sound(self, conversation: ConversationId) -> bool:
        """Whether what is before the newest snapshot is all there, by checksums and numbers; no record is decoded."""
        stored = await self._stored(conversation)
        return await self._disk.run(_is_past_sound, stored)

    def tail(self, conversation: ConversationId, seq: int) -> "PostgresTail":
        """Follows a journal after the record `seq`."""
        place, remedy = self._place(conversation), self._remedy(conversation)
        return PostgresTail(self._database, self._disk, conversation, seq, place, remedy)

    async def rotate(self, conversation: Conversation) -> bool:
        """Have a journal that is open here, and long, go on after a snapshot; else do nothing."""
        return await rotate_if_long(self._journals.get(conversation.id), conversation)

    def length(self, conversation: ConversationId) -> int:
        """Durable bytes of a journal that is open here, as if it were in files; 0 where it is not."""
        journal = self._journals.get(conversation)
        return journal.length if journal is not None else 0

    async def lengths(self) -> dict[ConversationId, int]:
        """Every conversation with the bytes of its journal.

        Raises:
            Unavailable: the database cannot be used now; so the next four.
        """
        query: LiteralString = "select id, bytes from tenex_conversations where next_seq > 1 order by id"
        rows = await self._database.rows(query, seconds=READING)
        return {ConversationId(name): length for name, length in rows}

    async def size(self, conversation: ConversationId) -> int:
        """Bytes of a journal, also of one that another worker writes; 0 where there is none."""
        rows = await self._database.rows(_SIZE, [conversation])
        return int(rows[0][0]) if rows else 0

    async def behind(self) -> list[ConversationId]:
        """The conversations that this worker had when it died, and whose view in `root` is older than their journal."""
        rows = await self._database.rows(
            "select id, next_seq from tenex_conversations where next_seq > 1 and holder = %s order by id",
            [self._leases.worker],
            READING,
        )
        return await self._disk.run(_behind, self.root, rows)

    async def quarantined(self) -> dict[ConversationId, str]:
        """The conversations that could not be read when they were last opened, each with the sentence why."""
        rows = await self._database.rows(
            "select id, quarantined from tenex_conversations where quarantined is not null order by id"
        )
        return {ConversationId(name): why for name, why in rows}

    async def last_written(self) -> int | None:
        """The second of the last append to any conversation; None where there is none."""
        ((at,),) = await self._database.rows("select max(changed) from tenex_conversations where next_seq > 1")
        return None if at is None else int(at.timestamp())

    async def take_event(self, event_id: EventId, conversation: ConversationId) -> ConversationId:
        """Take a message for a conversation; returns the one that has it, which a worker may have chosen before us.

        Raises:
            AppendFailed: the database cannot be used now.
        """
        return ConversationId(await self._take(event_id, conversation))

    async def take_direct_message(self, event_id: EventId) -> bool:
        """Take a direct message, to answer it; False where another worker has. Raises as `take_event` does."""
        worker = self._leases.worker
        return await self._take(event_id, worker) == worker

    async def _take(self, event_id: EventId, owner: str) -> str:
        async def take(connection: Connection) -> str:
            row = await (await connection.execute(_TAKE_EVENT, [event_id, owner])).fetchone()
            return str(row[0]) if row is not None else ""

        try:
            return await self._database.run(take, may_repeat=True)
        except Unavailable as fault:
            raise DatabaseFailed(f"{fault}. It is tried again.") from fault

    async def changes(self, *, is_full: bool = False) -> Sequence[Change]:
        """What has changed since the last call, with every conversation that has become free; or all of them.

        A lease that another worker has let run out is freed first, and so is among them.
        """
        await self._leases.free_expired()
        ((now, is_workspace_taken),) = await self._database.rows(_NOW)
        if not is_workspace_taken and self._leases.is_reported and not self._leases.drains:
            await self._leases.report()  # the worker that had it has stopped
        since = min(now, self._seen_at or now)  # a server that took over may have a clock that is behind
        if is_full:
            since = _ERA
        parameters = {"worker": self._leases.worker, "grace": self._leases.grace, "since": since - OVERLAP}
        rows = await self._database.rows(CHANGES, parameters, READING)
        self._seen_at = now
        return [
            Change(
                id=ConversationId(name),
                bytes=length,
                is_free=is_free and name not in self._foreign,
                is_wanted=is_wanted,
            )
            for name, length, is_free, is_wanted in rows
        ]

    async def want(self, conversations: Collection[ConversationId]) -> Sequence[ConversationId]:
        """Ask the workers that have these for them, but not for what this version cannot read.

        Raises:
            Unavailable: the database cannot be used now.
        """
        return await self._leases.want([name for name in conversations if name not in self._foreign])

    async def workers(self) -> Sequence[Worker]:
        """The daemons of this database, by name.

        Raises:
            Unavailable: the database cannot be used now.
        """
        limit = (self._leases.length + self._leases.grace).total_seconds()
        return [
            Worker(
                name=name,
                version=version,
                seconds=seconds,
                unseen=unseen,
                is_silent=unseen > limit,
                drains=drains,
                is_drained=drains and has_seen_it and not held,
                conversations=held,
                is_own=name == self._leases.worker,
                has_workspace=has_workspace,
            )
            for name, version, seconds, unseen, drains, has_seen_it, held, has_workspace in await self._database.rows(
                _WORKERS
            )
        ]

    async def drain(self, worker: str, *, is_wanted: bool = True) -> None:
        """Have a worker take nothing more, or take conversations again; it learns that within a third of a lease.

        Raises:
            Unavailable: the database cannot be used now.
        """

        async def drain(connection: Connection) -> None:
            await connection.execute(_DRAIN, [is_wanted, worker])

        await self._database.run(drain, may_repeat=True)

    async def contents(self, conversation: ConversationId) -> Contents:
        """The journal byte for byte, as files would hold it; nothing where there is none.

        Raises:
            StoreDamaged: it holds what we did not write.
            Unavailable: the database cannot be used now.
        """
        stored = await self._stored(conversation)
        contents = await self._disk.run(_as_files, stored)
        if stored.is_cut:
            raise StoreDamaged(f"{self._place(conversation)}: nothing is known of what was before its first record.")
        await self._disk.run(self._check, conversation, contents)
        return contents

    async def _stored(self, conversation: ConversationId) -> "Stored":
        self.path(conversation)
        records = await self._database.rows(_LINES, [conversation], READING)
        return Stored(records, await self._database.rows(_SNAPSHOTS, [conversation], READING))

    async def put(self, conversation: ConversationId, there: Contents, wanted: Contents) -> None:
        """Make a journal the wanted one, in one transaction; what it has in common with what is there stays.

        Where the wanted one begins with a snapshot, as a rebuild may leave it, that is of the second file.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: it has changed since, or the database cannot be used now.
        """
        lines = await self._disk.run(lambda: list(lines_of(wanted)))
        first_file = 2 if lines[0].file else 1
        records = [(line.seq, line.text) for line in lines if not line.file]
        snapshots = [(line.seq, line.text, line.file + first_file - 1) for line in lines if line.file]
        try:
            lease, _ = await self._leases.take(conversation)
        except HeldElsewhere as fault:
            raise HeldElsewhere(f"{fault}. Nothing was changed. Wait until it rests, or drain that daemon.") from fault
        try:
            stored = await self._stored(conversation)
            if await self._disk.run(_as_files, stored) != list(there):
                raise StoreError(f"{self._place(conversation)} has changed since; try again.")
            same = _count_same(stored.records, records)
            same_snapshots = _count_same(stored.snapshots, snapshots)
            newest = snapshots[-1] if snapshots and snapshots[-1][2] == len(wanted) + first_file - 1 else None
            values = {
                "id": conversation,
                "token": lease.token,
                "worker": self._leases.worker,
                "next": lines[-1].seq + 1,
                "bytes": sum(map(len, wanted)),
                "file_bytes": len(wanted[-1]),
                "snapshot_bytes": len(newest[1].encode()) + 1 if newest is not None else 0,
                "files": len(wanted) + first_file - 1,
            }

            async def put(connection: Connection) -> bool:
                async with connection.transaction():
                    cursor = await connection.execute(_PUT, values)
                    if not cursor.rowcount:
                        return False
                    last = records[same - 1][0] if same else 0
                    await connection.execute(_CUT_RECORDS, [conversation, last])
                    last = snapshots[same_snapshots - 1][2] if same_snapshots else 0
                    await connection.execute(_CUT_SNAPSHOTS, [conversation, last])
                    for start in range(same, len(records), CHUNK):
                        seqs, texts = zip(*records[start : start + CHUNK], strict=True)
                        await connection.execute(_PUT_RECORDS, [conversation, lease.token, list(seqs), list(texts)])
                    for seq, text, file in snapshots[same_snapshots:]:
                        await connection.execute(_PUT_SNAPSHOT, [conversation, file, seq, lease.token, text])
                return True

            if not await self._database.run(put, READING, is_doubted=True):
                raise StoreError(f"{self._place(conversation)} has changed since; try again.")
        finally:
            await self._leases.give_back(lease)

    async def remains(self, conversation: ConversationId) -> Remains:
        """What there is of a journal, whatever its state, as files would hold it; nothing where there is none.

        Raises:
            Unavailable: the database cannot be used now.
        """
        stored = await self._stored(conversation)
        return dict(enumerate(await self._disk.run(_as_files, stored), start=2 if stored.is_cut else 1))

    async def create(self, conversation: ConversationId, decisions: Sequence[Sequence[Record]]) -> None:
        """Store a conversation that is not here yet, whole or not at all; its view is not written.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: it is there already, or the database cannot be used now; nothing was changed.
        """
        folder = self.path(conversation)
        if await asyncio.to_thread((folder / VIEW).exists):
            raise StoreError(f"{folder} exists. Nothing was changed. Move it away first.")
        if await self.remains(conversation):
            raise StoreError(f"{self._place(conversation)} is there already. Nothing was changed.")
        await self.put(conversation, [], [CONVERSATION.encode_decisions(decisions)])

    async def renew(self, conversation: ConversationId, there: Remains, decisions: Sequence[Sequence[Record]]) -> Path:
        """Put another journal in the place of what there is, which is kept as files in the folder of the view.

        Returns:
            The folder in which it is kept.

        Raises:
            HeldElsewhere: a worker writes it.
            StoreError: it has changed since, the disk did not take what is there, or the database cannot be used now;
                nothing was changed.
        """
        state = fold(conversation, [record for decision in decisions for record in decision])
        folder = self.path(conversation)
        when = atomic.stamp(self._clock.now())
        aside = await self._disk.run(atomic_folder.set_aside, folder, there, when)
        contents = [content for content in there.values() if isinstance(content, bytes)]
        try:
            await self.put(conversation, contents, [CONVERSATION.encode_decisions(decisions)])
        except BaseException:
            await self._disk.run(shutil.rmtree, aside, ignore_errors=True)
            raise
        try:
            await self._disk.run(atomic_folder.remove_views, folder, state, decisions)
            await Views(self, self._disk).show(state)
        except OSError as fault:  # the journal is there, and who goes on with it writes the view
            log.warning("view.failed", conversation=conversation, reason=str(fault))
        return aside

    def daemon_records(self) -> PostgresDaemonRecords:
        """What belongs to no conversation: lessons, profiles, notices of failures. All daemons share it."""
        return PostgresDaemonRecords(self._database, self._disk)

    async def close(self) -> None:
        """Close every journal that is open here."""
        await asyncio.gather(*(journal.close() for journal in list(self._journals.values())))

    async def _close(self, conversation: str) -> None:
        journal = self._journals.get(conversation)
        if journal is not None:
            await journal.close()

    def _closed(self, journal: PostgresJournal) -> None:
        if self._journals.get(journal.id) is journal:
            del self._journals[journal.id]

    async def _read(self, conversation: ConversationId, since: int) -> list[Record]:
        """The records of a conversation that may not exist."""
        lines: list[str] = []
        after = 0
        parameters = {"id": conversation, "since": min(since, _SEQ_LIMIT)}
        for seq, line in await self._database.rows(_SNAPSHOT, parameters, READING):
            lines = [line]
            after = seq
        lines += [line for (line,) in await self._database.rows(_RECORDS, [conversation, after], READING)]
        return await self._records_of(conversation, lines)

    async def _records_of(self, conversation: ConversationId, lines: Sequence[str]) -> list[Record]:
        records = await self._disk.run(_decoded, self._place(conversation), self._remedy(conversation), lines)
        if what := misnamed(conversation, records):
            raise self._damaged(conversation, what)
        return records

    def _check(self, conversation: ConversationId, contents: Contents) -> None:
        for content in contents:
            lines = content.decode().split("\n")[:-1]
            _decoded(self._place(conversation), self._remedy(conversation), lines)

    def _damaged(self, conversation: ConversationId, what: str) -> StoreDamaged:
        return StoreDamaged(f"{self._place(conversation)}: {what}. Nothing was changed. {self._remedy(conversation)}")

    def _place(self, conversation: str) -> str:
        return f"conversation {conversation[:12]} in {self._database.place}"

    def _remedy(self, conversation: str) -> str:
        return REMEDY.replace("ID", conversation[:12])

    async def _is_left_to_another_version(self) -> bool:
        """Whether a daemon of another version runs, as during an upgrade of one after the other."""
        with suppress(Unavailable):
            own = self._leases.version
            return any(worker.version != own and not worker.is_silent for worker in await self.workers())
        return False

    async def _quarantine(self, lease: Lease, why: str) -> None:
        with suppress(Unavailable):  # the mark is a courtesy; the error is what counts
            await self._mark(lease.id, why)
        await self._leases.give_back(lease)

    async def _mark(self, conversation: str, why: str | None) -> None:
        async def mark(connection: Connection) -> None:
            await connection.execute(_MARK, [why, conversation])

        await self._database.run(mark)


class PostgresTail:
    """Follows a journal that a worker writes (`store.conversations.Tail`)."""

    def __init__(
        self, database: Database, disk: Disk, conversation: ConversationId, seq: int, place: str, remedy: str
    ) -> None:
        self._database = database
        self._disk = disk
        self._conversation = conversation
        self._seq = seq
        self._place = place
        self._remedy = remedy

    async def read(self) -> list[Record]:
        """See `Tail`."""
        rows = await self._database.rows(_RECORDS, [self._conversation, self._seq])
        if not rows:
            return []
        lines = [line for (line,) in rows]
        records = await self._disk.run(_decoded, self._place, self._remedy, lines, self._seq + 1)
        self._seq = records[-1].seq
        return records


class Stored(NamedTuple):
    """The rows of a journal, in order."""

    records: Sequence[tuple[Any, ...]]
    """Of each the seq and the line."""
    snapshots: Sequence[tuple[Any, ...]]
    """Of each the same, and the number of the file that it begins."""

    @property
    def is_cut(self) -> bool:
        """Whether a snapshot is all that is left of the past."""
        return bool(self.records and self.snapshots) and self.snapshots[0][0] < self.records[0][0]


def _decoded(place: str, remedy: str, lines: Sequence[str], first: int = 1) -> list[Record]:
    """The records of lines, of which the first has this seq or is a snapshot.

    Raises:
        StoreDamaged: a line is not what we wrote, or one is missing.
    """
    records, _, fault = CONVERSATION.decode_lines("".join(f"{line}\n" for line in lines).encode(), first)
    if fault is not None and fault.kind == "foreign":
        raise StoreOtherVersion(f"{place}: {fault.place}. Nothing was changed. {UPGRADE}")
    if fault is not None:
        raise StoreDamaged(f"{place}: {fault.place}. Nothing was changed. {remedy}")
    return records


def _as_files(stored: Stored) -> Contents:
    """What the files would hold: each but the first begins with its snapshot, and goes on to the next one."""
    contents: list[list[str]] = []
    left = list(reversed(stored.snapshots))
    for seq, line in stored.records:
        while left and left[-1][0] < seq:
            contents.append([left.pop()[1]])
        if not contents:
            contents.append([])
        contents[-1].append(line)
    contents += [[snapshot[1]] for snapshot in reversed(left)]
    return ["".join(f"{line}\n" for line in lines).encode() for lines in contents]


def _is_past_sound(stored: Stored) -> bool:
    """Whether the lines before the newest snapshot are all there, by checksums and numbers."""
    if not stored.snapshots:
        return True
    newest = stored.snapshots[-1][0]
    lines = [line.encode() for seq, line in stored.records if seq <= newest]
    is_complete = len(lines) == newest
    return is_complete and are_sound(lines, 1) and all(is_sound(line.encode()) for _, line, _ in stored.snapshots)


def _count_same(stored: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]]) -> int:
    """How many rows at the beginning are in both."""
    pairs = zip(stored, wanted, strict=False)
    return next((number for number, (row, other) in enumerate(pairs) if row != other), min(len(stored), len(wanted)))


def _is_unreadable(view: Path) -> bool:
    """Whether a view is there that does not say what it covers."""
    try:
        return not covered_by(view)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _behind(root: Path, rows: Sequence[tuple[Any, ...]]) -> list[ConversationId]:
    behind = []
    for name, next_seq in rows:
        covered = 0
        with suppress(OSError):
            covered = covered_by(root / name / VIEW)
        if covered < next_seq - 1:
            behind.append(ConversationId(name))
    return behind
