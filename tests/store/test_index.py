"""The cache: finds, lists what a start must read, and may be deleted at any time."""

import asyncio
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import structlog

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, Millis
from tenex.core.records import Waiting
from tenex.store import index as index_module
from tenex.store import schema
from tenex.store.index import Index
from tenex.store.index_row import IndexedMessage, News, Row, news_of, summarise
from tenex.store.repository import ConversationFolder

from .kit import CONVERSATION_ID, fails, started
from .test_index_row import sent, wrote

OTHER = ConversationId("d" * 64)


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
        place="chat",
        cycle=1,
        title="t",
        started=Millis(1),
        updated=Millis(updated),
    )


def of(*events: str) -> News:
    return News(events=events)


async def conversation(folder: ConversationFolder, name: ConversationId, event_id: str) -> int:
    """A settled conversation on disk; its length."""
    journal, _ = await folder.open(name)
    await journal.append([[started(name), wrote(2, event_id), Waiting(seq=3, at=Millis(3), reason="user")]])
    await journal.close()
    return journal.length


async def test_an_event_is_found_at_once_and_after_a_restart(index: Index, tmp_path: Path) -> None:
    index.update(row(), of("e1", "e2"))
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


async def test_memory_for_events_is_bounded_by_the_file(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "REMEMBERED", 10)
    index.update(row(), of(*(f"e{number}" for number in range(50))))
    await index.flush()
    assert all(index.conversation_of(f"e{number}") == CONVERSATION_ID for number in range(50))
    assert len(index._recent) == 10


async def test_rows_come_newest_first_and_the_last_word_counts(index: Index) -> None:
    for number in range(5):
        index.update(row(ConversationId(f"{number:064x}"), updated=number), News())
    index.update(row(ConversationId(f"{0:064x}"), updated=99), News())
    assert [int(found.id, 16) for found in await index.rows()] == [0, 4, 3, 2, 1]
    assert [found.updated for found in await index.rows(limit=2)] == [99, 4]


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


async def test_a_start_reads_what_is_unknown_unsettled_or_changed(index: Index, folder: ConversationFolder) -> None:
    names = [ConversationId(digit * 64) for digit in "1234"]
    lengths = [await conversation(folder, name, digit) for name, digit in zip(names, "1234", strict=True)]
    index.update(row(names[0], lengths[0]), of("1"))
    index.update(row(names[1], lengths[1] - 1), of("2"))
    index.update(row(names[2], lengths[2], settled=False), of("3"))
    assert await index.stale(folder) == names[1:]


async def test_what_is_gone_from_the_disk_is_forgotten(index: Index, folder: ConversationFolder) -> None:
    length = await conversation(folder, OTHER, "there")
    index.update(row(OTHER, length), of("there"))
    index.update(row(CONVERSATION_ID), of("gone"))
    await index.flush()
    index._recent.clear()
    assert await index.stale(folder) == []
    assert [found.id for found in await index.rows()] == [OTHER]
    assert (index.has_event("gone"), index.has_event("there")) == (False, True)


async def test_after_catching_up_it_knows_what_the_journals_hold(index: Index, folder: ConversationFolder) -> None:
    await conversation(folder, CONVERSATION_ID, "e1")
    journal, _ = await folder.open(OTHER)
    await journal.append([[started(OTHER), wrote(2, "e2"), sent(3, "e3")]])
    broken = folder.path("e" * 64)
    broken.mkdir()
    (broken / "journal.jsonl").write_bytes(b"x" + (folder.path(OTHER) / "journal.jsonl").read_bytes())
    index.update(row(ConversationId("9" * 64)), of("wrong"))
    index.set_cursor("wss://a", Millis(5))
    await index.flush()
    index._recent.clear()  # a start remembers nothing
    assert await index.catch_up(folder) == [OTHER, "e" * 64], "one goes on, one cannot be read"
    assert [(found.id, found.settled, found.bytes) for found in sorted(await index.rows(), key=lambda r: r.id)] == [
        (CONVERSATION_ID, True, (await folder.lengths())[CONVERSATION_ID]),
        (OTHER, False, journal.length),
    ]
    assert [index.conversation_of(name) for name in ("e1", "e2", "e3")] == [CONVERSATION_ID, OTHER, OTHER]
    assert not index.has_event("wrong")
    assert not index.has_event(OTHER), "a reply began it: the event it is named after has not been received"
    assert index.cursor("wss://a") == 5
    assert await index.stale(folder) == [OTHER, "e" * 64]


