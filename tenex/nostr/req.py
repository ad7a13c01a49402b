"""What we want to hear from one relay, kept true: each REQ open, its past read, its silence questioned.

    open (limit 0) ──EOSE──► listening ──silence──► asked again under a new id ──no EOSE──► hang up, connect again
         ▲  │                    │
         │  └── no answer ──► asked in the simple form, then hang up, connect again
         └── pause, AUTH ── CLOSED: what the prefix says; what is refused for good is shown, and asked again ever less
                                    often

The live REQ opens before the past is read, so nothing falls between the two. What is new is held by the backlog until
the past has been read, within a bound. The live REQ carries no `since`: a relay applies that to new events too, and a
message composed offline is old when it comes.

The simple form is one filter to a REQ and `limit: 1` in place of 0, for relays that refuse the other.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

import structlog

from .connection import ClientConnection, Request
from .filters import Filter
from .history_buffer import Backlog
from .pagination import ALLOWANCE, Pager
from .relay_reasons import ReasonAction, read_answer
from .retry import RetryPolicy
from .timeouts import RelayTimeouts

log = structlog.get_logger(__name__)

CLOCKS_DIFFER: Final = 60
"""Seconds a sender's clock may be behind ours without the look back after a silence missing their event."""


@dataclass(eq=False, kw_only=True)
class Subscription:
    """One REQ we want open on every connection to a relay, and what of its past is still owed."""

    name: str
    filters: Sequence[Filter]
    backlog_since: int | None
    """Seconds; None wants nothing from before `asked_at`."""
    asked_at: float
    covered: float | None = None
    """Wall clock up to which all that was received has been taken, the past included; None before that. It stands
    still while `hearing` moves on."""
    hearing: ClientConnection | None = None
    """The open session on which its past has been read, so that only new events are still to come."""
    reach: int | None = None
    """How far back the reading of a gap may go: as far as one it replaced was asked to; None for as far
    as it was itself."""
    refused: str = ""
    """Why the relay will not serve it, in its own words."""
    deaf: bool = False
    """The last REQ for what is new was refused or not answered."""
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the relay has it open and has said so."""

    @property
    def covered_until(self) -> float | None:
        """Wall clock up to which nothing it asks for is missing; None while some of its past is unread."""
        return self.covered if self.hearing is None else self.hearing.heard_at

    def serves(self, filters: Sequence[Filter], backlog_since: int | None) -> bool:
        """Tell whether this already asks for the same, at least as far back."""
        if self.filters != filters:
            return False
        return backlog_since is None or (self.backlog_since is not None and self.backlog_since <= backlog_since)

    def owed_since(self, overlap: float) -> int | None:
        """From which second on the past must be read now; None for nothing at all."""
        if self.covered is None:
            return self.backlog_since
        return int(max(self.begin, self.covered - overlap))

    @property
    def begin(self) -> int:
        """The second nothing before which is wanted, however late it comes."""
        if self.reach is not None:
            return self.reach
        return int(self.asked_at) if self.backlog_since is None else self.backlog_since

    def bequeaths(self, overlap: float) -> int:
        """From which second on whatever takes its place must read the past, so that nothing it owed is lost."""
        if self.hearing is not None and not self.hearing.lost:
            return int(self.hearing.heard_at) - CLOCKS_DIFFER  # only what comes between the old REQ and the new
        owed = self.owed_since(overlap)
        return int(self.asked_at) - CLOCKS_DIFFER if owed is None else owed


def replace_subscriptions(
    former: Sequence[Subscription],
    name: str,
    groups: Sequence[Sequence[Filter]],
    backlog_since: int | None,
    now: float,
    overlap: float,
) -> tuple[list[Subscription], list[Subscription]]:
    """Say which REQs of a subscription stay when it is asked for anew, and which are added.

    One that is added reads the past back to `backlog_since`, and further where a former one that asked for some of the
    same still owed more: a past that was never read is not forgiven by asking for something else beside it.
    """
    if former and backlog_since is None:
        backlog_since = int(now) - CLOCKS_DIFFER  # what comes between the old REQ and the new
    kept = [live for live in former if any(live.serves(group, backlog_since) for group in groups)]
    added: list[Subscription] = []
    for group in groups:
        if any(live.serves(group, backlog_since) for live in kept):
            continue
        heir = Subscription(name=name, filters=group, backlog_since=backlog_since, asked_at=now)
        for live in former:
            if _share(group, live.filters):
                owed = live.bequeaths(overlap)
                heir.backlog_since = owed if heir.backlog_since is None else min(heir.backlog_since, owed)
                heir.reach = min(heir.begin, live.begin)
        added.append(heir)
    return kept, added


def _share(these: Sequence[Filter], those: Sequence[Filter]) -> bool:
    """Tell whether some filter here asks for something a filter there asks for by the same names and values."""
    return any(
        all(not set(one[key]).isdisjoint(other[key]) for key in one.keys() & other.keys() if isinstance(one[key], list))
        for one in these
        for other in those
    )


class Form(Protocol):
    """How REQs for what is new are asked on one relay."""

    @property
    def is_simple(self) -> bool:
        """Whether they are asked in the simple form."""
        ...

    @property
    def has_answered(self) -> bool:
        """Whether the relay has answered any REQ on this connection."""
        ...

    def simplify(self) -> None:
        """Ask in the simple form from now on."""
        ...

    def answered(self) -> None:
        """Note that the relay has answered one."""
        ...


class SubscriptionTask:
    """Keeps one `Subscription` true on one session."""

    def __init__(
        self,
        session: ClientConnection,
        live: Subscription,
        *,
        url: str,
        backlog: Backlog,
        timings: RelayTimeouts,
        rng: Random,
        page_limit: Callable[[], int],
        form: Form,
        changed: Callable[[], None],
    ) -> None:
        self._session = session
        self._live = live
        self._backlog = backlog
        self._timings = timings
        self._rng = rng
        self._page_limit = page_limit
        self._form = form
        self._changed = changed
        self._request: Request | None = None
        self._is_unanswered = True
        self._readings = 0
        self._log = log.bind(relay=url, subscription=live.name)
        backlog.expect(live)  # now, not when the REQ is answered: the past of others waits for this one's

    async def keep(self) -> None:
        """Run until cancelled or until the connection is lost; a REQ that is refused is asked again."""
        loop = asyncio.get_running_loop()
        patience = RetryPolicy(self._timings, self._rng)
        while True:
            opened, was_simple = loop.time(), self._form.is_simple
            text = await self._attend()
            if text is None:
                return
            if loop.time() - opened >= self._timings.stable_after:
                patience.reset()
            answer = read_answer(text)
            self._log.info("relay.subscription_closed", text=answer.text)
            if self._is_unanswered and not was_simple and answer.advice not in (ReasonAction.AUTH, ReasonAction.SLOWER):
                self._form.simplify()
                await asyncio.sleep(0)  # this task is cancelled if the filters now go in several REQs
                continue
            await patience.outlast(answer, self._session.authenticate, self._refuse)
            if self._session.lost:
                return

    async def _attend(self) -> str | None:
        """Open the REQ, read its past, listen until it is closed: the CLOSED's text, or None for a lost connection."""
        self._is_unanswered = True
        self._request = self._ask_for_new()
        try:
            async with asyncio.TaskGroup() as group:
                catching: asyncio.Task[None] | None = None
                looking: asyncio.Task[bool] | None = None
                since = sys.maxsize
                was_answered, unanswered = False, 0
                while not self._request.closed.done():
                    is_answered = await self._request.settled(self._timings.probe_timeout) or self._request.count > 0
                    if self._request.closed.done():
                        break
                    self._note_answer(is_answered)
                    was_answered = was_answered or is_answered
                    unanswered = 0 if is_answered else unanswered + 1
                    if catching is None:  # without an answer too: it may serve the past all the same
                        catching = group.create_task(self._catch_up(), name=f"backlog {self._live.name}")
                    if not is_answered:
                        level = self._log.warning if unanswered == 1 else self._log.debug
                        level("relay.no_eose")
                        if self._session.was_challenged:
                            await self._session.authenticate()
                        self._form.simplify()
                    is_quiet = await self._until_quiet(self._request, unanswered)
                    if is_quiet and await self._renew(self._request, may_hang_up=was_answered):
                        silent = self._timings.probe_after + self._timings.probe_timeout + CLOCKS_DIFFER
                        if looking is None or looking.done():
                            since = sys.maxsize
                        else:  # a relay may refuse its past for ever: one look back at a time
                            looking.cancel()
                        since = min(since, int(self._session.heard_at - silent))
                        looking = group.create_task(self._read_past(since), name=f"look back {self._live.name}")
                for task in (catching, looking):
                    if task is not None:
                        task.cancel()
            return self._request.closed.result()
        finally:
            if self._live.hearing is self._session:
                self._live.covered, self._live.hearing = self._session.heard_at, None
            self._live.listening.clear()
            self._session.drop(self._request)

    def _note_answer(self, is_answered: bool) -> None:
        self._is_unanswered = not is_answered
        self._live.deaf = not is_answered
        if is_answered:
            self._live.listening.set()
            self._live.refused = ""
            self._form.answered()
        else:
            self._live.listening.clear()
        self._changed()

    def _refuse(self, why: str) -> None:
        """Show why the relay does not serve this; others need not wait for its past."""
        if self._session.lost:
            return
        level = self._log.debug if self._live.refused == why else self._log.error
        level("relay.refuses_subscription", why=why)
        self._live.refused = why
        self._live.deaf = self._live.deaf or self._is_unanswered
        self._backlog.done(self._live)
        self._changed()

    async def _until_quiet(self, request: Request, unanswered: int) -> bool:
        """Return True when it is time to ask again: after a long silence, or a growing pause where it is not answered.

        False where the REQ was closed before.
        """
        loop = asyncio.get_running_loop()
        asked = loop.time()
        pause = self._timings.probe_timeout * 2**unanswered if unanswered > 1 else 0.0
        while not request.closed.done():
            due = (
                asked + min(pause, self._timings.probe_after)
                if unanswered
                else request.heard + self._timings.probe_after
            )
            if loop.time() >= due:
                return True
            await asyncio.wait({request.closed}, timeout=due - loop.time())
        return False

    async def _renew(self, request: Request, *, may_hang_up: bool) -> bool:
        """Ask again under a new id, for a relay may have forgotten the old one; False where that too is not answered.

        Then the connection ends, unless this REQ alone was never answered on it: others are served.
        """
        async with self._session.spare:
            renewed = self._ask_for_new()
            if await renewed.settled(self._timings.probe_timeout) or renewed.count:
                self._session.drop(request)
                self._request = renewed
                return True
            self._session.drop(renewed)
        self._note_answer(is_answered=False)
        if may_hang_up or not self._form.has_answered:
            self._log.warning("relay.deaf", silent_for=round(asyncio.get_running_loop().time() - request.heard))
            self._session.abort()
            await asyncio.wait({request.closed}, timeout=self._timings.close_timeout)
        return False

    async def _catch_up(self) -> None:
        """Read what is owed, however often the relay asks us to wait; once it has been taken the past is covered."""
        since = self._live.owed_since(self._timings.overlap)
        if since is None:
            self._backlog.done(self._live)
        elif not await self._read_past(since):
            return
        await self._backlog.handed_on()
        if not self._session.lost:
            self._live.hearing = self._session

    async def _read_past(self, since: int) -> bool:
        """Have the past read back to `since`; False where the connection was lost.

        A past that was cut short stays expected: the next connection reads it again, and what there is of it waits.
        """
        self._backlog.expect(self._live)
        self._readings += 1
        try:
            whole = await self._page_back(since)
        finally:
            self._readings -= 1
        if not self._session.lost and not self._readings:
            self._backlog.done(self._live)
        return whole

    async def _page_back(self, since: int) -> bool:
        """Page every filter back to `since`; False where the connection was lost."""
        patience = RetryPolicy(self._timings, self._rng)
        for wanted in self._live.filters:
            pager = Pager(wanted, since, self._page_limit())
            while (page := pager.next()) is not None:
                text = await self._read_page(page, pager)
                if text:
                    await patience.outlast(read_answer(text), self._session.authenticate, self._refuse)
                elif self._live.refused and not self._is_unanswered:
                    self._live.refused = ""
                    self._changed()
                if self._session.lost:
                    return False
            if pager.clamp is not None:
                self._log.info("relay.clamps", page=pager.clamp, pages=pager.pages)
        return True

    async def _read_page(self, page: Filter, pager: Pager) -> str:
        """Ask for one page; "" when it came whole, else why it did not, and the pager has not heard of it."""
        found: list[tuple[str, int]] = []

        def take(raw: dict[str, Any]) -> Awaitable[None] | None:
            found.append((str(raw.get("id")), raw["created_at"]))
            return self._backlog.add(raw, request.size)

        async with self._session.spare:
            request = self._session.request([page], take, most=page["limit"] + ALLOWANCE)
            try:
                answered = await request.settled(self._timings.eose_timeout)
            finally:
                self._session.drop(request)
        if request.eose.done():  # whatever became of the REQ afterwards, the page is whole
            pager.took(found)
            return ""
        return request.closed.result() or "error: closed without a reason" if answered else "error: no EOSE in time"

    def _ask_for_new(self) -> Request:
        """Open the live REQ: nothing stored, and everything new whatever its date."""
        loop = asyncio.get_running_loop()
        is_simple, opened = self._form.is_simple, loop.time()

        def take(raw: dict[str, Any]) -> Awaitable[None] | None:
            is_stored = not request.eose.done() and loop.time() < opened + self._timings.probe_timeout
            if is_simple and is_stored:  # it is among the past, which is read in order
                return None
            return self._backlog.add_new(raw, request.size)

        bare = ("since", "until", "limit")
        limit = 1 if is_simple else 0
        new = [{**{k: v for k, v in wanted.items() if k not in bare}, "limit": limit} for wanted in self._live.filters]
        request = self._session.request(new, take)
        return request
