"""Calls in the protocols before 2026-07-28, where a server asks by a request of its own and its call waits meanwhile.

    working ──it asks──► asking ──answer, or none in time──► working ── ... ──► ended

Such a call has a task of its own, so that it stays open while its caller has long returned with the question. The time
that a person takes does not count as the server's. What is not answered in `HELD` seconds is answered with "cancel",
as a person who closes a window does; then the call has to be made again. Nothing of this survives the connection.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

HELD: Final = 3600.0
"""Seconds that a program's question stays open: many programs end it earlier by themselves."""
MOST_HELD: Final = 20
"""Calls of a server that wait for a person; the oldest makes room."""


class Exchange:
    """A call under way, and what the server asks in it."""

    def __init__(self, attempt: Callable[["Exchange"], Awaitable[Any]], *, timeout: float, held: float | None) -> None:
        """Begin it; `held` are the seconds that a question stays open, None for what is left of the timeout."""
        loop = asyncio.get_running_loop()
        self.number = 0
        """Of its newest question, from 1."""
        self.question: Any = None
        """What waits for an answer: the parameters of the request; None for nothing."""
        self.was_given_up = False
        """Whether a question was not answered in time."""
        self.is_late = False
        """Whether the server has not answered in time."""
        self._timeout = timeout
        self._held = held
        self._until = loop.time() + timeout
        self._has_news = asyncio.Event()
        self._reply: asyncio.Future[Any] = loop.create_future()
        self._clock = loop.call_later(timeout, self._end_late)
        self.task = asyncio.create_task(self._run(attempt), name="MCP call")
        self.task.add_done_callback(self._on_end)

    async def _run(self, attempt: Callable[["Exchange"], Awaitable[Any]]) -> Any:
        return await attempt(self)

    @property
    def is_working(self) -> bool:
        """Whether the server has the word."""
        return self.question is None and not self.task.done()

    async def ask(self, question: Any) -> Any:
        """The answer to a question of the server; None where none came in time."""
        loop = asyncio.get_running_loop()
        self.number += 1
        number = self.number
        self.question = question
        self._reply = loop.create_future()
        self._clock.cancel()
        left = max(0.0, self._until - loop.time())
        self._clock = loop.call_later(left if self._held is None else self._held, self._give_up)
        self._has_news.set()
        try:
            return await self._reply
        finally:
            if self.number == number:
                self._go_on()

    def answer(self, number: int, reply: Any) -> None:
        """Answer a question; another one than the newest has none any more."""
        if number == self.number and self.question is not None and not self._reply.done():
            self._reply.set_result(reply)
            self._go_on()

    async def asks(self) -> bool:
        """Whether it asks next, once it does or has ended."""
        await self._has_news.wait()
        return self.question is not None

    def end(self) -> None:
        """Give the call up; the server is notified."""
        self._clock.cancel()
        self.task.cancel()

    def _go_on(self) -> None:
        self.question = None
        self._clock.cancel()
        if not self.task.done():
            self._has_news.clear()
            self._clock = asyncio.get_running_loop().call_later(self._timeout, self._end_late)

    def _give_up(self) -> None:
        self.was_given_up = True
        if not self._reply.done():
            self._reply.set_result(None)
        self._go_on()

    def _end_late(self) -> None:
        self.is_late = True
        self.task.cancel()

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self.question = None
        self._clock.cancel()
        self._has_news.set()
        if not self._reply.done():
            self._reply.set_result(None)
        if not task.cancelled():
            task.exception()  # a caller that has returned does not read it


class Exchanges:
    """The calls of a server, and those among them that wait for a person."""

    def __init__(self, *, timeout: float, held: float | None) -> None:
        """Take the seconds that a server and a person have."""
        self._timeout = timeout
        self._seconds = held
        self._every: set[Exchange] = set()
        self._held: dict[str, Exchange] = {}

    def begin(self, attempt: Callable[[Exchange], Awaitable[Any]]) -> Exchange:
        """Begin a call."""
        exchange = Exchange(attempt, timeout=self._timeout, held=self._seconds)
        self._every.add(exchange)
        exchange.task.add_done_callback(lambda _: self._every.discard(exchange))
        return exchange

    def keep(self, call: str, exchange: Exchange) -> None:
        """Keep one that asks, until its call is made again."""
        previous = self._held.pop(call, None)
        if previous is not None:
            previous.end()
        self._held[call] = exchange
        if len(self._held) > MOST_HELD:
            self._held.pop(next(iter(self._held))).end()

    def take(self, call: str) -> Exchange | None:
        """The one that was kept for a call, which is kept no more; None for none."""
        return self._held.pop(call, None)

    def end_of(self, holder: str) -> None:
        """End the calls of a holder, or of all whose names begin so, that wait for a person."""
        for call in [call for call in self._held if json.loads(call)[0].startswith(holder)]:
            self._held.pop(call).end()

    def only_working(self) -> Exchange | None:
        """The call whose question a question is: the protocol does not say, so it is known where one works alone."""
        working = [exchange for exchange in self._every if exchange.is_working]
        return working[0] if len(working) == 1 else None

    def end(self) -> None:
        """End all: the connection is gone."""
        self._held.clear()
        for exchange in tuple(self._every):
            exchange.end()


def call_key(holder: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """What identifies a call of someone that is made again."""
    return json.dumps([holder, tool, arguments], sort_keys=True, default=str)
