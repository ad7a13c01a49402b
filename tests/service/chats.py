"""A person's client for direct messages: it writes in gift wraps, and reads those that a relay keeps for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from json import dumps, loads
from typing import Any

from websockets.asyncio.client import connect

from tenex.core.port_values import UnsignedEvent
from tenex.nostr.direct import GIFT_WRAP, read_direct, wrapped
from tenex.nostr.ephemeral import OPERATIONS, TEXT_SINCE, TEXT_SO_FAR, TYPING_STARTS, TYPING_STOPS
from tenex.nostr.events import Event, parse_event, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading.direct import CHAT

from . import person

TYPING = (TYPING_STARTS, TYPING_STOPS, TEXT_SO_FAR, TEXT_SINCE, OPERATIONS)
SECRETS = (1, 4, 5, 7, 11, 13, CHAT, 15, 513, 1111, 30023, *TYPING)
"""Kinds in which something of a private conversation could be published."""


def wire(wrap: UnsignedEvent) -> person.Wire:
    """A wrap as a relay takes it."""
    fields = ("id", "pubkey", "created_at", "kind", "content", "sig")
    return {**{name: getattr(wrap, name) for name in fields}, "tags": [list(tag) for tag in wrap.tags]}


class Chat:
    """One person and those they write to."""

    def __init__(self, key: SecretKey, url: str, *others: str) -> None:
        self.key, self.url, self.others = key, url, others
        self._at = int(time.time())

    def rumor(self, text: str, *tags: Sequence[str], kind: int = CHAT) -> UnsignedEvent:
        """A message without a signature; each is dated after the last."""
        self._at = max(int(time.time()), self._at + 1)
        people = [["p", other] for other in self.others]
        return unsigned_event(self.key.public, self._at, kind, [*people, *tags], text)

    def wraps(self, rumor: UnsignedEvent, readers: Sequence[str] | None = None) -> list[person.Wire]:
        """The message for each reader."""
        return [wire(wrapped(rumor, to, self.key)) for to in readers or self.others]  # type: ignore[arg-type]

    async def write(self, text: str, *tags: Sequence[str], kind: int = CHAT, to: Sequence[str] | None = None) -> str:
        """Send a message; returns its id, which is not that of its wraps."""
        rumor = self.rumor(text, *tags, kind=kind)
        await person.publish(self.url, *self.wraps(rumor, to))
        return rumor.id

    async def received(self) -> list[Event]:
        """All messages that the relay has for this person, in the order of writing."""
        kept = await person.stored(self.url, kinds=[GIFT_WRAP], _p=[self.key.public])
        opened = (read_direct(parse_event(wrap), {self.key.public: self.key}) for wrap in kept)
        messages = [message.event for message in opened if message is not None]
        return sorted(messages, key=lambda message: (message.created_at, message.id))

    async def until(self, *words: str, count: int = 1) -> Event:
        """Wait for so many messages that hold these words; the newest of them."""
        async with asyncio.timeout(60):
            while True:
                found = [one for one in await self.received() if all(word in one.content for word in words)]
                if len(found) >= count:
                    return found[-1]


@asynccontextmanager
async def overheard(url: str) -> AsyncIterator[list[Any]]:
    """All that a relay hands on of `SECRETS` while the block lasts, also what it does not keep."""
    events: list[Any] = []

    async def listen() -> None:
        async with connect(url, max_size=None, proxy=None) as socket:
            await socket.send(dumps(["REQ", "all", {"kinds": list(SECRETS), "since": int(time.time()) - 60}]))
            async for text in socket:
                frame = loads(text)
                if frame[0] == "EVENT":
                    events.append(frame[2])
                elif frame[0] == "EOSE":
                    is_open.set()

    is_open = asyncio.Event()
    listening = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(30):
            await is_open.wait()
        yield events
    finally:
        listening.cancel()
        await asyncio.wait({listening})
