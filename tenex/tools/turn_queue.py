"""The turns of a workspace: one call that changes or runs at a time, owners before members before guests.

Users of one role take turns, and after four calls of others one with fewer rights is served (`core.turns`). A guest's
call that has run for `GUEST_SECONDS` ends as soon as someone with more rights waits.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tenex.core.effects import Work
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.work.fair_queue import GUESTS, PRIORITY, FairQueue, waiting_for_turn
from tenex.log import get_logger

from .tool import log_fields

GUEST_SECONDS: Final = 10.0
"""Seconds for which an owner or member waits at most: most commands take less, and a person notices longer pauses."""

_ENDED: Final = (
    f"Ended after {GUEST_SECONDS:g} s, because someone with more rights waits for the workspace. Check what was done, "
    "and use shorter commands."
)

_log = get_logger(__name__)

Call = Callable[[], Awaitable[ToolResult]]


@dataclass(slots=True, eq=False)
class _Waiter:
    ready: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class TurnQueue:
    """Gives turns to calls. Belongs to one event loop."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._guest: tuple[asyncio.Timeout, float] | None = None
        """The limit of the guest's call that runs, and when it began, on the loop's clock."""

    def locked(self) -> bool:
        """Whether a call has the turn."""
        return self._is_held

    async def acquire(self, user: str = "", priority: int = 0) -> None:
        """Wait for the turn and take it; without arguments for the operator."""
        if not self._is_held:
            self._is_held = True
            return
        waiter = _Waiter()
        self._waiting.add(waiter, user, priority)
        self._limit_guest()
        try:
            with waiting_for_turn(Work.TOOL):
                await waiter.ready
        except asyncio.CancelledError:
            self._waiting.discard(waiter)
            if waiter.ready.done() and not waiter.ready.cancelled():  # it was given the turn and cancelled at once
                self.release()
            raise

    def release(self) -> None:
        """Give the turn to the next call."""
        self._is_held = False
        while self._waiting.peek() is not None:
            waiter = self._waiting.pop()
            if not waiter.ready.done():  # else it is cancelled, and its task has not run since
                self._is_held = True
                waiter.ready.set_result(None)
                return

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    @asynccontextmanager
    async def turn_of(self, context: ExecutionContext) -> AsyncIterator[None]:
        """Wait for the turn of a call and hold it."""
        await self.acquire(context.author or "", _priority(context))
        try:
            yield
        finally:
            self.release()

    def bounded(self, call: Call, context: ExecutionContext) -> Call:
        """A call that has the turn, within the limit for guests."""
        if _priority(context) != GUESTS:
            return call

        async def carry_out() -> ToolResult:
            limit = asyncio.timeout(None)
            try:
                async with limit:
                    self._guest = limit, asyncio.get_running_loop().time()
                    self._limit_guest()
                    return await call()
            except TimeoutError:
                if not limit.expired():
                    raise
                _log.info("tool.ended_for_others", **log_fields(context))
                return ToolResult(ok=False, content=_ENDED)
            finally:
                self._guest = None

        return carry_out

    def _limit_guest(self) -> None:
        """End the guest's call that runs in time, if someone with more rights waits."""
        if self._guest is not None and self._waiting.has_before(GUESTS):
            limit, began = self._guest
            if limit.when() is None:
                limit.reschedule(max(began + GUEST_SECONDS, asyncio.get_running_loop().time()))


def _priority(context: ExecutionContext) -> int:
    return PRIORITY[context.role] if context.role is not None else 0
