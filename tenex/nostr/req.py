"""Subscriptions on one relay: keeps each REQ open, reads its past, and checks a silent one.

    open (limit 0) ──EOSE──► listening ──silence──► new REQ under a new id ──no EOSE──► disconnect, reconnect
         ▲  │                    │
         │  └── no EOSE ──► simple style, then disconnect, reconnect
         └── pause, AUTH ── CLOSED: depends on the prefix; a final refusal is reported and retried ever less often

The REQ for new events opens before the past is read, so no event is missed between them. New events are buffered until
the past has been read, within a bound. That REQ carries no `since`: a relay applies it to new events too, and a message
composed offline is old when it arrives.

The simple style is one filter per REQ and `limit: 1` instead of 0, for relays that refuse the other.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

from tenex.log import get_logger

from .connection import ClientConnection, Request
from .filters import DIRECT_KINDS, Filter
from .history_buffer import HistoryBuffer
from .pagination import ALLOWANCE, Pager
from .retry import ReasonAction, RetryPolicy, read_answer
from .timeouts import RelayTimeouts

log = get_logger(__name__)

CLOCKS_DIFFER: Final = 60
"""Seconds a sender's clock may be behind without the read after a silence missing their event."""


@dataclass(eq=False, kw_only=True)
class Subscription:
    """One REQ wanted on every connection to a relay, and how much of its past has been read."""

    name: str
    filters: Sequence[Filter]
    backlog_since: int | None
    """Seconds; None wants nothing from before `asked_at`."""
    asked_at: float
    covered: float | None = None
    """Wall clock up to which everything has been received and handled, past included; None before that. Not updated
    while `caught_up_on` is set."""
    caught_up_on: ClientConnection | None = None
    """The open connection on which its past has been read, so that only new events are missing."""
    earliest: int | None = None
    """The earliest second to read after a gap, from a subscription it replaced; None for its own."""
    refused: str = ""
    """The relay's reason for refusing it."""
    unresponsive: bool = False
    """The last REQ for new events was refused or not answered."""
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the relay has confirmed that it is open."""

    @property
    def covered_until(self) -> float | None:
        """Wall clock up to which nothing it asks for is missing; None while some of its past is unread."""
        return self.covered if self.caught_up_on is None else self.caught_up_on.received_at

    def serves(self, filters: Sequence[Filter], backlog_since: int | None) -> bool:
        """Whether this already requests the same filters, at least as far back."""
        if self.filters != filters:
            return False
        return backlog_since is None or (self.backlog_since is not None and self.backlog_since <= backlog_since)

    def missing_since(self, overlap: float) -> int | None:
        """The second from which the past is missing; None if nothing is."""
        if self.covered is None:
            return self.backlog_since
        since = int(self.covered - overlap)
        # gift wraps are dated up to two days back (NIP-59), also those of the time without a connection
        is_backdated = any(DIRECT_KINDS.intersection(wanted.get("kinds", ())) for wanted in self.filters)
        return since if is_backdated else max(self.wanted_since, since)

    @property
    def wanted_since(self) -> int:
        """The earliest second of interest."""
        if self.earliest is not None:
            return self.earliest
        return int(self.asked_at) if self.backlog_since is None else self.backlog_since

    def inherited_since(self, overlap: float) -> int:
        """The second from which a replacement must read the past, so that nothing is lost."""
        if self.caught_up_on is not None and not self.caught_up_on.lost:
            return int(self.caught_up_on.received_at) - CLOCKS_DIFFER  # only what comes between the old REQ and the new
        missing = self.missing_since(overlap)
        return int(self.asked_at) - CLOCKS_DIFFER if missing is None else missing


def replace_subscriptions(
    former: Sequence[Subscription],
    name: str,
    groups: Sequence[Sequence[Filter]],
    backlog_since: int | None,
    now: float,
    overlap: float,
) -> tuple[list[Subscription], list[Subscription]]:
    """Return which REQs of a replaced subscription stay and which are added.

    An added one reads the past back to `backlog_since`, or further if a former one with overlapping filters had not
    read more of its own past.
    """
    if former and backlog_since is None:
        backlog_since = int(now) - CLOCKS_DIFFER  # what comes between the old REQ and the new
    kept = [
        subscription for subscription in former if any(subscription.serves(group, backlog_since) for group in groups)
    ]
    added: list[Subscription] = []
    for group in groups:
        if any(subscription.serves(group, backlog_since) for subscription in kept):
            continue
        successor = Subscription(name=name, filters=group, backlog_since=backlog_since, asked_at=now)
        for subscription in former:
            if _share(group, subscription.filters):
                missing = subscription.inherited_since(overlap)
                successor.backlog_since = (
                    missing if successor.backlog_since is None else min(successor.backlog_since, missing)
                )
                successor.earliest = min(successor.wanted_since, subscription.wanted_since)
        added.append(successor)
    return kept, added


def _share(these: Sequence[Filter], those: Sequence[Filter]) -> bool:
    """Whether a filter of one group overlaps a filter of the other."""
    return any(
        all(not set(one[key]).isdisjoint(other[key]) for key in one.keys() & other.keys() if isinstance(one[key], list))
        for one in these
        for other in those
    )


class RequestStyle(Protocol):
    """How REQs for new events are made on one relay."""

    @property
    def is_simple(self) -> bool:
        """Whether they use the simple style."""
        ...

    @property
    def has_answered(self) -> bool:
        """Whether the relay has answered any REQ on this connection."""
        ...

    def simplify(self) -> None:
        """Use the simple style from now on."""
        ...

    def answered(self) -> None:
        """Note that the relay has answered one."""
        ...


class SubscriptionTask:
    """Keeps one `Subscription` open on one connection."""

    def __init__(
        self,
        connection: ClientConnection,
        subscription: Subscription,
        *,
        url: str,
        backlog: HistoryBuffer,
        timeouts: RelayTimeouts,
        rng: Random,
        page_limit: Callable[[], int],
        style: RequestStyle,
        changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._subscription = subscription
        self._backlog = backlog
        self._timeouts = timeouts
        self._rng = rng
        self._page_limit = page_limit
        self._style = style
        self._changed = changed
        self._request: Request | None = None
        self._is_unanswered = True
        self._readings = 0
        self._log = log.bind(relay=url, subscription=subscription.name)
        backlog.expect(subscription)  # now, not when the REQ is answered: the past of others waits for this one's

    async def keep(self, after: Sequence[asyncio.Task[None]] = ()) -> None:
        """Once `after` have ended, run until cancelled or the connection is lost; a refused REQ is sent again."""
        if after:  # their REQs must be closed first: a connection has room for ten
            await asyncio.wait(after)
        loop = asyncio.get_running_loop()
        policy = RetryPolicy(self._timeouts, self._rng)
        while True:
            opened = loop.time()
            was_simple = self._style.is_simple
            text = await self._serve()
            if text is None:
                return
            if loop.time() - opened >= self._timeouts.stable_after:
                policy.reset()
            answer = read_answer(text)
            self._log.info("relay.subscription_closed", text=answer.text)
            if self._is_unanswered and not was_simple and answer.action not in (ReasonAction.AUTH, ReasonAction.SLOWER):
                self._style.simplify()
                await asyncio.sleep(0)  # this task is cancelled if the filters now go in several REQs
                continue
            await policy.wait_or_report(answer, self._connection.authenticate, self._refuse)
            if self._connection.lost:
                return

    async def _serve(self) -> str | None:
        """Open the REQ, read its past, listen until it closes; the CLOSED text, or None if the connection is lost."""
        self._is_unanswered = True
        self._request = self._ask_for_new()
        try:
            async with asyncio.TaskGroup() as group:
                catching: asyncio.Task[None] | None = None
                looking: asyncio.Task[bool] | None = None
                since = sys.maxsize
                was_answered = False
                unanswered = 0
                while not self._request.closed.done():
                    is_answered = await self._request.settled(self._timeouts.probe_timeout) or self._request.count > 0
                    if self._request.closed.done():
                        break
                    self._note_answer(is_answered)
                    was_answered = was_answered or is_answered
                    unanswered = 0 if is_answered else unanswered + 1
                    if catching is None:  # without an answer too: the relay may still serve stored events
                        catching = group.create_task(self._catch_up(), name=f"backlog {self._subscription.name}")
                    if not is_answered:
                        level = self._log.warning if unanswered == 1 else self._log.debug
                        level("relay.no_eose")
                        if self._connection.was_challenged:
                            await self._connection.authenticate()
                        self._style.simplify()
                    is_quiet = await self._until_quiet(self._request, unanswered)
                    if is_quiet and await self._renew(self._request, may_hang_up=was_answered):
                        silent = self._timeouts.probe_after + self._timeouts.probe_timeout + CLOCKS_DIFFER
                        if looking is None or looking.done():
                            since = sys.maxsize
                        else:  # a relay may refuse stored events for ever: one look back at a time
                            looking.cancel()
                        since = min(since, int(self._connection.received_at - silent))
                        looking = group.create_task(self._read_past(since), name=f"look back {self._subscription.name}")
                for task in (catching, looking):
                    if task is not None:
                        task.cancel()
            return self._request.closed.result()
        finally:
            if self._subscription.caught_up_on is self._connection:
                self._subscription.covered = self._connection.received_at
                self._subscription.caught_up_on = None
            self._subscription.listening.clear()
            self._connection.drop(self._request)

    def _note_answer(self, is_answered: bool) -> None:
        self._is_unanswered = not is_answered
        self._subscription.unresponsive = not is_answered
        if is_answered:
            self._subscription.listening.set()
            self._subscription.refused = ""
            self._style.answered()
        else:
            self._subscription.listening.clear()
        self._changed()

    def _refuse(self, why: str) -> None:
        """Report why the relay does not serve this; others do not wait for its past."""
        if self._connection.lost:
            return
        level = self._log.debug if self._subscription.refused == why else self._log.error
        level("relay.refuses_subscription", why=why)
        self._subscription.refused = why
        self._subscription.unresponsive = self._subscription.unresponsive or self._is_unanswered
        self._backlog.done(self._subscription)
        self._changed()

    async def _until_quiet(self, request: Request, unanswered: int) -> bool:
        """Return True when a new REQ is due: after a long silence, or a growing pause without an answer.

        False if the REQ was closed before.
        """
        loop = asyncio.get_running_loop()
        asked = loop.time()
        pause = self._timeouts.probe_timeout * 2**unanswered if unanswered > 1 else 0.0
        while not request.closed.done():
            due = (
                asked + min(pause, self._timeouts.probe_after)
                if unanswered
                else request.active_at + self._timeouts.probe_after
            )
            if loop.time() >= due:
                return True
            await asyncio.wait({request.closed}, timeout=due - loop.time())
        return False

    async def _renew(self, request: Request, *, may_hang_up: bool) -> bool:
        """Send the REQ under a new id, since a relay may have lost the old one; False if that is not answered either.

        Then the connection is closed, unless other REQs on it are answered and this one never was.
        """
        async with self._connection.spare:
            renewed = self._ask_for_new()
            if await renewed.settled(self._timeouts.probe_timeout) or renewed.count:
                self._connection.drop(request)
                self._request = renewed
                return True
            self._connection.drop(renewed)
        self._note_answer(is_answered=False)
        if may_hang_up or not self._style.has_answered:
            self._log.warning(
                "relay.unresponsive", silent_for=round(asyncio.get_running_loop().time() - request.active_at)
            )
            self._connection.abort()
            await asyncio.wait({request.closed}, timeout=self._timeouts.close_timeout)
        return False

    async def _catch_up(self) -> None:
        """Read the missing past, with as many pauses as the relay asks for, and mark it as covered."""
        since = self._subscription.missing_since(self._timeouts.overlap)
        if since is None:
            self._backlog.done(self._subscription)
        elif not await self._read_past(since):
            return
        await self._backlog.delivered()
        if not self._connection.lost:
            self._subscription.caught_up_on = self._connection

    async def _read_past(self, since: int) -> bool:
        """Read the past back to `since`; False if the connection was lost.

        A past that was cut short stays expected: the next connection reads it again, and what there is of it waits.
        """
        self._backlog.expect(self._subscription)
        self._readings += 1
        try:
            whole = await self._page_back(since)
        finally:
            self._readings -= 1
        if not self._connection.lost and not self._readings:
            self._backlog.done(self._subscription)
        return whole

    async def _page_back(self, since: int) -> bool:
        """Page every filter back to `since`; False if the connection was lost."""
        policy = RetryPolicy(self._timeouts, self._rng)
        for wanted in self._subscription.filters:
            pager = Pager(wanted, since, self._page_limit())
            while (page := pager.next()) is not None:
                text = await self._read_page(page, pager)
                if text:
                    await policy.wait_or_report(read_answer(text), self._connection.authenticate, self._refuse)
                elif self._subscription.refused and not self._is_unanswered:
                    self._subscription.refused = ""
                    self._changed()
                if self._connection.lost:
                    return False
            if pager.clamp is not None:
                self._log.info("relay.page_limited", page=pager.clamp, pages=pager.pages)
        return True

    async def _read_page(self, page: Filter, pager: Pager) -> str:
        """Request one page; "" if it is complete, else why not, and the pager is not updated."""
        found: list[tuple[str, int]] = []

        def take(raw: dict[str, Any]) -> Awaitable[None] | None:
            found.append((str(raw.get("id")), raw["created_at"]))
            return self._backlog.add(raw, request.size)

        async with self._connection.spare:
            request = self._connection.request([page], take, most=page["limit"] + ALLOWANCE)
            try:
                why = await request.stored(self._timeouts.eose_timeout)
            finally:
                self._connection.drop(request)
        if not why:
            pager.took(found)
        return why

    def _ask_for_new(self) -> Request:
        """Open the subscription REQ: nothing stored, and everything new whatever its date."""
        loop = asyncio.get_running_loop()
        is_simple = self._style.is_simple
        opened = loop.time()

        def take(raw: dict[str, Any]) -> Awaitable[None] | None:
            is_stored = not request.eose.done() and loop.time() < opened + self._timeouts.probe_timeout
            if is_simple and is_stored:  # stored events are read in order elsewhere
                return None
            return self._backlog.add_new(raw, request.size, is_new=not is_stored)

        bare = ("since", "until", "limit")
        limit = 1 if is_simple else 0
        new = [
            {**{k: v for k, v in wanted.items() if k not in bare}, "limit": limit}
            for wanted in self._subscription.filters
        ]
        request = self._connection.request(new, take)
        return request
