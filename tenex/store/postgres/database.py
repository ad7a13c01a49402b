"""Connections to the database: how a session is set up, how long a statement may take, and what a failure is.

A statement that takes too long is never cancelled. A commit that waits for a standby would be cancelled into a commit
without one, and the server would say that it succeeded. Instead the connection is closed, and the caller has to find
out, on another one, what became of it; the same is so where the connection was lost.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from tenex.core.errors import ConfigurationError, StoreError
from tenex.log import get_logger

from .migrations import migrate

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]
Work = Callable[[Connection], Coroutine[Any, Any, T]]

PATIENCE: Final = 5.0
"""Seconds a piece of work may take, and wait for a connection before: a third of a lease."""
READING: Final = 60.0
"""Seconds that reading, or making the tables, may take: a conversation of years, from a busy server."""
CANCELLING: Final = 1.0
"""Seconds to wait for work whose connection was closed; it ends at once."""
CONNECTIONS: Final = 7
"""At most, for each process, and one more that is kept: appends take a millisecond, so few are under way at once."""
OLDEST: Final = 140_000
"""The oldest server that is supported, as `server_version_num`."""

_SESSION: Final = "-c lock_timeout=4s -c idle_in_transaction_session_timeout=15s"
"""A lock is waited for less long than an answer, so that the server ends the statement and not we the connection."""
_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "tenex",
    "connect_timeout": 5,
    "target_session_attrs": "read-write",
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""What the address does not say; of several hosts the one that takes writes is used."""
_DURABLE: Final[LiteralString] = (
    "select set_config('synchronous_commit', 'on', false) "
    "where current_setting('synchronous_commit') not in ('on', 'remote_apply')"
)

log = get_logger(__name__)


class Unavailable(StoreError):
    """The database cannot be used now, or what it did is not known; it may pass, so a service is started again."""

    retryable = True
    exit_code = 1


