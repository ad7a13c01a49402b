"""A small Nostr client: writes to the project, and hears what is said in its threads.

It is a client like any other: it knows the daemon only by its address.
"""

import asyncio
import json
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome
from tenex.nostr import ephemeral as kinds
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, agents_in, name_in

from .activity import ActivityView, Lives

PATIENCE = 5.0
"""Seconds to wait for a relay before saying that it does not answer."""
NOTE = 1
EPHEMERAL_KINDS = (kinds.TYPING_STARTS, kinds.TYPING_STOPS, kinds.TEXT_SINCE, kinds.OPERATIONS)


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
    is_stranger: bool = False
    """Of somebody else: neither the project nor one of its agents."""
    error: str = ""
    """What failed, where it says that something did (`agent`, `model`, ...)."""
    tokens: int = 0
    """Tokens of the agent's run so far; 0 where it does not say."""
    cost: float | None = None
    """The same in US dollars; None where no price is known."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Who is at work in the conversation by the project's own status event (kind 24133)."""

    status: str
    """Of the conversation: active, waiting or ended; empty where the daemon does not say."""
    names: tuple[str, ...]
    """Who works; none: it is idle."""


class ChatClient:
    """One person's side of one conversation in notes."""

    def __init__(
        self,
        url: str,
        key: SecretKey,
        project: PublicKey,
        *,
        agents: Iterable[PublicKey] = (),
        typing_indicators: bool = False,
    ) -> None:
        """Prepare; `agents` are those of the project as far as they are known, the others are asked for."""
        self._listens = typing_indicators
        self._lives = Lives()
        self._pool = RelayPool([url], on_event=self._take, identity=key)
        self._key = key
        self._project = project
        self._url = url
        self._root: str | None = None
        self._last: tuple[str, PublicKey] | None = None
        self._names: dict[PublicKey, str] = {}
        self._agents = {project, *agents}
        self._heard: Callable[[Heard], None] = lambda _: None
        self._active: Callable[[Activity], None] = lambda _: None
        self._stamp = 0
        self._sent: set[str] = set()

    def on_heard(self, heard: Callable[[Heard], None]) -> None:
        """Whom to tell of every message."""
        self._heard = heard

    def on_active(self, active: Callable[[Activity], None]) -> None:
        """Whom to tell who is at work, where we listen for typing indicators."""
        self._active = active

    @property
    def root(self) -> str | None:
        """The note that began the conversation, and its id."""
        return self._root

    @property
    def live(self) -> list[ActivityView]:
        """Who is at work in the conversation and what they write; empty without typing indicators."""
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
            self._pool.subscribe("typing indicators", [{"kinds": list(EPHEMERAL_KINDS), "#e": [root]}], None)

    async def introduce(self, name: str) -> None:
        """Say who we are (kind 0); only where nobody else speaks for this key."""
        content = json.dumps({"name": name})
        event = sign(unsigned_event(self._key.public, int(time.time()), 0, [], content), self._key)
        await self._pool.publish(event, self._url)

    async def run(self) -> None:
        """Listen until cancelled."""
        told = [METADATA, *([kinds.PROJECT_STATUS] if self._listens else [])]
        self._pool.subscribe("project", [{"kinds": told, "authors": [self._project]}], None)
        await self._pool.run()

    async def connected(self) -> None:
        """Return once the relay is there and has said who the project's agents are, if it knows.

        Raises:
            RelayUnavailable: it did not answer.
        """
        await self._pool.connected(PATIENCE)
        known = await self._pool.fetch([{"kinds": [METADATA], "authors": [self._project]}], PATIENCE)
        for event in known[:1]:  # the newest
            self._agents.update(agents_in(event))
        self._ask_names()

    def _ask_names(self) -> None:
        self._pool.subscribe("names", [{"kinds": [METADATA], "authors": sorted(self._agents)}], 0)

    def _introduced(self, event: Event) -> None:
        """Take the agents that the project names."""
        known = len(self._agents)
        self._agents.update(agents_in(event))
        if len(self._agents) > known:
            self._ask_names()

    def _take(self, event: Event, _relay: str) -> None:
        if event.pubkey == self._project and event.kind in (METADATA, kinds.PROJECT_STATUS):
            self._introduced(event)
        if event.kind == METADATA:
            name = name_in(event)
            if name:
                self._names[event.pubkey] = name
        if event.kind in (METADATA, kinds.PROJECT_STATUS) or event.id in self._sent:
            return
        is_own = event.pubkey == self._key.public  # written in an earlier life, or on the phone
        if not is_own and event.pubkey not in self._agents:
            if event.kind == NOTE:
                self._heard(self._read(event, is_stranger=True))
        elif event.kind == NOTE:
            self._lives.ends(event.pubkey)
            if not is_own:
                self._last = (event.id, event.pubkey)
            self._heard(self._read(event, is_own=is_own))
        else:
            self._whispered(event, self._name(event.pubkey))

    def _name(self, key: PublicKey) -> str:
        return self._names.get(key) or npub(key)[:16]

    def _read(self, event: Event, *, is_own: bool = False, is_stranger: bool = False) -> Heard:
        at = event.created_at * 1000
        if is_own or is_stranger:  # whose tags say nothing
            name = "you" if is_own else f"⚠ stranger {npub(event.pubkey)[:16]}…"
            return Heard(event.id, event.pubkey, name, event.content, "", "", at, is_own, is_stranger)
        tags = {tag[0]: tag[1] for tag in reversed(event.tags) if len(tag) > 1}
        return Heard(
            event.id,
            event.pubkey,
            self._name(event.pubkey),
            event.content,
            tags.get("phase", ""),
            tags.get("phase-from", ""),
            at,
            error=tags.get("error", ""),
            tokens=int(_number(tags.get("llm-total-tokens")) or 0),
            cost=_number(tags.get("llm-cost-usd")),
        )

    def _whispered(self, event: Event, name: str) -> None:
        now = time.monotonic()
        match event.kind:
            case kinds.TYPING_STARTS:
                self._lives.does(event.pubkey, name, event.content, now)
            case kinds.TEXT_SINCE:
                self._lives.writes(event.pubkey, name, event.content, now)
            case kinds.TYPING_STOPS:
                self._lives.ends(event.pubkey)
            case kinds.OPERATIONS if event.pubkey == self._project:
                status = next((tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "status"), "")
                at_work = [PublicKey(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == "p"]
                self._active(Activity(status, tuple(map(self._name, at_work))))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


@asynccontextmanager
async def talking(
    url: str, key: SecretKey, project: PublicKey, *, agents: Iterable[PublicKey] = (), typing_indicators: bool = False
) -> AsyncIterator[ChatClient]:
    """A client that is connected while the context lasts; with `typing_indicators` it receives what is being written.

    `agents` are those of the project as far as they are known, the others are asked for.

    Raises:
        RelayUnavailable: the relay did not answer.
    """
    talk = ChatClient(url, key, project, agents=agents, typing_indicators=typing_indicators)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(talk.run(), name="client")
        try:
            await talk.connected()
            yield talk
        finally:
            running.cancel()
