"""One run's session with the program that is its agent: what came of it, in order, and what it waits for.

    the agent's process ──► session ──► items, in order ──► steps of the run (`next`, by the model)
                                          │
                                          └──► the end of a call (`call_ended`, by a call of the run)

The core alternates: a step of the model, then the calls of that step, then the next step. So one of the two reads the
items at a time. What has to become a step holds a call of the run back no longer than needed: a call ends early where
the agent waits for an answer that only a step can bring.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tenex.core.messages import CallResult
from tenex.log import get_logger

from .session_events import (
    CallSeen,
    Died,
    Event,
    Facts,
    ModeSeen,
    PermissionAsked,
    PermissionWithdrawn,
    Process,
    PromptEnded,
    PromptFailed,
    TextPiece,
)

STILL_HERE: Final = 60.0
"""Seconds between two notes that a tool of ours is still at work, for which the program waits in silence."""

_log = get_logger(__name__)


class LiveSession(Protocol):
    """What speaks the protocol with a process (`session.Session`)."""

    async def prompt(self, text: str) -> None:
        """Send a prompt; its end is an event."""

    async def next_event(self) -> Event:
        """What comes next of it."""

    async def allow(self, permission: PermissionAsked) -> bool:
        """Answer a request by the yes for this once; whether the agent still waited."""

    async def refuse(self, permission: PermissionAsked) -> bool:
        """Answer a request by the no for this once; whether the agent still waited."""

    async def cancel(self) -> bool:
        """Have the agent end the prompt, its requests answered as cancelled, within bounds."""

    def note_activity(self) -> None:
        """Count silence from now."""

    async def close(self) -> None:
        """End the session and its process."""


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The agent has begun a call of its own."""

    id: str


@dataclass(frozen=True, slots=True)
class CallOver:
    """A call has ended that was reported as one that goes on."""

    id: str


@dataclass(frozen=True, slots=True, eq=False)
class ToolAsked:
    """The agent calls a tool of ours, and waits for its result."""

    name: str
    arguments: Mapping[str, Any]
    answer: "asyncio.Future[CallResult]"


Item = TextPiece | CallBegun | CallOver | PermissionAsked | ToolAsked | PromptEnded | PromptFailed | Died


class RunSession:
    """A session that lives, of one run; belongs to one event loop."""

    def __init__(self, live: LiveSession, process: Process, facts: Facts) -> None:
        self.live = live
        self.process = process
        self.facts = facts
        self.mode = facts.mode
        self.calls: dict[str, CallSeen] = {}
        """The agent's own calls by its ids, as they are now."""
        self.is_prompting = False
        self.died = ""
        """Why there is no process any more."""
        self._items: deque[Item] = deque()
        self._goes_on: set[str] = set()
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._read(), name="acp session")

    @property
    def is_alive(self) -> bool:
        """Whether it can be prompted."""
        return not self.died

    async def prompt(self, text: str) -> None:
        """Send a prompt."""
        self.is_prompting = True
        await self.live.prompt(text)

    async def peek(self) -> Item:
        """The next item, which stays the next until `take`: a cancelled step loses none."""
        while not self._items:
            self._news.clear()
            await self._news.wait()
        return self._items[0]

    def take(self) -> None:
        """Have done with the next item."""
        self._items.popleft()

    def withdraw(self, item: Item) -> bool:
        """Take an item away that is not reported yet; whether it was there."""
        if item not in self._items:
            return False
        self._items.remove(item)
        return True

    def permission_for(self, call: str) -> PermissionAsked | None:
        """The request about a call that is not reported yet."""
        asked = (item for item in self._items if isinstance(item, PermissionAsked))
        return next((item for item in asked if item.call.id == call), None)

    async def request_within(self, call: str, seconds: float) -> None:
        """Return once a request about a call has come, the call has ended without one, or the time is up.

        OpenCode reports a call as in progress before it asks about it.
        """

        def is_pending() -> bool:
            is_first = self.permission_for(call) is None and not any(map(_is_end, self._items))
            return is_first and not self.calls[call].has_ended and not self.died

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while is_pending():
                    self._news.clear()
                    await self._news.wait()

    async def call_ended(self, call: str) -> bool:
        """Return once a call has ended: True; or False where it goes on, and something else has to be a step."""
        while True:
            seen = self.calls.get(call)
            if seen is not None and seen.has_ended:
                self._goes_on.discard(call)
                self.withdraw(CallOver(call))  # it was reported as one that goes on, and its end is reported here
                return True
            if any(isinstance(item, PermissionAsked | ToolAsked) for item in self._items):
                self._goes_on.add(call)
                return False
            if not self.is_prompting or self.died or any(map(_is_end, self._items)):
                return True
            self._news.clear()
            await self._news.wait()

    async def ask_tool(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        """Have a tool of ours called by the run, and return its result."""
        asked = ToolAsked(name, arguments, asyncio.get_running_loop().create_future())
        self._add(asked)
        try:
            while not asked.answer.done():
                await asyncio.wait([asked.answer], timeout=STILL_HERE)
                self.live.note_activity()  # a person may take hours
            return asked.answer.result()
        finally:
            asked.answer.cancel()
            self.withdraw(asked)

    async def end(self) -> None:
        """Cancel what is under way, and end the process with all that it has started."""
        try:
            if self.is_prompting and not self.died:
                await self.live.cancel()
        finally:
            self.process.kill()
            self._pump.cancel()
            await asyncio.wait([self._pump])
            await self.live.close()
            await self.process.wait()

    async def _read(self) -> None:
        while not self.died:
            event = await self.live.next_event()
            match event:
                case CallSeen():
                    self._see(event)
                case PermissionWithdrawn():
                    self._withdrawn(event)
                case ModeSeen():
                    self.mode = event.mode
                case TextPiece() | PermissionAsked():
                    self._add(event)
                case PromptEnded() | PromptFailed():
                    self._add(event)
                case Died():
                    self.died = event.why
                    self._add(event)
                case _:  # its plan and its own numbers decide nothing
                    pass

    def _see(self, seen: CallSeen) -> None:
        is_new = seen.id not in self.calls
        self.calls[seen.id] = seen
        if is_new:
            self._add(CallBegun(seen.id))
        elif seen.has_ended and seen.id in self._goes_on:
            self._goes_on.discard(seen.id)
            self._add(CallOver(seen.id))
        self._news.set()

    def _withdrawn(self, event: PermissionWithdrawn) -> None:
        for item in [item for item in self._items if isinstance(item, PermissionAsked) and item.id == event.id]:
            self._items.remove(item)

    def _add(self, item: Item) -> None:
        if isinstance(item, PermissionAsked):
            self.calls.setdefault(item.call.id, item.call)
        self._items.append(item)
        self._news.set()


def _is_end(item: Item) -> bool:
    return isinstance(item, PromptEnded | PromptFailed | Died)