class Database:
    """A pool of connections to one database."""

    def __init__(self, url: str, *, is_daemon: bool = False) -> None:
        """Prepare; `opened` connects. A daemon has its kept connection from the beginning, as others rarely need it.

        Raises:
            ConfigurationError: that is no address of a database.
        """
        parts = _parts_of(url)
        options = f"{_SESSION} {parts.get('options') or ''}".strip()
        self._conninfo = make_conninfo(**{**_DEFAULTS, **parts, "options": options, "client_encoding": "utf8"})
        self.place = f"the database {parts.get('dbname') or ''} on {parts.get('host') or 'this machine'}"
        """For messages: without user and password."""
        self._doubtful: set[int] = set()
        """Connections on which the server has warned about the work under way."""
        self._pool = self._make_pool("tenex", 1, CONNECTIONS)
        self._kept = self._make_pool("tenex kept", int(is_daemon), 1)

    def _make_pool(self, name: str, least: int, most: int) -> AsyncConnectionPool[Connection]:
        return AsyncConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},
            configure=self._configure,
            min_size=least,
            max_size=most,
            open=False,
            reconnect_timeout=PATIENCE,
            name=name,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Database"]:
        """Connect, and bring the tables up to date, for as long as the block lasts.

        Raises:
            Unavailable: it cannot be reached.
            ConfigurationError: a newer program made the tables.
        """
        with _translated(self.place):  # by a connection of its own: a pool does not say why it has none
            async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
                await self._within(connection, migrate, READING)
        try:
            await self._pool.open()
            await self._kept.open()
            yield self
        finally:
            await self._kept.close()
            await self._pool.close()

    async def run(
        self,
        work: Work[T],
        seconds: float = PATIENCE,
        *,
        is_doubted: bool = False,
        may_repeat: bool = False,
        is_urgent: bool = False,
    ) -> T:
        """Do some work on a connection, in which each statement outside a transaction is one of its own.

        A cancelled caller waits until the work has ended, or its connection was closed.

        Args:
            work: gets the connection.
            seconds: after which the connection is closed.
            is_doubted: whether a warning of the server makes the result unknown.
            may_repeat: whether the work is done once more if the connection fails, as all do when a server restarts.
            is_urgent: whether it has the connection that is kept for work whose time runs out.

        Raises:
            Unavailable: there is no connection, or it was lost or closed before the work had ended.
            psycopg.IntegrityError: what is there does not permit it; nothing was done.
        """
        try:
            with _translated(self.place):
                return await self._run(work, seconds, is_doubted=is_doubted, is_urgent=is_urgent)
        except Unavailable:
            if not may_repeat:
                raise
        with _translated(self.place):
            return await self._run(work, seconds, is_doubted=is_doubted, is_urgent=is_urgent)

    async def _run(self, work: Work[T], seconds: float, *, is_doubted: bool, is_urgent: bool) -> T:
        caller = asyncio.current_task()
        assert caller is not None
        cancels = caller.cancelling()
        pool = self._kept if is_urgent else self._pool
        async with pool.connection(timeout=min(seconds, PATIENCE)) as connection:
            # `wait_for` of Python 3.11, by which the pool waits, drops a cancellation that comes with the connection
            if caller.cancelling() > cancels:
                raise asyncio.CancelledError
            self._doubtful.discard(id(connection))
            try:
                result = await self._within(connection, work, seconds)
            finally:
                if connection.closed:
                    await self._drain()
            if is_doubted and id(connection) in self._doubtful:
                raise Unavailable(f"{self.place} has warned that the commit may not be on its standby")
            return result

    async def _within(self, connection: Connection, work: Work[T], seconds: float) -> T:
        """Do the work, or close the connection after so many seconds.

        Raises:
            Unavailable: it was closed before the work had ended.
        """
        task = asyncio.create_task(work(connection), name="database")
        task.add_done_callback(_look_at)
        was_cancelled = await _ended(task, seconds)
        if not task.done():
            await connection.close()  # first, so that what is cancelled next does not cancel the statement
            task.cancel()
            await asyncio.wait({task}, timeout=CANCELLING)
            if not was_cancelled:
                raise Unavailable(f"{self.place} has not answered within {seconds:g} s")
        if was_cancelled:
            raise asyncio.CancelledError
        return task.result()

    async def rows(
        self, query: LiteralString, parameters: Sequence[Any] | Mapping[str, Any] = (), seconds: float = PATIENCE
    ) -> list[tuple[Any, ...]]:
        """What a statement returns."""

        async def read(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall()

        return await self.run(read, seconds, may_repeat=True)

    async def _drain(self) -> None:
        """Replace all connections: where one has failed, as after a restart of the server, the others are of no use."""
        for pool in (self._pool, self._kept):
            with suppress(psycopg.Error, OSError):
                await pool.drain()

    async def _configure(self, connection: Connection) -> None:
        async def configure(connection: Connection) -> None:
            await connection.execute(_DURABLE)

        connection.add_notice_handler(lambda notice: self._warn(connection, notice))
        await self._within(connection, configure, PATIENCE)  # else a server that is silent would keep the pool waiting

    def _warn(self, connection: Connection, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            log.warning("database.warning", message=notice.message_primary)
            self._doubtful.add(id(connection))


async def faults_of(database: Database) -> tuple[list[str], list[str]]:
    """Why a database must not hold conversations, and what deserves attention; each a sentence of a fault and its fix.

    Raises:
        Unavailable: it cannot be reached.
    """
    ((version, encoding, fsync, pages, standbys),) = await database.rows(
        "select current_setting('server_version_num')::int, current_setting('server_encoding'), "
        "current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names')"
    )
    replicas = await database.rows("select application_name, sync_state from pg_stat_replication order by 1")
    faults: list[str] = []
    if version < OLDEST:
        faults.append(f"the server has version {version // 10_000}; use PostgreSQL {OLDEST // 10_000} or newer")
    if encoding != "UTF8":
        faults.append(f"the database has the encoding {encoding}; make one with `encoding 'UTF8'`")
    for name, value in (("fsync", fsync), ("full_page_writes", pages)):
        if value != "on":
            faults.append(f"{name} is {value}: a power cut loses conversations; set {name} = on in postgresql.conf")
    is_synchronous = any(state in ("sync", "quorum") for _, state in replicas)
    remarks: list[str] = []
    is_hidden = any(state is None for _, state in replicas)
    if is_hidden and not is_synchronous:
        remarks.append("whether the standbys are synchronous cannot be seen with this role; grant it pg_read_all_stats")
    elif replicas and not is_synchronous:
        remarks.append(
            f"the standby {replicas[0][0]} is asynchronous: what it lacks at a failover is lost; set "
            "synchronous_standby_names"
        )
    if standbys and not is_synchronous and not is_hidden:
        remarks.append(
            f"no standby of {standbys} is connected: the server acknowledges no commit; connect one, or empty "
            "synchronous_standby_names"
        )
    return faults, remarks


@contextmanager
def _translated(place: str) -> Iterator[None]:
    """Every failure but a violated constraint as `Unavailable`."""
    try:
        yield
    except psycopg.IntegrityError:
        raise
    except (psycopg.Error, OSError) as fault:  # TimeoutError is an OSError
        raise Unavailable(f"{place} cannot be used now: {_sentence(fault)}") from fault


async def _ended(task: "asyncio.Task[Any]", seconds: float) -> bool:
    """Wait so long for a task, and `PATIENCE` at most once the waiting is cancelled; whether it was."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    was_cancelled = False
    while not task.done() and loop.time() < until:
        try:
            await asyncio.wait({task}, timeout=until - loop.time())
        except asyncio.CancelledError:
            was_cancelled = True
            until = min(until, loop.time() + PATIENCE)
    return was_cancelled


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Look at the error of a task, which would be logged otherwise as one that was never retrieved."""
    if not task.cancelled():
        task.exception()


def _parts_of(url: str) -> dict[str, Any]:
    """What an address says, by the names of libpq; nothing of one that it reads wrongly is shown.

    A `/` or `@` in a password ends it for libpq, and what follows becomes a port, a host or the name of a database.

    Raises:
        ConfigurationError: that is no address of a database.
    """
    fault = (
        "store: is not the address of a database; it is like postgresql://USER@HOST/NAME, with what is special in the "
        "user and the password percent-encoded (`/` is %2F, `@` is %40, `%` is %25)"
    )
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ConfigurationError([fault]) from None  # its words are a part of the address
    hosts = str(parts.get("host") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    holds_at = "@" in str(parts.get("dbname") or "") or any("@" in host[1:] for host in hosts)
    if holds_at or any(port and not port.isdecimal() for port in ports):
        raise ConfigurationError([fault])
    return parts


def _sentence(fault: BaseException) -> str:
    """The first line of an error of the server or the library."""
    return next(iter(str(fault).strip().splitlines()), type(fault).__name__).rstrip(".")
