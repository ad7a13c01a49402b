"""The tables of the store, as steps that lead from any earlier version to this one; none is ever changed or undone.

    tenex_meta            the version of the tables, and whose project they are
    tenex_conversations   a row for each: how far its journal is, who may write it, and who has a message for it
    tenex_records         its lines, each as it would be in a file, without the end of the line
    tenex_snapshots       its continuations: the first line of each file but the first, as a file store would have it
    tenex_events          messages of users, and which conversation, or which worker, has taken each
    tenex_workers         the daemons that run on it, and whether they are to take nothing more

A line is text: `jsonb` would put its keys in another order, and its checksum would no longer hold. The rows of
`tenex_conversations` change with each append, so no index is on what changes: an update then writes one page.
"""

from typing import Any, Final, LiteralString

from psycopg import AsyncConnection

from tenex.core.errors import ConfigurationError

STEPS: Final[tuple[LiteralString, ...]] = (
    """
    create table tenex_conversations (
        id text primary key,
        next_seq bigint not null default 1,
        bytes bigint not null default 0,
        file_bytes bigint not null default 0,
        snapshot_bytes bigint not null default 0,
        files integer not null default 1,
        token bigint not null default 0,
        holder text,
        expires timestamptz not null default clock_timestamp(),
        abandoned timestamptz,
        changed timestamptz not null default clock_timestamp(),
        quarantined text
    ) with (fillfactor = 50);
    create table tenex_records (
        conversation text not null,
        seq bigint not null,
        token bigint not null,
        line text not null,
        primary key (conversation, seq)
    );
    create table tenex_snapshots (
        conversation text not null,
        file integer not null,
        seq bigint not null,
        token bigint not null,
        line text not null,
        primary key (conversation, file)
    );
    create table tenex_events (
        id text primary key,
        owner text not null,
        taken timestamptz not null default clock_timestamp()
    );
    create table tenex_workers (
        name text primary key,
        version text not null,
        started timestamptz not null default clock_timestamp(),
        seen timestamptz not null default clock_timestamp(),
        drains boolean not null default false,
        has_seen_it boolean not null default false
    );
    """,
    "alter table tenex_conversations add column wanted text",
)
"""The n-th leads from version n to n + 1."""


LOCKED: Final = "30s"
"""How long another process that makes the tables is waited for."""


async def migrate(connection: AsyncConnection[Any]) -> None:
    """Bring the tables up to date, one process at a time; where they are, nothing is locked or written.

    Raises:
        ConfigurationError: a newer program made them.
    """
    if await _version(connection) == len(STEPS):
        return
    async with connection.transaction():
        await connection.execute("select set_config('lock_timeout', %s, true)", [LOCKED])
        await connection.execute("select pg_advisory_xact_lock(hashtext('tenex ' || current_schema()))")
        await connection.execute("create table if not exists tenex_meta (name text primary key, value text not null)")
        version = await _version(connection)
        if version > len(STEPS):
            raise ConfigurationError(
                [f"store: its tables have version {version}, and this tenex knows {len(STEPS)}; upgrade tenex"]
            )
        for step in STEPS[version:]:
            await connection.execute(step)
        if version < len(STEPS):
            await connection.execute(
                "insert into tenex_meta values ('version', %s) on conflict (name) do update set value = excluded.value",
                [str(len(STEPS))],
            )


async def _version(connection: AsyncConnection[Any]) -> int:
    """The version of the tables in the schema where they would be made; 0 where there are none."""
    cursor = await connection.execute("select to_regclass(quote_ident(current_schema()) || '.tenex_meta')")
    place = await cursor.fetchone()
    if place is None or place[0] is None:
        return 0
    cursor = await connection.execute("select value from tenex_meta where name = 'version'")
    row = await cursor.fetchone()
    return int(row[0]) if row is not None else 0
