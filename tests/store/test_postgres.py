"""What only the store in PostgreSQL does: leases, lost answers, whose database it is."""

import asyncio
import gc
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import psycopg
import pytest
from structlog.testing import capture_logs

from tenex.app.root import _refuse_uncopied
from tenex.core.conversation import fold
from tenex.core.errors import (
    AppendConflict,
    AppendFailed,
    ConfigurationError,
    DatabaseFailed,
    HeldElsewhere,
    StoreError,
    StoreOtherVersion,
)
from tenex.core.ids import ConversationId, EventId
from tenex.core.snapshot import StateSnapshot
from tenex.operations.copying import copy_all
from tenex.runtime.undeliverable import DeliveryFailure, failure_of
from tenex.store import opening
from tenex.store.contents import Contents
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.postgres import database as database_module
from tenex.store.postgres import leases as leases_module
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.postgres.migrations import STEPS
from tenex.store.postgres.writer import PostgresWriter
from tenex.store.repository import ConversationFolder
from tenex.store.view import Views
from tests.fakes import postgres
from tests.service import person

from .kit import CONVERSATION_ID, StillClock, asked, decisions_of, started

LEASE = 0.6
"""Seconds: a test waits for its end."""


class Workers:
    """Workers on one database."""

    def __init__(self, place: Path, disk: Disk, url: str) -> None:
        self.place, self.disk, self.url = place, disk, url
        self.stack = AsyncExitStack()

    async def __call__(self, name: str, *, url: str = "", lease: float = LEASE) -> PostgresConversations:
        opened = PostgresConversations.connected(
            url or self.url, self.place / name, self.disk, StillClock(), lease=lease, worker=name
        )
        return await self.stack.enter_async_context(opened)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            return connection.execute(query).fetchall()

    def change(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)


@asynccontextmanager
async def kept(store: PostgresConversations) -> AsyncIterator[None]:
    """Keep the leases of a worker; it must end when it is cancelled."""
    keeping = asyncio.create_task(store.leases.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait({keeping}, timeout=30)
        assert keeping.done(), "it was cancelled, and goes on"


@pytest.fixture
async def workers(tmp_path: Path, disk: Disk, postgres_url: str) -> AsyncIterator[Workers]:
    workers = Workers(tmp_path, disk, postgres_url)
    async with workers.stack:
        yield workers


async def seqs(store: Conversations, conversation: ConversationId = CONVERSATION_ID) -> list[int]:
    return [record.seq for record in await store.read(conversation)]


FULL = """
create function full_disk() returns trigger language plpgsql as $$
begin raise exception 'could not extend file "base/5/1": No space left on device' using errcode = 'disk_full'; end $$
"""


async def test_a_server_whose_disk_is_full_is_named_with_its_own_words(workers: Workers) -> None:
    one = await workers("one", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    workers.change(FULL)
    workers.change("create trigger full_disk before insert on tenex_records for each row execute function full_disk()")
    with pytest.raises(DatabaseFailed, match="No space left on device") as seen, capture_logs() as logs:
        await journal.append([[asked(2)]])
    assert failure_of(seen.value) is DeliveryFailure.DATABASE
    assert [log["event"] for log in logs] == [], "the conversation's suspension is the one line"
    workers.change("drop trigger full_disk on tenex_records")
    again, _ = await one.open(CONVERSATION_ID)
    await again.append([[asked(2)]])
    assert await seqs(one) == [1, 2]


# ---- leases ----


async def test_a_conversation_is_written_by_the_worker_that_has_it_until_it_gives_it_back(workers: Workers) -> None:
    one, two = await workers("one", lease=60), await workers("two", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    for _ in range(2):
        with pytest.raises(HeldElsewhere, match="another worker writes the conversation cccccccccccc now"):
            await two.open(CONVERSATION_ID)
    assert await seqs(two) == [1], "who does not write may read"
    await journal.close()
    other, _ = await two.open(CONVERSATION_ID)
    await other.append([[asked(2)]])
    with pytest.raises(HeldElsewhere):
        await one.open(CONVERSATION_ID)


async def test_a_worker_that_was_away_for_too_long_can_write_nothing_more(workers: Workers) -> None:
    """It renews nothing, as if it was stopped; the token that each append checks is then another one."""
    one, two = await workers("one"), await workers("two")
    lost: list[ConversationId] = []
    one.leases.lost = lost.append
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))

    async def taken() -> bool:
        try:
            await two.open(CONVERSATION_ID)
        except HeldElsewhere:
            return False
        return True

    until = asyncio.get_running_loop().time() + 30
    while not await taken():
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)
    assert not journal.may_start
    for _ in range(2):
        with pytest.raises(AppendFailed):
            await journal.append([[asked(2)]])
    assert lost == [CONVERSATION_ID]
    assert await seqs(two) == [1]
    assert workers.rows("select max(token) from tenex_records") == [(1,)]


