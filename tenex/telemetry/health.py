"""Whether the daemon is well: it lives, its disk takes what it writes, and somebody can reach it.

healthy   the event loop answers and the conversations' folder can be written to; otherwise: restart, or mend
ready     healthy, serving, and a relay is connected that serves us; otherwise: wait
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from .runtime_readings import RelayReading

PROBE_TIMEOUT: Final = 2.0
"""Seconds a disk has for a byte; whoever asks waits 5 s or so, and needs the answer that it did not come."""

PROBE_EVERY: Final = 5.0
"""Seconds an answer of the disk holds: it is flushed for us, and conversations wait for the same disk."""


class Health:
    """Answers what a supervisor asks; use it on the event loop."""

    def __init__(
        self,
        *,
        probe: Callable[[], Awaitable[str]],
        relays: Callable[[], Iterable[RelayReading]],
        is_serving: Callable[[], bool],
    ) -> None:
        """Know whom to ask.

        Args:
            probe: writes to the folder; gives the reason why that failed, or an empty text.
            relays: those we listen to.
            is_serving: whether messages are taken in now.
        """
        self._probe = probe
        self._relays = relays
        self._is_serving = is_serving
        self._probing: asyncio.Task[str] | None = None
        self._asked_at = 0.0

    async def healthy(self) -> list[str]:
        """What keeps the daemon from doing its work, as sentences; empty if nothing does."""
        why = await self._store()
        return [why] if why else []

    async def ready(self) -> list[str]:
        """What keeps people from reaching it, as sentences; empty if nothing does."""
        faults = await self.healthy()
        if not self._is_serving():
            faults.append("messages are not taken in: the daemon starts or stops")
        relays = list(self._relays())
        if not any(relay.serves for relay in relays):
            faults.extend(map(_why_not, relays))
            if not relays:
                faults.append("there is no relay in the settings")
        return faults

    async def close(self) -> None:
        """Let go of a question the disk has not answered."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)

    async def _store(self) -> str:
        loop = asyncio.get_running_loop()
        is_old = loop.time() - self._asked_at >= PROBE_EVERY
        # a disk that hangs is asked once: every question would hold one of the store's threads
        if self._probing is None or (self._probing.done() and is_old):
            self._probing, self._asked_at = asyncio.ensure_future(self._asked()), loop.time()
        await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
        if not self._probing.done():
            return f"the disk has not taken a byte for {loop.time() - self._asked_at:.0f} s"
        return self._probing.result()

    async def _asked(self) -> str:
        return await self._probe()


def _why_not(relay: RelayReading) -> str:
    if relay.refused:
        return f"{relay.url} refuses: {'; '.join(relay.refused)}"
    if relay.connected:
        return f"{relay.url} is connected and does not answer"
    return f"{relay.url} is not connected{f': {relay.fault}' if relay.fault else ''}"
