"""A small Nostr client: writes to the project and receives the messages of its threads.

It knows the daemon only by its public key, like any other client.
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
from tenex.core.text.foreign import well_formed
from tenex.nostr import ephemeral as kinds
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.pool import RelayPool
from tenex.nostr.profiles import METADATA, agents_in, name_in
from tenex.operations.transcript import Line

from .activity import Activities, ActivityView

PATIENCE = 5.0
"""Seconds to wait for a relay."""
NOTE = 1
INDICATORS = (kinds.TYPING_STARTS, kinds.TYPING_STOPS, kinds.TEXT_SINCE, kinds.OPERATIONS)


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message in the thread."""

    line: Line
    """As a transcript shows it: by the user from elsewhere (`person`), the project or an agent, or a `stranger`."""
    phase: str = ""
    phase_from: str = ""
    tokens: int = 0
    """Tokens of the agent's run so far; 0 where unknown."""
    cost: float | None = None
    """The same in US dollars; None where no price is known."""
    is_past: bool = False
    """Whether it was there before the client continued the conversation."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The agents at work in the conversation, by the project's status event (kind 24133)."""

    status: str
    """Of the conversation: active, waiting or ended; empty where unknown."""
    names: tuple[str, ...]
    """Empty where it is idle."""


class ChatClient:
    """One user's client for one conversation in notes."""

    def __init__(
        self,
        url: str,
        key: SecretKey,
        project: PublicKey,
        *,
        agents: Iterable[PublicKey] = (),
        indicators: bool = False,
    ) -> None:
        """Prepare; `agents` are the known ones of the project, others are fetched."""
        self._wants_indicators = indicators
        self._activities = Activities()
        self._pool = RelayPool([url], on_event=self._on_event, identity=key)
        self._key = key
        self._project = project
        self._url = url
        self._root: str | None = None
        self._last: tuple[str, PublicKey] | None = None
        self._names: dict[PublicKey, str] = {}
        self._agents = {project, *agents}
        self.on_message: Callable[[ReceivedMessage], None] = lambda _: None
        self.on_activity: Callable[[Activity], None] = lambda _: None
        """Receives status events, which come only with `indicators`."""
        self._stamp = 0
        self._sent: set[str] = set()
        self._past: frozenset[str] = frozenset()
        """The ids of replies that a continued conversation already had: all, or the newest that a relay sends."""
        self._past_since = 0
        """When the oldest of these was written, in seconds."""

    @property
    def root(self) -> str | None:
        """The id of the first note, which is the conversation's id."""
        return self._root

    @property
    def activities(self) -> list[ActivityView]:
        """The agents at work in the conversation; empty without `indicators`."""
        return self._activities.current(time.monotonic())

    async def send(self, text: str) -> PublishOutcome:
        """Publish a note: the first begins a thread, later ones reply to the newest message in it."""
        tags = [["p", self._project]]
        if self._root is not None:
            last, author = self._last or (self._root, self._key.public)
            tags = [["e", self._root, self._url, "root"], ["p", author]]
            if last != self._root:
                tags.insert(1, ["e", last, self._url, "reply"])
        tags.append(["uid", secrets.token_hex(8)])  # equal texts of two clients in one second are two notes
        self._stamp = max(int(time.time()), self._stamp + 1)
        event = sign(unsigned_event(self._key.public, self._stamp, 1, tags, well_formed(text)), self._key)
        self._sent.add(event.id)
        if self._root is None:
            self.follow(event.id, self._stamp - 60)
        return await self._pool.publish(event, self._url)

    async def resume(self, root: str) -> None:
        """Continue an existing thread: receive all its messages, of which those so far are marked as past."""
        self._last = None
        self._activities = Activities()
        stored = await self._pool.fetch([{"kinds": [NOTE], "#e": [root]}], PATIENCE)
        self._past = frozenset(event.id for event in stored)
        self._past_since = min((event.created_at for event in stored), default=0)
        self.follow(root)

    def follow(self, root: str, since: int = 0) -> None:
        """Receive the messages of a thread since then (seconds), and reply in it."""
        self._root = root
        self._pool.subscribe("thread", [{"kinds": [1], "#e": [root]}, {"kinds": [1], "ids": [root]}], since)
        if self._wants_indicators:
            self._pool.subscribe("indicators", [{"kinds": list(INDICATORS), "#e": [root]}], None)

    async def introduce(self, name: str) -> None:
        """Publish a profile (kind 0); only for a key that no other client uses."""
        content = json.dumps({"name": name})
        event = sign(unsigned_event(self._key.public, int(time.time()), 0, [], content), self._key)
        await self._pool.publish(event, self._url)

    async def run(self) -> None:
        """Listen until cancelled."""
        wanted = [METADATA, *([kinds.PROJECT_STATUS] if self._wants_indicators else [])]
        self._pool.subscribe("project", [{"kinds": wanted, "authors": [self._project]}], None)
        await self._pool.run()

    async def connected(self) -> None:
        """Return once the relay is connected and the project's agents were fetched.

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

    def _add_agents(self, event: Event) -> None:
        known = len(self._agents)
        self._agents.update(agents_in(event))
        if len(self._agents) > known:
            self._ask_names()

    def _on_event(self, event: Event, _relay: str) -> None:
        if event.kind in (METADATA, kinds.PROJECT_STATUS):
            if event.pubkey == self._project:
                self._add_agents(event)
            if event.kind == METADATA and (name := name_in(event)):
                self._names[event.pubkey] = name
        elif event.kind == NOTE and event.id not in self._sent:
            if event.pubkey in self._agents:
                self._activities.stop(event.pubkey)
                self._last = (event.id, event.pubkey)
            self.on_message(self._read(event))
        elif event.pubkey in self._agents:
            self._on_indicator(event, self._name(event.pubkey))

    def _name(self, key: PublicKey) -> str:
        return self._names.get(key) or npub(key)[:16]

    def _read(self, event: Event) -> ReceivedMessage:
        at = event.created_at * 1000
        if event.pubkey == self._key.public:  # of an earlier session, or from the phone
            return ReceivedMessage(Line("person", "you", event.content, at, event.id))
        if event.pubkey not in self._agents:  # its tags do not count
            name = f"⚠ stranger {npub(event.pubkey)[:16]}…"
            return ReceivedMessage(Line("stranger", name, event.content, at, event.id))
        tags = {tag[0]: tag[1] for tag in reversed(event.tags) if len(tag) > 1}
        return ReceivedMessage(
            Line("error" if tags.get("error") else "agent", self._name(event.pubkey), event.content, at, event.id),
            tags.get("phase", ""),
            tags.get("phase-from", ""),
            tokens=int(_number(tags.get("llm-total-tokens")) or 0),
            cost=_number(tags.get("llm-cost-usd")),
            is_past=event.id in self._past or event.created_at < self._past_since,
        )

    def _on_indicator(self, event: Event, name: str) -> None:
        now = time.monotonic()
        match event.kind:
            case kinds.TYPING_STARTS:
                self._activities.start(event.pubkey, name, event.content, now)
            case kinds.TEXT_SINCE:
                self._activities.write(event.pubkey, name, event.content, now)
            case kinds.TYPING_STOPS:
                self._activities.stop(event.pubkey)
            case kinds.OPERATIONS if event.pubkey == self._project:
                status = next((tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "status"), "")
                at_work = [PublicKey(tag[1]) for tag in event.tags if len(tag) > 1 and tag[0] == "p"]
                self.on_activity(Activity(status, tuple(map(self._name, at_work))))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


@asynccontextmanager
async def connected_client(
    url: str, key: SecretKey, project: PublicKey, *, agents: Iterable[PublicKey] = (), indicators: bool = False
) -> AsyncIterator[ChatClient]:
    """A client that is connected while the context lasts; `indicators` also receives typing indicators.

    Raises:
        RelayUnavailable: the relay did not answer.
    """
    client = ChatClient(url, key, project, agents=agents, indicators=indicators)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.run(), name="client")
        try:
            await client.connected()
            yield client
        finally:
            running.cancel()
