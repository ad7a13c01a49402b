"""Ephemeral events of keys in rooms never cost a message its quota."""

import asyncio
import time
from collections import Counter
from pathlib import Path

from tenex.nostr.compose import Publisher
from tenex.nostr.events import sign, unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.relay_traits import EVENTS_WITH_EPHEMERAL
from tenex.nostr.room_events import typing_in_room
from tests.kits.room_relay import Rules, room_relay

from .daemons import in_process


async def test_ten_agents_that_type_all_the_time_exceed_no_quota_and_lose_no_message(tmp_path: Path) -> None:
    owner = SecretKey.generate()
    keys = [SecretKey.generate() for _ in range(10)]
    async with room_relay(Rules()) as relay, in_process(tmp_path / "data", relay.url, npub(owner.public)) as daemon:
        assert daemon.app is not None
        app = daemon.app
        app.keys.update({key.public: key for key in keys})
        room = relay.make("room", owner.public, *(key.public for key in keys))
        publisher = Publisher(app.pool, app.keys, (9,))
        drafts = [
            unsigned_event(key.public, int(time.time()), 9, [["h", room]], f"{number}")
            for key in keys
            for number in range(25)
        ]
        offered = Counter[str]()

        async def type_on(key: SecretKey) -> None:
            """Offer an event all the time, until a second has passed in which none was taken."""
            await publisher.publish(unsigned_event(key.public, int(time.time()), 9, [["h", room]], "here"), relay.url)
            last = time.monotonic()
            while time.monotonic() < last + 1 and offered[key.public] < 2 * EVENTS_WITH_EPHEMERAL:
                place = [("h", room), ("n", str(offered[key.public]))]
                if app.pool.offer_rarely(sign(typing_in_room(key.public, place, int(time.time())), key), relay.url):
                    offered[key.public] += 1
                    last = time.monotonic()
                await asyncio.sleep(0.02)

        await asyncio.gather(*map(type_on, keys))
        assert set(offered.values()) == {EVENTS_WITH_EPHEMERAL - 1}
        outcomes = await asyncio.gather(*(publisher.publish(draft, relay.url) for draft in drafts))
        assert all(outcome.accepted for outcome in outcomes)
        assert relay.notices == []
        assert len([event for event in relay.published if event["kind"] == 20002]) == sum(offered.values())
