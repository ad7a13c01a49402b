"""What is done to a client and its relays, and what is asked afterwards: the rows of the table of faults."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tenex.nostr.filters import AnyFilter
from tenex.nostr.keys import SecretKey
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.service.person import Wire, note

WATCH: Final = 30.0
"""Seconds in which a client is expected to listen again; then it is deaf."""
ARRIVAL: Final = 5.0
"""Seconds for an event on its way; our client holds a reply back for as long, until it has the root."""
OUTAGE: Final = 10.0
"""Seconds in which a relay is down."""
NEVER: Final = float("inf")


class Subject(Protocol):
    """A client under test."""

    @property
    def received(self) -> list[str]:
        """The ids of events, each time that one is handed to the program."""

    async def listen(self, wanted: dict[str, Any]) -> None:
        """Subscribe to new and stored events."""

    async def publish(self, event: Wire) -> None:
        """Send to all relays; raises where the library reports that it failed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What came of a fault."""

    deaf: float = 0.0
    """Seconds until it listened again, or had published; `NEVER`: not while it was watched."""
    lost: int = 0
    twice: int = 0
    remark: str = ""

    def __str__(self) -> str:
        if self.remark:
            return self.remark
        parts = ["never" if self.deaf == NEVER else f"{self.deaf:.2f} s"]
        parts += [f"{self.lost} lost"] * bool(self.lost) + [f"{self.twice} twice"] * bool(self.twice)
        return ", ".join(parts)


class Trial:
    """A client, its relays, and the events that it is to receive."""

    def __init__(self, subject: Subject, relays: Sequence[FaultRelay], key: SecretKey) -> None:
        self.subject = subject
        self.relays = relays
        self.relay = relays[0]
        self.key = key
        self.friend = SecretKey.generate()
        self.kind = 1
        self.frozen: list[Peer] = []
        self.number = 0

    def event(self, *, dated: int = 0) -> Wire:
        """The next event for the client, dated so many seconds from now."""
        self.number += 1
        return note(self.friend, f"{self.number}", ["p", self.key.public], kind=self.kind, at=int(time.time()) + dated)

    async def begin(self, *, kind: int = 1) -> float:
        """Subscribe, and have it receive a first event; returns the seconds until it listened."""
        self.kind = kind
        began = time.monotonic()
        await self.subject.listen({"kinds": [kind], "#p": [self.key.public]})
        for relay in self.relays:
            await relay.until(lambda relay=relay: self.is_heard_at(relay), WATCH)  # type: ignore[misc]
        seconds = time.monotonic() - began
        first = self.event(dated=-60)
        await self.relay.spread(first)
        assert await self.hears(first), "it receives nothing, without any fault"
        return seconds

    def is_heard_at(self, relay: FaultRelay) -> bool:
        """Whether what the relay receives now reaches the client."""
        probe: Wire = {"id": "0" * 64, "pubkey": "0" * 64, "kind": self.kind, "created_at": int(time.time())}
        probe = {**probe, "tags": [["p", self.key.public]]}
        return any(
            AnyFilter([{name: value for name, value in each.items() if name != "limit"} for each in filters]).matches(
                probe
            )
            for peer in relay.peers
            if peer not in self.frozen
            for filters in peer.subscriptions.values()
        )

    async def hears(self, *events: Wire) -> bool:
        """Whether all of these arrive."""
        ends = time.monotonic() + ARRIVAL
        while not {event["id"] for event in events} <= set(self.subject.received):
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(0.02)
        return True

    async def after(self, *gap: Wire, watch: float = WATCH) -> Cell:
        """What came of a fault that is over now: whether it listens again, and has what came meanwhile."""
        began = time.monotonic()
        deaf = NEVER
        with suppress(TimeoutError):
            await self.relay.until(lambda: self.is_heard_at(self.relay), watch)
            deaf = time.monotonic() - began
        later = self.event()
        await self.relay.spread(later)
        await self.hears(*gap, later)
        return self.count(deaf, *gap, later)

    def count(self, deaf: float, *events: Wire) -> Cell:
        """The cell of these events."""
        times = Counter(self.subject.received)
        lost = sum(event["id"] not in times for event in events)
        twice = sum(count > 1 for count in times.values())
        return Cell(deaf, lost, twice)

    async def cut(self) -> None:
        """Drop every connection, and wait until the relay has noticed."""
        before = list(self.relay.peers)
        for peer in before:
            peer.drop()
        await self.relay.until(lambda: not set(before) & set(self.relay.peers))

    async def published(self, watch: float = WATCH) -> Cell:
        """Have it publish, and wait until the relay has accepted."""
        event = note(self.key, "said")
        began = time.monotonic()
        sending = asyncio.create_task(self.subject.publish(event))
        deaf = NEVER
        with suppress(TimeoutError):
            await self.relay.until(lambda: event in self.relay.stored, watch)
            deaf = time.monotonic() - began
        sending.cancel()
        (outcome,) = await asyncio.gather(sending, return_exceptions=True)
        copies = self.relay.events().count(event)
        if deaf == NEVER:
            reported = isinstance(outcome, Exception)
            return Cell(NEVER, 1, 0, f"not sent again, {'reported' if reported else 'not reported'}")
        return Cell(deaf, 0, 0, f"{deaf:.2f} s" + (f", {copies} tries" if copies > 1 else ""))


# ---- subscriptions ---------------------------------------------------------------------------------------------------


async def drop(trial: Trial) -> Cell:
    await trial.begin()
    gap = trial.event()
    trial.relay.stored.append(gap)
    await trial.cut()
    return await trial.after(gap)


async def closing(trial: Trial) -> Cell:
    await trial.begin()
    gap = trial.event()
    trial.relay.stored.append(gap)
    before = list(trial.relay.peers)
    await asyncio.gather(*(peer.socket.close(1001, "going away") for peer in before))
    await trial.relay.until(lambda: not set(before) & set(trial.relay.peers))
    return await trial.after(gap)


async def five_drops(trial: Trial) -> Cell:
    await trial.begin()
    gaps: list[Wire] = []
    worst = 0.0
    for _ in range(5):
        gaps.append(trial.event())
        trial.relay.stored.append(gaps[-1])
        await trial.cut()
        worst = max(worst, (await trial.after(*gaps)).deaf)
        if worst == NEVER:
            break
    return trial.count(worst, *gaps)


async def outage(trial: Trial) -> Cell:
    await trial.begin()
    await trial.relay.stop()
    gap = trial.event()
    trial.relay.stored.append(gap)
    await asyncio.sleep(OUTAGE)
    await trial.relay.start()
    return await trial.after(gap)


async def half_open(trial: Trial) -> Cell:
    await trial.begin()
    gap = trial.event()
    trial.relay.stored.append(gap)
    trial.frozen = list(trial.relay.peers)
    for peer in trial.frozen:
        peer.freeze()
    return await trial.after(gap, watch=5 * WATCH)


async def old_wrap(trial: Trial) -> Cell:
    await trial.begin(kind=1059)
    gap = trial.event(dated=-20 * 3_600)
    trial.relay.stored.append(gap)
    await trial.cut()
    cell = await trial.after(gap)
    later = trial.event(dated=-30 * 3_600)
    await trial.relay.spread(later)
    await trial.hears(later)
    return replace(cell, lost=cell.lost + (later["id"] not in trial.subject.received))


async def ahead(trial: Trial) -> Cell:
    await trial.begin()
    future = trial.event(dated=600)
    await trial.relay.spread(future)
    await trial.hears(future)
    gap = trial.event()
    trial.relay.stored.append(gap)
    await trial.cut()
    return await trial.after(future, gap)


def closed(reason: str) -> Callable[[Trial], Awaitable[Cell]]:
    async def close(trial: Trial) -> Cell:
        await trial.begin()
        gap = trial.event()
        trial.relay.stored.append(gap)
        for peer in list(trial.relay.peers):
            for subscription in list(peer.subscriptions):
                del peer.subscriptions[subscription]
                await peer.send("CLOSED", subscription, reason)
        return await trial.after(gap)

    return close


async def demands_auth(trial: Trial) -> Cell:
    relay = trial.relay
    authenticated: set[int] = set()

    async def challenge(peer: Peer) -> None:
        await peer.send("AUTH", "challenge")

    async def take(peer: Peer, event: Wire) -> None:
        authenticated.add(peer.number)
        await peer.send("OK", event["id"], True, "")

    async def serve(peer: Peer, subscription: str, filters: list[dict[str, Any]]) -> None:
        if peer.number in authenticated:
            await relay.serve_stored(peer, subscription, filters)
            return
        del peer.subscriptions[subscription]
        await peer.send("CLOSED", subscription, "auth-required: who are you?")

    relay.on_connect = challenge
    relay.on_auth = take
    relay.on_req = serve
    await trial.cut()  # who was connected before has seen no challenge
    try:
        return Cell(await trial.begin())
    except (TimeoutError, AssertionError):
        return Cell(NEVER, 1)


async def malformed(trial: Trial) -> Cell:
    await trial.begin()
    honest = trial.event()
    for peer in list(trial.relay.peers):
        name = next(iter(peer.subscriptions), "none")
        odd: list[Wire] = [
            {"tags": [["p"]]},
            {"tags": [[]]},
            {"tags": [None]},
            {"created_at": 1.5},
            {"kind": True},
            {"id": "x"},
        ]
        odd += [{"sig": None}, {"content": None}, {"pubkey": 7}, {"tags": "p"}]
        frames = [json.dumps(["EVENT", name, {**honest, **change}]) for change in odd]
        frames += ["[]", "{}", "null", "7", '["EVENT"]', '["EOSE"]', '["OK"]', "[[[[", '["NOTICE"]', '["CLOSED"]', ""]
        for frame in frames:
            await peer.send_text(frame)
    return await trial.after()


async def unasked(trial: Trial) -> Cell:
    await trial.begin()
    other = note(trial.friend, "of another kind", ["p", trial.key.public], kind=7)
    stray = trial.event()
    for peer in list(trial.relay.peers):
        for subscription in list(peer.subscriptions):
            await peer.send("EVENT", subscription, other)
        await peer.send("EVENT", "unknown", stray)
    cell = await trial.after()
    wrong = [event for event in (other, stray) if event["id"] in trial.subject.received]
    return Cell(cell.deaf, cell.lost, cell.twice, f"{len(wrong)} of 2 delivered" if wrong else "dropped")


async def forged(trial: Trial) -> Cell:
    await trial.begin()
    genuine = trial.event()
    await trial.relay.spread({**genuine, "sig": trial.event()["sig"]})
    await asyncio.sleep(0.5)
    await trial.relays[1].spread(genuine)
    heard = await trial.hears(genuine)
    return Cell(0.0 if heard else NEVER, int(not heard), 0, "delivered" if heard else "lost for ever")


async def copies(trial: Trial) -> Cell:
    await trial.begin()
    event = trial.event()
    for relay in trial.relays:
        await relay.spread(event)
        await relay.spread(event)
    await trial.hears(event)
    await asyncio.sleep(0.5)
    cell = trial.count(0.0, event)
    return Cell(0.0, cell.lost, cell.twice, "once" if not (cell.lost or cell.twice) else "")


# ---- publishing ------------------------------------------------------------------------------------------------------


def first_answered(answer: str | None) -> Callable[[Trial], Awaitable[Cell]]:
    """The first copy gets this answer (None: none at all), and later ones are accepted."""

    async def send(trial: Trial) -> Cell:
        relay = trial.relay
        refused: set[str] = set()

        async def refuse(peer: Peer, event: Wire) -> None:
            if event["id"] in refused:
                await relay.accept(peer, event)
                return
            refused.add(event["id"])
            if answer is not None:
                await peer.send("OK", event["id"], False, answer)

        relay.on_event = refuse
        return await trial.published()

    return send


async def publish_needs_auth(trial: Trial) -> Cell:
    relay = trial.relay
    authenticated: set[int] = set()

    async def challenge(peer: Peer) -> None:
        await peer.send("AUTH", "challenge")

    async def take(peer: Peer, event: Wire) -> None:
        authenticated.add(peer.number)
        await peer.send("OK", event["id"], True, "")

    async def refuse(peer: Peer, event: Wire) -> None:
        if peer.number in authenticated:
            await relay.accept(peer, event)
        else:
            await peer.send("OK", event["id"], False, "auth-required: who are you?")

    for peer in relay.peers:
        await challenge(peer)
    relay.on_connect = challenge
    relay.on_auth = take
    relay.on_event = refuse
    return await trial.published()


async def publish_while_down(trial: Trial) -> Cell:
    await trial.relay.stop()
    publishing = asyncio.create_task(trial.published(WATCH + 3))
    await asyncio.sleep(3)
    await trial.relay.start()
    return await publishing


@dataclass(frozen=True, slots=True)
class Fault:
    """One row."""

    name: str
    run: Callable[[Trial], Awaitable[Cell]]
    most: float = 1.0
    """Seconds that our client may take."""
    relays: int = 1


FAULTS: Final = (
    Fault("the connection is dropped", drop),
    Fault("the relay closes the connection", closing),
    Fault("five drops, one after the other", five_drops, 4.0),
    Fault(f"the relay is down for {OUTAGE:g} s; then", outage, 5.0),
    Fault("half open: no byte comes any more", half_open, 45.0),
    Fault("drop, a gift wrap dated 20 h back in the gap, then one of 30 h", old_wrap),
    Fault("an event dated 10 min ahead, then a drop", ahead),
    Fault('CLOSED "error: shutting down idle subscription"', closed("error: shutting down idle subscription")),
    Fault("CLOSED without a reason", closed("")),
    Fault('CLOSED "rate-limited: slow down" (waits as asked)', closed("rate-limited: slow down"), 6.0),
    Fault("REQ answered by auth-required", demands_auth),
    Fault("21 malformed frames", malformed),
    Fault("events that were not asked for", unasked),
    Fault("a forged copy from one relay, then the genuine one from another", forged, relays=2),
    Fault("the same event twice from two relays", copies, relays=2),
    Fault("publish: OK false, auth-required", publish_needs_auth),
    Fault("publish: OK false, rate-limited (waits)", first_answered("rate-limited: slow down"), 6.0),
    Fault("publish: OK false, error", first_answered("error: could not store it")),
    Fault("publish: no OK (waits for 10 s)", first_answered(None), 12.0),
    Fault("publish while the relay is down for 3 s", publish_while_down, 8.0),
)
