"""The caches beside the journals: cursors that promise no more than was read, threads followed from their beginning."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.app.index_updater import UNJOURNALED_MOST, IndexUpdater, keep_cursors, oldest_cursor, save_cursors
from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import Conversation
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, Slug
from tenex.nostr.pool import RelayPool
from tenex.nostr.subscriptions import OVERLAP, Listener
from tenex.runtime.clock import SystemClock
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.index import Index
from tenex.store.repository import ConversationFolder
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.nostr.kit import BOB, FAST, running

ROOT = ConversationId("c" * 64)
ALICE = PublicKey("a" * 64)
DAYS = 86_400


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


def pool(url: str) -> RelayPool:
    return RelayPool([url], on_event=lambda event, relay: None, timeouts=FAST)


def listener(relays: RelayPool) -> Listener:
    return Listener(relays, [BOB.public], {}, None, lambda message: None)


def ago(seconds: float) -> Millis:
    return Millis(SystemClock().now() - int(seconds * 1000))


async def no_past(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
    """Accept what is new and send nothing that is stored."""
    if filters[0]["limit"] == 0:
        await peer.send("EOSE", sub_id)


async def becomes(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


# ---- cursors ----------------------------------------------------------------------------------------------------


async def test_a_cursor_stays_where_it_was_until_the_past_has_been_read(index: Index) -> None:
    """A crash in the middle of the backlog: the next life asks again from where this one began."""
    long_ago = ago(10 * DAYS)
    async with FaultRelay() as fault:
        fault.on_req = no_past
        relays = pool(fault.url)
        index.set_cursor(fault.url, long_ago)
        listener(relays).start(long_ago // 1000)
        async with running(relays):
            await relays.listening("addressed", 5)
            await fault.until(lambda: any("since" in frame[2] for frame in fault.reqs()))
            save_cursors(relays, index, SystemClock())
            assert index.cursor(fault.url) == long_ago
        save_cursors(relays, index, SystemClock())
        assert index.cursor(fault.url) == long_ago

        again, began = pool(fault.url), index.cursor(fault.url)
        assert began is not None
        fault.frames.clear()
        listener(again).start(began // 1000)
        async with running(again):
            await fault.until(lambda: any("since" in frame[2] for frame in fault.reqs()))
    assert fault.reqs()[-1][2]["since"] == long_ago // 1000 - OVERLAP


async def test_a_cursor_follows_once_the_past_is_read_also_when_the_relay_has_gone(index: Index) -> None:
    began = SystemClock().now()
    async with FaultRelay() as fault:
        relays = pool(fault.url)
        index.set_cursor(fault.url, ago(10 * DAYS))
        listener(relays).start(int(began / 1000) - 5)
        keeping = asyncio.create_task(keep_cursors(relays, index, SystemClock(), every=0.01))
        async with running(relays):
            await becomes(lambda: (index.cursor(fault.url) or 0) >= began)
            await fault.stop()
            await becomes(lambda: not relays.status()[0].connected)
            noted = index.cursor(fault.url)
        keeping.cancel()
        await asyncio.wait({keeping})
        assert (index.cursor(fault.url) or 0) >= (noted or 0)
        assert (index.cursor(fault.url) or 0) <= SystemClock().now()


async def test_a_thread_whose_past_is_unread_holds_the_cursor_of_its_relay_back(index: Index) -> None:
    async with FaultRelay() as fault:

        async def threads_untold(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
            await (no_past if "#e" in filters[0] else fault.serve_stored)(peer, sub_id, filters)

        fault.on_req = threads_untold
        relays, received_at = pool(fault.url), ago(60)
        following = listener(relays)
        following.start(received_at // 1000)
        index.set_cursor(fault.url, received_at)
        async with running(relays):
            await becomes(lambda: relays.status()[0].received_until is not None)
            following.follow(ROOT, received_at // 1000)
            save_cursors(relays, index, SystemClock())
            assert index.cursor(fault.url) == received_at


async def test_a_message_that_no_journal_holds_keeps_the_cursor_before_it(index: Index) -> None:
    """However often it is noted; but one dated last year does not have a year read again."""
    async with FaultRelay() as fault:
        relays, began = pool(fault.url), SystemClock().now()
        listener(relays).start(began // 1000 - 5)
        async with running(relays):
            await becomes(lambda: relays.status()[0].received_until is not None)
            for unjournaled_since, noted in (
                (None, began - 10_000),
                (began // 1000 - 3 * DAYS, began - 3 * DAYS * 1000),
            ):
                save_cursors(relays, index, SystemClock(), unjournaled_since)
                save_cursors(relays, index, SystemClock(), unjournaled_since)
                assert abs((index.cursor(fault.url) or 0) - noted) < 30_000
            save_cursors(relays, index, SystemClock(), began // 1000 - 400 * DAYS)
            assert (index.cursor(fault.url) or 0) >= began - UNJOURNALED_MOST
            save_cursors(relays, index, SystemClock(), began // 1000 + 400 * DAYS)
            assert (index.cursor(fault.url) or 0) <= SystemClock().now()


async def test_a_cursor_is_never_ahead_of_the_clock(index: Index) -> None:
    class Early(SystemClock):
        def now(self) -> Millis:
            return Millis(5000)

    async with FaultRelay() as fault:
        relays = pool(fault.url)
        listener(relays).start(None)
        async with running(relays):
            await becomes(lambda: relays.status()[0].received_until is not None)
            save_cursors(relays, index, Early())
    assert index.cursor(fault.url) == 5000


async def test_a_relay_is_known_by_any_spelling_of_its_address(index: Index, folder: ConversationFolder) -> None:
    """Cursors are kept under the pool's spelling, settings may use another."""
    index.set_cursor("wss://relay.example", Millis(5_000))
    assert await oldest_cursor(index, folder, ["WSS://Relay.Example:443/"], SystemClock()) == 5


