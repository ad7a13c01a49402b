"""A small Nostr client: writes to the project, and hears what is said in its threads.

It is a client like any other: it knows the daemon only by its address.

Never: look into the daemon's files.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome
from tenex.nostr import whispers as kinds
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import name_in

from .live import Live, Lives

PATIENCE = 5.0
"""Seconds to wait for a relay before saying that it does not answer."""
WHISPERS = (kinds.TYPING_STARTS, kinds.TYPING_STOPS, kinds.TEXT_SINCE)


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the project or one of its agents."""

    id: str
    author: PublicKey
    name: str
    text: str
    phase: str
    phase_from: str
    at: int
    is_own: bool = False
    """The person's own, from another client or an earlier time."""


class Talk:
    """One person's side of one conversation in notes."""

    def __init__(self, url: str, key: SecretKey, project: PublicKey, *, whispers: bool = False) -> None:
        self._listens = whispers
        self._lives = Lives()
        self._pool = RelayPool([url], on_event=self._take, identity=key)
        self._key = key
        self._project = project
        self._url = url
        self._root: str | None = None
        self._last: tuple[str, PublicKey] | None = None
        self._names: dict[PublicKey, str] = {}
        self._heard: Callable[[Heard], None] = lambda _: None
        self._stamp = 0
        self._sent: set[str] = set()

    def on_heard(self, heard: Callable[[Heard], None]) -> None:
        """Whom to tell of every message."""
        self._heard = heard

    @property
    def root(self) -> str | None:
        """The note that began the conversation, and its id."""
        return self._root

    @property
    def live(self) -> list[Live]:
        """Who is at work in the conversation, and what they are writing; nobody where we do not listen for whispers."""
        return self._lives.now(time.monotonic())

    async def send(self, text: str) -> PublishOutcome:
        """Write: the first note begins a thread, later ones answer the newest message in it."""
        tags = [["p", self._project]]
        if self._root is not None:
            last, author = self._last or (self._root, self._key.public)
            tags = [["e", self._root, self._url, "root"], ["p", author]]
            if last != self._root:
                tags.insert(1, ["e", last, self._url, "reply"])
        tags.append(["uid", secrets.token_hex(8)])  # the same words of one second, from two clients, are two notes
        self._stamp = max(int(time.time()), self._stamp + 1)
        event = sign(unsigned_event(self._key.public, self._stamp, 1, tags, text), self._key)
        self._sent.add(event.id)
        if self._root is None:
            self.follow(event.id, self._stamp - 60)
        return await self._pool.publish(event, self._url)

    def follow(self, root: str, since: int = 0) -> None:
        """Go on in a thread that is there already: hear what was said in it since then (seconds), and answer in it."""
        self._root = root
        self._pool.subscribe("thread", [{"kinds": [1], "#e": [root]}, {"kinds": [1], "ids": [root]}], since)
        if self._listens:
            self._pool.subscribe("whispers", [{"kinds": list(WHISPERS), "#e": [root]}], None)

    async def introduce(self, name: str) -> None:
        """Say who we are (kind 0); only where nobody else speaks for this key."""
        content = json.dumps({"name": name})
        event = sign(unsigned_event(self._key.public, int(time.time()), 0, [], content), self._key)
        await self._pool.publish(event, self._url)

    async def run(self) -> None:
        """Listen until cancelled."""
        self._pool.subscribe("names", [{"kinds": [0]}], 0)
        await self._pool.run()

    async def connected(self) -> None:
        """Return once the relay is there.

        Raises:
            RelayUnavailable: it did not answer.
        """
        await self._pool.connected(PATIENCE)

    def _take(self, event: Event, _relay: str) -> None:
        if event.kind == 0:
            name = name_in(event)
            if name:
                self._names[event.pubkey] = name
            return
        if event.id in self._sent:
            return
        is_own = event.pubkey == self._key.public  # written in an earlier life, or on the phone
        name = "you" if is_own else self._names.get(event.pubkey) or npub(event.pubkey)[:16]
        if event.kind in WHISPERS:
            self._whispered(event, name)
        if event.kind != 1:
            return
        self._lives.ends(event.pubkey)
        if not is_own:
            self._last = (event.id, event.pubkey)
        tags = {tag[0]: tag[1] for tag in reversed(event.tags) if len(tag) > 1}
        phase, came_from = tags.get("phase", ""), tags.get("phase-from", "")
        self._heard(
            Heard(event.id, event.pubkey, name, event.content, phase, came_from, event.created_at * 1000, is_own)
        )

    def _whispered(self, event: Event, name: str) -> None:
        now = time.monotonic()
        match event.kind:
            case kinds.TYPING_STARTS:
                self._lives.does(event.pubkey, name, event.content, now)
            case kinds.TEXT_SINCE:
                self._lives.writes(event.pubkey, name, event.content, now)
            case _:
                self._lives.ends(event.pubkey)


@asynccontextmanager
async def talking(
    url: str, key: SecretKey, project: PublicKey, *, whispers: bool = False
) -> AsyncIterator[Talk]:  # fmt: skip
    """A client that is connected while the context lasts; with `whispers` it hears what is being written.

    Raises:
        RelayUnavailable: the relay did not answer.
    """
    talk = Talk(url, key, project, whispers=whispers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(talk.run(), name="client")
        try:
            await talk.connected()
            yield talk
        finally:
            running.cancel()
