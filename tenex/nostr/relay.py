"""One relay: reconnects, restores its subscriptions, and publishes each event until it is accepted or refused.

A `RelayConnection` outlives its sockets: each socket is a `ClientConnection`, and open REQs are sent again on the next.
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import structlog
from websockets.exceptions import WebSocketException

from tenex.core.errors import RelayUnavailable
from tenex.core.ports import PublishOutcome

from .connection import MAX_LIVE, SPARE, ClientConnection, Take
from .events import Event, to_wire
from .filters import MAX_FILTERS, Filter, lay_out
from .history_buffer import HistoryBuffer
from .keys import SecretKey
from .pagination import most_events
from .relay_info import RelayLimits, read_limits
from .req import Subscription, SubscriptionTask, replace_subscriptions
from .retry import ReasonAction, RetryPolicy, is_worth_logging, printable, read_answer
from .timeouts import Reconnecting, RelayTimeouts
from .urls import normalise_url
from .websocket import RelaySocket, open_websocket
from .wire import event_frame

log = structlog.get_logger(__name__)

TakeFrom = Callable[[dict[str, Any], str], Awaitable[None] | None]
"""Takes a raw event and the url it came from; what it returns is awaited before the next frame is read."""

_FAULTS: Final = (OSError, WebSocketException, EOFError, UnicodeError, ImportError)
"""Errors of connections: TimeoutError is an OSError, and `websockets` asks for
a package we do not bring where the environment names a SOCKS proxy."""

_UNCLEAR_TRIES: Final = 8
"""Refusals without a NIP-01 reason after which an event counts as refused; about four minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """The status of one relay."""

    url: str
    connected: bool
    last_heard: float | None
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
        is_known: Callable[[dict[str, Any]], bool] = lambda _: False,
        identity: SecretKey | None = None,
        timings: RelayTimeouts | None = None,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
        connected: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            url: ws:// or wss://.
            on_event: takes what matches a subscription; see `TakeFrom`. It must not wait for a publish of ours.
            is_known: tells whether it would drop a raw event as one it has taken: such a one need not be held.
            identity: the key shown where the relay asks who we are; a connection shows one key only.
            timings: the durations.
            rng: for jitter.
            now: the wall clock, in seconds.
            connected: called after each connection is made.

        Raises:
            ValueError: the url is no relay's.
        """
        self.url = normalise_url(url)
        self.connected = asyncio.Event()
        self._may_publish = asyncio.Event()
        self.busy = 0
        """Publishes and fetches under way."""
        self.idle_since = now()
        self._on_event = on_event
        self._identity = identity
        self._timings = timings or RelayTimeouts()
        self._rng = rng or Random()  # noqa: S311  (jitter, not secrecy)
        self._now = now
        self._session: ClientConnection | None = None
        self._group: asyncio.TaskGroup | None = None
        self._sessions = 0
        self._filters: dict[str, Sequence[Filter]] = {}
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._subscription_tasks: dict[Subscription, asyncio.Task[None]] = {}
        self._backlog = HistoryBuffer(self._take, self._timings.eose_timeout, is_known=self._is_known)
        self._knows = is_known
        self._limits = RelayLimits()
        self._is_simple = False
        self.has_answered = False
        """Whether any REQ for what is new was answered on this connection."""
        self._is_simple_proven = False
        self._served_from: float | None = None
        """On the loop's clock, since when this connection serves us."""
        self._unresponsive_since: float | None = now()
        self._date: tuple[float, float] | None = None
        """What the relay's clock said when we connected, and the loop's clock then."""
        self._on_connected = connected
        self._fault = ""
        self._last_heard: float | None = None
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
                await asyncio.sleep(self._timings.redo_first)

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        reconnecting = Reconnecting(self._timings, self._rng, loop.time())
        while True:
            self._served_from = None
            try:
                socket = await self._connect()
                try:
                    self._fault = await self._live_on(socket)
                finally:
                    await self._close(socket)
            except _FAULTS as fault:
                self._fault = printable(f"{type(fault).__name__}: {fault}")
            except Exception as fault:  # noqa: BLE001 whatever is raised here must not end the other relays
                self._fault = self._failed(fault)
            pause = reconnecting.lost(loop.time(), self._served_for())
            # the first tries at info; a relay that stays away is worth a warning, but not one a minute
            level = self._log.warning if reconnecting.tries == 4 else self._log.info
            level("relay.lost", why=self._fault, retry_in=round(pause, 2), tries=reconnecting.tries)
            await asyncio.sleep(pause)

    def _served_for(self) -> float:
        """Seconds for which the connection that has ended served us."""
        return 0.0 if self._served_from is None else asyncio.get_running_loop().time() - self._served_from

    async def _connect(self) -> RelaySocket:
        return await open_websocket(
            self.url,
            open_timeout=self._timings.open_timeout,
            close_timeout=self._timings.close_timeout,
            ping_interval=self._timings.ping_interval,
            ping_timeout=self._timings.ping_timeout,
        )

    async def _close(self, socket: RelaySocket) -> None:
        """Close within a bounded time; nothing that goes wrong here matters, or may replace a cancellation."""
        with suppress(Exception):
            async with asyncio.timeout(self._timings.close_timeout):
                await socket.close(1001, "stopping")  # does nothing where the other side has hung up
        socket.transport.abort()

    def _failed(self, fault: Exception) -> str:
        """Count and log an exception that no fault of a connection explains; gives it as text."""
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
            raise ValueError(f"subscription {name!r} has no filters; use unsubscribe")
        if others + len(groups) > MAX_LIVE:
            raise ValueError(
                f"subscription {name!r} needs {len(groups)} REQs and {others} of {MAX_LIVE} are taken: "
                f"put several filters into one subscription, at most ten share a REQ"
            )
        self._filters[name] = [wanted for group in groups for wanted in group]
        former = self._subscriptions.get(name, [])
        groups = lay_out(filters, 1 if self._is_simple else MAX_FILTERS)
        kept, added = replace_subscriptions(former, name, groups, backlog_since, self._now(), self._timings.overlap)
        self._change_subscriptions(name, kept, added)

    def _use_style(self, *, is_simple: bool) -> None:
        """Distribute all filters over REQs in the given style; unchanged REQs are kept."""
        self._is_simple = is_simple
        for name, filters in self._filters.items():
            groups = lay_out(filters, 1 if is_simple else MAX_FILTERS)
            same = [subscription for subscription in self._subscriptions[name] if subscription.filters in groups]
            others = [subscription for subscription in self._subscriptions[name] if subscription not in same]
            new = [group for group in groups if all(subscription.filters != group for subscription in same)]
            _, added = replace_subscriptions(others, name, new, None, self._now(), self._timings.overlap)
            self._change_subscriptions(name, same, added)

    def _change_subscriptions(self, name: str, kept: list[Subscription], added: list[Subscription]) -> None:
        dropped = [former for former in self._subscriptions.get(name, []) if former not in kept]
        self._subscriptions[name] = kept + added
        self._start_subscriptions(after=[task for former in dropped if (task := self._drop_subscription(former))])

    def unsubscribe(self, name: str) -> None:
        """End a subscription; an unknown name is ignored."""
        self._filters.pop(name, None)
        self._start_subscriptions(
            after=[
                task
                for subscription in self._subscriptions.pop(name, [])
                if (task := self._drop_subscription(subscription))
            ]
        )

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
        patience = RetryPolicy(self._timings, self._rng)
        silence = self._timings.ok_timeout
        size = len(frame.encode())
        unclear = 0
        self.busy += 1
        try:
            while True:
                session = await self._up()
                await self._may_publish.wait()
                if size > self._limits.max_message_length:
                    return _refused(f"invalid: the relay takes {self._limits.max_message_length} bytes to a message")
                try:
                    ok = await session.publish(event.id, frame, silence)
                except TimeoutError:
                    self._log.warning("relay.no_ok", event_id=event.id, waited=silence)
                    silence = min(silence * 2, self._timings.redo_most)
                    continue
                except RelayUnavailable:
                    if session.oversized == event.id:
                        return _refused("invalid: the relay hung up on it because it is too big")
                    continue
                answer = read_answer(ok.text)
                if ok.accepted or answer.advice is ReasonAction.HAVE:
                    return PublishOutcome(accepted=True, detail=answer.text)
                self._log.info("relay.refused_event", event_id=event.id, why=answer.text, advice=answer.advice.value)
                unclear += not answer.prefix
                if unclear >= _UNCLEAR_TRIES:
                    return _refused(answer.text or "refused without a reason")
                why = await patience.wait(answer, session.authenticate)
                if why and not session.lost:
                    return _refused(why)
        finally:
            self.busy -= 1
            self.idle_since = self._now()

    @property
    def has_room(self) -> bool:
        """Whether it is connected and takes what `offer` gives, as things stand."""
        return self._session is not None and self._session.has_room

    def offer(self, event: Event) -> bool:
        """Send once, now or never, without waiting or asking what became of it; False where it was dropped."""
        frame = event_frame(to_wire(event))
        if self._session is None or len(frame.encode()) > self._limits.max_message_length:
            return False
        return self._session.offer(frame)

    async def fetch(self, filters: Sequence[Filter], take: Take) -> bool:
        """Ask once for what is stored; True if all of it came. Waits while the relay is away."""
        self.busy += 1
        try:
            session = await self._up()
            patience = RetryPolicy(self._timings, self._rng)
            for group in lay_out(filters):
                while (text := await self._fetch_group(session, group, take)) is not None:
                    if session.lost or await patience.wait(read_answer(text), session.authenticate):
                        return False
            return not session.lost
        finally:
            self.busy -= 1
            self.idle_since = self._now()

    def note_forgery(self) -> None:
        """Count a forged event against what the relay may send before the connection is closed."""
        if self._session is not None:
            self._session.wire.dropped["forged"] += 1

    @property
    def clock_ahead(self) -> float | None:
        """By how many seconds our clock is ahead of the relay's; None where it is not connected or does not say."""
        if self._date is None or not self.connected.is_set():
            return None
        date, at = self._date
        return self._now() - (date + asyncio.get_running_loop().time() - at)

    def status(self) -> RelayStatus:
        """How things stand now."""
        counts = Counter(self._counts)
        if self._session is not None:
            self._last_heard = self._session.received_at
            counts += self._session.wire.dropped
        wanted = [subscription for subscriptions in self._subscriptions.values() for subscription in subscriptions]
        return RelayStatus(
            url=self.url,
            connected=self.connected.is_set(),
            last_heard=self._last_heard,
            serves=self._serves(),
            publish_only=not wanted,
            unresponsive_since=self._unresponsive_since,
            received_until=self._heard_until(wanted),
            refused=tuple(
                f"{subscription.name}: {subscription.refused}" for subscription in wanted if subscription.refused
            ),
            fault=self._fault,
            counters={"sessions": self._sessions, **counts},
        )

    def _heard_until(self, wanted: Sequence[Subscription]) -> float | None:
        covered = [until for subscription in wanted if (until := subscription.covered_until) is not None]
        return min(covered) if covered and len(covered) == len(wanted) and self._backlog.is_empty else None

    async def _live_on(self, socket: RelaySocket) -> str:
        """Use a socket until it ends and say why it did."""
        self._sessions += 1
        session = ClientConnection(
            socket, self.url, prefix=f"{self._sessions}.", identity=self._identity, timings=self._timings, now=self._now
        )
        why = ""
        try:
            async with asyncio.TaskGroup() as group:
                self._session, self._group = session, group
                chores = [group.create_task(session.write(), name=f"write {self.url}")]
                if self._is_simple and not self._is_simple_proven:  # it was no help
                    self._use_style(is_simple=False)
                self.has_answered = False
                self._start_subscriptions()
                chores.append(group.create_task(self._read_limits(), name=f"limits {self.url}"))
                self._log.info("relay.connected", sessions=self._sessions)
                self.connected.set()
                date = socket.server_date
                self._date = None if date is None else (date, asyncio.get_running_loop().time())
                self._on_connected()
                if not self._subscriptions:
                    self._served_from = asyncio.get_running_loop().time()
                self._note_serving()
                chores.append(group.create_task(self._read_past_first(), name=f"past first {self.url}"))
                why = await session.read()
                for task in (*chores, *self._subscription_tasks.values()):
                    task.cancel()
        finally:
            self.connected.clear()
            self._may_publish.clear()
            self._session = self._group = None
            if session.is_flooded:
                self._served_from = None
            self._note_serving()
            self._subscription_tasks.clear()
            self._last_heard = session.received_at
            self._counts += session.wire.dropped
        return why

    async def _read_past_first(self) -> None:
        """Allow publishing once the past has been read: new messages are known before old answers are repeated."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timings.past_first):
                await self._backlog.idle()
        self._may_publish.set()

    async def _read_limits(self) -> None:
        limits = await read_limits(self.url, self._timings.limits_timeout)
        if limits is not None:
            self._limits = limits

    def _start_subscriptions(self, after: Sequence[asyncio.Task[None]] = ()) -> None:
        """Keep every subscription that is not kept yet, once `after` have ended, if there is a connection."""
        for subscription in [
            subscription
            for subscriptions in self._subscriptions.values()
            for subscription in subscriptions
            if subscription not in self._subscription_tasks
        ]:
            self._start_subscription(subscription, after)

    def _start_subscription(self, subscription: Subscription, after: Sequence[asyncio.Task[None]]) -> None:
        if self._session is None or self._group is None:
            return
        room = self._limits.max_subscriptions - SPARE
        if len(self._subscription_tasks) >= room:
            self._backlog.done(subscription)
            if not subscription.unresponsive:
                subscription.refused = f"the relay allows {room + SPARE} subscriptions to a connection"
                self._log.error("relay.refuses_subscription", subscription=subscription.name, why=subscription.refused)
            subscription.unresponsive = True
            return
        task_of = SubscriptionTask(
            self._session,
            subscription,
            url=self.url,
            backlog=self._backlog,
            timings=self._timings,
            rng=self._rng,
            page_limit=lambda: self._limits.max_limit,
            style=self,
            changed=self._note_serving,
        )

        async def keep() -> None:
            if after:  # their REQs must be closed first, for a connection has room for ten
                await asyncio.wait(after)
            await task_of.keep()

        self._subscription_tasks[subscription] = self._group.create_task(
            keep(), name=f"keep {subscription.name} {self.url}"
        )

    @property
    def is_simple(self) -> bool:
        """Whether REQs for what is new carry one filter each and `limit: 1` (`subscriptions.RequestStyle`)."""
        return self._is_simple

    def simplify(self) -> None:
        """Ask so from now on, because the relay refused or did not answer the other form."""
        if self._is_simple:
            return
        self._log.info("relay.simplified")
        self._use_style(is_simple=True)

    def answered(self) -> None:
        """Note that a REQ for what is new was answered."""
        self.has_answered = True
        self._is_simple_proven = self._is_simple_proven or self._is_simple
        if self._served_from is None:
            self._served_from = asyncio.get_running_loop().time()

    def _drop_subscription(self, subscription: Subscription) -> asyncio.Task[None] | None:
        self._backlog.done(subscription)
        subscription.listening.set()  # a waiter looks for its replacement
        task = self._subscription_tasks.pop(subscription, None)
        if task is not None:
            task.cancel()
        return task

    def _take(self, raw: dict[str, Any]) -> Awaitable[None] | None:
        try:
            return self._on_event(raw, self.url)
        except Exception as fault:  # noqa: BLE001 hanging up would bring the same event again
            self._failed(fault)
            return None

    def _is_known(self, raw: dict[str, Any]) -> bool:
        try:
            return self._knows(raw)
        except Exception as fault:  # noqa: BLE001 as in `_take`
            self._failed(fault)
            return False

    def _serves(self) -> bool:
        wanted = [subscription for subscriptions in self._subscriptions.values() for subscription in subscriptions]
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
        while self._session is None or self._session.lost:
            self.connected.clear()
            await self.connected.wait()
        return self._session

    async def _fetch_group(self, session: ClientConnection, group: Sequence[Filter], take: Take) -> str | None:
        async with session.spare:
            request = session.request(group, take, most_events(group))
            try:
                answered = await request.settled(self._timings.eose_timeout)
            finally:
                session.drop(request)
        if request.eose.done():  # some relays close a REQ for ids themselves, right after its EOSE
            return None
        return request.closed.result() or "error: closed without a reason" if answered else "error: no EOSE in time"


def _refused(why: str) -> PublishOutcome:
    return PublishOutcome(accepted=False, detail=why)
