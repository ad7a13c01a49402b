"""Several relays as one: every event is delivered once, verified, in the order of arrival.

    raw event -> recent? -> author wanted? -> id -> seen before? -> signature -> remembered -> `on_event`

An id is remembered only after its signature is verified, so a forged copy never keeps the genuine event out. All of it
happens while the frame is read: what `on_event` has not taken yet waits in the socket, and so with the relay.
"""

import asyncio
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from tenex.core.errors import InvalidEvent, RelayUnavailable
from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome
from tenex.log import get_logger

from .addresses import PrivateAddress, public_address
from .events import Event, Sign, is_genuine, parse_event, sign_here
from .filters import Filter
from .keys import Key
from .relay import RelayConnection, RelayStatus
from .relay_info import RelayLimits
from .relay_traits import RelayTraits
from .retry import is_worth_logging
from .tasks import start
from .timeouts import RelayTimeouts, clock_ahead
from .urls import normalise_url

log = get_logger(__name__)

OnEvent = Callable[[Event, str], None]
"""Takes a genuine event, once, and the URL of the relay that sent it first."""

RECENT_IDS: Final = 10_000
"""Some minutes of a very busy relay; about 1.5 MB for both sets."""


class RecentIds:
    """The latest event ids, in bounded memory: two alternating sets, cheaper than an LRU; the last `size` are kept."""

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int = RECENT_IDS) -> None:
        self._size = size
        self._new: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._new or event_id in self._old

    def add(self, event_id: str) -> None:
        """Add an id; the older set is dropped once the newer one is full."""
        self._new.add(event_id)
        if len(self._new) >= self._size:
            self._old = self._new
            self._new = set()


