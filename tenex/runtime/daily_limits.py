"""Daily limits: what model calls cost today, by user, and whether another call may start.

Recorded usage comes from the states of conversations; only calls in flight are kept besides. The most a call may use is
reserved before it starts, so concurrent calls cannot exceed a limit together.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Final, NamedTuple

from tenex.core.config import Limits, PeerGroup, Role
from tenex.core.conversation import Conversation
from tenex.core.effects import Key, Work
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import ConversationId, Millis, PublicKey
from tenex.core.memory.window import LONG_ANSWER, UNCERTAIN, request_tokens
from tenex.core.messages import NO_USAGE, ModelRequest, Quote, Usage
from tenex.core.ports import Clock
from tenex.core.records import Record
from tenex.core.signals import DayLimitReached
from tenex.core.totals.costs import DAY, cost_of
from tenex.core.work.fair_queue import waiting_for_turn

PRIORITY: Final = {Role.OWNER: 0, Role.MEMBER: 1}
"""Of a waiting call; everyone else's is 2."""

BETWEEN: Final = 0.1
"""Seconds from the end of a call to the next waiting one: the answered conversation asks for its next step within that
time and goes first, so that some conversations finish before others start."""

_WHO: Final = {"guests_day": "guests", "member_day": "a member", "owner_day": "an owner", "day": "everyone together"}

Spending = Mapping[int, Mapping[PublicKey, Usage]]
"""The usage of a conversation, by day since 1970 (UTC) and user."""


def quote_tokens(request: ModelRequest) -> Quote:
    """The tokens a call may use, without a price."""
    held = request_tokens(request.system, request.entries, request.tools)
    return Quote(least=Usage(input_tokens=held), most=Usage(input_tokens=UNCERTAIN * held, output_tokens=LONG_ANSWER))


class _Kind(NamedTuple):
    """Calls expected to be similar: of a user, or of guests, for one purpose."""

    who: str
    purpose: str


class Bound(NamedTuple):
    """A daily limit: its name in the settings, what is used, and the maximum."""

    name: str
    used: float
    most: float

    def of(self, usage: Usage) -> float:
        """What of a usage counts here."""
        return usage.cost_usd or 0.0 if self.name.startswith("cost") else usage.tokens

    def shown(self, amount: float) -> str:
        """Format an amount for users."""
        return f"${amount:.2f}" if self.name.startswith("cost") else f"{amount:,.0f} tokens"


@dataclass(frozen=True, slots=True)
class DayUse:
    """What a user (or guests, or everyone) has used today, with the limits."""

    who: str
    """owner, member, guests or everyone."""
    person: PublicKey | None
    used: Usage
    bounds: tuple[Bound, ...]

    @property
    def share(self) -> float:
        """The used share of the closest limit; 0 without a limit."""
        return max((bound.used / bound.most for bound in self.bounds), default=0.0)


@dataclass(slots=True, eq=False)
class Reservation:
    """A call: the limit that keeps it from starting, or the most it may use and, until it is recorded, its usage."""

    person: PublicKey
    most: Usage
    reached: DayLimitReached | None = None
    taken: Usage = NO_USAGE


@dataclass(slots=True)
class _Account:
    """Running totals of a user or of everyone, so that checking a limit is cheap."""

    recorded: dict[int, Usage] = field(default_factory=dict)
    """By day since 1970."""
    unrecorded: Usage = NO_USAGE
    """Usage of finished calls that is not recorded yet."""
    reserved: Usage = NO_USAGE
    """The most that calls in flight may use."""
    under_way: int = 0

    def used(self, day: int) -> Usage:
        """Usage that counts towards the limit of a day."""
        return self.recorded.get(day, NO_USAGE) + self.unrecorded


class _Scope(NamedTuple):
    """The calls a limit counts together, and their usage."""

    name: str
    used: Usage
    reserved: Usage | None
    """The most that calls in flight may use; None without calls."""


