"""What the tests of the client share: short timeouts, keys, events, real relays."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import nostr_sdk

from tenex.core.ports import OutgoingMessage
from tenex.core.signals import InboundMessage
from tenex.nostr.embedded import callback_loop
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayConnection
from tenex.nostr.threading import scheme_named
from tenex.nostr.timeouts import RelayTimeouts

ALICE = SecretKey(b"\x7f" * 32)
BOB = SecretKey(b"\x11" * 32)

PERSON, PROJECT, PLANNER, FRIEND = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))

FAST = RelayTimeouts(
    retry_first=0.02,
    retry_most=0.1,
    stable_after=5.0,
    open_timeout=2.0,
    close_timeout=0.2,
    ping_interval=5.0,
    ping_timeout=5.0,
    ok_timeout=1.0,
    eose_timeout=1.0,
    auth_timeout=1.0,
    redo_first=0.02,
    redo_most=0.1,
    refused_first=0.05,
    refused_most=0.2,
    rate_limited=0.05,
    probe_after=30.0,
    probe_timeout=1.0,
    idle_after=30.0,
    frames_per_second=1000.0,
    past_first=1.0,
    limits_timeout=1.0,
)

NOW = 1_800_000_000
_texts = itertools.count()


def note(
    text: str = "", *, by: SecretKey = ALICE, at: int = NOW, kind: int = 1, tags: Sequence[Sequence[str]] = ()
) -> Event:
    """A signed event no other call has made."""
    return sign(unsigned_event(by.public, at, kind, tags, text or f"note {next(_texts)}"), by)


def answer_tags(
    opener: InboundMessage, to: InboundMessage | None, speaker: SecretKey = PROJECT
) -> list[tuple[str, ...]]:
    """Compose an answer from what the journal would give back; its tags."""
    address: dict[str, Any] = json.loads(json.dumps(opener.address))
    origin: dict[str, Any] = json.loads(json.dumps(to.origin)) if to else {}
    draft = OutgoingMessage(speaker=speaker.public, text="answer", created_at=2000, address=address, reply_to=origin)
    (event,) = scheme_named(address["form"]).seal(draft, ())
    assert event.kind == {"notes": 1, "threads": 1111}[address["form"]]
    return list(event.tags)


class Received:
    """What was delivered, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._changed = asyncio.Condition()

    @property
    def ids(self) -> list[str]:
        return [event_id for event_id, _ in self.events]

    async def __call__(self, event: Event, relay: str) -> None:
        await self.note(event.id, relay)

    def raw(self, event: dict[str, Any], relay: str) -> Any:
        """The same as a relay connection's `on_event`."""
        return self.note(event["id"], relay)

    async def note(self, event_id: str, relay: str) -> None:
        self.events.append((event_id, relay))
        async with self._changed:
            self._changed.notify_all()

    async def until(self, happened: Callable[[], object], within: float = 30.0) -> None:
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: bool(happened()))

    async def has(self, *events: Event) -> None:
        """Wait until all of these have been delivered."""
        await self.until(lambda: {event.id for event in events} <= set(self.ids))


@asynccontextmanager
async def running(thing: RelayPool | RelayConnection) -> AsyncIterator[None]:
    """Run it for as long as the block lasts; what it raises fails the test."""
    task = asyncio.create_task(thing.run())
    try:
        yield
    finally:
        failed = task.done()
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.done(), "it did not stop when cancelled"
        if failed:
            task.result()


def connection(
    url: str, received: Received, timeouts: RelayTimeouts = FAST, identity: SecretKey | None = None, now: Any = None
) -> RelayConnection:
    return RelayConnection(
        url, on_event=received.raw, identity=identity, timeouts=timeouts, rng=Random(7), now=now or (lambda: float(NOW))
    )


NOTES = [{"kinds": [1]}]


async def settle(relay: RelayConnection, name: str = "notes") -> None:
    """Return once the relay serves a subscription."""
    async with asyncio.timeout(60):
        await relay.connected.wait()
        await relay.listening(name)


@asynccontextmanager
async def listening(relay: RelayConnection, since: int | None = None) -> AsyncIterator[RelayConnection]:
    """Run a connection that serves the subscription `notes`."""
    relay.subscribe("notes", NOTES, since)
    async with running(relay):
        await settle(relay)
        yield relay


@asynccontextmanager
async def real_relay(nip42: bool = False) -> AsyncIterator[str]:
    """nostr-sdk's relay in this process; gives its url."""
    with callback_loop():
        builder = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1")
        builder = builder.rate_limit(nostr_sdk.RateLimit(max_reqs=1000, notes_per_minute=1_000_000))
        if nip42:
            mode = nostr_sdk.LocalRelayBuilderNip42Mode.BOTH
            builder = builder.nip42(nostr_sdk.LocalRelayBuilderNip42(mode=mode))
        relay = builder.build()
        await relay.run()
        try:
            yield str(await relay.url())
        finally:
            relay.shutdown()
