"""The caches beside the journals: cursors that promise no more than was read, threads followed from their beginning."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenex.app.index_updater import UNJOURNALED_MOST, IndexUpdater, keep_cursors, oldest_cursor, save_cursors
from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import new_conversation
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.runtime.clock import SystemClock
from tenex.store.daemon_journal import DaemonFolder, DaemonJournal
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.index_row import News
from tenex.store.repository import ConversationFolder
from tests.store.kit import row

ROOT = ConversationId("c" * 64)
ALICE = PublicKey("a" * 64)
URL, OTHER = "wss://relay.example", "wss://other.example"
DAYS = 86_400
NOW = 2_000 * DAYS


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[ConversationFolder]:
    disk = Disk()
    yield ConversationFolder(tmp_path / "conversations", disk, SystemClock())
    disk.close()


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    index = Index(tmp_path / "index.sqlite")
    yield index
    await index.close()


class Clock(SystemClock):
    def now(self) -> Millis:
        return Millis(NOW * 1000)


class Pool:
    """A relay whose past has been read until a second; None while it is being read."""

    def __init__(self, until: float | None) -> None:
        self.until = until

    def status(self) -> list[Any]:
        return [SimpleNamespace(url=URL, received_until=self.until)]


@pytest.mark.parametrize(
    ("until", "unjournaled_since", "noted"),
    [
        (NOW - 5, None, NOW - 5),
        (None, None, 7),
        (NOW + 9, None, NOW),
        (NOW - 5, NOW - 3 * DAYS, NOW - 3 * DAYS),
        (NOW - 5, NOW - 400 * DAYS, NOW - UNJOURNALED_MOST // 1000),
        (NOW - 5, NOW + 400 * DAYS, NOW - 5),
    ],
)
async def test_a_cursor_is_never_ahead_of_what_was_read_of_the_clock_or_of_a_message_without_a_journal(
    index: Index, until: float | None, unjournaled_since: int | None, noted: int
) -> None:
    """However often it is noted; but a message dated last year does not have a year read again."""
    relays: Any = Pool(until)
    index.set_cursor(URL, Millis(7_000))
    for _ in range(2):
        save_cursors(relays, index, Clock(), unjournaled_since)
        assert index.cursor(URL) == noted * 1000


async def test_cursors_are_saved_at_an_interval_and_at_the_end(index: Index) -> None:
    relays: Any = Pool(None)
    keeping = asyncio.create_task(keep_cursors(relays, index, Clock(), every=0.01))
    await asyncio.sleep(0.05)
    assert index.cursor(URL) is None
    relays.until = NOW - 9
    async with asyncio.timeout(60):
        while index.cursor(URL) is None:
            await asyncio.sleep(0.01)
    relays.until = NOW - 5
    keeping.cancel()
    await asyncio.wait({keeping})
    assert index.cursor(URL) == (NOW - 5) * 1000


async def test_a_relay_is_known_by_any_spelling_of_its_address(index: Index, folder: ConversationFolder) -> None:
    """Cursors are kept under the pool's spelling, settings may use another."""
    index.set_cursor(URL, Millis(5_000))
    assert await oldest_cursor(index, folder, ["WSS://Relay.Example:443/"], SystemClock()) == 5


async def test_a_lost_index_costs_no_message_where_the_first_start_is_cut_short(
    index: Index, folder: ConversationFolder
) -> None:
    """A copy of last week's folder, without its index, whose relay answers at the second start only."""
    written = NOW - 7 * DAYS
    journal = folder.path(ROOT) / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.touch()
    os.utime(journal, (written, written))
    assert await oldest_cursor(index, folder, [URL, OTHER], Clock()) == written
    journal.touch()
    assert await oldest_cursor(index, folder, [URL, OTHER], Clock()) == written


async def test_nothing_is_missing_from_a_relay_that_was_never_read(index: Index, folder: ConversationFolder) -> None:
    assert await oldest_cursor(index, folder, [URL], Clock()) is None
    assert index.cursor(URL) == NOW * 1000
    await oldest_cursor(index, folder, [URL, OTHER], Clock())
    assert index.cursor(OTHER) == NOW * 1000


def wrote(seq: int, at: int, command: str = "") -> r.MessageRecorded | r.CommandGiven:
    common: dict[str, Any] = {
        "seq": seq,
        "at": Millis(seq),
        "event_id": EventId(f"{seq:064x}"),
        "author": ALICE,
        "name": "Ana",
        "role": Role.OWNER,
        "created_at": at,
    }
    return r.CommandGiven(**common, command=command, argument="") if command else r.MessageRecorded(**common, text="x")


@pytest.mark.parametrize(
    ("after", "since"), [([wrote(2, 700), wrote(3, 650)], 650), ([wrote(2, 700, "status")], 700), ([], None)]
)
async def test_a_conversation_is_followed_from_its_earliest_message(
    tmp_path: Path, index: Index, folder: ConversationFolder, after: list[r.Record], since: int | None
) -> None:
    disk = Disk()
    book = await DaemonJournal.open(DaemonFolder(tmp_path / "conversations", disk, SystemClock()), SystemClock())
    followed: list[tuple[str, int | None]] = []
    listener: Any = SimpleNamespace(follow=lambda root, since=None: followed.append((root, since)))
    keeper = IndexUpdater(folder, index, book, listener, Slug("project-manager"), spawn=lambda *_: None)
    started = r.ConversationStarted(seq=1, at=Millis(1), id=ROOT, title="t", starter=ALICE, address={})
    journal, _ = await folder.open(ROOT)
    conversation = new_conversation(ROOT)
    keeper.on_records(conversation, [started, *after])
    keeper.on_records(conversation, [wrote(9, 1)])
    await journal.close()
    await book.close()
    disk.close()
    assert followed == [(ROOT, since)]


async def test_no_relay_learns_the_id_of_a_conversation_in_direct_messages_that_another_daemon_writes(
    index: Index, folder: ConversationFolder
) -> None:
    private = ConversationId("d" * 64)
    nowhere: Any = None
    followed: list[tuple[str, int | None]] = []
    listener: Any = SimpleNamespace(follow=lambda root, since=None: followed.append((root, since)))
    updater = IndexUpdater(folder, index, nowhere, listener, Slug("project-manager"), spawn=lambda *_: None)
    for name, rooms in ((ROOT, ()), (private, ("room",))):
        begun = row(name, started=Millis(5_000))
        index.update(begun, News(rooms=rooms))
        updater.on_row(begun)
    assert followed == [(ROOT, 5)]
