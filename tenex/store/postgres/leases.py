"""Leases: which worker writes a conversation, and until when it may be sure of that.

    take ──► renewed every third of its time, and by each append ──► given back when the journal is closed
                    │ another worker has a message: given back, too, and left to that one for the grace
                    │ no answer for half of its time: nothing starts
                    └ no answer for all of it: lost, and what runs is cancelled; a grace later others take it over

A lease has a token that counts up each time it is taken or freed, and each append checks it: a worker that was paused
can write nothing, and renews nothing. The name of the holder is checked too: after a failover to a standby that lacked
the newest, two workers may have the same token. Effects are stopped by time. The worker counts from before it asked,
on a clock that also counts while the machine sleeps; the database counts from after that, on its own. So the worker's
lease is over first, whatever the time is anywhere. Nothing is guarded by a lock of a session, which would end with the
connection.
"""

import asyncio
import hashlib
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, LiteralString, NamedTuple

from tenex.core.errors import HeldElsewhere
from tenex.core.ids import ConversationId
from tenex.log import get_logger
from tenex.store import atomic
from tenex.store.conversations import Worker

from .database import Connection, Database, Unavailable

LEASE: Final = 15.0
"""Seconds. A shorter one is lost when a server needs some seconds for a failover."""
WORKER_FILE: Final = ".worker"
"""In the folder of conversations: what makes the name of its daemon its own."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
PER_LEASE: Final = 3
"""A lease is renewed so many times while it lasts; and for that part of it, after its end, it is not taken over."""
TICKS: Final = 30
"""How many times in its length it is looked whether a lease is over."""

_TAKE: Final[LiteralString] = """
with before as (
    select case when holder <> %(worker)s then expires - %(lease)s else abandoned end as renewed
    from tenex_conversations where id = %(id)s
)
insert into tenex_conversations as c (id, token, holder, expires)
values (%(id)s, 1, %(worker)s, clock_timestamp() + %(lease)s)
on conflict (id) do update
set token = c.token + 1, holder = excluded.holder, expires = excluded.expires, abandoned = null, wanted = null
where c.holder is null or c.holder = excluded.holder or c.expires < clock_timestamp() - %(grace)s::interval
returning token, next_seq, bytes, file_bytes, snapshot_bytes, quarantined,
    (select extract(epoch from clock_timestamp() - renewed)::float8 from before)
"""
_RENEW: Final[LiteralString] = """
update tenex_conversations c set expires = clock_timestamp() + %(lease)s
from unnest(%(ids)s::text[], %(tokens)s::bigint[]) as mine (id, token)
where c.id = mine.id and c.token = mine.token and c.holder = %(worker)s returning c.id
"""
_GIVE_BACK: Final[LiteralString] = """
update tenex_conversations set holder = null, expires = clock_timestamp(), changed = clock_timestamp()
where id = %s and token = %s and holder = %s
"""
_WANT: Final[LiteralString] = """
update tenex_conversations set wanted = %(worker)s, changed = clock_timestamp()
where id = any(%(ids)s) and holder <> %(worker)s and wanted is null returning id
"""
_FREE: Final[LiteralString] = """
update tenex_conversations
set holder = null, token = token + 1, abandoned = expires - %(lease)s, changed = clock_timestamp()
where id in (
    select id from tenex_conversations where holder is not null and expires < clock_timestamp() - %(grace)s::interval
    for update skip locked
)
"""
_REPORT: Final[LiteralString] = """
insert into tenex_workers as w (name, version, started)
values (%(name)s, %(version)s, clock_timestamp() - %(running)s::interval)
on conflict (name) do update set version = excluded.version, started = excluded.started, seen = clock_timestamp(),
    drains = w.drains and not %(is_new)s, has_seen_it = true
returning drains, (
    select count(*) from tenex_workers o where o.name <> %(name)s and o.seen > clock_timestamp() - %(silent)s::interval
)
"""
_WORKERS: Final[LiteralString] = """
select name, version, extract(epoch from clock_timestamp() - started)::bigint,
    extract(epoch from clock_timestamp() - seen)::bigint, drains, has_seen_it,
    (select count(*) from tenex_conversations c where c.holder = w.name),
    exists (select 1 from tenex_meta m where m.name = 'workspace' and m.value = w.name)
