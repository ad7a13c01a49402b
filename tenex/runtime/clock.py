"""The system clock, and detection of steps in it."""

import asyncio
import time

from tenex.core.ids import Millis
from tenex.core.ports import Clock

STEP = 5_000
"""ms the wall clock may differ from elapsed time: less is irrelevant to deadlines, and each step is a record."""


class SystemClock:
    """Wall-clock time, and asyncio's sleep."""

    def now(self) -> Millis:
        """Milliseconds since the epoch."""
        return Millis(time.time_ns() // 1_000_000)

    async def sleep_until(self, due: Millis) -> None:
        """Return when as much time has passed as `due` is away now, however the wall clock is set meanwhile."""
        await asyncio.sleep(max(0, due - self.now()) / 1000)


class ClockWatch:
    """Compares the wall clock with the event loop's, which only goes on. A machine that slept looks like a step."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: int | None = None

    def step(self) -> int:
        """By how many ms the wall clock was set since the last call; 0 the first time, and below `STEP`."""
        ahead = self._clock.now() - int(asyncio.get_running_loop().time() * 1000)
        by = 0 if self._ahead is None else ahead - self._ahead
        if self._ahead is not None and abs(by) < STEP:
            return 0
        self._ahead = ahead
        return by
