"""The cache: finds, lists what a start must read, and may be deleted at any time."""

import asyncio
import errno
import itertools
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import structlog

from tenex.core.config import Role
from tenex.core.conversation import fold, new_conversation
from tenex.core.cycle.records import PhaseTransition
from tenex.core.delivery.records import MessageSent
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.inbox.records import CommandGiven
from tenex.core.people.trust import chat_of
from tenex.core.phases import Phase
from tenex.core.port_values import Passage
from tenex.core.ports import UnsignedEvent
from tenex.core.records import ConversationImported, JournalRebuilt, Record, RunStarted
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.records import TurnOpened
from tenex.store import index as index_module
from tenex.store import schema
from tenex.store.index import Index, gather
from tenex.store.index_row import Known, News, news_of, summarise
from tenex.store.repository import ConversationFolder
from tenex.store.schema import UNKNOWN_LENGTH
from tests.fakes.scenario import Scenario
from tests.kits.damage import harm

from .kit import CONVERSATION_ID, Seen, asked, fails, kind_of_conversation, row, started, stored, waits, wrote

OTHER = ConversationId("d" * 64)


@pytest.fixture
async def index(folder: ConversationFolder) -> AsyncIterator[Index]:
    index = Index(folder.root / "index.sqlite")
    yield index
    await index.close()


def of(*events: str) -> News:
    return News(events=events)


async def conversation(folder: ConversationFolder, name: ConversationId, event_id: str) -> int:
    """A settled conversation on disk; its length."""
    return await stored(folder, name, started(name), wrote(2, event_id), waits(3))


async def written(index: Index) -> Index:
    """The same, which remembers nothing that is not in its file."""
    await index.flush()
    index._recent.clear()
    return index


async def test_events_and_cursors_are_found_at_once_and_after_a_restart(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "REMEMBERED", 10)
    monkeypatch.setattr(index_module, "PAUSE", 3600.0)  # `flush` does not wait for it
    index.update(row(), of(*(f"e{number}" for number in range(50))))
    index.set_cursor("wss://a", Millis(5))
    assert index.cursor("wss://a") == 5
    assert index.conversation_of("e1") == CONVERSATION_ID
    await index.flush()
    assert len(index._recent) == 10
    index.set_cursor("wss://a", Millis(6))
    assert (index.cursor("wss://a"), index.cursor("wss://b")) == (6, None)
    await index.close()
    assert {path.name: kind_of_conversation(path) for path in folder.root.iterdir()} == {"index.sqlite": 0o600}
    again = Index(folder.root / "index.sqlite")
    assert again.cursor("wss://a") == 6
    assert all(again.conversation_of(f"e{number}") == CONVERSATION_ID for number in range(50))
    assert not again.has_event("e50")
    assert {kind_of_conversation(path) for path in folder.root.iterdir()} == {0o600}
    await again.close()


async def test_after_catching_up_it_knows_what_the_journals_hold(index: Index, folder: ConversationFolder) -> None:
    """A start reads what is unknown, unsettled or changed, and forgets what is gone."""
    length = await conversation(folder, CONVERSATION_ID, "e1")
    index.update(row(CONVERSATION_ID, bytes=length - 1), of("e0"))
    unsettled = await stored(folder, OTHER, started(OTHER), wrote(2, "e2"))
    broken = folder.path("e" * 64)
    broken.mkdir()
    (broken / "journal.jsonl").write_bytes(b"x" + (folder.path(OTHER) / "journal.jsonl").read_bytes())
    index.update(row(ConversationId("9" * 64)), of("wrong"))
    await written(index)
    seen, unfinished = Seen(), [OTHER, ConversationId("e" * 64)]
    assert await index.catch_up(folder, seen) == unfinished
    assert seen == [CONVERSATION_ID, *unfinished]
    assert [(found.id, found.settled, found.bytes) for found in sorted(await index.rows(), key=lambda r: r.id)] == [
        (CONVERSATION_ID, True, length),
        (OTHER, False, unsettled),
    ]
    assert [index.conversation_of(name) for name in ("e1", "e2", "wrong")] == [CONVERSATION_ID, OTHER, None]
    assert not index.has_event(OTHER), "a reply began it: the event it is named after has not been received"
    (broken / "journal.jsonl").unlink()
    seen.clear()
    assert await index.catch_up(folder, seen) == [OTHER]
    assert seen == [], "what is only unfinished need not be read"
    shutil.rmtree(folder.path(OTHER))
    assert await index.catch_up(folder) == []
    assert [found.id for found in await index.rows()] == [CONVERSATION_ID]


