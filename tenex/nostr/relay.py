"""One relay: reconnects, restores its subscriptions, and publishes each event until it is accepted or refused.

A `RelayConnection` outlives its sockets: each socket is a `ClientConnection`, and open REQs are sent again on the next.
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from websockets.exceptions import WebSocketException

from tenex.core.errors import RelayUnavailable
from tenex.core.ports import PublishOutcome
from tenex.log import get_logger

from .addresses import PrivateAddress
from .connection import MAX_LIVE, SPARE, ClientConnection, Take
from .events import Event, to_wire
from .filters import MAX_FILTERS, Filter, lay_out
from .history_buffer import HistoryBuffer
from .keys import SecretKey
from .pagination import most_events
from .relay_info import RelayLimits, read_limits
from .req import Subscription, SubscriptionTask, replace_subscriptions
from .retry import ReasonAction, RetryPolicy, is_worth_logging, printable, read_answer
from .tasks import start
from .timeouts import Reconnecting, RelayTimeouts
from .urls import normalise_url
from .websocket import RelaySocket, open_websocket
from .wire import event_frame

log = get_logger(__name__)

TakeFrom = Callable[[dict[str, Any], str], None]
"""Takes a raw event and the URL it came from."""

_FAULTS: Final = (OSError, WebSocketException, EOFError, UnicodeError, ImportError, PrivateAddress)
"""Errors of connections. ImportError: `websockets` needs a package that is not installed if a SOCKS proxy is set."""

_UNCLEAR_TRIES: Final = 8
"""Refusals without a NIP-01 reason after which an event counts as refused; about four minutes."""


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
        identity: SecretKey | None = None,
        timeouts: RelayTimeouts | None = None,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
        connected: Callable[[], None] = lambda: None,
        must_be_public: bool = False,
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

        Raises:
            ValueError: the URL is not a relay URL.
        """
        self.url = normalise_url(url)
        self.connected = asyncio.Event()
        self._may_publish = asyncio.Event()
        self.busy = 0
        """Publishes and fetches under way."""
        self.idle_since = now()
        self._on_event = on_event
        self._on_new = on_new or on_event
        self._identity = identity
        self._timeouts = timeouts or RelayTimeouts()
        self._rng = rng or Random()  # noqa: S311  (jitter, not secrecy)
        self._now = now
        self._must_be_public = must_be_public
        self._connection: ClientConnection | None = None
        self._group: asyncio.TaskGroup | None = None
        self._connection_count = 0
        self._filters: dict[str, Sequence[Filter]] = {}
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._subscription_tasks: dict[Subscription, asyncio.Task[None]] = {}
        self._backlog = HistoryBuffer(
            partial(self._take, self._on_event),
            self._timeouts.eose_timeout,
            take_new=partial(self._take, self._on_new),
            is_known=self._is_known,
        )
        self._knows = is_known
        self._limits = RelayLimits()
        self.is_simple = False
        """Whether REQs for new events carry one filter each and `limit: 1` (`req.RequestStyle`)."""
        self.has_answered = False
        """Whether any REQ for new events was answered on this connection."""
        self._is_simple_proven = False
        self._served_from: float | None = None
        """Since when this connection serves its subscriptions, on the loop's clock."""
        self._unresponsive_since: float | None = now()
        self._date: tuple[float, float] | None = None
        """The relay's date at the time of connecting, and the loop's clock at that time."""
        self._on_connected = connected
        self._fault = ""
        self._last_received: float | None = None
        self._counts: Counter[str] = Counter()
        self._log = log.bind(relay=self.url)

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
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        reconnecting = Reconnecting(self._timeouts, self._rng, loop.time())
        while True:
            self._served_from = None
            try:
                socket = await open_websocket(
                    self.url,
                    open_timeout=self._timeouts.open_timeout,
                    close_timeout=self._timeouts.close_timeout,
                    ping_interval=self._timeouts.ping_interval,
                    ping_timeout=self._timeouts.ping_timeout,
                    must_be_public=self._must_be_public,
                )
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
            pause = reconnecting.lost(loop.time(), self._served_for())
            # the first tries at info; a relay that stays away deserves one warning, not one a minute
            level = self._log.warning if reconnecting.tries == 4 else self._log.info
            level("relay.lost", why=self._fault, retry_in=round(pause, 2), tries=reconnecting.tries)
            await asyncio.sleep(pause)

    def _served_for(self) -> float:
        """Seconds for which the last connection served its subscriptions."""
        return 0.0 if self._served_from is None else asyncio.get_running_loop().time() - self._served_from

    async def _close(self, socket: RelaySocket) -> None:
        """Close within a bounded time; an error here does not matter and must not replace a cancellation."""
        with suppress(Exception):
            async with asyncio.timeout(self._timeouts.close_timeout):
                await socket.close(1001, "stopping")  # does nothing where the other side has hung up
        socket.transport.abort()

    def _failed(self, fault: Exception) -> str:
        """Count and log an unexpected exception; returns it as text."""
        self._counts["failures"] += 1
        while isinstance(fault, ExceptionGroup):
            fault = fault.exceptions[0]
        places = [f"{where.filename}:{where.lineno}" for where in traceback.extract_tb(fault.__traceback__)[-1:]]
        level = self._log.error if is_worth_logging(self._counts["failures"]) else self._log.debug
        level("relay.failed", fault=type(fault).__name__, where=" ".join(places))
        return printable(f"{type(fault).__name__}: {fault}")

    def subscribe(self, name: str, filters: Sequence[Filter], backlog_since: int | None) -> None:
        """Receive matching events from now on, across reconnects; replaces the subscription of that name.

        The unread past of the replaced one is still read where the filters overlap.

        Raises:
            ValueError: there are no filters, or more than one connection can carry.
        """
        groups = lay_out(filters)
        others = sum(len(lay_out(wanted)) for known, wanted in self._filters.items() if known != name)
        if not groups:
            raise ValueError(f"subscription {name!r} has no filters")
        if others + len(groups) > MAX_LIVE:
            raise ValueError(
                f"subscription {name!r} needs {len(groups)} REQs and {others} of {MAX_LIVE} are taken: "
                f"put several filters into one subscription, at most ten share a REQ"
            )
        self._filters[name] = [wanted for group in groups for wanted in group]
        former = self._subscriptions.get(name, [])
        groups = lay_out(filters, 1 if self.is_simple else MAX_FILTERS)
        kept, added = replace_subscriptions(former, name, groups, backlog_since, self._now(), self._timeouts.overlap)
        self._change_subscriptions(name, kept, added)

    @property
    def _wanted(self) -> list[Subscription]:
        return [subscription for subscriptions in self._subscriptions.values() for subscription in subscriptions]

    def _use_style(self, *, is_simple: bool) -> None:
        """Distribute all filters over REQs in the given style; unchanged REQs are kept."""
        self.is_simple = is_simple
        for name, filters in self._filters.items():
            groups = lay_out(filters, 1 if is_simple else MAX_FILTERS)
            same = [subscription for subscription in self._subscriptions[name] if subscription.filters in groups]
            others = [subscription for subscription in self._subscriptions[name] if subscription not in same]
            new = [group for group in groups if all(subscription.filters != group for subscription in same)]
            _, added = replace_subscriptions(others, name, new, None, self._now(), self._timeouts.overlap)
            self._change_subscriptions(name, same, added)

    def _change_subscriptions(self, name: str, kept: list[Subscription], added: list[Subscription]) -> None:
        dropped = [former for former in self._subscriptions.get(name, []) if former not in kept]
        self._subscriptions[name] = kept + added
        self._start_subscriptions(after=[task for former in dropped if (task := self._drop_subscription(former))])

    async def listening(self, name: str) -> None:
        """Return once the relay serves the subscription, which may be never.

        Raises:
            ValueError: there is no subscription of that name.
        """
        if name not in self._subscriptions:
            raise ValueError(f"there is no subscription {name!r}")
        while waiting := [
            subscription for subscription in self._subscriptions.get(name, ()) if not subscription.listening.is_set()
        ]:
            await waiting[0].listening.wait()

    async def publish(self, event: Event) -> PublishOutcome:
        """Send the same bytes until the relay has accepted or refused; waits while it is away. Cancelling is safe."""
        frame = event_frame(to_wire(event))
        policy = RetryPolicy(self._timeouts, self._rng)
        silence = self._timeouts.ok_timeout
        size = len(frame.encode())
        unclear = 0
        self.busy += 1
        try:
            while True:
                connection = await self._up()
                await self._may_publish.wait()
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
                    return _refused(answer.text or "refused without a reason")
                why = await policy.wait(answer, connection.authenticate)
                if why and not connection.lost:
                    return _refused(why)
        finally:
            self.busy -= 1
            self.idle_since = self._now()

    @property
    def has_room(self) -> bool:
        """Whether it is connected and `offer` would send now."""
        return self._connection is not None and self._connection.has_room

    def offer(self, event: Event) -> bool:
        """Send once if there is room, without waiting for the answer; False if the event was dropped."""
        frame = event_frame(to_wire(event))
        if self._connection is None or len(frame.encode()) > self._limits.max_message_length:
            return False
        return self._connection.offer(frame)

    async def fetch(self, filters: Sequence[Filter], take: Take) -> bool:
        """Fetch stored events once; True if all arrived. Waits while the relay is away."""
        self.busy += 1
        try:
            connection = await self._up()
            policy = RetryPolicy(self._timeouts, self._rng)
            for group in lay_out(filters):
                while why := await self._fetch_group(connection, group, take):
                    if connection.lost or await policy.wait(read_answer(why), connection.authenticate):
                        return False
            return not connection.lost
        finally:
            self.busy -= 1
            self.idle_since = self._now()

    def note_forgery(self) -> None:
        """Count a forged event against what the relay may send before the connection is closed."""
        if self._connection is not None:
            self._connection.wire.dropped["forged"] += 1

    @property
    def clock_ahead(self) -> float | None:
        """Seconds by which the local clock is ahead of the relay's; None if it is not connected or sent no date."""
        if self._date is None or not self.connected.is_set():
            return None
        date, at = self._date
        return self._now() - (date + asyncio.get_running_loop().time() - at)

    def status(self) -> RelayStatus:
        """The current status."""
        counts = Counter(self._counts)
        if self._connection is not None:
            self._last_received = self._connection.received_at
            counts += self._connection.wire.dropped
        wanted = self._wanted
        covered = [until for subscription in wanted if (until := subscription.covered_until) is not None]
        is_complete = bool(covered) and len(covered) == len(wanted) and self._backlog.is_empty
        return RelayStatus(
            url=self.url,
            connected=self.connected.is_set(),
            last_received=self._last_received,
            serves=self._serves(),
            publish_only=not wanted,
            unresponsive_since=self._unresponsive_since,
            received_until=min(covered) if is_complete else None,
            refused=tuple(
                f"{subscription.name}: {subscription.refused}" for subscription in wanted if subscription.refused
            ),
            fault=self._fault,
            counters={"sessions": self._connection_count, **counts},
        )

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
        )
        why = ""
        try:
            async with asyncio.TaskGroup() as group:
                self._connection, self._group = connection, group
                chores = [group.create_task(connection.write(), name=f"write {self.url}")]
                if self.is_simple and not self._is_simple_proven:  # it did not help
                    self._use_style(is_simple=False)
                self.has_answered = False
                self._start_subscriptions()
                chores.append(group.create_task(self._read_limits(), name=f"limits {self.url}"))
                self._log.info("relay.connected", sessions=self._connection_count)
                self.connected.set()
                date = socket.server_date
                self._date = None if date is None else (date, asyncio.get_running_loop().time())
                self._on_connected()
                if not self._subscriptions:
                    self._served_from = asyncio.get_running_loop().time()
                self._note_serving()
                chores.append(group.create_task(self._read_past_first(), name=f"past first {self.url}"))
                why = await connection.read()
                for task in (*chores, *self._subscription_tasks.values()):
                    task.cancel()
        finally:
            self.connected.clear()
            self._may_publish.clear()
            self._connection = self._group = None
            if connection.is_flooded:
                self._served_from = None
            self._note_serving()
            self._subscription_tasks.clear()
            self._last_received = connection.received_at
            self._counts += connection.wire.dropped
        return why

    async def _read_past_first(self) -> None:
        """Allow publishing once stored events are read: new messages are known before old answers are repeated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.past_first):
                await self._backlog.idle()
        self._may_publish.set()

    async def _read_limits(self) -> None:
        if self._must_be_public:
            return
        limits = await read_limits(self.url, self._timeouts.limits_timeout)
        if limits is not None:
            self._limits = limits

    def _start_subscriptions(self, after: Sequence[asyncio.Task[None]] = ()) -> None:
        """Start tasks for subscriptions without one, if there is a connection; they begin once `after` have ended."""
        if self._connection is None or self._group is None:
            return
        room = self._limits.max_subscriptions - SPARE
        for subscription in self._wanted:
            if subscription in self._subscription_tasks:
                continue
            if len(self._subscription_tasks) >= room:
                self._backlog.done(subscription)
                if not subscription.unresponsive:
                    why = subscription.refused = f"the relay allows {room + SPARE} subscriptions to a connection"
                    self._log.error("relay.refuses_subscription", subscription=subscription.name, why=why)
                subscription.unresponsive = True
                continue
            task = SubscriptionTask(
                self._connection,
                subscription,
                url=self.url,
                backlog=self._backlog,
                timeouts=self._timeouts,
                rng=self._rng,
                page_limit=lambda: self._limits.max_limit,
                style=self,
                changed=self._note_serving,
            )
            running = start(self._group, task.keep(after), f"keep {subscription.name} {self.url}")
            if running is None:  # the next connection starts it
                return
            self._subscription_tasks[subscription] = running

    def simplify(self) -> None:
        """Use the simple style from now on, because the relay refused or did not answer the other."""
        if self.is_simple:
            return
        self._log.info("relay.simplified")
        self._use_style(is_simple=True)

    def answered(self) -> None:
        """Note that a REQ for new events was answered."""
        self.has_answered = True
        self._is_simple_proven = self._is_simple_proven or self.is_simple
        if self._served_from is None:
            self._served_from = asyncio.get_running_loop().time()

    def _drop_subscription(self, subscription: Subscription) -> asyncio.Task[None] | None:
        self._backlog.done(subscription)
        subscription.listening.set()  # a waiter looks for its replacement
        task = self._subscription_tasks.pop(subscription, None)
        if task is not None:
            task.cancel()
        return task

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

    def _serves(self) -> bool:
        wanted = self._wanted
        is_answering = self.has_answered or not wanted
        return (
            self.connected.is_set()
            and is_answering
            and not any(subscription.unresponsive or subscription.refused for subscription in wanted)
        )

    def _note_serving(self) -> None:
        if self._serves():
            self._unresponsive_since = None
        elif self._unresponsive_since is None:
            self._unresponsive_since = self._now()

    async def _up(self) -> ClientConnection:
        while self._connection is None or self._connection.lost:
            self.connected.clear()
            await self.connected.wait()
        return self._connection

    async def _fetch_group(self, connection: ClientConnection, group: Sequence[Filter], take: Take) -> str:
        async with connection.spare:
            request = connection.request(group, take, most_events(group))
            try:
                return await request.stored(self._timeouts.eose_timeout)
            finally:
                connection.drop(request)


def _refused(why: str) -> PublishOutcome:
    return PublishOutcome(accepted=False, detail=why)
