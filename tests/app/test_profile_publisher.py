"""Profiles for relays that are connected and for those that are away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.app.profile_publisher import ProfileAnnouncer
from tenex.nostr.compose import Publisher
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import PROFILE_KINDS, Identity
from tenex.runtime.clock import SystemClock
from tenex.store.daemon_journal import DaemonFolder, DaemonJournal
from tenex.store.disk import Disk
from tests.fakes.faultrelay import FaultRelay

AWAY = "ws://127.0.0.1:9"
"""The discard port: nothing of ours listens there."""
FIRST, SECOND = SecretKey.generate(), SecretKey.generate()


def identity(key: SecretKey, name: str) -> Identity:
    return Identity(pubkey=key.public, name=name)


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[DaemonJournal]:
    disk = Disk()
    book = await DaemonJournal.open(DaemonFolder(tmp_path, disk, SystemClock()), SystemClock())
    yield book
    await book.close()
    disk.close()


async def test_a_relay_that_is_away_keeps_no_change_from_the_others(book: DaemonJournal) -> None:
    """An agent that is new since a reload has a name for people, though one relay has been dead for weeks."""
    async with FaultRelay() as relay:
        pool = RelayPool([relay.url, AWAY], on_event=lambda *_: None, identity=FIRST)
        publisher = Publisher(pool, {key.public: key for key in (FIRST, SECOND)}, PROFILE_KINDS)
        first, second = identity(FIRST, "Project"), identity(SECOND, "Tester")
        introductions = ProfileAnnouncer(pool, publisher, book, SystemClock(), [relay.url, AWAY], [first], ())

        def published(of: Identity) -> list[int]:
            return [e["created_at"] for e in relay.events() if e["pubkey"] == of.pubkey and e["kind"] == 0]

        services = [asyncio.create_task(pool.run()), asyncio.create_task(introductions.run())]
        await relay.until(lambda: published(first))
        introductions.change([identity(FIRST, "Renamed"), second], ())
        await relay.until(lambda: published(second) and len(published(first)) == 2)
        assert published(first)[0] < published(first)[1], "relays keep the later"
        for service in services:
            service.cancel()
        await asyncio.wait(services)
