"""All subscriptions of one relay, for as long as it is used: which REQs they need, and how well the relay serves them.

A `RelaySubscriptions` outlives connections. `connect` begins a task for each REQ on a new one; `disconnect` forgets the
tasks, and what is wanted stays.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tenex.core.ids import PublicKey
from tenex.log import get_logger

from .connection import MAX_LIVE, SPARE, ClientConnection
from .filters import DIRECT_KINDS, MAX_FILTERS, Filter, lay_out
from .history_buffer import HistoryBuffer
from .relay_info import RelayLimits
from .req import Subscription, SubscriptionTask, replace_subscriptions
from .tasks import start
from .timeouts import RelayTimeouts

log = get_logger(__name__)

EXPECTED: Final = 2
"""REQs that are left for threads which are followed later: two hundred of them."""


@dataclass(slots=True, kw_only=True)
class Service:
    """How well a relay serves its subscriptions.

    The style is kept across connections, because a relay that refused the other would refuse it again; but one that was
    not answered either is dropped on the next connection.
    """

    unresponsive_since: float | None
    """Wall clock, seconds, since when it does not serve; None while it serves."""
    served_from: float | None = None
    """Since when this connection serves, on the loop's clock; None if it does not."""
    has_answered: bool = False
    """Whether any REQ for new events was answered on this connection."""
    is_simple: bool = False
    """Whether REQs for new events carry one filter each and `limit: 1` (`req.RequestStyle`)."""
    is_simple_proven: bool = False
    """Whether a REQ of that style was answered, on any connection."""

    def reset(self) -> None:
        """Another connection is about to be made."""
        self.served_from = None
        self.has_answered = False

    def answered(self, now: float) -> None:
        """A REQ for new events was answered, at this time of the loop's clock."""
        self.has_answered = True
        self.is_simple_proven = self.is_simple_proven or self.is_simple
        if self.served_from is None:
            self.served_from = now

    def judge(self, *, serves: bool, now: float) -> None:
        """Note whether it serves everything, at this time of the wall clock."""
        if serves:
            self.unresponsive_since = None
        elif self.unresponsive_since is None:
            self.unresponsive_since = now

    def served_for(self, now: float) -> float:
        """Seconds for which this connection has served, at this time of the loop's clock."""
        return 0.0 if self.served_from is None else now - self.served_from


