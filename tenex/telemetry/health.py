"""Health checks: the event loop runs, the disk accepts writes, users can reach the daemon.

healthy   the event loop answers and the conversations' folder is writable; otherwise restart or repair
ready     healthy, serving, and a relay serves every subscription; otherwise wait
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

PROBE_TIMEOUT: Final = 2.0
"""Seconds a probe of the disk may take; supervisors wait about 5 s for an answer."""

PROBE_EVERY: Final = 5.0
"""Seconds a probe's result is reused: each one flushes the disk that conversations write to."""


class Health:
    """The checks behind `/healthz` and `/readyz`; use it on the event loop."""

    def __init__(self, *, probe: Callable[[], Awaitable[str]], unreachable: Callable[[], list[str]]) -> None:
        """Configure the checks.

        Args:
            probe: writes to the folder; returns why that failed, or "".
            unreachable: returns why users cannot reach a daemon that works, as sentences.
        """
        self._probe = probe
        self._unreachable = unreachable
        self._probing: asyncio.Task[str] | None = None
        self._asked_at = 0.0

    async def healthy(self) -> list[str]:
        """Why the daemon cannot work, as sentences; empty if it can."""
        loop = asyncio.get_running_loop()
        is_old = loop.time() - self._asked_at >= PROBE_EVERY
        # a disk that hangs is probed once: each probe blocks one of the store's threads
        if self._probing is None or (self._probing.done() and is_old):
            self._probing, self._asked_at = asyncio.ensure_future(self._probe()), loop.time()
        await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
        if not self._probing.done():
            return [f"the disk has not answered for {loop.time() - self._asked_at:.0f} s"]
        why = self._probing.result()
        return [why] if why else []

    async def ready(self) -> list[str]:
        """Why users cannot reach it, as sentences; empty if they can."""
        return [*await self.healthy(), *self._unreachable()]

    async def close(self) -> None:
        """Cancel a probe that has not returned."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
