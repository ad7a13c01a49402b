"""What agents write by states, as it is written, for whoever looks on at this machine's control socket.

Private segments are for the operator alone: they go through the socket (0600, the daemon's own user) and through no
relay. Nothing is kept while nobody looks on.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Final

from tenex.core.errors import UsageError
from tenex.output_states import OutputProgress

KEPT: Final = 1_000
"""Pieces kept for those who look on: at a hundred a second far more than comes between two questions of theirs."""
LONGEST: Final = 4_000
"""Characters shown of a segment: a program may have twenty thousand."""
PATIENCE: Final = 20.0
"""Seconds a question waits for something to tell."""
LOOKING: Final = 8
"""Who may wait at the same time: half of the socket's clients, so that orders and monitors find room."""
GONE: Final = 60.0
"""Seconds without a question after which nobody looks on."""


class Thoughts:
    """Keeps the newest of what is written, and hands it on."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._number = 0
        self._news = asyncio.Event()
        self._asked: float | None = None
        self._waiting = 0

    @property
    def is_awaited(self) -> bool:
        """Whether a question waits for the next word."""
        return self._waiting > 0

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks on."""
        return self._asked is not None and (self.is_awaited or time.monotonic() - self._asked <= GONE)

    def hear(self, told: OutputProgress) -> None:
        """Take note of something an agent writes, if anybody looks on."""
        self.add(asdict(replace(told, text=told.text[:LONGEST])))

    def add(self, told: dict[str, Any]) -> None:
        """Take note of what JSON can hold, if anybody looks on."""
        if not self.is_watched:
            self._kept.clear()
            return
        self._number += 1
        self._kept.append((self._number, told))
        self._news.set()
        self._news = asyncio.Event()

    async def watch(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`watch`: with `after`, the number of the last that is known; what came since, once there is something.

        Without `after` it says at once where things stand. After `PATIENCE` seconds it says that there is nothing.

        Raises:
            UsageError: the question is none, or `LOOKING` others wait.
        """
        after = asked.get("after")
        if after is not None and type(after) is not int:
            raise UsageError('"after" is the number that the last answer gave')
        self._asked = time.monotonic()
        if after is None:
            return {"after": self._number, "told": []}
        if after >= self._number:
            if self._waiting >= LOOKING:
                raise UsageError(f"{LOOKING} others look on at this moment; end one of those chats, or try again")
            self._waiting += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await self._news.wait()
            finally:
                self._waiting -= 1
        self._asked = time.monotonic()
        told = [one for number, one in self._kept if number > after]
        return {"after": self._number, "told": told}
