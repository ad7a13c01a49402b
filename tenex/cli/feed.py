"""Puts what the daemon tells and what a relay brings into one order: that of the journal."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from tenex.operations.transcript import Line

OVERDUE: Final = 3.0
"""Seconds a line waits for the relay to bring its words; after that it is shown all the same."""


class Feed:
    """Lines in the order of the journal; words wait until the relay has brought them."""

    def __init__(self, show: Callable[[Line], None]) -> None:
        self._show = show
        self._lines: deque[Line] = deque()
        self._arrived: set[str] = set()

    def tell(self, lines: Sequence[Line]) -> None:
        """Queue lines."""
        self._lines.extend(lines)
        for line in lines:
            if line.event:
                asyncio.get_running_loop().call_later(OVERDUE, self.arrived, line.event)
        self._release()

    def arrived(self, event: str) -> None:
        """The relay brought an event, or it is overdue."""
        self._arrived.add(event)
        self._release()

    def _release(self) -> None:
        while self._lines and (not self._lines[0].event or self._lines[0].event in self._arrived):
            self._show(self._lines.popleft())

    @property
    def is_empty(self) -> bool:
        """Whether all has been shown."""
        return not self._lines