class RelaySubscriptions:
    """What is wanted of one relay, and the tasks that keep it open on the present connection."""

    def __init__(
        self,
        url: str,
        *,
        backlog: HistoryBuffer,
        timeouts: RelayTimeouts,
        rng: Random,
        now: Callable[[], float],
        limits: Callable[[], RelayLimits],
        changed: Callable[[], None],
        only_key: Callable[[], PublicKey | None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            url: the relay's.
            backlog: takes the events.
            timeouts: the durations.
            rng: for jitter.
            now: the wall clock, in seconds.
            limits: the relay's limits, as far as they are known.
            changed: called when a REQ was answered, refused or not answered.
            only_key: the key that the connection has, where the relay takes one; None where it may have more.
        """
        self.service = Service(unresponsive_since=now())
        self._url = url
        self._backlog = backlog
        self._timeouts = timeouts
        self._rng = rng
        self._now = now
        self._limits = limits
        self._changed = changed
        self._only_key = only_key
        self._filters: dict[str, Sequence[Filter]] = {}
        self._optional: set[str] = set()
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._tasks: dict[Subscription, asyncio.Task[None]] = {}
        self._connection: ClientConnection | None = None
        self._group: asyncio.TaskGroup | None = None
        self._log = log.bind(relay=url)

    # ---- what is wanted ----

    @property
    def wanted(self) -> list[Subscription]:
        """Every REQ that is to be open."""
        return [subscription for subscriptions in self._subscriptions.values() for subscription in subscriptions]

    @property
    def are_served(self) -> bool:
        """Whether the relay, where it is connected, answers everything that is wanted."""
        wanted = self.wanted
        is_answering = self.service.has_answered or not wanted
        return is_answering and not any(subscription.unresponsive or subscription.refused for subscription in wanted)

    @property
    def received_until(self) -> float | None:
        """Wall clock, seconds, up to which every wanted event was received; None while some past is unread."""
        covered = [subscription.covered_until for subscription in self.wanted]
        times = [until for until in covered if until is not None]
        is_complete = len(times) == len(covered) and self._backlog.is_empty
        return min(times) if times and is_complete else None

    def subscribe(
        self, name: str, filters: Sequence[Filter], backlog_since: int | None, *, is_optional: bool = False
    ) -> None:
        """Keep these filters open under a name; see `RelayConnection.subscribe`.

        One that is optional takes no room from those that are not: `EXPECTED` REQs are left for them.

        Raises:
            ValueError: there are no filters, or more than one connection can carry.
        """
        groups = lay_out(filters)
        if is_optional:
            self._optional.add(name)
            most = max(MAX_LIVE, self._limits().max_subscriptions - SPARE) - EXPECTED
            counted = set(self._filters)
        else:
            most = MAX_LIVE
            counted = set(self._filters) - self._optional
        others = sum(len(lay_out(self._filters[other])) for other in counted if other != name)
        if not groups:
            raise ValueError(f"subscription {name!r} has no filters")
        if others + len(groups) > most:
            raise ValueError(
                f"subscription {name!r} needs {len(groups)} REQs and {others} of {most} are taken: "
                f"put several filters into one subscription, at most ten share a REQ"
            )
        self._filters[name] = [wanted for group in groups for wanted in group]
        former = self._subscriptions.get(name, [])
        groups = self._groups(name)
        kept, added = replace_subscriptions(former, name, groups, backlog_since, self._now(), self._timeouts.overlap)
        self._change(name, kept, added)

    def unsubscribe(self, name: str) -> None:
        """Close what is open under a name."""
        self._optional.discard(name)
        if self._filters.pop(name, None) is not None:
            self._change(name, [], [])
            del self._subscriptions[name]

    def note_limits(self) -> None:
        """Open what had no room under the limits that were known before."""
        for subscription in self.wanted:
            if subscription not in self._tasks and subscription.refused:
                subscription.refused = ""
                subscription.unresponsive = False
        self._start()

    def narrow(self) -> None:
        """Ask for direct messages of the connection's only key, as the relay gives those of no other."""
        self._lay_out_again()

    def _groups(self, name: str) -> tuple[tuple[dict[str, Any], ...], ...]:
        """The REQs of a subscription, each as its filters."""
        only_key = self._only_key()
        groups = lay_out(self._filters[name], 1 if self.is_simple else MAX_FILTERS)
        if only_key is None:
            return groups
        return tuple(tuple(_of_key(wanted, only_key) for wanted in group) for group in groups)

    async def listening(self, name: str) -> None:
        """Return once the relay serves the subscription, which may be never.

        Raises:
            ValueError: there is no subscription of that name.
        """
        if name not in self._subscriptions:
            raise ValueError(f"there is no subscription {name!r}")
        while True:
            subscriptions = self._subscriptions[name]
            waiting = [subscription for subscription in subscriptions if not subscription.listening.is_set()]
            if not waiting:
                return
            await waiting[0].listening.wait()  # after which another may have taken its place

    # ---- on a connection ----

    def connect(self, connection: ClientConnection, group: asyncio.TaskGroup) -> None:
        """Open every REQ on a new connection, in tasks of the group."""
        self._connection = connection
        self._group = group
        if self.is_simple and not self.service.is_simple_proven:  # it did not help
            self._use_style(is_simple=False)
        self._start()

    def cancel(self) -> None:
        """Cancel the tasks of the connection, which has ended."""
        for task in self._tasks.values():
            task.cancel()

    def disconnect(self) -> None:
        """Forget the connection, whose tasks have ended."""
        self._connection = None
        self._group = None
        self._tasks.clear()

    def _change(self, name: str, kept: list[Subscription], added: list[Subscription]) -> None:
        dropped = [former for former in self._subscriptions.get(name, []) if former not in kept]
        self._subscriptions[name] = kept + added
        ending = [self._drop(former) for former in dropped]
        self._start(after=[task for task in ending if task is not None])

    def _drop(self, subscription: Subscription) -> asyncio.Task[None] | None:
        """Do without a REQ; returns its task, which is being cancelled."""
        self._backlog.done(subscription)
        subscription.listening.set()  # a waiter looks for its replacement
        task = self._tasks.pop(subscription, None)
        if task is not None:
            task.cancel()
        return task

    def _start(self, after: Sequence[asyncio.Task[None]] = ()) -> None:
        """Start tasks for REQs without one, if there is a connection; they begin once `after` have ended."""
        if self._connection is None or self._group is None:
            return
        room = self._limits().max_subscriptions - SPARE
        for subscription in self.wanted:
            if subscription in self._tasks:
                continue
            if len(self._tasks) >= room:
                self._refuse(subscription, f"the relay allows {room + SPARE} subscriptions to a connection")
                continue
            task = SubscriptionTask(
                self._connection,
                subscription,
                url=self._url,
                backlog=self._backlog,
                timeouts=self._timeouts,
                rng=self._rng,
                page_limit=lambda: self._limits().max_limit,
                style=self,
                changed=self._changed,
            )
            running = start(self._group, task.keep(after), f"keep {subscription.name} {self._url}")
            if running is None:  # the next connection starts it
                return
            self._tasks[subscription] = running

    def _refuse(self, subscription: Subscription, why: str) -> None:
        """Leave out a REQ for which the connection has no room."""
        self._backlog.done(subscription)
        if not subscription.unresponsive:
            subscription.refused = why
            self._log.error("relay.refuses_subscription", subscription=subscription.name, why=why)
        subscription.unresponsive = True

    # ---- the style of the REQs: `req.RequestStyle` ----

    @property
    def is_simple(self) -> bool:
        """Whether REQs for new events use the simple style."""
        return self.service.is_simple

    @property
    def has_answered(self) -> bool:
        """Whether the relay has answered any of them on this connection."""
        return self.service.has_answered

    def simplify(self) -> None:
        """Use the simple style from now on, because the relay refused or did not answer the other."""
        if self.is_simple:
            return
        self._log.info("relay.simplified")
        self._use_style(is_simple=True)

    def answered(self) -> None:
        """Note that a REQ for new events was answered."""
        self.service.answered(asyncio.get_running_loop().time())

    def _use_style(self, *, is_simple: bool) -> None:
        self.service.is_simple = is_simple
        self._lay_out_again()

    def _lay_out_again(self) -> None:
        """Distribute all filters over REQs; unchanged REQs are kept."""
        for name in self._filters:
            groups = self._groups(name)
            same = [subscription for subscription in self._subscriptions[name] if subscription.filters in groups]
            others = [subscription for subscription in self._subscriptions[name] if subscription not in same]
            new = [group for group in groups if all(subscription.filters != group for subscription in same)]
            _, added = replace_subscriptions(others, name, new, None, self._now(), self._timeouts.overlap)
            self._change(name, same, added)


def _of_key(wanted: dict[str, Any], key: PublicKey) -> dict[str, Any]:
    """A filter for direct messages to one key in place of several that it is among; any other as it is."""
    is_direct = not DIRECT_KINDS.isdisjoint(wanted.get("kinds", ()))
    return {**wanted, "#p": [key]} if is_direct and key in wanted.get("#p", ()) else wanted
