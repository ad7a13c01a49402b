"""One relay: reconnects, restores its subscriptions, and publishes each event until it is accepted or refused.

A `RelayConnection` outlives its sockets: each socket is a `ClientConnection`, and open REQs are sent again on the next.
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from websockets.exceptions import WebSocketException

from tenex.core.backoff import Backoff
from tenex.core.errors import RelayUnavailable
from tenex.core.ids import PublicKey
from tenex.core.ports import PublishOutcome
from tenex.log import get_logger

from .addresses import PrivateAddress
from .connection import ClientConnection, Take
from .events import Event, Sign, sign_here, to_wire
from .filters import Filter, lay_out
from .history_buffer import HistoryBuffer
from .keys import Key
from .pagination import most_events
from .relay_info import DocumentUnread, RelayLimits, read_limits
from .relay_subscriptions import RelaySubscriptions
from .relay_traits import RelayTraits
from .retry import ReasonAction, RetryPolicy, is_worth_logging, printable, read_answer
from .timeouts import Reconnecting, RelayTimeouts
from .urls import normalise_url
from .websocket import RelaySocket, open_websocket
from .wire import event_frame

log = get_logger(__name__)

TakeFrom = Callable[[dict[str, Any], str], None]
"""Takes a raw event and the URL it came from."""

_FAULTS: Final = (OSError, WebSocketException, EOFError, UnicodeError, ImportError, PrivateAddress)
"""Errors of connections. ImportError: `websockets` needs a package that is not installed if a SOCKS proxy is set."""

DATE_OF_NOW: Final = 60.0
"""Seconds by which the date of an event may differ from the time, and a refusal is for something else: a relay gets a
message within some seconds where it is there. No relay is known to take less; Buzz's takes 900."""

_OF_DATES: Final = frozenset({"", "blocked", "invalid"})
"""The prefixes under which relays refuse a date: `invalid` by NIP-22, `blocked` of khatru's, and none. Others name
another cause. The words after it are not read: each relay has its own."""

