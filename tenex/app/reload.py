"""Reloads the configuration: one at a time, logged, and remembered for `tenex status`."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.ports import Clock
from tenex.operations.status import Reloaded

log = structlog.get_logger(__name__)


class Reloading:
    """Call it to reload the configuration."""

    def __init__(self, work: Callable[[], Awaitable[list[str]]], clock: Clock) -> None:
        """Take what reads it and puts it in force: it returns what needs a restart, or raises and changes nothing."""
        self._work = work
        self._clock = clock
        self._turn = asyncio.Lock()
        self.last: Reloaded | None = None
        """What came of the last time; None before the first."""

    async def __call__(self) -> list[str]:
        """Read it; returns a sentence for each change that needs a restart.

        Raises:
            ConfigurationError: with every fault; the old configuration is still in force.
        """
        async with self._turn:
            try:
                needs_restart = await self._work()
            except TenexError as fault:
                faults = fault.faults if isinstance(fault, ConfigurationError) else (str(fault),)
                self.last = Reloaded(at=self._clock.now(), faults=tuple(faults))
                log.error("configuration.refused", faults=list(faults), still="the configuration before it")
                raise
            self.last = Reloaded(at=self._clock.now(), needs_restart=tuple(needs_restart))
            log.info("configuration.reloaded", needs_restart=needs_restart)
            return needs_restart
