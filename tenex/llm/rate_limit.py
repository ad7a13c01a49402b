"""How hard one provider is driven: calls at once, requests and tokens a minute, and pauses it asked for.

One `ProviderQueue` is shared by every conversation; `FairQueue` chooses the next call.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tenex.core.errors import ModelUnavailable

MINUTE = 60.0

PATIENCE = 30.0
"""Seconds of a pause that a call waits through; asked to wait longer, another model or a timer serves better."""

LONGEST_PAUSE = 3600.0
"""Seconds; a server that asks for more is asked again after an hour, because such answers are often mistakes."""


ADVANTAGE: Final = 4
"""Calls of a higher priority that may go before a waiting one: an owner hardly notices a crowd, and a crowd goes on."""

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Serves priorities in order (0 first), the users of one priority in turn, and the calls of a user in order.

    A priority that was passed over `ADVANTAGE` times in a row is served next, so no call waits for ever.
    """

    def __init__(self) -> None:
        self._by_user: dict[int, OrderedDict[str, deque[T]]] = {}
        self._passed: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(len(calls) for users in self._by_user.values() for calls in users.values())

    def add(self, item: T, user: str, priority: int) -> None:
        """Let a call wait, behind this user's other calls and after the next call of everyone else who waits."""
        self._by_user.setdefault(priority, OrderedDict()).setdefault(user, deque()).append(item)

    def discard(self, item: T, user: str, priority: int) -> None:
        """Take a call out, if it still waits."""
        calls = self._by_user.get(priority, OrderedDict()).get(user)
        if calls is not None and item in calls:
            calls.remove(item)
            self._tidy(priority, user)

    def peek(self) -> T | None:
        """The call that is served next; None where none waits."""
        if not self._by_user:
            return None
        return next(iter(next(iter(self._by_user[self._next()].values()))))

    def pop(self) -> T:
        """Take out the call that is served next.

        Raises:
            IndexError: none waits.
        """
        if not self._by_user:
            raise IndexError("pop from an empty queue")
        priority = self._next()
        user, calls = next(iter(self._by_user[priority].items()))
        item = calls.popleft()
        self._by_user[priority].move_to_end(user)
        self._passed[priority] = 0
        self._passed.update(other for other in self._by_user if other > priority)
        self._tidy(priority, user)
        return item

    def _next(self) -> int:
        starved = [priority for priority in self._by_user if self._passed[priority] >= ADVANTAGE]
        return min(starved or self._by_user)

    def _tidy(self, priority: int, user: str) -> None:
        users = self._by_user[priority]
        if not users[user]:
            del users[user]
        if not users:
            del self._by_user[priority], self._passed[priority]


@dataclass(slots=True)
class UsageWindow:
    """An amount that counts against a window until a minute has passed since `at`."""

    at: float
    amount: int


class RateWindow:
    """What was used in the last minute, so that no minute, wherever it begins, holds more than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent: deque[UsageWindow] = deque()

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` fits; an amount above the whole limit fits an empty window."""
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
        self._spent.append(entry)
        return entry


@dataclass(slots=True)
class QueueSlot:
    """A call's turn: how long it was waited for, and the tokens that were counted for it."""

    waited: float
    _tokens: UsageWindow | None = None

    def settle(self, tokens: int) -> None:
        """Correct the estimate by what the call really took."""
        if self._tokens is not None:
            self._tokens.amount = tokens


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for its turn; `ready` gives the tokens that were counted for it."""

    tokens: int
    ready: "asyncio.Future[UsageWindow | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ProviderQueue:
    """The queue before one provider. Belongs to one event loop."""

    def __init__(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        self.name = name
        self._concurrency = concurrency
        self._requests = RateWindow(requests_per_minute) if requests_per_minute else None
        self._tokens = RateWindow(tokens_per_minute) if tokens_per_minute else None
        self._queue: FairQueue[_Waiter] = FairQueue()
        self._open_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self.active = 0

    @property
    def waiting(self) -> int:
        """How many calls wait for their turn."""
        return len(self._queue)

    @property
    def paused(self) -> float:
        """Seconds until the provider may be asked again; 0 where it has not asked us to wait."""
        return max(0.0, self._open_at - asyncio.get_running_loop().time())

    def pause(self, seconds: float) -> None:
        """Begin no call for a while; a shorter pause never ends a longer one."""
        until = asyncio.get_running_loop().time() + min(seconds, LONGEST_PAUSE)
        self._open_at = max(self._open_at, until)
        self._serve()

    @asynccontextmanager
    async def turn(
        self, tokens: int = 0, person: str = "", priority: int = 0, *, through_pause: bool = False
    ) -> AsyncIterator[QueueSlot]:
        """Wait for a turn and hold it.

        Args:
            tokens: an estimate of input and output together.
            person: on whose behalf the call is made: people are served in turn.
            priority: 0 is served first.
            through_pause: begin at once where the provider has asked us to wait: a person wants it tried now.

        Raises:
            ModelUnavailable: the provider wants to be left alone for longer than `PATIENCE`.
        """
        clock = asyncio.get_running_loop().time
        if through_pause and self.paused:
            counted = self._count(tokens)
            try:
                yield QueueSlot(0.0, counted)
            finally:
                self._leave()
            return
        began, waiter = clock(), _Waiter(tokens)
        self._queue.add(waiter, person, priority)
        self._serve()
        try:
            counted = await waiter.ready
        except asyncio.CancelledError:
            self._queue.discard(waiter, person, priority)
            if (
                not waiter.ready.cancelled() and waiter.ready.exception() is None
            ):  # it was served in the moment in which its task was cancelled
                self._leave()
            raise
        try:
            yield QueueSlot(clock() - began, counted)
        finally:
            self._leave()

    def _leave(self) -> None:
        self.active -= 1
        self._serve()

    def _serve(self) -> None:
        """Start the calls that may start now. The next one is chosen only here, so that no call reserves a place."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while (waiter := self._queue.peek()) is not None:
            if waiter.ready.done():  # cancelled, and its task has not come to taking it out
                self._queue.pop()
            elif (pause := self.paused) > PATIENCE:
                refusal = ModelUnavailable(f"{self.name} asked us to wait", retry_after=pause)
                self._queue.pop().ready.set_exception(refusal)
            elif self._concurrency and self.active >= self._concurrency:
                return
            elif wait := max(pause, self._full_for(waiter.tokens)):
                self._alarm = asyncio.get_running_loop().call_later(wait, self._serve)
                return
            else:
                self._queue.pop().ready.set_result(self._count(waiter.tokens))

    def _full_for(self, tokens: int) -> float:
        """Seconds until the windows have room for a call."""
        now = asyncio.get_running_loop().time()
        windows = ((self._requests, 1), (self._tokens, tokens))
        return max((window.wait(amount, now) for window, amount in windows if window is not None), default=0.0)

    def _count(self, tokens: int) -> UsageWindow | None:
        now = asyncio.get_running_loop().time()
        self.active += 1
        if self._requests is not None:
            self._requests.add(1, now)
        return self._tokens.add(tokens, now) if self._tokens is not None else None
