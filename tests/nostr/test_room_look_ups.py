"""Rooms that strangers name."""

import asyncio
import time
from typing import Any

import pytest

from tenex.nostr import rooms as module
from tenex.nostr.events import Event, to_wire
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay_info import RelayLimits
from tenex.nostr.rooms import Rooms
from tests.kits.room_relay import Rules, room_relay

from .kit import ALICE, BOB, FAST, NOTES, note, running

CAROL, DAVE = (SecretKey(bytes([number]) * 32) for number in (21, 22))

RELAY = "wss://relay.example"


class SilentPool:
    """Relays that say nothing of rooms."""

    urls = (RELAY,)

    async def informed(self, relay: str) -> None:
        await asyncio.Event().wait()

    def rooms_key(self, relay: str) -> str:
        return ""


async def test_a_stranger_who_names_many_rooms_starts_few_look_ups(monkeypatch: Any) -> None:
    """Messages beyond these are read at once, as outside of rooms; the others once the relay had its time."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    pool: Any = SilentPool()
    rooms = Rooms(pool, lambda: [BOB.public], module.RoomRules)
    delivered: list[int] = []
    running = asyncio.create_task(rooms.run())
    await asyncio.sleep(0)

    for number in range(200):
        message = note("Hello", by=ALICE, kind=9, tags=[["h", f"room {number}"], ["p", BOB.public]])
        rooms.when_known(message, RELAY, lambda number=number: delivered.append(number))  # type: ignore[misc]
    assert delivered == list(range(module.MOST_LOOK_UPS, 200))

    while len(delivered) < 200:
        await asyncio.sleep(0)
    assert sorted(delivered) == list(range(200))
    running.cancel()


class OneRoom:
    """A relay with a room in which one of our keys and a member are."""

    urls = (RELAY,)

    def __init__(self) -> None:
        self.fetched = 0

    def limits(self, relay: str) -> RelayLimits:
        return RelayLimits()

    async def informed(self, relay: str) -> None:
        return

    def rooms_key(self, relay: str) -> str:
        return CAROL.public

    def takes_one_key(self, relay: str) -> bool:
        return False

    async def fetch(self, *_args: Any, **_more: Any) -> list[Event]:
        self.fetched += 1
        members = [["d", "room"], ["p", BOB.public], ["p", ALICE.public]]
        return [note(by=CAROL, kind=39002, tags=members)]

    def subscribe_at(self, *_args: Any) -> None:
        return

    unsubscribe_at = subscribe_at


@pytest.mark.parametrize("kind", [5, 7])
async def test_what_names_no_room_is_wanted_of_its_members_and_starts_no_look_up(kind: int) -> None:
    pool: Any = OneRoom()
    rooms = Rooms(pool, lambda: [BOB.public], module.RoomRules)
    running = asyncio.create_task(rooms.run())
    rooms.on_relay(RELAY)
    async with asyncio.timeout(5):
        while not rooms.is_read(RELAY, "room"):
            await asyncio.sleep(0)
    before = pool.fetched
    for author, is_wanted in ((ALICE, True), (DAVE, False)):
        event = note("+", by=author, kind=kind, tags=[["e", "f" * 64]])
        assert rooms.may_be_wanted(to_wire(event), RELAY) is is_wanted
        assert rooms.may_be_wanted(to_wire(event), "wss://other.example") is False
    delivered: list[Event] = []
    stray = note("+", by=DAVE, kind=kind, tags=[["e", "f" * 64]])
    rooms.when_known(stray, RELAY, lambda: delivered.append(stray))
    assert delivered == [stray]
    await asyncio.sleep(0)
    assert pool.fetched == before
    running.cancel()


async def test_the_words_of_a_prompt_are_known_however_long_ago_the_relay_has_shown_it() -> None:
    """The daemon reads from now on, as after a restart."""
    async with room_relay(Rules(interactions=True)) as relay:
        room = relay.make("room", BOB.public)
        relay.now = lambda: time.time() - 30 * 86_400
        prompt = "a" * 64
        shown = relay.say(9, [["h", room], ["interaction", prompt]], room, "Which colour?")
        relay.now = time.time
        pool = RelayPool([relay.url], on_event=lambda *_: None, identity=BOB, timeouts=FAST)
        rooms = Rooms(pool, lambda: [BOB.public], module.RoomRules)
        rooms.start(int(time.time()))
        async with running(pool, notes=NOTES):
            await pool.informed(relay.url)
            looking = asyncio.create_task(rooms.run())
            rooms.on_relay(relay.url)
            async with asyncio.timeout(20):
                while not rooms.is_read(relay.url, room):
                    await asyncio.sleep(0.01)
            assert rooms.prompts[shown].prompt == prompt
            looking.cancel()
