"""How hard one provider is driven: calls at once, requests and tokens a minute, and pauses it asked for.

One `Turns` is shared by every conversation. Who comes first is served first.

Never: retry, or know what a call does.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tenex.core.errors import ModelUnavailable

MINUTE = 60.0

PATIENCE = 30.0
"""Seconds of a pause that a call waits through; asked to wait longer, another model or a timer serves better."""

LONGEST_PAUSE = 3600.0
"""Seconds; a server that asks for more is asked again after an hour, because such answers are often mistakes."""


@dataclass(slots=True)
class Spent:
    """An amount that counts against a window until a minute has passed since `at`."""

    at: float
    amount: int


class Window:
    """What was used in the last minute, so that no minute, wherever it begins, holds more than the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent: deque[Spent] = deque()

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

    def add(self, amount: int, now: float) -> Spent:
        """Count an amount from now on; the entry may be corrected once the true amount is known."""
        entry = Spent(at=now, amount=amount)
        self._spent.append(entry)
        return entry


@dataclass(slots=True)
class Turn:
    """A call's turn: how long it was waited for, and the tokens that were counted for it."""

    waited: float
    _tokens: Spent | None = None

    def settle(self, tokens: int) -> None:
        """Correct the estimate by what the call really took."""
        if self._tokens is not None:
            self._tokens.amount = tokens


class Turns:
    """The queue before one provider. Belongs to one event loop."""

    def __init__(
        self, name: str, *, concurrency: int | None = None, requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._places = asyncio.Semaphore(concurrency) if concurrency else None
        self._requests = Window(requests_per_minute) if requests_per_minute else None
        self._tokens = Window(tokens_per_minute) if tokens_per_minute else None
        self._head = asyncio.Lock()
        self._open_at = 0.0
        self.active = 0
        self.waiting = 0

    @property
    def paused(self) -> float:
        """Seconds until the provider may be asked again; 0 where it has not asked us to wait."""
        return max(0.0, self._open_at - asyncio.get_running_loop().time())

    def pause(self, seconds: float) -> None:
        """Let nobody through for a while; a shorter pause never ends a longer one."""
        until = asyncio.get_running_loop().time() + min(seconds, LONGEST_PAUSE)
        self._open_at = max(self._open_at, until)

    @asynccontextmanager
    async def turn(self, tokens: int = 0) -> AsyncIterator[Turn]:
        """Wait for a turn and hold it. `tokens` is an estimate of input and output together.

        Raises:
            ModelUnavailable: the provider wants to be left alone for longer than `PATIENCE`.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        self.waiting += 1
        try:
            async with self._head:  # a lock is fair, so whoever came first is first here
                await self._patient()
                if self._places is not None:
                    await self._places.acquire()
                try:
                    counted = await self._within_limits(tokens)
                except BaseException:
                    self._leave()
                    raise
        finally:
            self.waiting -= 1
        self.active += 1
        try:
            yield Turn(clock() - began, counted)
        finally:
            self.active -= 1
            self._leave()

    def _leave(self) -> None:
        if self._places is not None:
            self._places.release()

    async def _patient(self) -> None:
        while (pause := self.paused) > 0:
            if pause > PATIENCE:
                raise ModelUnavailable(f"{self.name} asked us to wait", retry_after=pause)
            await asyncio.sleep(pause)

    async def _within_limits(self, tokens: int) -> Spent | None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._patient()
            now = clock()
            waits = [
                window.wait(amount, now)
                for window, amount in ((self._requests, 1), (self._tokens, tokens))
                if window is not None
            ]
            if not any(waits):
                break
            await asyncio.sleep(max(waits))
        if self._requests is not None:
            self._requests.add(1, now)
        return self._tokens.add(tokens, now) if self._tokens is not None else None
