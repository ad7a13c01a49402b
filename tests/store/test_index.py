"""The cache: finds, tells what a start must read, and may be deleted at any time."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Waiting
from tenex.store import index as index_module
from tenex.store import schema
from tenex.store.disk import Disk
from tenex.store.folder import ConversationFolder
from tenex.store.index import Index
from tenex.store.summary import Row
from tests.fakes.play import ID, Play, diligent, seven_phases
from tests.store.kit import CONVERSATION_ID, StillClock, started
from tests.store.test_summary import said, wrote

OTHER = ConversationId("d" * 64)


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[ConversationFolder]:
    disk = Disk()
    yield ConversationFolder(tmp_path / "conversations", disk, StillClock())
    disk.close()


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    index = Index(tmp_path / "conversations" / "index.sqlite")
    yield index
    await index.close()


def row(
    conversation: ConversationId = CONVERSATION_ID, length: int = 10, settled: bool = True, updated: int = 1
) -> Row:
    return Row(
        id=conversation,
        bytes=length,
        seq=3,
        settled=settled,
        status="waiting",
        phase="chat",
        title="t",
        updated=Millis(updated),
    )


async def conversation(folder: ConversationFolder, name: ConversationId, event_id: str) -> int:
    """A settled conversation on disk; its length."""
    journal, _ = await folder.open(name)
    await journal.append([[started(name), wrote(2, event_id), Waiting(seq=3, at=Millis(3), reason="user")]])
    await journal.close()
    return journal.length


async def test_an_event_is_found_at_once_and_after_a_restart(index: Index, tmp_path: Path) -> None:
    index.hear(row(), ["e1", "e2"])
    assert index.conversation_of("e1") == CONVERSATION_ID
    assert index.has_event("e2")
    assert not index.has_event("e3")
    await index.flush()
    assert index.conversation_of("e1") == CONVERSATION_ID
    await index.close()
    again = Index(tmp_path / "conversations" / "index.sqlite")
    assert again.conversation_of("e1") == CONVERSATION_ID
    assert again.conversation_of("e3") is None
    await again.close()


async def test_an_event_unknown_once_is_found_when_it_has_come(index: Index) -> None:
    assert not index.has_event("late")
    index.hear(row(), ["late"])
    await index.flush()
    assert index.has_event("late")


async def test_memory_for_events_is_bounded_and_the_file_knows_the_rest(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "REMEMBERED", 10)
    index.hear(row(), [f"e{number}" for number in range(50)])
    await index.flush()
    assert all(index.conversation_of(f"e{number}") == CONVERSATION_ID for number in range(50))
    assert len(index._recent) == 10


async def test_noting_waits_where_the_disk_lags_behind(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "WAITING_MOST", 3)
    for number in range(20):
        await index.note(
            CONVERSATION_ID,
            bytes=number,
            seq=number,
            settled=False,
            status="active",
            phase="plan",
            title="t",
            updated=Millis(number),
            events=[f"e{number}"],
        )
        assert len(index._waiting) <= 3
    assert (await index.rows())[0].bytes == 19


async def test_rows_come_newest_first_and_the_last_word_counts(index: Index) -> None:
    for number in range(5):
        index.hear(row(ConversationId(f"{number:064x}"), updated=number), [])
    index.hear(row(ConversationId(f"{0:064x}"), updated=99), [])
    assert [int(found.id, 16) for found in await index.rows()] == [0, 4, 3, 2, 1]
    assert [found.updated for found in await index.rows(2)] == [99, 4]


async def test_cursors_are_kept_per_relay(index: Index, tmp_path: Path) -> None:
    assert index.cursor("wss://a") is None
    index.set_cursor("wss://a", Millis(5))
    assert index.cursor("wss://a") == 5
    await index.flush()
    index.set_cursor("wss://a", Millis(6))
    assert (index.cursor("wss://a"), index.cursor("wss://b")) == (6, None)
    await index.close()
    again = Index(tmp_path / "conversations" / "index.sqlite")
    assert again.cursor("wss://a") == 6
    await again.close()


async def test_a_start_reads_what_is_unknown_unsettled_or_of_another_length(
    index: Index, folder: ConversationFolder
) -> None:
    names = [ConversationId(digit * 64) for digit in "1234"]
    lengths = [await conversation(folder, name, digit) for name, digit in zip(names, "1234", strict=True)]
    index.hear(row(names[0], lengths[0]), ["1"])
    index.hear(row(names[1], lengths[1] - 1), ["2"])
    index.hear(row(names[2], lengths[2], settled=False), ["3"])
    assert await index.stale(folder) == names[1:]


async def test_what_is_gone_from_the_disk_is_forgotten(index: Index, folder: ConversationFolder) -> None:
    length = await conversation(folder, OTHER, "there")
    index.hear(row(OTHER, length), ["there"])
    index.hear(row(CONVERSATION_ID), ["gone"])
    await index.flush()
    index._recent.clear()
    assert await index.stale(folder) == []
    assert [found.id for found in await index.rows()] == [OTHER]
    assert (index.has_event("gone"), index.has_event("there")) == (False, True)


async def test_an_index_that_has_caught_up_knows_what_the_journals_say_and_nothing_else(
    index: Index, folder: ConversationFolder
) -> None:
    await conversation(folder, CONVERSATION_ID, "e1")
    journal, _ = await folder.open(OTHER)
    await journal.append([[started(OTHER), wrote(2, "e2"), said(3, "e3")]])
    broken = folder.path("e" * 64)
    broken.mkdir()
    (broken / "journal.jsonl").write_bytes(b"x" + (folder.path(OTHER) / "journal.jsonl").read_bytes())
    index.hear(row(ConversationId("9" * 64)), ["wrong"])
    index.set_cursor("wss://a", Millis(5))
    await index.flush()
    index._recent.clear()  # a start remembers nothing
    assert await index.catch_up(folder) == [OTHER, "e" * 64], "one goes on, one cannot be read"
    assert [(found.id, found.settled, found.bytes) for found in sorted(await index.rows(), key=lambda r: r.id)] == [
        (CONVERSATION_ID, True, (await folder.lengths())[CONVERSATION_ID]),
        (OTHER, False, journal.length),
    ]
    assert [index.conversation_of(name) for name in ("e1", "e2", "e3", OTHER)] == [CONVERSATION_ID, OTHER, OTHER, OTHER]
    assert not index.has_event("wrong")
    assert index.cursor("wss://a") == 5
    assert await index.stale(folder) == [OTHER, "e" * 64]


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_damaged_index_is_begun_anew_and_all_else_stays(folder: ConversationFolder, content: bytes) -> None:
    length = await conversation(folder, CONVERSATION_ID, "e1")
    journal = (folder.path(CONVERSATION_ID) / "journal.jsonl").read_bytes()
    path = folder.root / "index.sqlite"
    path.write_bytes(content)
    index = Index(path)
    assert await index.stale(folder) == [CONVERSATION_ID]
    assert await index.catch_up(folder) == []
    assert await index.stale(folder) == []
    assert (folder.path(CONVERSATION_ID) / "journal.jsonl").read_bytes() == journal
    assert (await folder.lengths())[CONVERSATION_ID] == length
    await index.close()


async def test_an_index_of_another_version_is_begun_anew(folder: ConversationFolder) -> None:
    path = folder.root / "index.sqlite"
    schema.connect(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 77")
        connection.execute("drop table events")
    connection.close()
    index = Index(path)
    index.hear(row(), ["e1"])
    await index.flush()
    assert index.has_event("e1")
    await index.close()


async def test_damage_while_it_runs_loses_only_the_cache(index: Index, tmp_path: Path) -> None:
    """The file is overwritten under an open index: it is replaced, and what comes after is kept."""
    index.hear(row(), ["before"])
    await index.flush()
    path = tmp_path / "conversations" / "index.sqlite"
    await index._tables.run(lambda connection: connection.execute("pragma wal_checkpoint(truncate)").fetchall())
    path.write_bytes(b"\xff" * path.stat().st_size)
    index._recent.clear()
    for number in range(5):  # the first meet the damage, the next the new file
        index.has_event("before")
        index.hear(row(updated=number), [f"after{number}"])
        await index.flush()
    index._recent.clear()
    assert index.conversation_of("after4") == CONVERSATION_ID
    assert [found.updated for found in await index.rows()] == [4]


async def test_a_write_that_fails_for_now_is_made_with_the_next(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    real = schema.write
    failures = iter([True, False])

    def write(connection: sqlite3.Connection, batch: schema.Batch) -> None:
        if next(failures, False):
            raise sqlite3.OperationalError("database or disk is full")
        real(connection, batch)

    monkeypatch.setattr(schema, "write", write)
    index.hear(row(updated=1), ["e1"])
    await index.flush()
    assert index.has_event("e1")
    index.hear(row(updated=2), ["e2"])
    await index.flush()
    index._recent.clear()
    assert (index.has_event("e1"), index.has_event("e2")) == (True, True)
    assert [found.updated for found in await index.rows()] == [2]


async def test_an_index_that_cannot_be_made_says_that_it_is_only_a_cache(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").mkdir()
    with pytest.raises(StoreError, match="It is a cache: you may delete it"):
        Index(tmp_path / "index.sqlite")


async def test_the_file_is_for_the_owner_alone(index: Index, tmp_path: Path) -> None:
    index.hear(row(), ["e1"])
    await index.flush()
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "conversations").iterdir()}
    assert found == {"index.sqlite": 0o600, "index.sqlite-shm": 0o600, "index.sqlite-wal": 0o600}


async def test_after_closing_it_hears_and_finds_nothing(tmp_path: Path) -> None:
    index = Index(tmp_path / "index.sqlite")
    await index.close()
    await index.close()
    index.hear(row(), [])
    index.set_cursor("wss://a", Millis(1))
    assert not index.has_event("e1")


async def test_a_deleted_index_learns_settled_conversations_again_before_anybody_asks(
    folder: ConversationFolder, index: Index
) -> None:
    """A reply that names only an old event of a conversation must find it, also after the cache was deleted."""
    play = Play(seven_phases, diligent)
    play.person("hello", event_id="1" * 64)
    play.settle()
    journal, _ = await folder.open(ID)
    await journal.append(play.journal)
    assert await index.catch_up(folder) == [], "it waits for the person: nothing to resume"
    assert index.conversation_of("1" * 64) == ID
    assert index.conversation_of(play.all(r.Said)[0].events[0].id) == ID
    assert await index.stale(folder) == []
    play.person("think")
    await journal.append(play.journal[-1:])
    assert await index.catch_up(folder) == [ID], "its router is wanted"