async def test_a_worker_with_a_message_asks_for_a_conversation_and_gets_it_before_others(workers: Workers) -> None:
    one, two, three = await workers("one", lease=60), await workers("two", lease=60), await workers("three", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    other = ConversationId("d" * 64)
    await (await two.open(other))[0].append(decisions_of(1))

    async def seen(store: PostgresConversations) -> tuple[bool, bool]:
        (change,) = [change for change in await store.changes() if change.id == CONVERSATION_ID]
        return change.is_free, change.is_wanted

    assert await seen(one) == (True, False)
    assert await two.want([CONVERSATION_ID, other, ConversationId("e" * 64)]) == [CONVERSATION_ID]
    assert await two.want([CONVERSATION_ID]) == await three.want([CONVERSATION_ID]) == []
    assert await seen(one) == (True, True)
    await journal.close()
    assert [await seen(store) for store in (one, two, three)] == [(False, False), (True, False), (False, False)]
    await two.open(CONVERSATION_ID)
    assert await seen(two) == (True, False), "once, for one message"


async def test_what_a_worker_wanted_that_is_gone_is_free_for_all_after_a_while(workers: Workers) -> None:
    one, two = await workers("one"), await workers("two")
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    await two.want([CONVERSATION_ID])
    await journal.close()
    until = asyncio.get_running_loop().time() + 30
    while not [change for change in await one.changes() if change.is_free]:
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)


async def test_leases_are_renewed_while_all_connections_are_in_use(workers: Workers) -> None:
    async with database_module.Database(workers.url).opened() as database:
        held = leases_module.Leases(database, "one", seconds=3.0)
        lost: list[ConversationId] = []
        held.lost = lost.append
        await held.take(CONVERSATION_ID)
        is_over = asyncio.Event()
        until = asyncio.get_running_loop().time() + 30

        async def keep_busy(_: object) -> None:
            await is_over.wait()

        busy = [asyncio.create_task(database.run(keep_busy, 60)) for _ in range(database_module.CONNECTIONS)]
        keeping = asyncio.create_task(held.keep())
        before = workers.rows("select expires from tenex_conversations")
        while workers.rows("select expires from tenex_conversations") == before:
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.05)
        assert lost == []
        is_over.set()
        await asyncio.gather(*busy)
        keeping.cancel()
        await asyncio.wait({keeping}, timeout=30)