from tenex_workers w order by name
"""
_DRAIN: Final[LiteralString] = "update tenex_workers set drains = %s, has_seen_it = false where name = %s"
_FORGET: Final[LiteralString] = """
delete from tenex_workers w where seen < clock_timestamp() - interval '1 day'
and not exists (select 1 from tenex_conversations c where c.holder = w.name)
"""
_LEAVE: Final[LiteralString] = "delete from tenex_workers where name = %s"
_TAKE_WORKSPACE: Final[LiteralString] = """
insert into tenex_meta as m values ('workspace', %(name)s)
on conflict (name) do update set value = excluded.value
where m.value = excluded.value or not exists (
    select 1 from tenex_workers w where w.name = m.value and w.seen > clock_timestamp() - %(silent)s::interval
)
returning value
"""
_LEAVE_WORKSPACE: Final[LiteralString] = "delete from tenex_meta where name = 'workspace' and value = %s"

_NEVER: Final = float("-inf")
"""The end of a right that a worker does not have."""

log = get_logger(__name__)

Happening = Literal["lease_lost", "append_conflict", "takeover"]
"""What can happen to the lease of a conversation, as metrics count it."""


def boot_time() -> float:
    """Seconds since the machine started, those included in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def worker_name(root: Path, *, is_daemon: bool) -> str:
    """The name of the daemon whose folder of conversations this is: the same after it has started again.

    Two machines that are copies of one another have the same name, paths and files; so what is drawn at the start of
    a machine is part of it. Blocks.

    Args:
        root: the folder.
        is_daemon: whether it is the daemon that asks; others write nothing.
    """
    file = root / WORKER_FILE
    try:
        drawn = file.read_text()
    except (OSError, ValueError):
        drawn = secrets.token_hex(8)
        if is_daemon:
            with suppress(OSError):
                atomic.replace(file, drawn.encode())
    boot = ""
    with suppress(OSError):
        boot = BOOT_ID.read_text()
    mark = hashlib.sha256(f"{boot}\n{drawn}".encode()).hexdigest()[:8]
    return f"{socket.gethostname()}:{root}#{mark}"


class Taken(NamedTuple):
    """The row of a conversation whose lease was taken."""

    token: int
    next_seq: int
    bytes: int
    file_bytes: int
    snapshot_bytes: int
    quarantined: str | None
    since_renewal: float | None
    """Seconds since a worker that died has last renewed it; None where none has died."""


@dataclass(slots=True, eq=False)
class Lease:
    """The right to write one conversation."""

    id: ConversationId
    token: int
    seconds: float
    until: float
    """When it is over, in `boot_time`."""
    now: Callable[[], float] = field(repr=False)
    is_lost: bool = False

    @property
    def may_start(self) -> bool:
        """Whether effects may start: more than half of it is left."""
        return not self.is_lost and self.now() < self.until - self.seconds / 2

    @property
    def is_over(self) -> bool:
        """Whether its time has passed."""
        return self.now() >= self.until


