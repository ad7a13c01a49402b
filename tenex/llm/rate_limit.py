"""Limits the calls of one provider: concurrency, requests and tokens a minute, and pauses it asked for.

Servers limit each model by itself, so a pause is for one model unless the account has nothing left. A call that
succeeds ends it: the server answers again, whatever it asked for before.

One `ProviderQueue` is shared by every conversation; `FairQueue` chooses the next call. Guests' calls take at most half
of the places, so that one is free for others soon.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tenex.core.effects import Work
from tenex.core.errors import ModelUnavailable
from tenex.core.work.fair_queue import GUESTS, FairQueue, waiting_for_turn

from .config import ProviderConfig

MINUTE = 60.0

PATIENCE = 30.0
"""Seconds of a pause that a call waits for; for longer ones another model or a timer is better."""

LONGEST_PAUSE = 3600.0
"""Seconds; a server that asks for more is called again after an hour, because such answers are often mistakes."""


@dataclass(slots=True)
class UsageWindow:
    """An amount that counts against a window for a minute from `at`."""

    at: float
    amount: int


class RateWindow:
    """A sliding window of one minute: any 60 seconds in a row stay within the limit; None is no limit."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._spent: deque[UsageWindow] = deque()

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` fits; an amount above the whole limit fits an empty window."""
        if self.limit is None:
            return 0.0
        while self._spent and self._spent[0].at + MINUTE <= now:
            self._spent.popleft()
        over = sum(spent.amount for spent in self._spent) + amount - self.limit
        until = now
        for spent in self._spent:
            if over <= 0:
                break
            over -= spent.amount
            until = spent.at + MINUTE
        return until - now

    def add(self, amount: int, now: float) -> UsageWindow:
        """Count an amount from now on; the entry may be corrected once the true amount is known."""
        entry = UsageWindow(at=now, amount=amount)
        if self.limit is not None:
            self._spent.append(entry)
        return entry


@dataclass(slots=True)
class QueueSlot:
    """A call that may start: how long it waited, and the tokens that were counted for it."""

    waited: float
    _tokens: UsageWindow

    def settle(self, tokens: int) -> None:
        """Replace the estimate by the tokens the call used."""
        self._tokens.amount = tokens


@dataclass(slots=True, eq=False)
class _Waiter:
    """A queued call; `ready` is set to the tokens that were counted for it."""

    tokens: int
    person: str
    priority: int
    model: str
    ready: "asyncio.Future[UsageWindow]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ProviderQueue:
    """The queue of one provider. Belongs to one event loop."""

    def __init__(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        self.name = name
        self._limits = (concurrency, requests_per_minute, tokens_per_minute)
        self._concurrency = concurrency
        self._guest_share = max(1, concurrency // 2) if concurrency else None
        self._requests = RateWindow(requests_per_minute)
        self._tokens = RateWindow(tokens_per_minute)
        self._queue: FairQueue[_Waiter] = FairQueue()
        self._open_at: dict[str, float] = {}
        """When a model may be called again, by its name; "" is for all of them."""
        self._resting: list[_Waiter] = []
        """Calls that wait for the end of a pause."""
        self._alarm: asyncio.TimerHandle | None = None
        self.active = 0
        self._active_guests = 0

    @property
    def waiting(self) -> int:
        """How many calls are queued."""
        return len(self._queue) + len(self._resting)

    @property
    def paused(self) -> float:
        """Seconds until the last of its models may be called again; 0 unless the provider has asked to wait."""
        return max((self._pause_of(model) for model in self._open_at), default=0.0)

    def _pause_of(self, model: str) -> float:
        until = max(self._open_at.get(model, 0.0), self._open_at.get("", 0.0))
        return max(0.0, until - asyncio.get_running_loop().time())

    def pause(self, seconds: float, model: str = "") -> None:
        """Start no call of a model, or of any, for a while; a shorter pause never ends a longer one."""
        until = asyncio.get_running_loop().time() + min(seconds, LONGEST_PAUSE)
        self._open_at[model] = max(self._open_at.get(model, 0.0), until)
        self._serve()

    def resume(self, model: str) -> None:
        """End the pauses that a model's call was under: it has succeeded."""
        if model in self._open_at or "" in self._open_at:
            self._open_at.pop(model, None)
            self._open_at.pop("", None)
            self._serve()

    def share(self, daemons: int) -> None:
        """Keep to the part of the limits that one of so many daemons has, and to one call at least."""
        parts = [limit and max(1, limit // daemons) for limit in self._limits]
        self._concurrency, self._requests.limit, self._tokens.limit = parts
        self._guest_share = max(1, self._concurrency // 2) if self._concurrency else None
        if self._queue:
            self._serve()

    @asynccontextmanager
    async def turn(
        self, tokens: int = 0, person: str = "", priority: int = 0, *, model: str = "", through_pause: bool = False
    ) -> AsyncIterator[QueueSlot]:
        """Wait for a turn and hold it.

        Args:
            tokens: an estimate of input and output together.
            person: the user on whose behalf the call is made: users are served in turn.
            priority: 0 is served first.
            model: whose pauses it waits for, beside those of the whole provider.
            through_pause: start at once even during a pause: a user wants it tried now.

        Raises:
            ModelUnavailable: the provider has asked to wait for longer than `PATIENCE`.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        waiter = _Waiter(tokens, person, priority, model)
        if through_pause and self._pause_of(model):
            waiter.ready.set_result(self._count(waiter))
        else:
            self._queue.add(waiter, person, priority)
            self._serve()
        try:
            with waiting_for_turn(Work.ROUTE, Work.MODEL):
                counted = await waiter.ready
        except asyncio.CancelledError:
            self._queue.discard(waiter)
            if waiter in self._resting:
                self._resting.remove(waiter)
            if not waiter.ready.cancelled() and waiter.ready.exception() is None:  # served and cancelled at once
                self._leave(waiter)
            raise
        try:
            yield QueueSlot(clock() - began, counted)
        finally:
            self._leave(waiter)

    @classmethod
    def of(cls, provider: ProviderConfig) -> "ProviderQueue":
        """The queue with the limits that the settings give a provider."""
        return cls(
            provider.name,
            concurrency=provider.concurrency,
            requests_per_minute=provider.requests_per_minute,
            tokens_per_minute=provider.tokens_per_minute,
        )

    def _leave(self, waiter: _Waiter) -> None:
        self.active -= 1
        self._active_guests -= waiter.priority == GUESTS
        self._serve()

    def _serve(self) -> None:
        """Start the calls that may start now; the next one is chosen only here, so that no call reserves a slot."""
        loop = asyncio.get_running_loop()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for resting in [one for one in self._resting if not 0 < self._pause_of(one.model) <= PATIENCE]:
            self._resting.remove(resting)
            self._queue.add(resting, resting.person, resting.priority)
        waits: list[float] = []
        while True:
            is_share_used = self._guest_share is not None and self._active_guests >= self._guest_share
            held = GUESTS if is_share_used else None
            waiter = self._queue.peek(held)
            if waiter is None:
                break
            pause = self._pause_of(waiter.model)
            if waiter.ready.done():  # cancelled, and its task has not run since
                self._queue.pop(held)
            elif pause > PATIENCE:
                refusal = ModelUnavailable(f"{waiter.model or self.name} asked to wait", retry_after=pause)
                self._queue.pop(held).ready.set_exception(refusal)
            elif pause:
                self._resting.append(self._queue.pop(held))
            elif self._concurrency and self.active >= self._concurrency:
                break
            elif wait := max(self._requests.wait(1, loop.time()), self._tokens.wait(waiter.tokens, loop.time())):
                waits.append(wait)
                break
            else:
                self._queue.pop(held).ready.set_result(self._count(waiter))
        waits += [self._pause_of(one.model) for one in self._resting]
        if waits:
            self._alarm = loop.call_later(min(waits), self._serve)

    def _count(self, waiter: _Waiter) -> UsageWindow:
        now = asyncio.get_running_loop().time()
        self.active += 1
        self._active_guests += waiter.priority == GUESTS
        self._requests.add(1, now)
        return self._tokens.add(waiter.tokens, now)