async def settles(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def indexed_texts(index: Index) -> list[str]:
    """The texts the file holds."""
    with closing(sqlite3.connect(index._tables.path)) as connection:
        return sorted(text for (text,) in connection.execute("select text from words"))


@pytest.fixture
async def caught_up(index: Index, folder: ConversationFolder) -> Index:
    """It knows two conversations on disk."""
    await conversation(folder, CONVERSATION_ID, "old")
    await conversation(folder, OTHER, "other")
    await index.catch_up(folder)
    return await written(index)


@pytest.mark.parametrize("lost", ["damaged", "removed", "replaced", "removed without free descriptors"])
async def test_an_index_lost_while_it_runs_is_rebuilt(
    caught_up: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Also what was settled long ago is known again, without a restart; and what happens meanwhile is not forgotten."""
    index, path, faults = caught_up, folder.root / "index.sqlite", list[OSError]()
    if lost == "damaged":
        await index._tables.run(lambda connection: connection.execute("pragma wal_snapshot(truncate)").fetchall())
        path.write_bytes(b"\xff" * path.stat().st_size)
    else:
        path.unlink()
    if lost == "replaced":
        sqlite3.connect(path).close()
        path.write_bytes(b"")
    journal, records = await folder.open(OTHER)
    if "descriptors" in lost:
        monkeypatch.setattr("tenex.store.sqlite.RENEW_EVERY", 0.01)
        faults, real = [OSError(24, "Too many open files")] * 3, os.listdir

        def listed(path: str) -> list[str]:
            if faults:
                raise faults.pop()
            return real(path)

        monkeypatch.setattr(os, "listdir", listed)
    more = wrote(len(records) + 1, "new")
    await journal.append([[more]])
    index.update(summarise(fold(OTHER, [*records, more]), journal.length), news_of([more]))
    await written(index)
    await settles(lambda: index.conversation_of("old") == CONVERSATION_ID)  # asking meets the damage
    await settles(lambda: index.is_whole)
    assert not faults
    await written(index)
    assert [index.conversation_of(event) for event in ("old", "other", "new")] == [CONVERSATION_ID, OTHER, OTHER]
    assert indexed_texts(index) == ["a title", "a title", "hello", "hello", "hello"]
    seen = Seen()
    assert await index.catch_up(folder, seen) == [OTHER]
    assert seen == []


@pytest.mark.parametrize("when", ["before it is read", "after it was read"])
async def test_a_record_during_a_rebuild_is_kept(
    caught_up: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    index = caught_up
    journal, records = await folder.open(OTHER)
    more = wrote(len(records) + 1, "new")
    look, reads = folder.read_left, list[str]()

    async def read(conversation: ConversationId, since: int = 0) -> Any:
        reads.append(conversation)
        if when.startswith("after"):
            found = await look(conversation, since)
        if reads.count(OTHER) == 1 and reads[-1] == OTHER:
            await journal.append([[more]])
            index.update(summarise(fold(OTHER, [*records, more]), journal.length), news_of([more]))
        return found if when.startswith("after") else await look(conversation, since)

    monkeypatch.setattr(folder, "read_left", read)
    (folder.root / "index.sqlite").unlink()
    index.set_cursor("wss://a", Millis(1))
    await index.flush()
    await settles(lambda: len(reads) > 0 and index.is_whole)
    await written(index)
    assert index.conversation_of("new") == OTHER
    assert sorted(reads) == [CONVERSATION_ID, OTHER, *[OTHER] * when.startswith("after")]
    assert indexed_texts(index) == ["a title", "a title", "hello", "hello", "hello"]
    seen = Seen()
    await index.catch_up(folder, seen)
    assert seen == [], "the index knows how long each journal is"


async def test_events_an_older_journal_does_not_hold_are_forgotten(
    caught_up: Index, folder: ConversationFolder
) -> None:
    """An event that no journal holds must not count as received: it would never be answered."""
    index, path = caught_up, folder.path(OTHER) / "journal.jsonl"
    old = path.read_bytes()
    await stored(folder, OTHER, wrote(4, "lost"), waits(5))
    for content, is_known in ((path.read_bytes(), True), (old, False)):
        path.write_bytes(content)
        await index.catch_up(folder)
        await written(index)
        assert (index.has_event("other"), index.has_event("lost")) == (True, is_known)
    assert indexed_texts(index) == ["a title", "a title", "hello", "hello"]


async def test_memory_is_bounded_on_a_full_disk(
    index: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MESSAGES_MOST", 10)
    monkeypatch.setattr(index_module, "PAUSE", 0.0)
    length = await conversation(folder, OTHER, "other")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "write", Mock(side_effect=sqlite3.OperationalError("database or disk is full")))
        for seq in range(2, 40):
            message = Passage(seq=seq, at=Millis(1), name="Ana", text=f"number {seq}")
            index.update(row(OTHER, bytes=length), News(events=(f"e{seq}",), messages=(message,)))
            await index.flush()
            assert len(index._waiting.messages) <= 11
    index.update(row(OTHER, bytes=length), of("last"))
    await index.flush()
    assert index.has_event("e20")
    seen = Seen()
    for _ in range(2):
        await index.catch_up(folder, seen)
    assert seen == [OTHER], "its row is marked as known in part, until it is read"
    assert indexed_texts(index) == ["a title", "hello"]


@pytest.mark.parametrize(
    ("harmful", "repair"),
    [
        ("pragma max_page_count = 1", "pragma max_page_count = 1073741823"),  # a full disk
        ("pragma query_only = 1", "pragma query_only = 0"),  # a file that may only be read
    ],
)
async def test_what_a_disk_does_not_take_is_written_when_it_does(index: Index, harmful: str, repair: str) -> None:
    """Also a write that another process delays by one of its own."""
    index.update(row(), of("before"))
    await index.flush()
    with closing(sqlite3.connect(index._tables.path, isolation_level=None)) as other:
        other.execute("begin immediate")
        await index._tables.run(lambda connection: connection.execute("pragma busy_timeout = 1").fetchall())
        await index._tables.run(lambda connection: connection.execute(harmful).fetchall())
        for seq in range(2, 40):
            message = Passage(seq=seq, at=Millis(1), name="Ana", text=f"{seq} " + "x" * 5000)
            index.update(row(updated=Millis(seq)), News(events=(f"e{seq}",), messages=(message,)))
        await index.flush()
        other.execute("rollback")
        index.update(row(), of("after"))
        await index.flush()
    assert indexed_texts(index) == []
    assert index.has_event("e30")
    await index._tables.run(lambda connection: connection.execute(repair).fetchall())
    index.update(row(), of("after"))
    await written(index)
    assert all(index.has_event(event) for event in ("before", "e2", "e39", "after"))
    assert len(indexed_texts(index)) == 38


@pytest.mark.parametrize(
    "how",
    [
        0,
        4096,
        b"SQLite format 3\0" + b"\xff" * 5000,
        "drop table words",
        "alter table conversations drop column cycle",
        "pragma user_version = 99",
    ],
)
async def test_an_unusable_index_is_rebuilt(folder: ConversationFolder, how: int | bytes | str) -> None:
    await conversation(folder, CONVERSATION_ID, "e1")
    path = folder.root / "index.sqlite"
    first = Index(path)
    await first.catch_up(folder)
    await first.close()
    harm(path, how)
    index = Index(path)
    assert await index.catch_up(folder) == []
    await settles(lambda: index._rebuilding is None)
    assert await index.catch_up(folder) == []
    await written(index)
    assert index.conversation_of("e1") == CONVERSATION_ID
    assert indexed_texts(index) == ["a title", "hello"]
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
            assert await index.catch_up(folder) == []
            assert index.has_event("old")
            assert not index.has_event("unknown")
            for number in range(20):
                index.update(row(updated=Millis(number)), of(f"e{number}"))
                await index.flush()
            assert await index.rows() == []
            await settles(lambda: any(log["event"] == "index.not_renewed" for log in logs))
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
    index.update(row(), of("e1"))
    await index.close()
    index.update(row(), News())
    index.set_cursor("wss://a", Millis(1))
    index._recent.clear()
    assert not index.has_event("e1"), "nothing is taken or found after the end"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "connect", fails(errno.EMFILE))
        index = Index(path)
    monkeypatch.setattr("tenex.store.sqlite.RENEW_EVERY", 0.0)
    await settles(lambda: index.has_event("e1"))
    await index.close()


async def test_closing_ends_a_rebuild(
    caught_up: Index, folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = caught_up
    monkeypatch.setattr(folder, "lengths", asyncio.Event().wait)
    (folder.root / "index.sqlite").unlink()
    index.set_cursor("wss://a", Millis(1))
    await index.flush()
    await settles(lambda: index._rebuilding is not None)
    for _ in range(2):
        await index.close()
    assert index._rebuilding is None


# ---- what is read for it ------------------------------------------------------------------------------------------


async def test_of_what_is_known_only_the_new_is_taken(folder: ConversationFolder) -> None:
    row = (await gather(folder, CONVERSATION_ID, await conversation(folder, CONVERSATION_ID, "e2"))).row
    known = Known(bytes=row.bytes, seq=row.seq, settled=row.settled, updated=row.updated)
    journal, records = await folder.open(CONVERSATION_ID)
    await journal.rotate(StateSnapshot.of(fold(CONVERSATION_ID, records)))
    assert journal.length > known.bytes, "a new file makes a journal longer without a record"
    found = await gather(folder, CONVERSATION_ID, journal.length, known)
    assert (found.is_complete, found.news.events, found.row.seq, found.row.settled) == (False, (), 3, True)
    length = await stored(folder, CONVERSATION_ID, wrote(4, "e4"), waits(5))
    found, whole = [await gather(folder, CONVERSATION_ID, length, before) for before in (known, None)]
    assert (found.is_complete, found.news.events) == (False, ("e4",))
    assert found.row == whole.row
    assert (whole.is_complete, whole.row.seq, whole.row.bytes) == (True, 5, length)
    assert whole.news.events == ("e2", "e4")
    for other in (
        replace(known, bytes=length + 1),
        replace(known, bytes=UNKNOWN_LENGTH),
        replace(known, updated=Millis(9)),
    ):
        found = await gather(folder, CONVERSATION_ID, length, other)
        assert (found.is_complete, found.news) == (True, whole.news), "another journal had its place"


# ---- what is kept of a conversation ---------------------------------------------------------------------------------


KEY = PublicKey("a" * 64)


def sent(seq: int, *ids: str) -> MessageSent:
    return MessageSent(
        seq=seq,
        at=Millis(seq),
        speaker=KEY,
        name="A",
        text="hi",
        purpose="notice",
        phase=Phase.CHAT,
        events=tuple(
            UnsignedEvent(id=EventId(name), pubkey=KEY, created_at=1, kind=1, tags=(), content="hi") for name in ids
        ),
        relays=("ws://127.0.0.1:1",),
    )


def test_a_conversation_is_settled_where_it_waits_and_nothing_is_in_flight() -> None:
    before = [started(), wrote(2, "1")]
    settled = summarise(fold(CONVERSATION_ID, [*before, waits(3)]), 321)
    assert settled == row(bytes=321, cycle=0, title="a title", started=Millis(1), updated=Millis(3))
    assert not summarise(fold(CONVERSATION_ID, [*before, waits(3), sent(4, "2")]), 1).settled
    assert not summarise(fold(CONVERSATION_ID, [*before, asked(3)]), 1).settled


def test_texts_and_the_title_are_messages_and_events_and_users_are_named_but_not_the_conversations_own_id() -> None:
    announced = replace(sent(5, "5", "6"), purpose="announcement")
    member, guest = PublicKey("c" * 64), PublicKey("b" * 64)
    command = CommandGiven(
        seq=4,
        at=Millis(4),
        event_id=EventId("4"),
        author=member,
        name="Cem",
        role=Role.MEMBER,
        command="skip",
        argument="chores",
        created_at=1,
    )
    last = wrote(6, "7", author=guest, role=Role.GUEST, text="bye")
    news = news_of([started(), wrote(2, "2"), sent(3, "3"), command, announced, last])
    assert [(message.seq, message.name, message.text) for message in news.messages] == [
        (1, "", "a title"),
        (2, "Ana", "hello"),
        (3, "A", "hi"),
        (4, "Cem", "/skip chores"),
        (6, "Ana", "bye"),
    ]
    assert news.events == ("2", "3", "4", "5", "6", "7")
    assert news.people == ((Role.OWNER, KEY), (Role.MEMBER, member), (Role.GUEST, guest))


def test_who_worked_or_was_addressed_is_named_by_slug_and_key_and_every_phase_once(scenario: Scenario) -> None:
    records = scenario.records()
    worked = {agent for record in records if isinstance(record, TurnOpened) for agent in record.agents}
    keys = {record.pubkey for record in records if isinstance(record, RunStarted)}
    news = news_of([*records, wrote(len(records) + 1, "9", addressed=(Slug("security"),))])
    assert sorted(news.agents) == sorted({*worked, *keys, "security"})
    entered = [record.to for record in records if isinstance(record, PhaseTransition)]
    assert news.phases == tuple(dict.fromkeys([Phase.CHAT, *entered]))
    assert set(news.phases) == set(Phase)


def test_a_fork_a_rollback_and_a_rebuild_name_what_they_restore_but_no_user_of_the_other_conversation() -> None:
    state = fold(CONVERSATION_ID, [started(), wrote(2, "2")])
    state.cycle = replace(state.cycle, phase=Phase.PLAN, participants=(Slug("planner"),))
    later = replace(state, cycle=replace(state.cycle, phase=Phase.CHORES))
    fork = ConversationForked(
        seq=1, at=Millis(1), id=CONVERSATION_ID, origin=CONVERSATION_ID, at_seq=1, title="Fork of it", state=state
    )
    back = RolledBack(seq=2, at=Millis(2), to=1, by="Ana", reason="", state=later)
    rebuilt = JournalRebuilt(seq=3, at=Millis(3), source="relay", known_events=(EventId("9"),))
    assert news_of([fork, back, rebuilt]) == News(
        events=("9",),
        messages=(Passage(seq=1, at=Millis(1), name="", text="Fork of it"),),
        agents=("planner",),
        phases=(Phase.PLAN, Phase.CHORES),
        rollbacks=((2, 1),),
    )


# ---- several journals that claim one event -------------------------------------------------------------------------

MINE, THEIRS, COPY = (ConversationId(letter * 64) for letter in "5fa")


def closes(seq: int) -> ConversationImported:
    return ConversationImported(seq=seq, at=Millis(seq))


CLAIMING: dict[ConversationId, list[Record]] = {
    MINE: [replace(started(MINE), at=Millis(5)), wrote(2, "reply"), sent(3, "answer"), waits(4)],
    # the same events in a journal that says it is older, and was imported
    THEIRS: [
        replace(started(THEIRS), at=Millis(1)),
        wrote(2, "reply"),
        sent(3, "answer"),
        wrote(4, "own"),
        closes(5),
        wrote(6, "later"),
        waits(7),
    ],
    # and in a copy that was begun here, later
    COPY: [replace(started(COPY), at=Millis(9)), wrote(2, "reply"), waits(3)],
}


@pytest.mark.parametrize("order", list(itertools.permutations(CLAIMING)))
@pytest.mark.parametrize("flushes", [True, False])
async def test_an_event_belongs_to_the_conversation_that_had_it_first_in_whatever_order_journals_are_read(
    folder: ConversationFolder, order: tuple[ConversationId, ...], *, flushes: bool
) -> None:
    """An index that has grown, one that is built from the journals, and a command's agree."""

    async def found(index: Index) -> list[ConversationId | None]:
        events = ("reply", "answer", "own", "later")
        return [index.conversation_of(event) for event in events] + [index.imported(event) for event in events]

    expected = [MINE, MINE, None, THEIRS, THEIRS, THEIRS, THEIRS, None]
    grown = Index(folder.root / "index.sqlite")
    for name in order:
        length = await stored(folder, name, *CLAIMING[name])
        state = fold(name, CLAIMING[name])
        grown.update(summarise(state, length), news_of(CLAIMING[name]))
        if flushes:
            await grown.flush()
    assert await found(grown) == expected
    await written(grown)
    assert await found(grown) == expected
    await grown.close()
    again = Index(folder.root / "index.sqlite")
    assert await found(again) == expected
    await again.close()
    schema.remove(folder.root / "index.sqlite")

    rebuilt = Index(folder.root / "index.sqlite")
    with structlog.testing.capture_logs() as logs:
        await rebuilt.catch_up(folder)
    assert await found(await written(rebuilt)) == expected
    claims = {
        (log["conversation"], log["other"], log["events"]) for log in logs if log["event"] == "events.claimed_twice"
    }
    assert claims == {(THEIRS, MINE, 2), (COPY, MINE, 1), (THEIRS, COPY, 1)}
    shutil.rmtree(folder.path(MINE))
    await rebuilt.catch_up(folder)
    assert (await found(await written(rebuilt)))[:2] == [COPY, None], "the next one has it when the first is gone"
    await rebuilt.close()


async def test_a_conversation_whose_import_is_recorded_later_gives_its_events_up(
    index: Index, folder: ConversationFolder
) -> None:
    """A folder that was copied by hand is known as foreign when it is read, or when it is opened."""
    length = await stored(folder, THEIRS, started(THEIRS), wrote(2, "reply"), waits(3))
    await index.catch_up(folder)
    assert (await written(index)).conversation_of("reply") == THEIRS
    records = [started(THEIRS), wrote(2, "reply"), waits(3), closes(4)]
    index.update(summarise(fold(THEIRS, records), length), news_of(records[3:]))
    assert index.conversation_of("reply") is None
    await written(index)
    assert (index.conversation_of("reply"), index.imported(THEIRS), index.imported("reply")) == (None, THEIRS, THEIRS)
    foreign = Index(folder.root / "another.sqlite", lambda records: True)
    await foreign.catch_up(folder)
    assert (foreign.conversation_of("reply"), foreign.imported(THEIRS)) == (None, THEIRS)
    await foreign.close()


async def test_a_rollback_hides_what_it_undoes_and_one_back_into_it_shows_that_again(
    index: Index, folder: ConversationFolder
) -> None:
    """As the state has it: of the records that count, also where the index learns of each rollback by itself."""

    def back(seq: int, to: int) -> RolledBack:
        return RolledBack(seq=seq, at=Millis(seq), to=to, by="Ana", reason="", state=new_conversation(MINE))

    def shown(index: Index) -> list[int]:
        with closing(sqlite3.connect(index._tables.path)) as connection:
            return [seq for (seq,) in connection.execute("select seq from messages where not undone order by seq")]

    records: list[Record] = [started(MINE)]
    expected = ([1, 2, 3], [1, 2, 5], [1, 2, 3, 7])
    later: list[list[Record]] = [
        [wrote(2, "2"), wrote(3, "3")],
        [back(4, 2), wrote(5, "5")],
        [back(6, 3), wrote(7, "7")],
    ]
    for more, seqs in zip(later, expected, strict=True):
        news = news_of([*records[len(records) > 1 :], *more]) if len(records) == 1 else news_of(more)
        records += more
        index.update(row(MINE, seq=records[-1].seq), news)
        await index.flush()
        assert shown(index) == seqs
    await stored(folder, MINE, *records)
    other = Index(folder.root / "other.sqlite")
    await other.catch_up(folder)
    await other.close()
    assert shown(other) == expected[-1]


async def test_the_chat_of_a_conversation_is_found_before_and_after_it_is_written(
    index: Index, folder: ConversationFolder
) -> None:
    first, second, third = (ConversationId(letter * 64) for letter in "abd")
    group = {"form": "chats", "group": "kitchen", "relays": ["wss://relay.example"]}
    await stored(folder, first, replace(started(first), address=group), wrote(2, "e1"), waits(3))
    await index.catch_up(folder)
    assert index.chat_of(first) == chat_of(group) != chat_of({**group, "relays": ["wss://other.example"]})
    assert index.chat_of(second) == ""
    index.update(row(second, started=Millis(20)), News(chats=("outside of groups",)))
    index.update(row(third, started=Millis(30)), news_of([replace(started(third), address={"form": "notes"})]))
    assert (index.chat_of(second), index.chat_of(third)) == ("outside of groups", "")
    await index.flush()
    assert (index.chat_of(second), index.chat_of(third)) == ("outside of groups", "")


def in_room(conversation: ConversationId, room: str, at: int = 1) -> Record:
    return replace(started(conversation), at=Millis(at), address={"room": room})


async def test_the_newest_conversation_of_a_room_is_found_before_and_after_it_is_written(
    index: Index, folder: ConversationFolder
) -> None:
    first, second, imported = (ConversationId(letter * 64) for letter in "abd")
    await stored(folder, first, in_room(first, "room"), wrote(2, "e1"), waits(3))
    await index.catch_up(folder)
    assert (index.room_of(first), index.room_of(second)) == ("room", "")
    assert index.newest_in("room") == (first, "a title")
    assert index.newest_in("another") is None
    index.update(row(second, started=Millis(20), title="Second"), News(rooms=("room",)))
    assert (index.room_of(second), index.newest_in("room")) == ("room", (second, "Second"))
    await index.flush()
    assert (index.room_of(second), index.newest_in("room")) == ("room", (second, "Second"))
    closing = ConversationImported(seq=4, at=Millis(4), agent=Slug(""), address={})
    whole = [in_room(imported, "room"), wrote(2, "e2"), closing]
    assert news_of(whole).rooms == (imported,), "no one else is in its room, and it is still a private one"
