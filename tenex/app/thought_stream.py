"""What agents write by states, as it is written, for clients of this machine's control socket.

Private segments are for the operator alone: they go through the socket (0600, the daemon's own user) and through no
relay. Nothing is kept while no client watches.
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
"""Pieces kept for clients: at a hundred a second far more than comes between two of their requests."""
LONGEST: Final = 4_000
"""Characters shown of a segment: a program may have twenty thousand."""
PATIENCE: Final = 20.0
"""Seconds a request waits for something new."""
LOOKING: Final = 8
"""Who may wait at the same time: half of the socket's clients, so that orders and monitors find room."""
GONE: Final = 60.0
"""Seconds without a request after which no client watches."""


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
        """Whether a request waits for the next piece."""
        return self._waiting > 0

    @property
    def is_watched(self) -> bool:
        """Whether a client watches."""
        return self._asked is not None and (self.is_awaited or time.monotonic() - self._asked <= GONE)

    def hear(self, piece: OutputProgress) -> None:
        """Add what an agent writes, if a client watches."""
        self.add(asdict(replace(piece, text=piece.text[:LONGEST])))

    def add(self, piece: dict[str, Any]) -> None:
        """Add what JSON can hold, if a client watches."""
        if not self.is_watched:
            self._kept.clear()
            return
        self._number += 1
        self._kept.append((self._number, piece))
        self._news.set()
        self._news = asyncio.Event()

    async def watch(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`watch`: with `after`, the number of the last that is known; what came since, once there is something.

        Without `after` it returns the current number at once. After `PATIENCE` seconds it returns an empty list.

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
                raise UsageError(f"{LOOKING} others watch at this moment; end one of those chats, or try again")
            self._waiting += 1
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await self._news.wait()
            finally:
                self._waiting -= 1
        self._asked = time.monotonic()
        piece = [one for number, one in self._kept if number > after]
        return {"after": self._number, "told": piece}