_UNCLEAR_TRIES: Final = 8
"""Refusals without a NIP-01 reason, and failures of AUTH, after which an event counts as refused; some minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """The status of one relay."""

    url: str
    connected: bool
    last_received: float | None
    """Wall clock, seconds; None if never."""
    received_until: float | None = None
    """Wall clock, seconds, up to which every wanted event was handled; None while some past is unread."""
    serves: bool
    """Connected, and every subscription is answered."""
    publish_only: bool = False
    """It has no subscriptions."""
    unresponsive_since: float | None = None
    """Wall clock, seconds, since when it does not serve; None while it serves."""
    refused: tuple[str, ...]
    """Each subscription it will not serve, with its reason."""
    fault: str = ""
    """Why the last connection ended or could not be made."""
    strikes: int = 0
    """Forged events and malformed messages it sent."""
    counters: Mapping[str, int] = field(default_factory=dict)


class RelayConnection:
    """One relay, for as long as `run` runs."""

    def __init__(
        self,
        url: str,
        *,
        on_event: TakeFrom,
        on_new: TakeFrom | None = None,
        is_known: Callable[[dict[str, Any]], bool] = lambda _: False,
        identity: Key | None = None,
        timeouts: RelayTimeouts | None = None,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
        connected: Callable[[], None] = lambda: None,
        must_be_public: bool = False,
        more_identities: Callable[[], Iterable[Key]] = tuple,
        sign: Sign = sign_here,
        traits: RelayTraits | None = None,
        informed: Callable[[], None] = lambda: None,
        has_own: Callable[[PublicKey], bool] = lambda _: False,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            url: ws:// or wss://.
            on_event: takes what matches a subscription; see `TakeFrom`.
            on_new: takes what is new at the relay in its place; None if the difference does not matter.
            is_known: whether `on_event` would drop a raw event as a duplicate, so that it need not be buffered.
            identity: the key for AUTH (NIP-42).
            timeouts: the durations.
            rng: for jitter.
            now: the wall clock, in seconds.
            connected: called after each connection is made.
            must_be_public: connect to public addresses only, and ask for no document: others have named the relay.
            more_identities: our other keys, which may read here too.
            sign: signs with those keys.
            traits: what is known of the relay; its connections share it.
            informed: called after each connection, once the relay's document is read or found missing.
            has_own: whether a key has a connection of its own, where the relay takes one key to each.

        Raises:
            ValueError: the URL is not a relay URL.
        """
        self.url = normalise_url(url)
        self.connected = asyncio.Event()
        self.busy = 0
        """Publishes and fetches under way."""
        self.idle_since = now()
        self._identity = identity
        self._more_identities = more_identities
        self._sign = sign
        self.traits = traits or RelayTraits()
        self._on_informed = informed
        self._has_own = has_own
        self.informed = asyncio.Event()
        """Set once the relay's document has been read, or it is known that there is none."""
        self._timeouts = timeouts or RelayTimeouts()
        self._rng = rng or Random()  # noqa: S311  (jitter, not secrecy)
        self._now = now
        self.must_be_public = must_be_public
        self._on_connected = connected
        self._knows = is_known
        self._log = log.bind(relay=self.url)
        self._backlog = HistoryBuffer(
            partial(self._take, on_event),
            self._timeouts.eose_timeout,
            take_new=partial(self._take, on_new or on_event),
            is_known=self._is_known,
        )
        self._limits = RelayLimits()
        self._subscriptions = RelaySubscriptions(
            self.url,
            backlog=self._backlog,
            timeouts=self._timeouts,
            rng=self._rng,
            now=now,
            limits=lambda: self._limits,
            changed=self._judge_service,
            only_key=lambda: identity.public if identity is not None and self.traits.takes_one_key else None,
        )
        self._connection: ClientConnection | None = None
        self._connection_count = 0
        self._may_publish = asyncio.Event()
        """Set once the stored events of this connection are read."""
        self._date: tuple[float, float] | None = None
        """The relay's date at the time of connecting, and the loop's clock at that time."""
        self._fault = ""
        self._last_received: float | None = None
        self._counts: Counter[str] = Counter()

    # ---- staying connected ----

    async def run(self) -> None:
        """Keep a connection open until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_backlog(), name=f"backlog {self.url}")
            await self._stay_connected()

    async def _run_backlog(self) -> None:
        while True:
            try:
                await self._backlog.run()
            except Exception as fault:  # noqa: BLE001 as in `_stay_connected`
                self._failed(fault)
                await asyncio.sleep(self._timeouts.redo_first)

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        reconnecting = Reconnecting(self._timeouts, self._rng, loop.time())
        service = self._subscriptions.service
        while True:
            service.reset()
            try:
                socket = await self._open()
                try:
                    self._fault = await self._serve(socket)
                finally:
                    await self._close(socket)
            except _FAULTS as fault:
                self._fault = printable(f"{type(fault).__name__}: {fault}")
            except Exception as fault:  # noqa: BLE001 no error here may end the other relays
                self._fault = self._failed(fault)
            if task.cancelling():  # a TaskGroup raises a child's error in place of the cancellation that came with it
                raise asyncio.CancelledError
            pause = reconnecting.lost(loop.time(), service.served_for(loop.time()))
            # the first tries at info; a relay that stays away deserves one warning, not one a minute
            level = self._log.warning if reconnecting.tries == 4 else self._log.info
            level("relay.lost", why=self._fault, retry_in=round(pause, 2), tries=reconnecting.tries)
            await asyncio.sleep(pause)

    async def _open(self) -> RelaySocket:
        return await open_websocket(
            self.url,
            open_timeout=self._timeouts.open_timeout,
            close_timeout=self._timeouts.close_timeout,
            ping_interval=self._timeouts.ping_interval,
            ping_timeout=self._timeouts.ping_timeout,
            must_be_public=self.must_be_public,
        )

    async def _close(self, socket: RelaySocket) -> None:
        """Close within a bounded time; an error here does not matter and must not replace a cancellation."""
        with suppress(Exception):
            async with asyncio.timeout(self._timeouts.close_timeout):
                await socket.close(1001, "stopping")  # does nothing where the other side has hung up
        socket.transport.abort()

    # ---- one connection ----

    async def _serve(self, socket: RelaySocket) -> str:
        """Use a socket until it ends; returns the reason."""
        self._connection_count += 1
        connection = ClientConnection(
            socket,
            self.url,
            prefix=f"{self._connection_count}.",
            identity=self._identity,
            timeouts=self._timeouts,
            now=self._now,
            more_identities=self._more_identities,
            sign=self._sign,
            traits=self.traits,
            try_alone=self._is_accepted_alone,
        )
        connection.wire.allow(self._limits.max_subscriptions)
        why = ""
        try:
            async with asyncio.TaskGroup() as group:
                self._connection = connection
                chores = [group.create_task(connection.write(), name=f"write {self.url}")]
                self._subscriptions.connect(connection, group)
                chores.append(group.create_task(self._read_limits(), name=f"limits {self.url}"))
                self._note_connected(socket)
                chores.append(group.create_task(self._read_past_first(), name=f"past first {self.url}"))
                if self.traits.takes_one_key:  # such a relay hangs up soon on who has not shown a key
                    chores.append(group.create_task(self._authenticate(connection), name=f"authenticate {self.url}"))
                why = await connection.read()
                self._subscriptions.cancel()
                for task in chores:
                    task.cancel()
        finally:
            self._note_lost(connection)
        return why

    def _note_connected(self, socket: RelaySocket) -> None:
        now = asyncio.get_running_loop().time()
        self._log.info("relay.connected", sessions=self._connection_count)
        self.connected.set()
        self._date = None if socket.server_date is None else (socket.server_date, now)
        self._on_connected()
        if not self._subscriptions.wanted:  # then it serves by being there
            self._subscriptions.service.served_from = now
        self._judge_service()

    def _note_lost(self, connection: ClientConnection) -> None:
        self.connected.clear()
        self._may_publish.clear()
        self._connection = None
        if connection.is_flooded:
            self._subscriptions.service.served_from = None
        self._judge_service()
        self._subscriptions.disconnect()
        self._last_received = connection.received_at
        self._counts += connection.wire.dropped

    async def _read_past_first(self) -> None:
        """Allow publishing once stored events are read: new messages are known before old answers are repeated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.past_first):
                await self._backlog.idle()
        self._may_publish.set()

    async def _authenticate(self, connection: ClientConnection) -> None:
        await connection.authenticate()

    async def _is_accepted_alone(self, key: Key) -> bool:
        """Show a key to the relay on a connection of its own, which ends then; one that is refused is remembered."""
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(self._timeouts.auth_timeout):
                socket = await self._open()
                try:
                    connection = ClientConnection(
                        socket,
                        self.url,
                        prefix="",
                        identity=key,
                        timeouts=self._timeouts,
                        now=self._now,
                        sign=self._sign,
                        traits=self.traits,
                    )
                    async with asyncio.TaskGroup() as group:
                        running = [group.create_task(connection.write()), group.create_task(connection.read())]
                        await connection.authenticate()
                        for task in running:
                            task.cancel()
                finally:
                    await self._close(socket)
        except (*_FAULTS, TimeoutError) as fault:
            self._log.info("relay.not_tried", key=key.public[:8], why=printable(f"{type(fault).__name__}: {fault}"))
        except Exception as fault:  # noqa: BLE001 as in `_stay_connected`
            self._failed(fault)
        return connection is not None and connection.was_accepted(key.public)

    async def shows(self, key: Key) -> bool:
        """Show one more of our keys to a relay that knows another by AUTH; see `ClientConnection.shows`."""
        return self._connection is not None and await self._connection.shows(key)

    async def _read_limits(self) -> None:
        """Read the relay's document; while its server fails, again and again: it may say that the relay has rooms."""
        pauses = Backoff(self._timeouts.refused_first, self._timeouts.refused_most, self._rng.uniform)
        is_read = self.must_be_public
        while True:
            if not is_read:
                try:
                    limits = await read_limits(self.url, self._timeouts.limits_timeout)
                    is_read = True
                except DocumentUnread:
                    limits = None
                if limits is not None:
                    self._use_limits(limits)
                if self.rooms_key and self._connection is not None and self._connection.was_challenged:
                    # private rooms are shown to their members, and no AUTH is asked for
                    await self._connection.authenticate()
            self.informed.set()
            self._on_informed()
            if is_read:
                return
            await asyncio.sleep(pauses.next())

    def _use_limits(self, limits: RelayLimits) -> None:
        self._limits = limits
        if self._connection is not None:
            self._connection.wire.allow(limits.max_subscriptions)
        self._subscriptions.note_limits()

    @property
    def limits(self) -> RelayLimits:
        """What the relay's document says of its limits; ours until it has been read, or where there is none."""
        return self._limits

    @property
    def rooms_key(self) -> str:
        """The key with which the relay signs what it says of rooms (NIP-29); "" where it has none, or is not known."""
        return self._limits.rooms_key

    def note_one_key(self) -> None:
        """Use this connection for its key alone from now on."""
        if self._connection is not None:
            self._connection.slow_down()
        self._subscriptions.narrow()

    # ---- subscriptions ----

    def subscribe(
        self, name: str, filters: Sequence[Filter], backlog_since: int | None, *, is_optional: bool = False
    ) -> None:
        """Receive matching events from now on, across reconnects; replaces the subscription of that name.

        The unread past of the replaced one is still read where the filters overlap.

        Raises:
            ValueError: there are no filters, or more than one connection can carry.
        """
        self._subscriptions.subscribe(name, filters, backlog_since, is_optional=is_optional)

    def unsubscribe(self, name: str) -> None:
        """Receive no more under a name; nothing happens where there is no subscription of it."""
        self._subscriptions.unsubscribe(name)

    @property
    def has_subscriptions(self) -> bool:
        """Whether something is to be received here."""
        return bool(self._subscriptions.wanted)

    async def listening(self, name: str) -> None:
        """Return once the relay serves the subscription, which may be never.

        Raises:
            ValueError: there is no subscription of that name.
        """
        await self._subscriptions.listening(name)

    def _judge_service(self) -> None:
        self._subscriptions.service.judge(serves=self._serves, now=self._now())

    @property
    def _serves(self) -> bool:
        return self.connected.is_set() and self._subscriptions.are_served

    # ---- publishing and fetching ----

    async def publish(self, event: Event) -> PublishOutcome:
        """Send the same bytes until the relay has accepted or refused; waits while it is away. Cancelling is safe."""
        frame = event_frame(to_wire(event))
        policy = RetryPolicy(self._timeouts, self._rng)
        silence = self._timeouts.ok_timeout
        size = len(frame.encode())
        unclear = 0
        with self._in_use():
            while True:
                connection = await self._up()
                await self._may_publish.wait()
                if self.traits.takes_one_key and self._has_own(event.pubkey):  # seen while it waited
                    return _refused("blocked: the relay takes this key on its own connection only")
                if size > self._limits.max_message_length:
                    return _refused(f"invalid: the relay takes {self._limits.max_message_length} bytes per message")
                try:
                    ok = await connection.publish(event.id, frame, silence)
                except TimeoutError:
                    self._log.warning("relay.no_ok", event_id=event.id, waited=silence)
                    silence = min(silence * 2, self._timeouts.redo_most)
                    continue
                except RelayUnavailable:
                    if connection.oversized == event.id:
                        return _refused("invalid: the relay hung up on it because it is too big")
                    continue
                answer = read_answer(ok.text)
                if ok.accepted or answer.action is ReasonAction.HAVE:
                    return PublishOutcome(accepted=True, detail=answer.text)
                self._log.info("relay.refused_event", event_id=event.id, why=answer.text, action=answer.action.value)
                unclear += not answer.prefix
                if unclear >= _UNCLEAR_TRIES:
                    return await self._refusal(event, answer.prefix, answer.text or "refused without a reason")
                self.traits.note_answer(answer.text, event.kind)
                why = await policy.wait(answer, connection.authenticate)
                if not why or connection.lost:
                    continue
                is_refused = answer.action is not ReasonAction.AUTH or connection.is_auth_final
                if is_refused or unclear >= _UNCLEAR_TRIES:
                    return await self._refusal(event, answer.prefix, why)
                unclear += 1
                await policy.pause_after_refusal()

    async def _refusal(self, event: Event, prefix: str, why: str) -> PublishOutcome:
        """The outcome of a refusal; of one that may be for its date the relay is asked whether it has the event.

        An OK may have been lost, and relays look at the date before they look for a duplicate.
        """
        is_of_now = abs(self._now() - event.created_at) <= DATE_OF_NOW
        if is_of_now or prefix not in _OF_DATES:
            return _refused(why)
        found: list[str] = []
        while True:
            connection = await self._up()
            is_answered = await self.fetch([{"ids": [event.id]}], lambda raw: found.append(str(raw.get("id"))))
            if event.id in found:
                return PublishOutcome(accepted=True, detail="the relay has it")
            if is_answered or not connection.lost:
                return PublishOutcome(accepted=False, detail=why, is_outdated=is_answered)

    @property
    def has_room(self) -> bool:
        """Whether it is connected and `offer` would send now."""
        return self._connection is not None and self._connection.has_room

    def offer(self, event: Event, *, is_rare: bool = False) -> bool:
        """Send once if there is room, without waiting for the answer; False if the event was dropped.

        `is_rare`: as for `ClientConnection.offer`.
        """
        frame = event_frame(to_wire(event))
        if self._connection is None or len(frame.encode()) > self._limits.max_message_length:
            return False
        return self._connection.offer(frame, is_rare=is_rare)

    async def fetch(self, filters: Sequence[Filter], take: Take) -> bool:
        """Fetch stored events once; True if all arrived. Waits while the relay is away."""
        with self._in_use():
            connection = await self._up()
            policy = RetryPolicy(self._timeouts, self._rng)
            for group in lay_out(filters):
                while True:
                    why = await self._fetch_group(connection, group, take)
                    if not why:
                        break
                    if connection.lost or await policy.wait(read_answer(why), connection.authenticate):
                        return False
            return not connection.lost

    async def _fetch_group(self, connection: ClientConnection, group: Sequence[Filter], take: Take) -> str:
        async with connection.spare:
            request = connection.request(group, take, most_events(group))
            try:
                return await request.stored(self._timeouts.eose_timeout)
            finally:
                connection.drop(request)

    async def _up(self) -> ClientConnection:
        while self._connection is None or self._connection.lost:
            self.connected.clear()
            await self.connected.wait()
        return self._connection

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Count a publish or a fetch as under way."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self.idle_since = self._now()

    # ---- events that arrive ----

    def note_forgery(self) -> None:
        """Count a forged event against what the relay may send before the connection is closed."""
        if self._connection is not None:
            self._connection.wire.dropped["forged"] += 1

    def _take(self, receive: TakeFrom, raw: dict[str, Any]) -> None:
        try:
            receive(raw, self.url)
        except Exception as fault:  # noqa: BLE001 hanging up would bring the same event again
            self._failed(fault)

    def _is_known(self, raw: dict[str, Any]) -> bool:
        try:
            return self._knows(raw)
        except Exception as fault:  # noqa: BLE001 as in `_take`
            self._failed(fault)
            return False

    # ---- what is known of it ----

    def status(self) -> RelayStatus:
        """The current status."""
        counts = Counter(self._counts)
        if self._connection is not None:
            self._last_received = self._connection.received_at
            counts += self._connection.wire.dropped
        wanted = self._subscriptions.wanted
        return RelayStatus(
            url=self.url,
            connected=self.connected.is_set(),
            last_received=self._last_received,
            serves=self._serves,
            publish_only=not wanted,
            unresponsive_since=self._subscriptions.service.unresponsive_since,
            received_until=self._subscriptions.received_until,
            refused=tuple(
                f"{subscription.name}: {subscription.refused}" for subscription in wanted if subscription.refused
            ),
            fault=self._fault,
            counters={"sessions": self._connection_count, **counts},
        )

    @property
    def clock_ahead(self) -> float | None:
        """Seconds by which the local clock is ahead of the relay's; None if it is not connected or sent no date."""
        if self._date is None or not self.connected.is_set():
            return None
        date, connected_at = self._date
        return self._now() - (date + asyncio.get_running_loop().time() - connected_at)

    def _failed(self, fault: Exception) -> str:
        """Count and log an unexpected exception; returns it as text."""
        self._counts["failures"] += 1
        while isinstance(fault, ExceptionGroup):
            fault = fault.exceptions[0]
        places = [f"{where.filename}:{where.lineno}" for where in traceback.extract_tb(fault.__traceback__)[-1:]]
        level = self._log.error if is_worth_logging(self._counts["failures"]) else self._log.debug
        level("relay.failed", fault=type(fault).__name__, where=" ".join(places))
        return printable(f"{type(fault).__name__}: {fault}")


def _refused(why: str) -> PublishOutcome:
    return PublishOutcome(accepted=False, detail=why)
