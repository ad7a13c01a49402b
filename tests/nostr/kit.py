"""What the tests of the client share: short timeouts, keys, events, pools and connections."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from pynostr import bech32

from tenex.core.ports import OutgoingMessage
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.filters import Filter
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import OnEvent, RelayPool
from tenex.nostr.relay import RelayConnection
from tenex.nostr.threading import read_event, scheme_named
from tenex.nostr.timeouts import RelayTimeouts
from tests.fakes.faultrelay import FaultRelay, Peer

ALICE = SecretKey(b"\x7f" * 32)
BOB = SecretKey(b"\x11" * 32)

PERSON, PROJECT, PLANNER, FRIEND = (SecretKey(bytes([n]) * 32) for n in (1, 2, 3, 4))
OURS = frozenset({PROJECT.public, PLANNER.public})
RELAY = "wss://relay.example"

FAST = RelayTimeouts(
    retry_first=0.02,
    retry_most=0.1,
    close_timeout=0.2,
    redo_first=0.02,
    redo_most=0.1,
    refused_first=0.05,
    refused_most=0.2,
    rate_limited=0.05,
    frames_per_second=1000.0,
    past_first=1.0,
)

NOW = 1_800_000_000
LONG_AGO = NOW - 100_000
NOTES = [{"kinds": [1]}]
THREADS = [{"kinds": [11]}]

_texts = itertools.count()
_Runs = TypeVar("_Runs", RelayPool, RelayConnection)


# ---- events -----------------------------------------------------------------------------------------------------


def note(
    text: str = "", *, by: SecretKey = ALICE, at: int = NOW, kind: int = 1, tags: Sequence[Sequence[str]] = ()
) -> Event:
    """A signed event no other call has made."""
    return sign(unsigned_event(by.public, at, kind, tags, text or f"note {next(_texts)}"), by)


def written(*tags: Sequence[str], text: str = "hello", by: SecretKey = PERSON, kind: int = 1) -> Event:
    """An event with these tags; the same arguments give the same event."""
    return note(text, by=by, at=1000, kind=kind, tags=tags)


def read(event: Event, relay: str = RELAY, project: str | None = None) -> InboundMessage:
    """Read a message to the project, whose planner has a slug; as a journal would give it back."""
    slugs = {"planner": PLANNER.public, "project-manager": PROJECT.public}
    incoming = read_event(event, OURS, slugs, relay, project)
    assert incoming is not None
    address, origin = json.loads(json.dumps([incoming.address, incoming.origin]))
    return replace(incoming, address=address, origin=origin)


def relays_first(pubkey: str, relay: bytes = b"wss://relay.example") -> str:
    """An nprofile (NIP-19) with the relay before the key; of that order nothing is said there."""
    payload = bytes([1, len(relay)]) + relay + bytes([0, 32]) + bytes.fromhex(pubkey)
    return str(bech32.bech32_encode("nprofile", bech32.convertbits(payload, 8, 5), bech32.Encoding.BECH32))


def answer(
    opener: InboundMessage,
    to: InboundMessage | None,
    text: str = "answer",
    *tags: tuple[str, ...],
    speaker: SecretKey = PROJECT,
) -> OutgoingMessage:
    """Answer a message in the conversation that another one opened."""
    origin = to.origin if to else {}
    return OutgoingMessage(
        speaker=speaker.public, text=text, tags=tags, created_at=2000, address=opener.address, reply_to=origin
    )


def answer_tags(
    opener: InboundMessage, to: InboundMessage | None, speaker: SecretKey = PROJECT
) -> list[tuple[str, ...]]:
    """The tags of the answer."""
    (event,) = scheme_named(opener.address["form"]).seal(answer(opener, to, speaker=speaker), ())
    assert event.kind == {"notes": 1, "threads": 1111}[opener.address["form"]]
    return list(event.tags)


def ids(events: Iterable[Event]) -> list[str]:
    return [event.id for event in events]


# ---- relays and connections -------------------------------------------------------------------------------------


class Received:
    """What was delivered, and a way to wait for it. Takes events of a pool and of a connection."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    @property
    def ids(self) -> list[str]:
        return [event_id for event_id, _ in self.events]

    def __call__(self, event: Event | dict[str, Any], relay: str) -> None:
        self.events.append((event.id if isinstance(event, Event) else event["id"], relay))
        self._changed.set()

    async def until(self, happened: Callable[[], object], within: float = 30.0) -> None:
        async with asyncio.timeout(within):
            while not happened():
                self._changed.clear()
                await self._changed.wait()

    async def has(self, *events: Event) -> None:
        """Wait until all of these have been delivered."""
        await self.until(lambda: {event.id for event in events} <= set(self.ids))


async def until(happened: Callable[[], object], within: float = 60.0) -> None:
    """Return once something holds that nothing announces."""
    async with asyncio.timeout(within):
        while not happened():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(thing: _Runs, since: int | None = None, **subscriptions: Sequence[Filter]) -> AsyncIterator[_Runs]:
    """Run it with these subscriptions for as long as the block lasts; what it raises fails the test."""
    for name, filters in subscriptions.items():
        thing.subscribe(name, filters, since)
    task = asyncio.create_task(thing.run())
    try:
        yield thing
    finally:
        failed = task.done()
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.done(), "it did not stop when cancelled"
        if failed:
            task.result()


def pool(*urls: str, on_event: OnEvent | None = None, **options: Any) -> RelayPool:
    """A pool of relays; the options are those of `RelayPool`."""
    options = {"timeouts": FAST, "rng": Random(7), "now": lambda: float(NOW), **options}
    return RelayPool(urls, on_event=on_event or Received(), **options)


def connection(
    url: str,
    received: Received | None = None,
    *,
    identity: SecretKey | None = None,
    now: Callable[[], float] = lambda: float(NOW),
    **timeouts: Any,
) -> RelayConnection:
    """A connection with short timeouts, and these."""
    return RelayConnection(
        url,
        on_event=received or Received(),
        identity=identity,
        timeouts=replace(FAST, **timeouts),
        rng=Random(7),
        now=now,
    )


async def settle(relay: RelayConnection, *names: str) -> None:
    """Return once the relay serves these subscriptions."""
    async with asyncio.timeout(60):
        await relay.connected.wait()
        for name in names:
            await relay.listening(name)


@asynccontextmanager
async def listening(
    relay: RelayConnection, since: int | None = None, **subscriptions: Sequence[Filter]
) -> AsyncIterator[RelayConnection]:
    """Run a connection that serves these subscriptions; without any, `notes`."""
    subscriptions = subscriptions or {"notes": NOTES}
    async with running(relay, since, **subscriptions):
        await settle(relay, *subscriptions)
        yield relay


def serve_unless(fault: FaultRelay, refused: Callable[[dict[str, Any]], object], text: str | None = None) -> None:
    """Have a relay refuse a REQ whose first filter is of that kind: with a CLOSED, or with silence."""

    async def on_req(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if not refused(filters[0]):
            await fault.serve_stored(peer, sub_id, filters)
        elif text is not None:
            await peer.send("CLOSED", sub_id, text)

    fault.on_req = on_req


def closes(fault: FaultRelay) -> list[str]:
    """The ids of the subscriptions that were closed."""
    return [frame[1] for _, frame in fault.frames if frame[0] == "CLOSE"]


def auths(fault: FaultRelay) -> list[tuple[int, dict[str, Any]]]:
    """The AUTH events, each with the number of its connection."""
    return [(number, frame[1]) for number, frame in fault.frames if frame[0] == "AUTH"]
