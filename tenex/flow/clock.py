"""The system's clock.

Never: a second notion of time; whoever waits, waits here.
"""

import asyncio
import time

from tenex.core.ids import Millis

LONGEST_NAP = 60.0
"""Seconds: the wall clock may be set while we sleep, so a long wait looks at it now and then."""


class SystemClock:
    """Wall-clock time and asyncio's sleep."""

    def now(self) -> Millis:
        """Milliseconds since the epoch."""
        return Millis(time.time_ns() // 1_000_000)

    async def sleep_until(self, due: Millis) -> None:
        """Return once the wall clock has reached `due`."""
        while (left := due - self.now()) > 0:  # noqa: ASYNC110 the wall clock has no event
            await asyncio.sleep(min(left / 1000, LONGEST_NAP))