async def settles(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def indexed_texts(index: Index) -> list[str]:
    """The texts the file holds."""
    connection = sqlite3.connect(index._tables.path)
    try:
        return [text for (text,) in connection.execute("select text from words order by rowid")]
    finally:
        connection.close()


@pytest.mark.parametrize("lost", ["damaged", "removed", "replaced"])
async def test_an_index_lost_while_it_runs_is_rebuilt(index: Index, folder: ConversationFolder, lost: str) -> None:
    """Also what was settled long ago is known again, without a restart; and what happens meanwhile is not forgotten."""
    await conversation(folder, CONVERSATION_ID, "old")
    await conversation(folder, OTHER, "other")
    await index.catch_up(folder)
    await index.flush()
    path = folder.root / "index.sqlite"
    if lost == "damaged":
        await index._tables.run(lambda connection: connection.execute("pragma wal_checkpoint(truncate)").fetchall())
        path.write_bytes(b"\xff" * path.stat().st_size)
    else:
        path.unlink()
    if lost == "replaced":
        sqlite3.connect(path).close()
        path.write_bytes(b"")
    journal, records = await folder.open(OTHER)
    more = wrote(len(records) + 1, "new")
    await journal.append([[more]])
    index.update(summarise(fold(OTHER, [*records, more]), journal.length), news_of([more]))
    await index.flush()
    index._recent.clear()
    await settles(lambda: index.conversation_of("old") == CONVERSATION_ID)
    await settles(lambda: index._rebuilding is None)
    await index.flush()
    index._recent.clear()
    assert [index.conversation_of(event) for event in ("old", "other", "new")] == [CONVERSATION_ID, OTHER, OTHER]
    assert sorted(indexed_texts(index)) == ["a title", "a title", "hello", "hello", "hello"]
    assert await index.stale(folder) == [OTHER], "its router is wanted"
    await folder.close()


async def test_an_index_is_rebuilt_later(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without free descriptors: what it does not know would stay unknown until the next start."""
    monkeypatch.setattr("tenex.store.sqlite.RENEW_EVERY", 0.01)
    await conversation(folder, CONVERSATION_ID, "old")
    await index.catch_up(folder)
    await index.flush()
    faults = [OSError(24, "Too many open files")] * 3
    real = os.listdir

    def listed(path: str) -> list[str]:
        if faults:
            raise faults.pop()
        return real(path)

    monkeypatch.setattr(os, "listdir", listed)
    (folder.root / "index.sqlite").unlink()
    index.set_cursor("ws://relay", Millis(1))
    await index.flush()
    index._recent.clear()
    await settles(lambda: index.conversation_of("old") == CONVERSATION_ID)
    assert not faults


async def test_a_record_during_a_rebuild_is_kept(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on between the reading of its journal and the noting of what was read."""
    await conversation(folder, OTHER, "other")
    await index.catch_up(folder)
    await index.flush()
    journal, records = await folder.open(OTHER)
    more = wrote(len(records) + 1, "new")
    look = folder._look
    reads = 0

    async def read(path: Path, work: Callable[[], Any]) -> Any:
        nonlocal reads
        reads += 1
        found = await look(path, work)
        if reads == 1:
            await journal.append([[more]])
            index.update(summarise(fold(OTHER, [*records, more]), journal.length), news_of([more]))
        return found

    monkeypatch.setattr(folder, "_look", read)
    (folder.root / "index.sqlite").unlink()
    index.set_cursor("wss://a", Millis(1))
    await index.flush()
    await settles(lambda: reads > 0 and index._rebuilding is None)
    await index.flush()
    index._recent.clear()
    assert index.conversation_of("new") == OTHER
    assert reads == 2
    assert indexed_texts(index) == ["a title", "hello", "hello"]
    await folder.close()


async def test_events_an_older_journal_does_not_hold_are_forgotten(index: Index, folder: ConversationFolder) -> None:
    """An event that no journal holds must not count as received: it would never be answered."""
    journal, _ = await folder.open(OTHER)
    await journal.append([[started(OTHER), wrote(2, "kept"), Waiting(seq=3, at=Millis(3), reason="user")]])
    old = (folder.path(OTHER) / "journal.jsonl").read_bytes()
    await journal.append([[wrote(4, "lost"), Waiting(seq=5, at=Millis(5), reason="user")]])
    await folder.close()
    await index.catch_up(folder)
    await index.flush()
    assert index.has_event("lost")
    (folder.path(OTHER) / "journal.jsonl").write_bytes(old)
    index._recent.clear()  # a start remembers nothing
    await index.catch_up(folder)
    await index.flush()
    index._recent.clear()
    assert (index.has_event("kept"), index.has_event("lost")) == (True, False)
    assert indexed_texts(index) == ["a title", "hello"]


async def test_what_is_unfinished_is_not_read(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = await conversation(folder, OTHER, "other")
    index.update(row(OTHER, length, settled=False), of("other"))

    async def read(path: Path, work: Callable[[], Any]) -> Any:
        raise AssertionError("nothing is new in it")

    monkeypatch.setattr(folder, "_look", read)
    assert await index.catch_up(folder) == [OTHER]


async def test_who_asks_is_shown_what_has_to_be_read(index: Index, folder: ConversationFolder) -> None:
    await conversation(folder, CONVERSATION_ID, "one")
    await conversation(folder, OTHER, "two")
    seen: list[ConversationId] = []

    def shown(names: Sequence[ConversationId]) -> Iterator[ConversationId]:
        for name in names:
            seen.append(name)
            yield name

    await index.catch_up(folder, shown)
    assert seen == sorted([CONVERSATION_ID, OTHER])
    await index.catch_up(folder, shown)
    assert len(seen) == 2


async def test_news_gather_before_they_are_written(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of appends is a few writes, and `flush` waits for none of the pause."""
    monkeypatch.setattr(index_module, "PAUSE", 3600.0)
    batches: list[int] = []
    real = schema.write

    def write(connection: sqlite3.Connection, batch: schema.Batch) -> None:
        batches.append(len(batch))
        real(connection, batch)

    monkeypatch.setattr(schema, "write", write)
    for number in range(100):
        index.update(row(updated=number), of(f"e{number}"))
        await asyncio.sleep(0)
    assert index.has_event("e50")
    await index.flush()
    assert batches == [101], "a hundred events and the last row"


async def test_memory_is_bounded_on_a_full_disk(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MESSAGES_MOST", 10)
    monkeypatch.setattr(index_module, "PAUSE", 0.0)
    length = await conversation(folder, OTHER, "other")
    real = schema.write

    def full(connection: sqlite3.Connection, batch: schema.Batch) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(schema, "write", full)
    for seq in range(2, 40):
        message = IndexedMessage(seq=seq, at=Millis(1), name="Ana", text=f"number {seq}")
        index.update(row(OTHER, length), News(events=(f"e{seq}",), messages=(message,)))
        await index.flush()
        assert len(index._waiting.messages) <= 11
    monkeypatch.setattr(schema, "write", real)
    index.update(row(OTHER, length), of("last"))
    await index.flush()
    assert index.has_event("e20")
    assert await index.stale(folder) == [OTHER], "its row is marked as known in part"
    await index.catch_up(folder)
    await index.flush()
    assert indexed_texts(index) == ["a title", "hello"]
    assert await index.stale(folder) == []


async def test_a_lock_of_another_process_is_waited_for_in_a_thread(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits on the loop, nothing is thrown away, and what could not be written is written later."""
    index.update(row(updated=1), of("before"))
    await index.flush()
    await index._tables.run(lambda connection: connection.execute("pragma busy_timeout = 1").fetchone())
    other = sqlite3.connect(index._tables.path, isolation_level=None)
    other.execute("begin immediate")
    index.update(row(updated=2), of("during"))
    await index.flush()
    index._recent.clear()
    assert (index.has_event("before"), index.has_event("during")) == (True, True)
    other.execute("rollback")
    other.close()
    index.update(row(updated=3), of("after"))
    await index.flush()
    index._recent.clear()
    assert all(index.has_event(event) for event in ("before", "during", "after"))


@pytest.mark.parametrize(
    ("harm", "repair"),
    [
        ("pragma max_page_count = 1", "pragma max_page_count = 1073741823"),  # the words of a full disk
        ("pragma query_only = 1", "pragma query_only = 0"),  # those of a file that may only be read
    ],
)
async def test_what_a_disk_does_not_take_is_written_when_it_does(index: Index, harm: str, repair: str) -> None:
    index.update(row(updated=1), of("before"))
    await index.flush()
    await index._tables.run(lambda connection: connection.execute(harm).fetchall())
    more = [IndexedMessage(seq=seq, at=Millis(1), name="Ana", text=f"{seq} " + "x" * 5000) for seq in range(2, 40)]
    for message in more:
        index.update(row(updated=message.seq), News(events=(f"e{message.seq}",), messages=(message,)))
    await index.flush()
    assert indexed_texts(index) == []
    assert index.has_event("e30")
    await index._tables.run(lambda connection: connection.execute(repair).fetchall())
    index.update(row(updated=99), of("after"))
    await index.flush()
    index._recent.clear()
    assert all(index.has_event(event) for event in ("before", "e2", "e39", "after"))
    assert len(indexed_texts(index)) == len(more)


def cut(kept: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * kept if kept < 1 else kept))


def overwritten(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def changed(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    return change


HARMS: dict[str, Callable[[Path], object]] = {
    **{f"cut at {kept}": cut(kept) for kept in (0, 1, 100, 4096, 5000, 0.5)},
    "not a database": overwritten(b"no database at all" * 100),
    "only a header": overwritten(b"SQLite format 3\0" + b"\xff" * 5000),
    **{
        statement: changed(statement)
        for statement in (
            "drop table words",
            "drop table messages",
            "alter table conversations drop column cycle",
            "alter table events rename to others",
            "pragma user_version = 1",
            "pragma user_version = 99",
        )
    },
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_an_unusable_index_is_rebuilt(folder: ConversationFolder, harm: Callable[[Path], object]) -> None:
    await conversation(folder, CONVERSATION_ID, "e1")
    journal = (folder.path(CONVERSATION_ID) / "journal.jsonl").read_bytes()
    path = folder.root / "index.sqlite"
    first = Index(path)
    await first.catch_up(folder)
    await first.close()
    harm(path)
    index = Index(path)
    assert await index.catch_up(folder) == []
    await settles(lambda: index._rebuilding is None)
    assert await index.catch_up(folder) == []
    await index.flush()
    index._recent.clear()
    assert index.conversation_of("e1") == CONVERSATION_ID
    assert indexed_texts(index) == ["a title", "hello"]
    assert (folder.path(CONVERSATION_ID) / "journal.jsonl").read_bytes() == journal
    await index.close()


async def test_without_an_index_all_works_until_one_is_made(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file has its name, or the disk is full: only finding by event waits, and no other conversation."""
    monkeypatch.setattr("tenex.store.sqlite.RENEW_EVERY", 0.2)
    path = folder.root / "index.sqlite"
    path.mkdir(parents=True)
    with structlog.testing.capture_logs() as logs:
        index = Index(path)
        try:
            await conversation(folder, OTHER, "old")
            assert await index.stale(folder) == [OTHER]
            assert await index.catch_up(folder) == []
            assert index.has_event("old")
            assert not index.has_event("unknown")
            for number in range(20):
                index.update(row(updated=number), of(f"e{number}"))
                await index.flush()
            assert await index.rows() == []
            path.rmdir()
            await settles(lambda: any(log["event"] == "index.renewed" for log in logs))
            await settles(lambda: index._flush is None and index._rebuilding is None)
            index._recent.clear()
            assert all(index.has_event(event) for event in ("old", *(f"e{number}" for number in range(20))))
            assert len(await index.rows()) == 2
        finally:
            await index.close()
    warnings = [(log["event"], log["why"]) for log in logs if log["log_level"] == "warning"]
    assert len(warnings) == len(set(warnings)) > 0
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["index.absent"]


async def test_an_index_that_cannot_be_opened_for_now_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor was free at the start: the file is whole, and is used as soon as it can be opened."""
    path = tmp_path / "index.sqlite"
    index = Index(path)
    index.update(row(updated=1), of("e1"))
    await index.close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "connect", fails(errno.EMFILE))
        index = Index(path)
    monkeypatch.setattr("tenex.store.sqlite.RENEW_EVERY", 0.0)
    await settles(lambda: index.has_event("e1"))
    await index.close()


async def test_the_file_is_for_the_owner_alone(index: Index, tmp_path: Path) -> None:
    index.update(row(), of("e1"))
    await index.flush()
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "conversations").iterdir()}
    assert found == {"index.sqlite": 0o600, "index.sqlite-shm": 0o600, "index.sqlite-wal": 0o600}


async def test_after_closing_it_takes_and_finds_nothing(tmp_path: Path) -> None:
    index = Index(tmp_path / "index.sqlite")
    await index.close()
    await index.close()
    index.update(row(), News())
    index.set_cursor("wss://a", Millis(1))
    assert not index.has_event("e1")


async def test_closing_ends_a_rebuild(folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    await conversation(folder, CONVERSATION_ID, "old")
    index = Index(folder.root / "index.sqlite")
    await index.catch_up(folder)
    await index.flush()
    monkeypatch.setattr(folder, "lengths", asyncio.Event().wait)
    (folder.root / "index.sqlite").unlink()
    index.set_cursor("wss://a", Millis(1))
    await index.flush()
    await settles(lambda: index._rebuilding is not None)
    await index.close()
    assert index._rebuilding is None