async def test_a_few_conversations_are_opened_at_once(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else thousands of them would wait so long for a connection that they fail, and appends with them."""
    most = 0
    under_way = 0
    take = leases_module.Leases.take

    async def counted(held: leases_module.Leases, conversation: ConversationId) -> Any:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        try:
            return await take(held, conversation)
        finally:
            under_way -= 1

    monkeypatch.setattr(leases_module.Leases, "take", counted)
    one = await workers("one", lease=60)
    names = [ConversationId(f"{number:064x}") for number in range(40)]
    await asyncio.gather(*(one.open(name) for name in names))
    assert 1 < most <= database_module.CONNECTIONS // 2


@pytest.mark.soak
async def test_a_lease_that_is_renewed_is_not_taken_over(workers: Workers) -> None:
    lease = 1.5  # a third of it is what a renewal may take on a busy machine
    one, two = await workers("one", lease=lease), await workers("two", lease=lease)
    journal, _ = await one.open(CONVERSATION_ID)
    loop = asyncio.get_running_loop()
    end = loop.time() + 2 * lease
    async with kept(one):
        while loop.time() < end:
            with pytest.raises(HeldElsewhere):
                await two.open(CONVERSATION_ID)
            await asyncio.sleep(lease / 10)
        await journal.append(decisions_of(1))


async def test_nothing_starts_in_the_second_half_of_a_lease_and_at_its_end_it_is_lost(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that counts while the machine sleeps, not by the time of day."""
    times = [100.0]
    monkeypatch.setattr(leases_module.Leases.__init__, "__defaults__", (60.0, lambda: times[0]))
    one = await workers("one", lease=60)
    lost: list[ConversationId] = []
    renewed: list[ConversationId] = []
    one.leases.lost, one.leases.renewed = lost.append, renewed.append
    journal, _ = await one.open(CONVERSATION_ID)

    def may_start() -> bool:
        return journal.may_start

    for passed, expected in ((0.0, True), (29.9, True), (30.1, False), (59.9, False)):
        times[0] = 100.0 + passed
        assert may_start() is expected, passed
    await journal.append(decisions_of(1))
    assert may_start(), "an append renews it too"
    assert renewed == [CONVERSATION_ID], "and what could not start is started"
    times[0] += 45
    assert not may_start()
    await one.leases._renew()
    assert (may_start(), renewed) == (True, [CONVERSATION_ID] * 2)
    monkeypatch.setattr(one.leases, "seconds", 0.3)  # so that it is looked often
    times[0] += 61
    keeping = asyncio.create_task(one.leases._keep_looking())
    try:
        await person.until(lambda: lost == [CONVERSATION_ID])
    finally:
        keeping.cancel()
        await asyncio.wait({keeping}, timeout=30)
    assert not may_start()


async def test_a_lease_that_is_over_is_not_renewed_though_no_one_has_taken_it(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped, and the first thing it does is to renew."""
    times = [100.0]
    monkeypatch.setattr(leases_module.Leases.__init__, "__defaults__", (60.0, lambda: times[0]))
    one = await workers("one", lease=60)
    lost: list[ConversationId] = []
    one.leases.lost = lost.append
    journal, _ = await one.open(CONVERSATION_ID)
    times[0] += 61
    await one.leases._renew()
    assert (lost, journal.may_start) == ([CONVERSATION_ID], False)


@pytest.mark.soak
async def test_a_lease_that_was_freed_is_neither_renewed_nor_written_under(workers: Workers) -> None:
    """Else its worker would go on with effects, until another one has taken the conversation."""
    one, two = await workers("one"), await workers("two")
    happened: list[tuple[str, float]] = []
    one.leases.happened = lambda what, _: happened.append((what, 0.0))
    two.leases.happened = lambda what, seconds: happened.append((what, seconds))
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    until = asyncio.get_running_loop().time() + 30
    while workers.rows("select 1 from tenex_conversations where holder is not null"):
        assert asyncio.get_running_loop().time() < until
        await two.changes()
        await asyncio.sleep(0.05)
    one.leases._held[CONVERSATION_ID].until += 60  # as if its own clock had stood still
    await one.leases._renew()
    assert happened == [("lease_lost", 0.0)]
    with pytest.raises(HeldElsewhere):
        await journal.append([[asked(2)]])
    await two.open(CONVERSATION_ID)
    what, seconds = happened[-1]
    assert what == "takeover"
    assert seconds > LEASE


async def test_a_worker_is_known_by_its_machine_its_folder_and_what_was_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a machine has the same name and files: if it was the same worker both would write everything."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    name_of = leases_module.worker_name
    assert name_of(here, is_daemon=False) != name_of(here, is_daemon=False), "nothing is written but by the daemon"
    name = name_of(here, is_daemon=True)
    assert name == name_of(here, is_daemon=True) == name_of(here, is_daemon=False)
    assert name_of(there, is_daemon=True) != name
    monkeypatch.setattr(leases_module, "BOOT_ID", tmp_path / "another boot")
    assert name_of(here, is_daemon=True) != name


@pytest.mark.soak
async def test_what_a_newer_daemon_has_written_is_left_to_it_while_the_others_are_upgraded(workers: Workers) -> None:
    """The older one marks nothing: its mark would keep the newer one from taking the conversation over."""
    one, two = await workers("one", lease=60), await workers("two", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1, 1))
    await journal.close()
    with psycopg.connect(workers.url, autocommit=True) as connection:
        (line,) = connection.execute("select line from tenex_records where seq = 2").fetchone() or ("",)
        body = re.sub(r'^{"v":\d+', '{"v":99', line).rpartition(',"crc":')[0]
        newer = f'{body},"crc":"{crc32(body.encode()):08x}"}}'
        connection.execute("update tenex_records set line = %s where seq = 2", [newer])
        with pytest.raises(StoreOtherVersion):
            await one.open(CONVERSATION_ID)
        await two.leases.report()
        connection.execute("update tenex_workers set version = 'newer'")
    with pytest.raises(HeldElsewhere, match="A daemon of another version goes on with it"):
        await one.open(CONVERSATION_ID)
    assert await two.quarantined() == {}
    assert [change.is_free for change in await one.changes()] == [False]
    assert [change.is_free for change in await two.changes()] == [True]


@pytest.mark.soak
async def test_a_worker_that_is_drained_takes_nothing_and_another_one_does(workers: Workers) -> None:
    one, two = await workers("one", lease=3), await workers("two", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    async with kept(one), kept(two):

        async def listed() -> dict[str, tuple[bool, bool, int]]:
            return {each.name: (each.drains, each.is_drained, each.conversations) for each in await two.workers()}

        async def until(expected: dict[str, tuple[bool, bool, int]]) -> None:
            end = asyncio.get_running_loop().time() + 30
            while await listed() != expected:
                assert asyncio.get_running_loop().time() < end
                await asyncio.sleep(0.05)

        await until({"one": (False, False, 1), "two": (False, False, 0)})
        await two.leases.drain("one")
        await person.until(lambda: one.leases.drains)
        assert await listed() == {"one": (True, False, 1), "two": (False, False, 0)}
        await journal.append([[asked(2)]])
        await journal.close()
        with pytest.raises(HeldElsewhere, match="this worker is drained"):
            await one.open(CONVERSATION_ID)
        await until({"one": (True, True, 0), "two": (False, False, 0)})
        await two.open(CONVERSATION_ID)
        await two.leases.drain("one", is_wanted=False)
        await person.until(lambda: not one.leases.drains)
        await one.open(ConversationId("d" * 64))
    assert await listed() == {}, "who has stopped is not listed"
    async with kept(two):
        await until({"two": (False, False, 1)})


@pytest.mark.soak
async def test_a_worker_that_starts_again_takes_its_conversations_at_once(workers: Workers) -> None:
    one = await workers("one", lease=60)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    again = await workers("one", lease=60)
    newer, records = await again.open(CONVERSATION_ID)
    assert len(records) == 1
    await newer.append([[asked(2)]])
    with pytest.raises(HeldElsewhere):
        await journal.append([[asked(2)]])
    assert await seqs(again) == [1, 2]


@pytest.mark.soak
def have_it(*stores: PostgresConversations) -> list[bool]:
    return [store.leases.has_workspace for store in stores]


async def test_one_worker_has_the_workspace_until_it_stops_or_has_been_silent_for_too_long(workers: Workers) -> None:
    one = await workers("one")
    stops = AsyncExitStack()
    two = await stops.enter_async_context(
        PostgresConversations.connected(
            workers.url, workers.place / "two", workers.disk, StillClock(), lease=60, worker="two"
        )
    )
    for store in (one, two, one):
        await store.leases.report()
    assert have_it(one, two) == [True, False]
    assert [(worker.name, worker.has_workspace) for worker in await two.workers()] == [("one", True), ("two", False)]
    lost: list[str] = []
    one.leases.workspace_lost = lambda: lost.append("one")
    await asyncio.sleep(LEASE)  # it does not report itself
    assert have_it(one) == [False]
    workers.rows("update tenex_workers set seen = seen - interval '79 s' where name = 'one' returning 1")
    await two.leases.report()
    assert have_it(two) == [False], "the other one may be about to learn that it has lost it"
    workers.rows("update tenex_workers set seen = seen - interval '2 s' where name = 'one' returning 1")
    await two.leases.report()
    await one.leases.report()
    assert have_it(one, two) == [False, True]
    await stops.aclose()
    await one.changes()
    assert have_it(one) == [True], "at once, where it was given up"
    async with kept(one):
        workers.rows("update tenex_meta set value = 'three' where name = 'workspace' returning 1")
        workers.rows("insert into tenex_workers (name, version) values ('three', '1') returning 1")
        await person.until(lambda: lost == ["one"])


async def test_a_drained_worker_keeps_the_workspace_while_it_writes(workers: Workers) -> None:
    one, two = await workers("one", lease=60), await workers("two", lease=60)
    await one.leases.report()
    journal, _ = await one.open(CONVERSATION_ID)
    await two.leases.drain("one")
    for store in (one, two):
        await store.leases.report()
    assert have_it(one, two) == [True, False]
    await journal.close()
    for store in (one, two, one):
        await store.leases.report()
    assert have_it(one, two) == [False, True]
    await two.leases.drain("two")
    await two.leases.report()
    await one.leases.report()
    assert have_it(one) == [False], "who is drained takes it neither"


async def test_what_a_dead_worker_has_left_is_free_for_the_others(workers: Workers) -> None:
    one, two = await workers("one"), await workers("two")
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    (change,) = await two.changes()
    assert (change.id, change.bytes, change.is_free) == (CONVERSATION_ID, journal.length, False)

    async def is_free() -> bool:
        return any(change.is_free for change in await two.changes())

    until = asyncio.get_running_loop().time() + 30
    while not await is_free():
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.05)
    other, records = await two.open(CONVERSATION_ID)
    assert [record.seq for record in records] == [1]
    assert other.next_seq == 2


@pytest.mark.soak
async def test_what_changes_is_seen_also_by_a_server_whose_clock_is_behind_that_of_the_one_before(
    workers: Workers,
) -> None:
    """As after a failover: what is freed there would have no one who takes it over."""
    one, two = await workers("one"), await workers("two")
    await two.changes()
    assert two._seen_at is not None
    two._seen_at += timedelta(hours=1)
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    await journal.close()
    assert [change.id for change in await two.changes()] == [CONVERSATION_ID]


@pytest.mark.soak
async def test_what_has_been_free_for_long_is_seen_by_who_looks_at_everything(workers: Workers) -> None:
    """As by a worker that was drained when it became free."""
    one, two = await workers("one"), await workers("two")
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    await journal.close()
    with psycopg.connect(workers.url, autocommit=True) as connection:
        connection.execute("update tenex_conversations set changed = changed - interval '1 hour'")
    assert await two.changes() == []
    assert [(change.id, change.is_free) for change in await two.changes(is_full=True)] == [(CONVERSATION_ID, True)]


# ---- waiting ----


async def test_who_is_cancelled_while_it_gets_a_connection_is_cancelled(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wait_for` of Python 3.11 returns the connection instead, and who renews leases would go on for ever."""
    monkeypatch.setattr(database_module, "CONNECTIONS", 1)
    database = (await workers("one", lease=60))._database
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def hold(_: object) -> None:
        begun.set()
        await may_end.wait()

    async def nothing(_: object) -> None:
        pass

    first = asyncio.create_task(database.run(hold))
    async with asyncio.timeout(30):
        await begun.wait()
        second = asyncio.create_task(database.run(nothing))
        await person.until(lambda: database._pool._waiting)
        may_end.set()
        await first
        second.cancel()
        await asyncio.wait({second})
    assert second.cancelled()
    assert await database.rows("select 1") == [(1,)], "the connection is not lost"


@pytest.mark.soak
async def test_a_server_that_says_nothing_is_waited_for_while_a_connection_is_set_up_and_no_longer(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PATIENCE", 0.3)
    async with postgres.Proxy(workers.url).running() as proxy:
        store = await workers("one", lease=60)
        connection = await psycopg.AsyncConnection.connect(proxy.url, autocommit=True)
        proxy.is_deaf = True
        async with asyncio.timeout(30):
            with pytest.raises(StoreError, match="has not answered within"):
                await store._database._configure(connection)
        assert connection.closed


@pytest.mark.soak
async def test_a_failure_that_is_not_looked_at_is_not_reported_as_lost(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work ends with an error of its own once its connection was closed."""
    database = (await workers("one", lease=60))._database
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def wait(connection: psycopg.AsyncConnection[object]) -> None:
        async with connection.transaction():
            await connection.execute("select pg_sleep(60)")

    with pytest.raises(StoreError, match="has not answered within"):
        await database.run(wait, 0.2)
    gc.collect()
    await asyncio.sleep(0)
    assert not reported
    assert await database.rows("select 1") == [(1,)]


# ---- answers that are lost ----


@pytest.fixture
async def lossy(workers: Workers) -> AsyncIterator[tuple[PostgresConversations, postgres.Proxy]]:
    """A worker whose connections go through a proxy."""
    async with postgres.Proxy(workers.url).running() as proxy:
        store = await workers("lossy", url=proxy.url, lease=60)
        yield store, proxy
        await workers.stack.aclose()


async def test_an_append_whose_answer_was_lost_is_found_and_not_made_again(
    lossy: tuple[PostgresConversations, postgres.Proxy],
) -> None:
    store, proxy = lossy
    journal, _ = await store.open(CONVERSATION_ID)
    for seq in range(1, 8):  # from the fifth on the statement is a prepared one
        proxy.loses_answers = True
        await journal.append(decisions_of(1, first=seq))
        assert not proxy.loses_answers
    assert await seqs(store) == list(range(1, 8))


async def test_an_append_that_never_arrived_is_made_again(
    lossy: tuple[PostgresConversations, postgres.Proxy],
) -> None:
    store, proxy = lossy
    journal, _ = await store.open(CONVERSATION_ID)
    for seq in range(1, 8):
        proxy.cut()
        await journal.append(decisions_of(1, first=seq))
    assert await seqs(store) == list(range(1, 8))


@pytest.mark.soak
async def test_what_is_not_known_is_not_called_stored_or_lost(
    lossy: tuple[PostgresConversations, postgres.Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has to be opened again, and then shows what became of it."""
    store, proxy = lossy
    journal, _ = await store.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    monkeypatch.setattr(database_module.Database.run, "__defaults__", (0.3,))
    proxy.is_deaf = True
    with pytest.raises(AppendFailed, match="It is not known whether 1 records from 2 on were stored") as caught:
        await journal.append([[asked(2)]])
    assert not isinstance(caught.value, AppendConflict | HeldElsewhere)
    with pytest.raises(AppendFailed):
        await journal.append([[asked(2)]])
    with pytest.raises(AppendFailed):
        await store.open(CONVERSATION_ID)
    proxy.is_deaf = False
    monkeypatch.setattr(database_module.Database.run, "__defaults__", (5.0,))
    proxy.cut()
    journal, records = await store.open(CONVERSATION_ID)
    await journal.append([[asked(len(records) + 1)]])
    assert await seqs(store) == list(range(1, len(records) + 2))


@pytest.mark.soak
async def test_a_database_that_is_away_is_known_some_seconds_later_and_also_that_it_is_back(workers: Workers) -> None:
    async with postgres.Proxy(workers.url).running() as proxy:
        store = await workers("one", url=proxy.url, lease=1.5)
        async with kept(store):
            await person.until(lambda: workers.rows("select 1 from tenex_workers"))
            assert store.leases.fault == ""
            proxy.refuses = True
            proxy.cut()
            await person.until(lambda: store.leases.fault)
            assert "cannot be used now" in store.leases.fault
            proxy.refuses = False
            await person.until(lambda: not store.leases.fault)
        await workers.stack.aclose()


class Writing:
    """Appends to some conversations as fast as the store takes it, whatever happens."""

    def __init__(self, store: PostgresConversations) -> None:
        self.store = store
        self.acknowledged = {ConversationId(f"{number:064x}"): 0 for number in range(6)}
        """The last record of each that the store has acknowledged."""
        self.failures = 0
        self._is_over = False

    async def until(self, count: int) -> None:
        await person.until(lambda: min(self.acknowledged.values()) >= count, 120)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Writing"]:
        async with asyncio.TaskGroup() as group:
            for name in self.acknowledged:
                group.create_task(self._write(name))
            yield self
            self._is_over = True

    async def check(self) -> None:
        """What was acknowledged is there, once, and in its order."""
        for name, acknowledged in self.acknowledged.items():
            found = await seqs(self.store, name)
            assert found == list(range(1, len(found) + 1))
            assert len(found) >= acknowledged

    async def _write(self, name: ConversationId) -> None:
        while not self._is_over:
            try:
                journal, records = await self.store.open(name)
                assert len(records) >= self.acknowledged[name]
                while not self._is_over:
                    seq = journal.next_seq
                    await journal.append([[started(name) if seq == 1 else asked(seq)]])
                    self.acknowledged[name] = seq
            except AppendFailed:
                self.failures += 1
                await asyncio.sleep(0.05)


@pytest.mark.soak
async def test_what_a_server_has_acknowledged_is_there_after_it_was_killed(tmp_path: Path, disk: Disk) -> None:
    """With appends under way: each was stored, or its journal is opened again and shows what became of it."""
    with postgres.own_server() as server:
        opened = PostgresConversations.connected(server.url, tmp_path, disk, StillClock(), lease=60, worker="one")
        async with opened as store:
            async with Writing(store).running() as writing:
                for count in (20, 40):
                    await writing.until(count)
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                await writing.until(60)
            await writing.check()


@pytest.mark.soak
async def test_a_failover_to_a_synchronous_standby_loses_nothing(tmp_path: Path, disk: Disk) -> None:
    """The promoted server first waits for a standby of its own: what it does not acknowledge is unknown, not stored."""
    with postgres.own_server("synchronous_standby_names = 'standby'\n") as primary:
        standby = postgres.Server(primary.programs, primary)
        try:
            standby.start()
            with psycopg.connect(primary.url, autocommit=True) as connection:
                state = "select 1 from pg_stat_replication where sync_state = 'sync'"
                await person.until(lambda: connection.execute(state).fetchone())
            hosts = f"{primary.folder},{standby.folder}"
            url = f"postgresql://tenex@/postgres?host={quote(hosts, safe='')}&port=5432,5432"
            opened = PostgresConversations.connected(url, tmp_path, disk, StillClock(), lease=60, worker="one")
            async with opened as store:
                assert await store.faults() == ([], [])
                async with Writing(store).running() as writing:
                    await writing.until(20)
                    await asyncio.to_thread(primary.kill)
                    await asyncio.to_thread(standby.promote)
                    failures, acknowledged = writing.failures, dict(writing.acknowledged)
                    await person.until(lambda: writing.failures > failures)
                    assert writing.acknowledged == acknowledged, "it acknowledges without its standby"
                    with psycopg.connect(standby.url, autocommit=True) as connection:
                        connection.execute("alter system set synchronous_standby_names = ''")
                        connection.execute("select pg_reload_conf()")
                    await writing.until(40)
                await writing.check()
        finally:
            standby.close()


@pytest.mark.soak
async def test_a_commit_that_the_standby_has_not_confirmed_is_not_taken_for_one(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that it succeeded, with a warning, where somebody cancels the waiting."""
    store = await workers("one", lease=60)

    async def warned(connection: psycopg.AsyncConnection[object]) -> int:
        await connection.execute("do $$ begin raise warning 'canceling wait for synchronous replication'; end $$")
        return 1

    assert await store._database.run(warned) == 1
    with pytest.raises(StoreError, match="may not be on its standby"):
        await store._database.run(warned, is_doubted=True)
    journal, _ = await store.open(CONVERSATION_ID)
    with psycopg.connect(workers.url, autocommit=True) as connection:
        connection.execute(
            "create function warn() returns trigger language plpgsql as"
            " $$ begin raise warning 'canceling wait for synchronous replication'; return new; end $$"
        )
        connection.execute("create trigger warns before insert on tenex_records for each row execute function warn()")
    looks: list[int] = []
    writer = journal.writer
    assert isinstance(writer, PostgresWriter)
    look = writer._look

    async def watched(first: int, lines: list[str]) -> Any:
        looks.append(first)
        return await look(first, lines)

    monkeypatch.setattr(writer, "_look", watched)
    await journal.append(decisions_of(1))  # the look's own commit has to be confirmed, and comes after it
    assert (looks, await seqs(store)) == ([1], [1])


async def test_where_the_journal_is_at_another_record_nothing_is_stored(workers: Workers) -> None:
    """As after a failover to a standby that lacked the newest."""
    store = await workers("one", lease=60)
    journal, _ = await store.open(CONVERSATION_ID)
    await journal.append(decisions_of(1, 1, 1))
    with psycopg.connect(workers.url, autocommit=True) as connection:
        connection.execute("delete from tenex_records where seq = 3")
        connection.execute("update tenex_conversations set next_seq = 3")
    with pytest.raises(AppendConflict, match="is not at record 4"):
        await journal.append([[asked(4)]])
    journal, records = await store.open(CONVERSATION_ID)
    assert len(records) == 2
    await journal.append([[asked(3)]])


async def test_the_same_token_in_the_hands_of_another_worker_is_not_ours(workers: Workers) -> None:
    """As after a failover to a standby that lacked the newest, where another one took it again."""
    store = await workers("one", lease=60)
    journal, _ = await store.open(CONVERSATION_ID)
    await journal.append(decisions_of(1))
    workers.rows("update tenex_conversations set holder = 'two' returning id")
    with pytest.raises(HeldElsewhere):
        await journal.append([[asked(2)]])
    await journal.close()
    assert await seqs(store) == [1]
    assert workers.rows("select holder from tenex_conversations") == [("two",)]


async def test_a_renewal_finds_that_another_worker_has_the_same_token(workers: Workers) -> None:
    store = await workers("one", lease=60)
    lost: list[ConversationId] = []
    store.leases.lost = lost.append
    await store.open(CONVERSATION_ID)
    assert await store.leases._renew()
    assert lost == []
    workers.rows("update tenex_conversations set holder = 'two' returning id")
    assert await store.leases._renew()
    assert lost == [CONVERSATION_ID]


async def test_a_snapshot_of_which_nothing_is_known_does_not_end_the_journal(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await workers("one", lease=60)
    journal, _ = await store.open(CONVERSATION_ID)
    await journal.append([[started()]])
    snapshot = StateSnapshot.of(fold(CONVERSATION_ID, await store.read(CONVERSATION_ID)))

    async def fails(*_: object, **__: object) -> object:
        raise database_module.Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(store._database, "run", fails)
        with pytest.raises(StoreError, match="away"):
            await journal.rotate(snapshot)
    assert journal.may_start
    await journal.append([[asked(2)]])
    assert await seqs(store) == [1, 2]


async def test_a_start_opens_of_what_others_go_on_with_only_what_it_had_when_it_died(workers: Workers) -> None:
    store = await workers("one", lease=60)
    journal, _ = await store.open(CONVERSATION_ID)
    await journal.append([[started()]])
    views = Views(store, workers.disk)
    await views.write(views.page(fold(CONVERSATION_ID, await store.read(CONVERSATION_ID))))
    await journal.append([[asked(2)]])
    assert await store.behind() == [CONVERSATION_ID]
    await journal.close()
    assert await store.behind() == []


async def test_a_journal_that_holds_no_record_is_copied_as_nothing(workers: Workers) -> None:
    """A write was cut short before its first."""
    store = await workers("one")
    folder = ConversationFolder(workers.place / "files", workers.disk, StillClock())
    torn = folder.path(CONVERSATION_ID)
    torn.mkdir(parents=True)
    (torn / "journal.jsonl").write_bytes(b'{"cut')
    assert (await folder.contents(CONVERSATION_ID)) == [b""]
    copied = await copy_all(folder, store)
    assert (copied.outcomes, copied.faults) == ({CONVERSATION_ID: "same"}, {})
    await _refuse_uncopied(folder, store)


async def test_a_copy_ends_at_the_first_sign_that_a_store_is_away(workers: Workers, monkeypatch: Any) -> None:
    store = await workers("one")
    folder = ConversationFolder(workers.place / "files", workers.disk, StillClock())
    for name in (CONVERSATION_ID, ConversationId("d" * 64)):
        journal, _ = await folder.open(name)
        await journal.append([[started(name)]])
        await journal.close()
    asked_for: list[str] = []

    async def away(name: str) -> Contents:
        asked_for.append(name)
        raise database_module.Unavailable("away")

    monkeypatch.setattr(store, "contents", away)
    with pytest.raises(StoreError, match="away"):
        await copy_all(folder, store)
    assert len(asked_for) == 1


async def test_a_copy_into_a_journal_that_has_changed_since_stores_nothing(workers: Workers) -> None:
    one, two = await workers("one"), await workers("two")
    journal, _ = await one.open(CONVERSATION_ID)
    await journal.append(decisions_of(1, 1, 1))
    wanted = await one.contents(CONVERSATION_ID)
    await journal.close()
    with pytest.raises(StoreError, match="has changed since"):
        await two.put(CONVERSATION_ID, [], wanted)
    other = ConversationId("d" * 64)
    with psycopg.connect(workers.url, autocommit=True) as connection:
        connection.execute(
            "insert into tenex_records (conversation, seq, token, line) values (%s, 1, 1, 'of no row')", [other]
        )
    with pytest.raises(StoreError, match="has changed since"):
        await two.put(other, [], wanted)
    assert workers.rows("select conversation, seq from tenex_records order by 1, 2") == [
        *((CONVERSATION_ID, seq) for seq in (1, 2, 3)),
        (other, 1),
    ]
    assert workers.rows("select holder from tenex_conversations where holder is not null") == []


# ---- the database ----


async def test_a_database_is_that_of_one_project(workers: Workers) -> None:
    one, two = await workers("one"), await workers("two")
    await one.claim("a" * 64)
    await two.claim("a" * 64)
    with pytest.raises(
        ConfigurationError, match="holds the conversations of another project, whose key is aaaaaaaaaaaa"
    ):
        await two.claim("b" * 64)


@pytest.mark.soak
async def test_workers_that_start_at_once_make_the_tables_once(workers: Workers) -> None:
    stores = await asyncio.gather(*(workers(f"{number}") for number in range(5)))
    journal, _ = await stores[0].open(CONVERSATION_ID)
    await journal.append([[started()]])
    assert await seqs(stores[4]) == [1]
    assert workers.rows("select value from tenex_meta where name = 'version'") == [(f"{len(STEPS)}",)]


@pytest.mark.soak
async def test_tables_of_a_newer_program_are_left_alone(workers: Workers) -> None:
    await workers("one")
    with psycopg.connect(workers.url, autocommit=True) as connection:
        connection.execute("update tenex_meta set value = '99' where name = 'version'")
    with pytest.raises(ConfigurationError, match=r"version 99.*upgrade tenex"):
        await workers("two")


async def test_commits_are_durable_whatever_the_server_s_default_is(workers: Workers) -> None:
    for setting, expected in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        url = f"{workers.url}%20-csynchronous_commit%3D{setting}"
        store = await workers(f"worker {setting}", url=url)
        assert await store._database.rows("show synchronous_commit") == [(expected,)]


async def test_a_server_that_would_lose_what_it_acknowledged_is_refused(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await workers("one")
    assert await store.faults() == ([], [])
    answers: list[list[tuple[object, ...]]] = []

    async def rows(*_: object) -> list[tuple[object, ...]]:
        return answers.pop()

    monkeypatch.setattr(store._database, "rows", rows)
    answers = [[("a", None)], [(140_000, "UTF8", "on", "on", "a")]]
    faults, remarks = await store.faults()
    assert (faults, ["cannot be seen with this role" in remark for remark in remarks]) == ([], [True])
    answers = [[("a", "async")], [(130_004, "LATIN1", "off", "on", "b")]]
    faults, remarks = await store.faults()
    assert [fault.partition("; ")[0] for fault in faults] == [
        "the server has version 13",
        "the database has the encoding LATIN1",
        "fsync is off: a power cut loses conversations",
    ]
    assert [remark.partition(": ")[0] for remark in remarks] == [
        "the standby a is asynchronous",
        "no standby of b is connected",
    ]


async def test_an_address_that_leads_nowhere_is_reported_without_its_password(tmp_path: Path, disk: Disk) -> None:
    url = "postgresql://me:secret@/db?host=/nonexistent&connect_timeout=1"
    with pytest.raises(StoreError, match="on /nonexistent cannot be used now") as caught:
        async with PostgresConversations.connected(url, tmp_path, disk, StillClock(), worker="one"):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "me:sec%ret@host/db",
        "me:sec/ret@host/db",
        "me:12/secret@host/db",
        "me:sec@ret@host/db",
        "me@host/db?sslmode=require&sec=ret",
    ],
)
def test_an_address_that_is_read_wrongly_is_refused_without_a_word_of_it(address: str) -> None:
    """What libpq reads of a password as a port or a database would be in every message."""
    with pytest.raises(ConfigurationError, match="percent-encoded") as caught:
        database_module.Database(f"postgresql://{address}")
    assert "sec" not in str(caught.value)
    assert "ret" not in str(caught.value)


async def test_a_missing_driver_is_named_with_the_command_that_installs_it(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigurationError, match=r"psycopg is not installed; run `.* -m pip install 'tenexd\[postgres\]'`"
    ):
        async with opening.open_conversations("postgresql:///tenex", tmp_path, disk, StillClock()):
            pass
    async with opening.open_conversations("", tmp_path, disk, StillClock()) as files:
        assert isinstance(files, ConversationFolder)


async def test_a_message_belongs_to_the_conversation_that_took_it_first(workers: Workers) -> None:
    """Also for another worker that goes on with that conversation."""
    one, two = await workers("one"), await workers("two")
    event, other = EventId("e" * 64), ConversationId("d" * 64)
    owners = await asyncio.gather(
        *(store.take_event(event, name) for store in (one, two) for name in (CONVERSATION_ID, other))
    )
    assert len(set(owners)) == 1
    assert owners[0] in (CONVERSATION_ID, other)
    direct = EventId("f" * 64)
    assert await one.take_direct_message(direct)
    assert not await two.take_direct_message(direct)
    assert await one.take_direct_message(direct)
