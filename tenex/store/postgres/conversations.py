"""The conversations of a database as a worker uses them: its leases, the messages it takes, what others changed."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, LiteralString, Self

from tenex.core.errors import ConfigurationError, DatabaseFailed
from tenex.core.ids import ConversationId, EventId
from tenex.core.ports import Clock
from tenex.store.conversations import Change, Conversations, Worker
from tenex.store.disk import Disk

from . import leases
from .database import READING, Connection, Database, Unavailable, faults_of
from .leases import Leases
from .log import PostgresLog

OVERLAP: Final = timedelta(seconds=20)
"""A change is seen by its time, which is set before it is committed; no statement takes longer."""

CHANGES: Final[LiteralString] = """
select id, bytes,
    case when holder is null
        then coalesce(wanted = %(worker)s or expires < clock_timestamp() - %(grace)s::interval, true)
        else holder = %(worker)s
    end,
    coalesce(holder = %(worker)s and wanted is not null, false)
from tenex_conversations where changed > %(since)s and quarantined is null
"""
_NOW: Final[LiteralString] = "select clock_timestamp(), exists (select 1 from tenex_meta where name = 'workspace')"
_CLAIM: Final[LiteralString] = """
insert into tenex_meta as m values ('project', %s) on conflict (name) do update set value = m.value returning value
"""
_TAKE_EVENT: Final[LiteralString] = """
insert into tenex_events as e (id, owner) values (%s, %s) on conflict (id) do update set owner = e.owner returning owner
"""

_ERA: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Before all changes."""


class PostgresConversations(Conversations):
    """The conversations of a database, which several workers may use: who has the lease of one writes it."""

    def __init__(self, database: Database, held: Leases, root: Path, disk: Disk, clock: Clock) -> None:
        journals = PostgresLog(database, held, root, disk, clock)
        super().__init__(journals, root, disk)
        self._database = database
        self.leases = held
        """Those of this worker, and what is known of the others."""
        self._foreign = journals.foreign
        self._seen_at: datetime | None = None

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

    async def take_event(self, event_id: EventId, conversation: ConversationId) -> ConversationId:
        """Take a message for a conversation; returns the one that has it, which a worker may have chosen before us.

        Raises:
            AppendFailed: the database cannot be used now.
        """
        return ConversationId(await self._take(event_id, conversation))

    async def take_direct_message(self, event_id: EventId) -> bool:
        """Take a direct message, to answer it; False where another worker has. Raises as `take_event` does."""
        worker = self.leases.worker
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
        await self.leases.free_expired()
        ((now, is_workspace_taken),) = await self._database.rows(_NOW)
        if not is_workspace_taken and self.leases.is_reported and not self.leases.drains:
            await self.leases.report()  # the worker that had it has stopped
        since = min(now, self._seen_at or now)  # a server that took over may have a clock that is behind
        if is_full:
            since = _ERA
        parameters = {"worker": self.leases.worker, "grace": self.leases.grace, "since": since - OVERLAP}
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
        return await self.leases.want([name for name in conversations if name not in self._foreign])

    async def workers(self) -> Sequence[Worker]:
        """The daemons of this database, by name.

        Raises:
            Unavailable: the database cannot be used now.
        """
        return await self.leases.workers()