async def test_a_lost_index_costs_no_message_where_the_first_start_is_cut_short(
    index: Index, folder: ConversationFolder
) -> None:
    """A copy of last week's folder, without its index, whose relay answers at the second start only."""
    written = ago(7 * DAYS) // 1000
    journal = folder.path(ROOT) / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.touch()
    os.utime(journal, (written, written))
    relays = ["wss://relay.example", "wss://other.example"]
    assert await oldest_cursor(index, folder, relays, SystemClock()) == written
    journal.touch()
    assert await oldest_cursor(index, folder, relays, SystemClock()) == written


async def test_nothing_is_missing_from_a_relay_that_was_never_read(index: Index, folder: ConversationFolder) -> None:
    began = SystemClock().now()
    assert await oldest_cursor(index, folder, ["wss://relay.example"], SystemClock()) is None
    assert (index.cursor("wss://relay.example") or 0) >= began
    await oldest_cursor(index, folder, ["wss://relay.example", "wss://other.example"], SystemClock())
    assert (index.cursor("wss://other.example") or 0) >= began


# ---- threads ----------------------------------------------------------------------------------------------------


class Followed:
    """Replaces the listener and records what is followed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int | None]] = []

    def follow(self, root: str, since: int | None = None) -> None:
        self.calls.append((root, since))


def wrote(seq: int, at: int) -> r.MessageRecorded:
    return r.MessageRecorded(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(f"{seq:064x}"),
        author=ALICE,
        name="Ana",
        role=Role.OWNER,
        text="hello",
        created_at=at,
    )


def ordered(seq: int, at: int) -> r.CommandGiven:
    return r.CommandGiven(
        seq=seq,
        at=Millis(seq),
        event_id=EventId(f"{seq:064x}"),
        author=ALICE,
        name="Ana",
        role=Role.OWNER,
        command="status",
        argument="",
        created_at=at,
    )


@pytest.mark.parametrize(
    ("after", "since"), [([wrote(2, 700), wrote(3, 650)], 650), ([ordered(2, 700)], 700), ([], None)]
)
async def test_a_conversation_is_followed_from_its_earliest_message(
    tmp_path: Path, index: Index, folder: ConversationFolder, after: list[r.Record], since: int | None
) -> None:
    disk = Disk()
    book = await DaemonJournal.open(tmp_path / "conversations", disk, SystemClock())
    followed: Any = Followed()
    keeper = IndexUpdater(folder, index, book, followed, Slug("project-manager"), spawn=lambda *_: None)
    started = r.ConversationStarted(seq=1, at=Millis(1), id=ROOT, title="t", starter=ALICE, address={})
    journal, _ = await folder.open(ROOT)
    conversation = Conversation(id=ROOT)
    keeper.on_records(conversation, [started, *after])
    keeper.on_records(conversation, [wrote(9, 1)])
    await journal.close()
    await book.close()
    disk.close()
    assert followed.calls == [(ROOT, since)]
