"""A person in a room: one connection, authenticated, that writes and hears what is said."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tenex.nostr.keys import SecretKey
from tests.kits.room_relay import Raw, RoomRelay
from tests.service.person import note

PATIENCE = 30.0


class RoomPerson:
    """A member of rooms."""

    def __init__(self, relay: RoomRelay, key: SecretKey, socket: ClientConnection) -> None:
        self.relay = relay
        self.key = key
        self.heard: list[Raw] = []
        """The messages of others, in order."""
        self.heard_at: list[float] = []
        self._socket = socket
        self._oks: dict[str, asyncio.Future[tuple[bool, str]]] = {}
        self._changed = asyncio.Event()

    async def say(self, room: str, text: str, *tags: Sequence[str], kind: int = 9) -> str:
        """Write in a room; the relay must take it. Returns the event's id."""
        return await self._publish(note(self.key, text, ["h", room], *tags, kind=kind))

    async def react(self, event_id: str, picture: str) -> str:
        """React to an event, which is all that the reaction names; the relay must take it. Returns its id."""
        return await self._publish(note(self.key, picture, ["e", event_id], kind=7))

    async def introduce(self, name: str) -> str:
        """Publish a profile with this name; the relay must take it. Returns its id."""
        return await self._publish(note(self.key, json.dumps({"name": name}), kind=0))

    async def edit(self, room: str, event_id: str, text: str, *tags: Sequence[str]) -> str:
        """Replace the text of an own message; the relay must take it. Returns the edit's id."""
        return await self._publish(note(self.key, text, ["h", room], ["e", event_id], *tags, kind=40003))

    async def delete(self, event_id: str, room: str = "") -> str:
        """Delete a message: by a kind 9005 in its room, or by a kind 5 that names it alone."""
        tags = [["h", room]] if room else []
        return await self._publish(note(self.key, "", *tags, ["e", event_id], kind=9005 if room else 5))

    async def publish(self, kind: int, content: str, *tags: Sequence[str]) -> str:
        """Publish any event; the relay must take it. Returns its id."""
        return await self._publish(note(self.key, content, *tags, kind=kind))

    async def _publish(self, event: Raw) -> str:
        answer: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        self._oks[event["id"]] = answer
        await self._socket.send(json.dumps(["EVENT", event]))
        async with asyncio.timeout(PATIENCE):
            accepted, why = await answer
        assert accepted, why
        return str(event["id"])

    async def enter(self, *rooms: str) -> None:
        """Hear what is new in rooms."""
        for room in rooms:
            wanted = {"kinds": [9], "#h": [room], "limit": 0}
            await self._socket.send(json.dumps(["REQ", room, wanted]))

    async def until(self, holds: Callable[[Raw], object], within: float = PATIENCE) -> Raw:
        """Wait for a message of another of which this holds; returns the first."""
        async with asyncio.timeout(within):
            while True:
                self._changed.clear()
                answer = next((event for event in self.heard if holds(event)), None)
                if answer is not None:
                    return answer
                await self._changed.wait()

    async def take_in(self) -> None:
        async for text in self._socket:
            frame: list[Any] = json.loads(text)
            match frame:
                case ["AUTH", str(challenge)]:
                    tags = [["relay", self.relay.url], ["challenge", challenge]]
                    await self._socket.send(json.dumps(["AUTH", note(self.key, "", *tags, kind=22242)]))
                case ["OK", str(event_id), bool(accepted), str(why)]:
                    if event_id in self._oks:
                        self._oks[event_id].set_result((accepted, why))
                case ["EVENT", _, event] if event["pubkey"] != self.key.public:
                    self.heard.append(event)
                    self.heard_at.append(time.monotonic())
                    self._changed.set()


@asynccontextmanager
async def room_person(relay: RoomRelay, key: SecretKey, *rooms: str) -> AsyncIterator[RoomPerson]:
    """Connect a person who hears what is new in these rooms."""
    async with connect(relay.url, max_size=None, proxy=None) as socket:
        person = RoomPerson(relay, key, socket)
        taking_in = asyncio.create_task(person.take_in())
        try:
            async with asyncio.timeout(PATIENCE):
                while not any(client.key == key.public for client in relay.clients):
                    await asyncio.sleep(0.01)
            await person.enter(*rooms)
            yield person
        finally:
            taking_in.cancel()
