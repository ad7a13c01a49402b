"""Health checks: the event loop runs, the disk accepts writes, a relay serves.

healthy   the event loop answers and the conversations' folder is writable; otherwise restart or repair
ready     healthy, serving, and a relay serves every subscription; otherwise wait
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from .gauges import RelayReading

PROBE_TIMEOUT: Final = 2.0
"""Seconds a probe of the disk may take; supervisors wait about 5 s for an answer."""

PROBE_EVERY: Final = 5.0
"""Seconds a probe's result is reused: each one flushes the disk that conversations write to."""


class Health:
    """The checks behind `/healthz` and `/readyz`; use it on the event loop."""

    def __init__(
        self,
        *,
        probe: Callable[[], Awaitable[str]],
        relays: Callable[[], Iterable[RelayReading]],
        is_serving: Callable[[], bool],
    ) -> None:
        """Configure the checks.

        Args:
            probe: writes to the folder; returns why that failed, or "".
            relays: those with subscriptions.
            is_serving: whether messages are admitted now.
        """
        self._probe = probe
        self._relays = relays
        self._is_serving = is_serving
        self._probing: asyncio.Task[str] | None = None
        self._asked_at = 0.0

    async def healthy(self) -> list[str]:
        """Why the daemon cannot work, as sentences; empty if it can."""
        why = await self._store()
        return [why] if why else []

    async def ready(self) -> list[str]:
        """Why users cannot reach it, as sentences; empty if they can."""
        faults = await self.healthy()
        if not self._is_serving():
            faults.append("messages are not admitted: the daemon starts or stops")
        relays = list(self._relays())
        if not any(relay.serves for relay in relays):
            faults.extend(map(_why_not, relays))
            if not relays:
                faults.append("there is no relay in the settings")
        return faults

    async def close(self) -> None:
        """Cancel a probe that has not returned."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)

    async def _store(self) -> str:
        loop = asyncio.get_running_loop()
        is_old = loop.time() - self._asked_at >= PROBE_EVERY
        # a disk that hangs is probed once: each probe blocks one of the store's threads
        if self._probing is None or (self._probing.done() and is_old):
            self._probing, self._asked_at = asyncio.ensure_future(self._probe()), loop.time()
        await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
        if not self._probing.done():
            return f"the disk has not answered for {loop.time() - self._asked_at:.0f} s"
        return self._probing.result()


def _why_not(relay: RelayReading) -> str:
    if relay.refused:
        return f"{relay.url} refuses: {'; '.join(relay.refused)}"
    if relay.connected:
        return f"{relay.url} is connected and does not serve"
    return f"{relay.url} is not connected{f': {relay.fault}' if relay.fault else ''}"