class Leases:
    """The leases of one worker."""

    def __init__(
        self, database: Database, worker: str, seconds: float = LEASE, now: Callable[[], float] = boot_time
    ) -> None:
        """Hold none.

        Args:
            database: where they are written.
            worker: names this worker; one that starts again under its name takes its conversations at once.
            seconds: how long a lease is.
            now: gives seconds, also those in which the process did not run.
        """
        self.worker = worker
        self.seconds = seconds
        self.now = now
        self.lost: Callable[[ConversationId], None] = lambda _: None
        """Called for a lease that is over or was taken over."""
        self.renewed: Callable[[ConversationId], None] = lambda _: None
        """Called for one that is renewed after a time in which nothing might start."""
        self.happened: Callable[[Happening, float], None] = lambda _, __: None
        """Called with what happens to leases; of a takeover with the seconds since the dead worker's last renewal."""
        self.version = ""
        """Of the program that this worker runs."""
        self.drains = False
        """Whether this worker is to take nothing more."""
        self.daemons = 1
        """How many workers run, this one among them, as far as is known."""
        self.fault = ""
        """Why the database could not be used when this worker last reported itself."""
        self.workspace_lost: Callable[[], None] = lambda: None
        """Called when this worker may no longer use the workspace, though it did not give it up."""
        self.is_reported = False
        """Whether this worker is listed."""
        self._workspace_until = _NEVER
        """When its right to the workspace is over, unless it is renewed."""
        self._started = now()
        self._database = database
        self._held: dict[ConversationId, Lease] = {}

    @property
    def grace(self) -> timedelta:
        """How long after its end a lease is left alone."""
        return timedelta(seconds=self.seconds / PER_LEASE)

    @property
    def length(self) -> timedelta:
        """How long a lease is."""
        return timedelta(seconds=self.seconds)

    @property
    def has_workspace(self) -> bool:
        """Whether agents may use files here: one worker at a time has the workspace of the project."""
        return self.now() < self._workspace_until

    async def take(self, conversation: ConversationId) -> tuple[Lease, Taken]:
        """Take the lease of a conversation, which is made where there is none.

        Raises:
            HeldElsewhere: another worker has it.
            Unavailable: the database cannot be used now.
        """
        asked_at = self.now()
        parameters = {"id": conversation, "worker": self.worker, "lease": self.length, "grace": self.grace}

        async def take(connection: Connection) -> tuple[Any, ...] | None:
            cursor = await connection.execute(_TAKE, parameters)
            row: tuple[Any, ...] | None = await cursor.fetchone()
            return row

        row = await self._database.run(take, may_repeat=True)
        if row is None:
            raise HeldElsewhere(f"another worker writes the conversation {conversation[:12]} now")
        taken = Taken(*row)
        if taken.since_renewal is not None:
            self.happened("takeover", taken.since_renewal)
        lease = Lease(conversation, taken.token, self.seconds, asked_at + self.seconds, self.now)
        self._held[conversation] = lease
        return lease, taken

    async def give_back(self, lease: Lease) -> None:
        """Let other workers take it; where the database cannot be reached they do when its time has passed."""
        if self._held.get(lease.id) is lease:
            del self._held[lease.id]

        async def give_back(connection: Connection) -> None:
            await connection.execute(_GIVE_BACK, [lease.id, lease.token, self.worker])

        try:
            await self._database.run(give_back)
        except Unavailable as fault:
            log.warning("lease.not_given_back", conversation=lease.id, reason=str(fault))

    async def want(self, conversations: Sequence[str]) -> list[ConversationId]:
        """Ask the workers that have these for their leases; returns those that were asked for now.

        Raises:
            Unavailable: the database cannot be used now.
        """
        parameters = {"worker": self.worker, "ids": list(conversations)}

        async def want(connection: Connection) -> list[ConversationId]:
            cursor = await connection.execute(_WANT, parameters)
            return [ConversationId(row[0]) for row in await cursor.fetchall()]

        return await self._database.run(want)

    def drop(self, lease: Lease) -> None:
        """A statement has shown that another worker has taken it."""
        lease.is_lost = True
        if self._held.get(lease.id) is lease:  # else it was given back, and perhaps taken again, meanwhile
            del self._held[lease.id]
            log.warning("lease.lost", conversation=lease.id, token=lease.token)
            self.happened("lease_lost", 0.0)
            self.lost(lease.id)

    def extend(self, lease: Lease, asked_at: float) -> None:
        """The database has renewed a lease, at the earliest when it was asked to."""
        could_start = lease.may_start
        lease.until = max(lease.until, asked_at + self.seconds)
        if lease.may_start and not could_start:
            self.renewed(lease.id)

    async def free_expired(self) -> None:
        """Free what other workers have left behind: their time, and the grace after it, have passed."""

        async def free(connection: Connection) -> None:
            await connection.execute(_FREE, {"lease": self.length, "grace": self.grace})

        await self._database.run(free)

    async def keep(self) -> None:
        """Renew all leases, and drop those that are over, until cancelled; and be listed as a worker meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_renewing(), name="leases renewed")
                group.create_task(self._keep_reporting(), name="worker reported")
                group.create_task(self._keep_looking(), name="leases over")
        finally:
            await self.leave()

    async def _keep_renewing(self) -> None:
        pause = self.seconds / PER_LEASE
        while True:
            await asyncio.sleep(pause)
            is_renewed = not self._held or await self._renew()
            pause = self.seconds / (PER_LEASE if is_renewed else TICKS)  # else there is time for another try

    async def _keep_reporting(self) -> None:
        while True:
            try:
                await self.report()
                self.fault = ""
            except Unavailable as fault:
                self.fault = str(fault)
                log.warning("worker.not_reported", reason=str(fault))
            await asyncio.sleep(self.seconds / PER_LEASE)

    async def report(self) -> None:
        """Be listed as a worker, see whether it is to take nothing more, and have the workspace if that is free.

        A worker that is drained leaves the workspace once it writes no conversation.

        Raises:
            Unavailable: the database cannot be used now.
        """
        parameters = {
            "name": self.worker,
            "version": self.version,
            "running": timedelta(seconds=self.now() - self._started),
            "is_new": not self.is_reported,
            "silent": self.length + self.grace,
        }

        async def report(connection: Connection) -> tuple[bool, int, bool]:
            row = await (await connection.execute(_REPORT, parameters)).fetchone()
            drains, others = (bool(row[0]), int(row[1])) if row is not None else (False, 0)
            await connection.execute(_FORGET)
            if drains and not self._held:
                await connection.execute(_LEAVE_WORKSPACE, [self.worker])
            if drains and not (self._held and self.has_workspace):
                return drains, others, False
            taken = await (await connection.execute(_TAKE_WORKSPACE, parameters)).fetchone()
            return drains, others, taken is not None

        asked_at = self.now()
        had_workspace = self.has_workspace
        drains, others, has_workspace = await self._database.run(report, may_repeat=True)
        self.daemons = others + 1
        self._workspace_until = asked_at + self.seconds if has_workspace else _NEVER
        if has_workspace != had_workspace or not self.is_reported:
            log.info("workspace.here" if has_workspace else "workspace.elsewhere", worker=self.worker)
        if had_workspace and not has_workspace and not drains:
            self.workspace_lost()
        if drains != self.drains:
            log.info("worker.drains" if drains else "worker.resumed", worker=self.worker)
        self.drains = drains
        self.is_reported = True

    async def leave(self) -> None:
        """Be listed no more, and give up the workspace: this worker has stopped."""
        if not self.is_reported:
            return
        self.is_reported = False

        async def leave(connection: Connection) -> None:
            await connection.execute(_LEAVE_WORKSPACE, [self.worker])
            await connection.execute(_LEAVE, [self.worker])

        with suppress(Unavailable):
            await self._database.run(leave)

    async def workers(self) -> Sequence[Worker]:
        """The daemons of this database, by name.

        Raises:
            Unavailable: the database cannot be used now.
        """
        limit = (self.length + self.grace).total_seconds()
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
                is_own=name == self.worker,
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

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / TICKS)
            for lease in [lease for lease in self._held.values() if lease.is_over]:
                self.drop(lease)
            if not self.has_workspace and self._workspace_until > _NEVER:
                self._workspace_until = _NEVER
                log.warning("workspace.lost", worker=self.worker)
                self.workspace_lost()

    async def _renew(self) -> bool:
        """Renew all leases that are not over; whether the database could be asked."""
        for lease in [lease for lease in self._held.values() if lease.is_over]:  # as where the process was stopped
            self.drop(lease)
        leases = list(self._held.values())
        asked_at = self.now()
        parameters = {
            "lease": self.length,
            "worker": self.worker,
            "ids": [lease.id for lease in leases],
            "tokens": [lease.token for lease in leases],
        }

        async def renew(connection: Connection) -> set[str]:
            cursor = await connection.execute(_RENEW, parameters)
            return {row[0] for row in await cursor.fetchall()}

        try:
            # the connection may take as long again
            kept = await self._database.run(renew, self.seconds / PER_LEASE / 2, is_urgent=True)
        except Unavailable as fault:
            log.warning("lease.not_renewed", leases=len(leases), reason=str(fault))
            return False
        for lease in leases:
            if lease.id in kept:
                self.extend(lease, asked_at)
            else:
                self.drop(lease)
        return True