class RelayPool:
    """Relays to listen to, and relays to publish to."""

    def __init__(
        self,
        urls: Iterable[str],
        *,
        on_event: OnEvent,
        on_new: OnEvent | None = None,
        is_seen: Callable[[str], bool] = lambda _: False,
        is_wanted: Callable[[PublicKey], bool] = lambda _: True,
        of_anyone: Collection[int] = (),
        identity: Key | None = None,
        more_identities: Callable[[], Iterable[Key]] = tuple,
        sign: Sign = sign_here,
        timeouts: RelayTimeouts | None = None,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
        others_must_be_public: bool = False,
        must_be_public: Callable[[str], bool] = lambda _: False,
        key_of: Callable[[PublicKey], Key | None] = lambda _: None,
        is_wanted_in_room: Callable[[Mapping[str, Any], str], bool] = lambda _event, _relay: False,
        informed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            urls: the relays every subscription goes to.
            on_event: receives every genuine event once. If it raises, only that event is lost.
            on_new: receives those that are new at their relay in its place; None if the difference does not matter.
            is_seen: whether an earlier process received this id; called only with valid ids.
            is_wanted: whether events of an author are wanted; others are dropped before verification.
            of_anyone: kinds of events that are wanted by any author, such as gift wraps, whose keys are used once.
            identity: the key shown to relays that ask.
            more_identities: keys shown to those of `urls` that ask, besides: some hand messages to their readers only.
            sign: signs with those keys.
            timeouts: the durations.
            rng: for jitter.
            now: the wall clock, in seconds.
            others_must_be_public: publish to relays beyond `urls` only at public addresses; messages name them.
            must_be_public: whether one of `urls` is used only at a public address: anybody may have named it.
            key_of: our key of a public one; it gets a connection of its own where a relay takes one key to each.
            is_wanted_in_room: whether a raw event of a relay is wanted although its author is not, for its room.
            informed: takes the URL of one of `urls` when its document has been read, and when it is seen that it takes
                one key to a connection.

        Raises:
            ValueError: one of the URLs is not a relay URL.
        """
        self._on_event = on_event
        self._on_new = on_new or on_event
        self._is_seen = is_seen
        self._is_wanted = is_wanted
        self._of_anyone = frozenset(of_anyone)
        self._identity = identity
        self._more_identities = more_identities
        self._sign = sign
        self._timeouts = timeouts or RelayTimeouts()
        self._rng = rng or Random()  # noqa: S311  (jitter, not secrecy)
        self._now = now
        self._others_must_be_public = others_must_be_public
        self._key_of = key_of
        self._is_wanted_in_room = is_wanted_in_room
        self._on_informed = informed
        self._recent = RecentIds()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._is_clock_wrong = False
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[RelayConnection, asyncio.Task[None]] = {}
        self._publish_only: dict[str, RelayConnection] = {}
        self._of_keys: dict[tuple[str, PublicKey], RelayConnection] = {}
        """Connections of our other keys, at relays that take one key to a connection."""
        canonical = dict.fromkeys(map(normalise_url, urls))
        self._relays = {url: self._connection(url, must_be_public=must_be_public(url)) for url in canonical}

    async def run(self) -> None:
        """Keep every relay connected and deliver events, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for relay in self._all():
                    self._start(relay)
                await self._dismiss_idle()
        finally:
            self._group = None
            self._running.clear()

    def subscribe(self, name: str, filters: Sequence[Filter], backlog_since: int | None) -> None:
        """Receive matching events from every relay from now on; replaces the subscription of that name.

        With `backlog_since` (seconds) stored events since then are delivered too, oldest first (see `HistoryBuffer`),
        mixed with new ones. With None only new events, including those of a time without connection. The unread past of
        a replaced subscription is still read.

        Raises:
            ValueError: no filters, filters that are not JSON, or more REQs than a connection carries.
        """
        for relay in self._relays.values():
            relay.subscribe(name, filters, backlog_since)

    def subscribe_at(
        self, relay: str, name: str, filters: Sequence[Filter], backlog_since: int | None, key: PublicKey | None = None
    ) -> None:
        """Receive matching events from one of the relays, where there is room beside what `subscribe` asks for.

        Args:
            relay: its canonical URL.
            name: of the subscription.
            filters: what is wanted.
            backlog_since: seconds.
            key: our key that may read this; where the relay takes one key to a connection, that key's is used.

        Raises:
            ValueError: the relay is none of ours, or as for `subscribe`.
        """
        if relay not in self._relays:
            raise ValueError(f"{relay} is not a relay of the settings")
        self._connection_for(relay, key).subscribe(name, filters, backlog_since, is_optional=True)

    def unsubscribe_at(self, relay: str, name: str) -> None:
        """Receive no more under a name from one relay, by whichever connection."""
        for connection in self._all():
            if connection.url == relay:
                connection.unsubscribe(name)

    async def informed(self, relay: str) -> None:
        """Return once the document of one of the relays has been read, or found missing.

        Raises:
            ValueError: the relay is none of ours.
        """
        if relay not in self._relays:
            raise ValueError(f"{relay} is not a relay of the settings")
        await self._relays[relay].informed.wait()

    @property
    def urls(self) -> Collection[str]:
        """The canonical URLs of the relays that every subscription goes to."""
        return self._relays.keys()

    def limits(self, relay: str) -> RelayLimits:
        """What the document of a relay says of its limits; ours where it is not connected, or has none."""
        connection = self._relays.get(relay) or self._publish_only.get(relay)
        return connection.limits if connection is not None else RelayLimits()

    def rooms_key(self, relay: str) -> str:
        """The key with which one of the relays signs what it says of rooms (NIP-29); "" where it has none."""
        connection = self._relays.get(relay)
        return connection.rooms_key if connection is not None else ""

    def takes_one_key(self, relay: str) -> bool:
        """Whether it was seen that a relay takes one key to a connection."""
        connection = self._relays.get(relay)
        return connection is not None and connection.traits.takes_one_key

    def refused_keys(self, relay: str) -> Mapping[PublicKey, str]:
        """Our keys that one of the relays has refused at AUTH, each with its answer."""
        connection = self._relays.get(relay)
        return connection.traits.refused_keys if connection is not None else {}

    async def publish(self, event: Event, relay: str) -> PublishOutcome:
        """Send to one relay until its answer is final; an unknown relay is connected to for this.

        Cancelling is safe: the same event may be published again at any time.

        Raises:
            ValueError: the URL is not a relay URL.
        """
        if self._others_must_be_public and normalise_url(relay) not in self._relays:
            try:
                await public_address(normalise_url(relay))
            except PrivateAddress as fault:
                return PublishOutcome(accepted=False, detail=str(fault))
            except (OSError, TimeoutError):  # the connection tries it again
                pass
        connection = self._connection_for(self._relay(relay).url, event.pubkey)
        refusal = connection.traits.refusal(event)
        if refusal is not None:
            return PublishOutcome(accepted=False, detail=refusal)
        outcome = await connection.publish(event)
        if not outcome.accepted and await self._may_be_accepted_now(connection, event):
            outcome = await self._connection_for(connection.url, event.pubkey).publish(event)
        if not outcome.accepted and not outcome.is_outdated:
            connection.traits.note_refusal(event, outcome.detail)
        return outcome

    async def _may_be_accepted_now(self, connection: RelayConnection, event: Event) -> bool:
        """Whether a connection has refused an event of another key of ours, and the relay knows that key now.

        It knows it after AUTH: on that connection, or on one of its own where it takes one key to each.
        """
        key = self._key_of(event.pubkey)
        if key is None or not self._has_own(event.pubkey) or connection in self._of_keys.values():
            return False
        is_known = await connection.shows(key)
        return (is_known or connection.traits.takes_one_key) and connection.traits.refusal(event) is None

    def has_room(self, relay: str) -> bool:
        """Whether `offer` would send to that relay now; `relay` is a canonical URL."""
        connection = self._relays.get(relay) or self._publish_only.get(relay)
        return connection is not None and connection.has_room

    def offer(self, event: Event, relay: str) -> bool:
        """Send once to a relay if it is connected and has room; False if the event was dropped.

        For ephemeral events, on which nothing depends. Frames already queued for the relay go first. `relay` is a
        canonical URL.
        """
        connection = self._relays.get(relay) or self._publish_only.get(relay)
        return connection is not None and connection.offer(event)

    def offer_rarely(self, event: Event, relay: str) -> bool:
        """Send once to one of the relays, also where its author has a connection of its own; False if it was dropped.

        For ephemeral events of which one key sends one every few seconds at most: they leave most of its quota to
        messages. `relay` is a canonical URL.
        """
        if relay not in self._relays or event.kind in self._relays[relay].traits.refused_kinds:
            return False
        return self._connection_for(relay, event.pubkey).offer(event, is_rare=True)

    async def fetch(
        self,
        filters: Sequence[Filter],
        timeout: float,  # noqa: ASYNC109  (part of the port)
        unread: list[str] | None = None,
        others: Sequence[str] = (),
        invalid: list[str] | None = None,
        only: str | None = None,
        key: PublicKey | None = None,
    ) -> list[Event]:
        """Fetch stored events from all connected relays: genuine ones, each once, newest first.

        Returns when all have answered, or what there is after `timeout` seconds. If no relay is connected the first to
        connect is asked. Fetched events are not delivered to `on_event` and not remembered as seen.

        Args:
            filters: what is wanted.
            timeout: seconds.
            unread: receives the URLs of relays that have not sent everything: away, too slow, or refusing.
            others: further relays to ask; with `others_must_be_public` only at public addresses.
            invalid: receives a sentence for each event that was dropped because it is forged or malformed.
            only: the one of the relays that is asked, once it is connected.
            key: our key that asks there, if that relay takes one key to a connection.
        """
        events: dict[str, Event] = {}
        read: set[str] = set()
        dropped: list[str] = []

        async def ask(relay: RelayConnection) -> None:
            if await relay.fetch(filters, partial(self._collect, events, dropped, relay.url)):
                read.add(relay.url)

        async def ask_connected() -> None:
            if only is not None:
                await ask(self._connection_for(only, key))
                return
            if not self._relays:
                return
            await self._any_connected()
            await asyncio.gather(*(ask(relay) for relay in self._relays.values() if relay.connected.is_set()))

        named = [relay for relay in dict.fromkeys(map(self._relay, others)) if relay.url not in self._relays]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(ask_connected(), *map(ask, named))
        except TimeoutError:
            log.info("relays.fetch_incomplete", found=len(events), waited=timeout)

        if unread is not None:
            unread.extend(url for url in self._relays if url not in read)
        if invalid is not None:
            invalid.extend(dropped)
        return sorted(events.values(), key=lambda event: (-event.created_at, event.id))

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109  (part of the port)
        """Return once one relay is connected.

        Raises:
            RelayUnavailable: none was, in `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._any_connected()
        except TimeoutError:
            raise RelayUnavailable(self._unavailable(f"no relay is connected after {timeout:g} s")) from None

    async def listening(self, name: str, timeout: float) -> None:  # noqa: ASYNC109  (part of the port)
        """Return once one relay serves the subscription: from then on no new event is missed there.

        Raises:
            RelayUnavailable: none has, in `timeout` seconds.
            ValueError: there is no subscription of that name.
        """
        try:
            async with asyncio.timeout(timeout):
                await _first(relay.listening(name) for relay in self._relays.values())
        except TimeoutError:
            raise RelayUnavailable(self._unavailable(f"no relay serves {name!r} after {timeout:g} s")) from None

    def status(self) -> list[RelayStatus]:
        """The status of each relay, including those only published to."""
        statuses = []
        for relay in (*self._relays.values(), *self._publish_only.values()):
            status = relay.status()
            counts = self._counts[relay.url]
            counters = {**status.counters, **counts}
            strikes = counts["strikes"] + status.counters.get("malformed", 0)
            status = replace(status, strikes=strikes, counters=counters)
            for (url, key), connection in self._of_keys.items():
                if url == relay.url:
                    status = _with_status_of_key(status, key, connection.status())
            statuses.append(status)
        return statuses

    def _take(self, receive: OnEvent, raw: dict[str, Any], relay: str) -> None:
        """Deliver an event that is genuine and not yet known."""
        counts = self._counts[relay]
        if raw["id"] in self._recent:
            counts["doubles"] += 1
            return
        if not self._is_wanted_event(raw, relay):
            counts["unwanted"] += 1
            return
        event = self._read(raw, relay)
        if event is None:
            return
        if self._is_seen(event.id):
            counts["doubles"] += 1
        elif self._verify(event, relay):
            self._recent.add(event.id)
            counts["events"] += 1
            self._deliver(receive, event, relay)

    def _is_known(self, relay: str, raw: dict[str, Any]) -> bool:
        """Whether `_take` would drop this as a duplicate or unwanted; if so it is counted."""
        counts = self._counts[relay]
        if raw["id"] in self._recent or self._is_seen(raw["id"]):
            counts["doubles"] += 1
        elif not self._is_wanted_event(raw, relay):
            counts["unwanted"] += 1
        else:
            return False
        return True

    def _is_wanted_event(self, raw: dict[str, Any], relay: str) -> bool:
        is_wanted = raw["kind"] in self._of_anyone or self._is_wanted(raw["pubkey"])
        return is_wanted or self._is_wanted_in_room(raw, relay)

    def _collect(self, found: dict[str, Event], dropped: list[str], relay: str, raw: dict[str, Any]) -> None:
        event = self._read(raw, relay, dropped)
        if event is None or event.id in found:
            return
        if self._verify(event, relay):
            found[event.id] = event
        else:
            dropped.append("the signature is not its author's")

    def _read(self, raw: dict[str, Any], relay: str, dropped: list[str] | None = None) -> Event | None:
        try:
            return parse_event(raw)
        except InvalidEvent as fault:
            self._count_invalid(relay, str(fault))
            if dropped is not None:
                dropped.append(str(fault))
            return None

    def _verify(self, event: Event, relay: str) -> bool:
        if is_genuine(event):
            return True
        self._count_invalid(relay, f"the signature of {event.id} is not its author's")
        return False

    def _count_invalid(self, relay: str, why: str) -> None:
        self._relay(relay).note_forgery()
        counts = self._counts[relay]
        counts["strikes"] += 1
        level = log.warning if is_worth_logging(counts["strikes"]) else log.debug
        level("relay.invalid_event", relay=relay, why=why, strikes=counts["strikes"])

    def _deliver(self, receive: OnEvent, event: Event, relay: str) -> None:
        try:
            receive(event, relay)
        except Exception as fault:  # one bad event must not stop delivery
            self._counts[relay]["failed"] += 1
            where = traceback.extract_tb(fault.__traceback__)[-1]
            # not the message: it may contain a user's text
            log.error(
                "event.delivery_failed",
                event_id=event.id,
                relay=relay,
                fault=type(fault).__name__,
                where=f"{where.filename}:{where.lineno}",
            )
            log.debug("event.delivery_failed", event_id=event.id, exc_info=fault)

    def _relay(self, url: str) -> RelayConnection:
        relay = self._relays.get(url) or self._publish_only.get(url)  # canonical already, as nearly all are
        if relay is not None:
            return relay
        canonical = normalise_url(url)
        relay = self._relays.get(canonical) or self._publish_only.get(canonical)
        if relay is None:
            relay = self._connection(canonical, must_be_public=self._others_must_be_public)
            self._publish_only[canonical] = relay
            if self._group is not None:
                self._start(relay)
        return relay

    def _connection_for(self, url: str, key: PublicKey | None) -> RelayConnection:
        """The connection for what one of our keys does: its own, where the relay takes one key to a connection."""
        main = self._relay(url)
        own_key = self._key_of(key) if key is not None and main.traits.takes_one_key else None
        if own_key is None or own_key == self._identity:
            return main
        connection = self._of_keys.get((url, own_key.public))
        if connection is None:
            connection = self._connection(url, must_be_public=main.must_be_public, own_key=own_key, traits=main.traits)
            self._of_keys[url, own_key.public] = connection
            self._start(connection)
        return connection

    def _has_own(self, key: PublicKey) -> bool:
        """Whether a key is ours and not that of the usual connections."""
        own_key = self._key_of(key)
        return own_key is not None and own_key != self._identity

    def _all(self) -> tuple[RelayConnection, ...]:
        return (*self._relays.values(), *self._publish_only.values(), *self._of_keys.values())

    def _learn_one_key(self, url: str) -> None:
        log.info("relay.takes_one_key", relay=url)
        self._relay(url).note_one_key()
        if url in self._relays:
            self._on_informed(url)

    def _inform(self, url: str) -> None:
        if url in self._relays:
            self._on_informed(url)

    def _connection(
        self, url: str, *, must_be_public: bool = False, own_key: Key | None = None, traits: RelayTraits | None = None
    ) -> RelayConnection:
        """A connection to a relay, that of one of our other keys if `own_key` is given."""
        if traits is None:
            traits = RelayTraits(learnt=[partial(self._learn_one_key, url)])
        is_main = own_key is None
        return RelayConnection(
            url,
            on_event=partial(self._take, self._on_event),
            on_new=partial(self._take, self._on_new),
            is_known=partial(self._is_known, url),
            identity=own_key or self._identity,
            timeouts=self._timeouts,
            rng=self._rng,
            now=self._now,
            connected=self._check_clock,
            must_be_public=must_be_public,
            more_identities=self._more_identities if is_main and not must_be_public else tuple,
            sign=self._sign,
            traits=traits,
            informed=partial(self._inform, url) if is_main else lambda: None,
            has_own=self._has_own if is_main else lambda _: False,
        )

    @property
    def clock_ahead(self) -> float | None:
        """Seconds by which the local clock is ahead of the relays' (negative: behind); None unless it is wrong."""
        relays = (*self._relays.values(), *self._publish_only.values())
        differences = (relay.clock_ahead for relay in relays)
        return clock_ahead([ahead for ahead in differences if ahead is not None])

    def _check_clock(self) -> None:
        """Log once that the local clock is wrong, and once that it is right again."""
        ahead = self.clock_ahead
        was_wrong = self._is_clock_wrong
        self._is_clock_wrong = ahead is not None
        if ahead is not None and not was_wrong:
            log.warning("clock.wrong", ahead_seconds=round(ahead), fix="set the clock: timedatectl set-ntp true")
        elif was_wrong and ahead is None:
            log.info("clock.right")

    def _start(self, relay: RelayConnection) -> None:
        if self._group is None:
            return
        running = start(self._group, relay.run(), f"relay {relay.url}")
        if running is not None:
            self._running[relay] = running

    async def _dismiss_idle(self) -> None:
        """Disconnect relays and keys that were only published to and by, once they are idle."""
        while True:
            await asyncio.sleep(self._timeouts.idle_after / 4)
            for url, relay in list(self._publish_only.items()):
                if self._is_idle(relay):
                    del self._publish_only[url]
                    self._running.pop(relay).cancel()
            for place, relay in list(self._of_keys.items()):
                if self._is_idle(relay) and not relay.has_subscriptions:
                    del self._of_keys[place]
                    self._running.pop(relay).cancel()

    def _is_idle(self, relay: RelayConnection) -> bool:
        return not relay.busy and self._now() - relay.idle_since > self._timeouts.idle_after

    async def _any_connected(self) -> None:
        await _first(relay.connected.wait() for relay in self._relays.values())

    def _unavailable(self, what: str) -> str:
        faults = [f"{status.url}: {'; '.join(status.refused) or status.fault}" for status in self.status()]
        return f"{what} ({', '.join(faults) or 'no relay is configured'})"


async def _first(waits: Iterable[Awaitable[Any]]) -> None:
    """Return with the first that returns and cancel the others; never return if there are none."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        if not tasks:
            await asyncio.Event().wait()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _with_status_of_key(status: RelayStatus, key: PublicKey, own: RelayStatus) -> RelayStatus:
    """The status of a relay with that of the connection of one of our keys to it."""
    refused = tuple(f"key {key[:8]}: {reason}" for reason in own.refused)
    fault = f"key {key[:8]}: {own.fault}" if own.fault and not own.connected else ""
    until = status.received_until
    if not own.publish_only and not own.refused:  # what it refuses to this key is not waited for
        until = None if until is None or own.received_until is None else min(until, own.received_until)
    counters = {**status.counters, "keys": status.counters.get("keys", 1) + 1}
    return replace(
        status,
        refused=(*status.refused, *refused),
        fault=status.fault or fault,
        received_until=until,
        counters=counters,
    )