class DailyLimits:
    """The daily limits of all conversations. An `Observer`."""

    def __init__(
        self,
        clock: Clock,
        limits: Callable[[], Limits],
        people: Callable[[], PeerGroup],
        quote: Callable[[ModelRequest], Quote] = quote_tokens,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._people = people
        self._quote = quote
        self._conversations: dict[ConversationId, Spending] = {}
        self._accounts: dict[PublicKey, _Account] = {}
        self._everyone = _Account()
        self._in_flight: dict[tuple[ConversationId, Key], Reservation] = {}
        self._largest: dict[_Kind, Usage] = {}
        """The largest usage of this process today."""
        self._waiting: dict[PublicKey, list[tuple[Millis, int, asyncio.Future[None]]]] = {}
        self._order = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._oldest = 0

    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:
        """Update the usage of a conversation (`core.ports.Observer`)."""
        if any(cost_of(record).calls for record in records):
            self.load(conversation.id, conversation.totals.spending)

    def load(self, conversation: ConversationId, spending: Spending) -> None:
        """Replace the known usage of a conversation."""
        former = self._conversations.get(conversation, {})
        for day, people in spending.items():
            for person, usage in people.items():
                before = former.get(day, {}).get(person, NO_USAGE)
                for account in self._accounts_of(person):
                    account.recorded[day] = account.recorded.get(day, NO_USAGE) + (usage - before)
        self._conversations[conversation] = spending
        self._forget_past()

    def _forget_past(self) -> None:
        """Drop days before yesterday: a small step back of the clock does not reach them."""
        oldest = self._today - 1
        if oldest <= self._oldest:
            return
        self._oldest = oldest
        for account in (self._everyone, *self._accounts.values()):
            account.recorded = {day: usage for day, usage in account.recorded.items() if day >= oldest}
        self._accounts = {
            person: account
            for person, account in self._accounts.items()
            if account.recorded or account.under_way or account.unrecorded.calls
        }
        self._conversations = {
            name: days for name, days in self._conversations.items() if any(day >= oldest for day in days)
        }
        self._largest = {}

    @property
    def _today(self) -> int:
        return self._clock.now() // DAY

    def today(self) -> list[DayUse]:
        """Usage of today: of everyone, then of each user with usage; guests count as one."""
        peers = self._people()
        today = self._today
        members = peers.owners | peers.members
        counted = [person for person, account in self._accounts.items() if today in account.recorded]
        people = {person if person in members else None for person in counted}
        uses = [self._use("everyone", None, self._scope("day", self._everyone))]
        for person in sorted(people, key=lambda key: key or ""):
            role = peers.role(person) if person is not None else None
            scope = self._scopes(person or PublicKey(""))[0]
            uses.append(self._use(str(role) if role in PRIORITY else "guests", person, scope))
        return uses

    def _use(self, who: str, person: PublicKey | None, scope: _Scope) -> DayUse:
        return DayUse(who, person, scope.used, tuple(self._bounds(scope.name, scope.used)))

    def priority(self, person: PublicKey) -> int:
        """The priority of this user's waiting calls; 0 is served first."""
        role = self._people().role(person)
        return PRIORITY.get(role, 2) if role is not None else 2

    def reached(self, key: Key, person: PublicKey) -> DayLimitReached | None:
        """The limit that is used up for this user, if any."""
        for scope in self._scopes(person):
            for bound in self._bounds(scope.name, scope.used):
                if bound.used >= bound.most:
                    return self._refusal(key, bound)
        return None

    @asynccontextmanager
    async def call(self, caller: Conversation, key: Key, request: ModelRequest) -> AsyncIterator[Reservation]:
        """Reserve what a call may use; near a limit, wait first for the usage of calls in flight.

        Its usage then counts until `release`, called once it is recorded. A cancelled call is released here: its usage
        is recorded as `ModelCallCancelled`.
        """
        person = caller.on_behalf_of
        quote = self._quote(request)
        kind = _Kind(person if self._people().role(person) in PRIORITY else "guests", request.purpose)
        reached = await self._turn(person, caller.identity.started_at, key, quote, kind)
        call = Reservation(person, quote.most, reached)
        if reached is not None:
            yield call
            return
        self._in_flight[caller.id, key] = call
        for account in self._accounts_of(person):
            account.reserved += quote.most
            account.under_way += 1
        try:
            try:
                yield call
            except (ModelUnavailable, ModelRefused) as error:
                call.taken = error.usage
                raise
            finally:
                for account in self._accounts_of(person):
                    account.under_way -= 1
                    account.reserved = account.reserved - call.most if account.under_way else NO_USAGE
                    account.unrecorded += call.taken
                self._largest[kind] = _larger(self._largest.get(kind, NO_USAGE), call.taken)
                self._wake_soon()
        except asyncio.CancelledError:
            self.release(caller.id, key)
            raise

    def _accounts_of(self, person: PublicKey) -> tuple[_Account, _Account]:
        """The user's account and everyone's."""
        if person not in self._accounts:
            self._accounts[person] = _Account()
        return self._accounts[person], self._everyone

    async def _turn(
        self, person: PublicKey, since: Millis, key: Key, quote: Quote, kind: _Kind
    ) -> DayLimitReached | None:
        """Wait until a call may start (None: count it before any await) or a limit is reached."""
        has_waited = False
        waiting = self._waiting.get(person)
        try:
            while waiting or (verdict := self._verdict(key, person, quote, kind)) is False:
                has_waited = True
                waiting = None
                self._order += 1
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                # the oldest conversation first
                heappush(self._waiting.setdefault(person, []), (since, self._order, waiter))
                with waiting_for_turn(Work.ROUTE, Work.MODEL):
                    await waiter
            return None if verdict is True else verdict
        finally:
            if has_waited:  # the next one checks after this one has been counted
                asyncio.get_running_loop().call_soon(self._wake, person)

    def release(self, conversation: ConversationId, key: Key) -> None:
        """Forget a call: its usage is recorded, or it never started."""
        reservation = self._in_flight.pop((conversation, key), None)
        if reservation is not None:
            for account in self._accounts_of(reservation.person):
                account.unrecorded -= reservation.taken
            self._wake_soon()

    def _wake_soon(self) -> None:
        if self._waiting and self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(BETWEEN, self._wake_all)

    def _wake_all(self) -> None:
        self._alarm = None
        for person in sorted(self._waiting, key=self.priority):
            self._wake(person)

    def _wake(self, person: PublicKey) -> None:
        """Wake the first of this user's waiting calls; it wakes the next."""
        waiting = self._waiting.get(person)
        while waiting:
            *_, waiter = heappop(waiting)
            if not waiter.done():
                waiter.set_result(None)
                break
        if not waiting:
            self._waiting.pop(person, None)

    def _verdict(self, key: Key, person: PublicKey, quote: Quote, kind: _Kind) -> DayLimitReached | bool:
        """True: it may start; False: wait for calls in flight; else the limit that is reached.

        A call that may not fit starts only if no other is in flight and one like the largest so far would fit.
        """
        fits = True
        least = _larger(quote.least, self._largest.get(kind, NO_USAGE))
        for scope in self._scopes(person):
            reserved = scope.reserved
            for bound in self._bounds(scope.name, scope.used):
                if bound.used >= bound.most or (reserved is None and bound.used + bound.of(least) > bound.most):
                    return self._refusal(key, bound)
                if reserved is not None and bound.used + bound.of(reserved) + bound.of(quote.most) > bound.most:
                    fits = False
        return fits

    def _scopes(self, person: PublicKey) -> list[_Scope]:
        peers = self._people()
        role = peers.role(person)
        if role in PRIORITY:
            own = self._scope(f"{role}_day", self._accounts.get(person, _Account()))
        else:
            members = [self._accounts[person] for person in peers.owners | peers.members if person in self._accounts]
            own = self._scope("guests_day", self._everyone, without=members)
        return [own, self._scope("day", self._everyone)]

    def _scope(self, name: str, account: _Account, without: Sequence[_Account] = ()) -> _Scope:
        used = account.used(self._today)
        reserved = account.reserved
        under_way = account.under_way
        for other in without:
            used -= other.used(self._today)
            reserved -= other.reserved
            under_way -= other.under_way
        return _Scope(name, used, reserved if under_way else None)

    def _bounds(self, scope: str, used: Usage) -> Iterator[Bound]:
        limits = self._limits()
        for name, amount in ((f"tokens_per_{scope}", used.tokens), (f"cost_per_{scope}_usd", used.cost_usd or 0.0)):
            if most := getattr(limits, name):
                yield Bound(name, amount, most)

    def _refusal(self, key: Key, bound: Bound) -> DayLimitReached:
        until = Millis((self._today + 1) * DAY)
        when = f"{datetime.fromtimestamp(until / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        who = _WHO[bound.name.removeprefix("tokens_per_").removeprefix("cost_per_").removesuffix("_usd")]
        state = "is used up" if bound.used >= bound.most else "has no room for the next call"
        sentence = (
            f"Today's limit for {who} {state}: {bound.shown(bound.used)} of {bound.shown(bound.most)} used. "
            f"The work goes on at {when}, or when an owner raises limits.{bound.name}."
        )
        return DayLimitReached(key=key, limit=bound.name, sentence=sentence, until=until)


def _larger(first: Usage, second: Usage) -> Usage:
    """The larger amount of each."""
    return Usage(
        input_tokens=max(first.tokens, second.tokens),
        cost_usd=max(first.cost_usd or 0.0, second.cost_usd or 0.0),
        calls=0,
    )
