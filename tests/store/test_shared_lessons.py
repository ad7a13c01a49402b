"""What agents learn at one daemon of a database is known to the others: one journal, to which each may append."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenex.core.errors import AppendConflict, AppendFailed, StoreDamaged
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.operations.copying import adopt_lessons, copy_all
from tenex.store.daemon_journal import DaemonFolder, DaemonJournal
from tenex.store.disk import Disk
from tenex.store.postgres import daemon_records
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.repository import ConversationFolder
from tests.fakes import postgres

from .kit import CONVERSATION_ID, StillClock

KEY = PublicKey("a" * 64)
Opened = Callable[..., Coroutine[Any, Any, PostgresConversations]]


class EarlyClock(StillClock):
    """A clock of long ago."""

    def now(self) -> Millis:
        return Millis(1_000)


@pytest.fixture
async def opened(tmp_path: Path, disk: Disk, postgres_url: str) -> AsyncIterator[Opened]:
    """Opens the store as a daemon of that name does."""
    async with AsyncExitStack() as stack:

        async def open_store(name: str, url: str = postgres_url) -> PostgresConversations:
            connected = PostgresConversations.connected(url, tmp_path / name, disk, StillClock(), worker=name)
            return await stack.enter_async_context(connected)

        yield open_store


async def journal_of(store: PostgresConversations) -> DaemonJournal:
    return await DaemonJournal.open(store.daemon_records(), StillClock())


def learned(journal: DaemonJournal) -> list[tuple[int, str]]:
    return [(lesson.number, lesson.key) for lesson in journal.lessons("executor")]


async def learn(journal: DaemonJournal, *keys: str, replaces: tuple[int, ...] = ()) -> None:
    for key in keys:
        await journal.record("executor", CONVERSATION_ID, "a title", f"lesson {key}", "", key, replaces=replaces)


async def test_what_two_daemons_learn_at_once_has_one_order_and_is_known_to_both(opened: Opened) -> None:
    one, two = await journal_of(await opened("one")), await journal_of(await opened("two"))
    await asyncio.gather(
        learn(one, "a1", "both", "a2", "a3"), learn(two, "b1", "both", "b2", "b3"), learn(one, "a4"), learn(two, "b4")
    )
    for journal in (one, two):
        await journal.follow()
    keys = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "both"]
    assert sorted(key for _, key in learned(one)) == keys, "each once, also what both have tried"
    assert [number for number, _ in learned(one)] == list(range(1, 10))
    assert learned(one) == learned(two) == learned(await journal_of(await opened("three")))
    assert await two.remove_lesson(1) is not None
    assert await one.edit_lesson(1, "", "") is None, "it knows what the other has done before it decides"
    await learn(one, "corrected", replaces=(2, 3))
    await two.follow()
    assert [number for number, _ in learned(two)] == [4, 5, 6, 7, 8, 9, 11]


async def test_one_daemon_that_was_first_again_and_again_is_reported(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await journal_of(await opened("one"))
    tries = 0

    async def conflict(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise AppendConflict("another one was first")

    monkeypatch.setattr(daemon_records.PostgresDaemonLines, "append", conflict)
    with pytest.raises(AppendConflict):
        await learn(journal, "1")
    assert tries == 11


async def test_a_long_journal_is_read_from_its_newest_snapshot(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setattr(daemon_records, "FILE_BYTES", 2_000)
    one, two = await journal_of(await opened("one")), await journal_of(await opened("two"))
    for number in range(0, 40, 2):
        await learn(one, str(number))
        await learn(two, str(number + 1))
    await one.follow()
    assert learned(one) == learned(two) == [(number + 1, str(number)) for number in range(40)]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        snapshots = connection.execute("select seq from tenex_snapshots order by file").fetchall()
        assert len(snapshots) > 1
        connection.execute("delete from tenex_records where seq <= %s", snapshots[-1])
    assert learned(await journal_of(await opened("three"))) == learned(one)


async def test_what_a_folder_had_is_added_once_with_its_time(opened: Opened, tmp_path: Path, disk: Disk) -> None:
    files = DaemonFolder(tmp_path / "files", disk, StillClock())
    before = await DaemonJournal.open(files, EarlyClock())
    await learn(before, "removed", "old", "edited")
    await before.remove_lesson(1)
    await before.edit_lesson(3, "better", "words")
    await before.published(KEY, 0, EventId("1" * 64), "hash", 100)
    shared = await journal_of(await opened("one"))
    await learn(shared, "new")
    assert await adopt_lessons(files, shared) == 2
    again = await journal_of(await opened("two"))
    assert learned(again) == [(1, "new"), (2, "old"), (3, "edited")]
    assert [(lesson.at, lesson.title) for lesson in again.all_lessons()[1:]] == [(1_000, "a title"), (1_000, "better")]
    profile = again.profile(KEY, 0)
    assert profile is not None
    assert profile.created_at == 100
    await again.remove_lesson(2)
    assert await adopt_lessons(files, again) == 0, "what was removed does not come back"
    assert await adopt_lessons(DaemonFolder(tmp_path / "none", disk, StillClock()), again) == 0


async def test_a_copy_takes_lessons_along_in_both_directions(opened: Opened, tmp_path: Path, disk: Disk) -> None:
    files = ConversationFolder(tmp_path / "files", disk, StillClock())
    await learn(await DaemonJournal.open(files.daemon_records(), StillClock()), "1", "2")
    database = await opened("one")
    assert (await copy_all(files, database)).lessons == 2
    assert (await copy_all(files, database)).lessons == 0
    assert await database.lengths() == {}, "they are no conversation"
    assert list(await database.changes(is_full=True)) == []
    back = ConversationFolder(tmp_path / "back", disk, StillClock())
    assert (await copy_all(database, back)).lessons == 2
    assert learned(await DaemonJournal.open(back.daemon_records(), StillClock())) == [(1, "1"), (2, "2")]


async def test_a_lesson_whose_answer_was_lost_is_recorded_once(
    opened: Opened, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with postgres.Proxy(postgres_url).running() as proxy:
        journal = await journal_of(await opened("one", proxy.url))
        append = daemon_records.PostgresDaemonLines.append

        async def append_unheard(lines: daemon_records.PostgresDaemonLines, decisions: Any) -> None:
            proxy.loses_answers = True
            await append(lines, decisions)

        for key in ("1", "2", "3"):
            with monkeypatch.context() as patch:
                patch.setattr(daemon_records.PostgresDaemonLines, "append", append_unheard)
                with pytest.raises(AppendFailed, match="not known whether"):
                    await learn(journal, key)
            await learn(journal, key)
        assert learned(journal) == [(1, "1"), (2, "2"), (3, "3")]


async def test_a_damaged_lesson_of_a_database_stops_no_start(opened: Opened, postgres_url: str) -> None:
    store = await opened("one")
    await learn(await journal_of(store), "1", "2")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("update tenex_records set line = replace(line, 'lesson 1', 'lesson 9')")
    with pytest.raises(StoreDamaged, match="_daemon in the database"):
        await journal_of(store)
    begun = await DaemonJournal.begin(store.daemon_records(), StillClock())
    assert learned(begun) == []
    with pytest.raises(StoreDamaged):
        await learn(begun, "3")
