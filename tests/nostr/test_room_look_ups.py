"""Rooms that strangers name."""

import asyncio
from typing import Any

from tenex.nostr import rooms as module
from tenex.nostr.rooms import Rooms

from .kit import ALICE, BOB, note

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
