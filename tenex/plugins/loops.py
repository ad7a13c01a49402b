"""The event loops in which the async functions of plugins run: one in a thread for each file or package.

A function that blocks its loop then stops its own file or package, and neither the daemon nor others. That it blocks is
noticed by a callback that is not called, reported, and a later call gets a new loop; the old one is abandoned.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tenex.log import get_logger

BLOCKED: Final = 1.0
"""Seconds without an answer after which a loop counts as blocked; a function that awaits answers at once."""

log = get_logger(__name__)


class PluginLoop:
    """The loop of one file or package; its thread begins with the first call."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._loop: asyncio.AbstractEventLoop | None = None
        self.blocked_by: dict[str, None] = {}
        """The tools that have blocked it."""

    async def run(self, tool: str, start: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Wait for a coroutine that runs in the loop; cancelling this cancels it."""
        loop = self._usable()
        result = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_without_exit(start), loop))
        pulse = _Pulse(loop)
        try:
            while not (await asyncio.wait({result}, timeout=BLOCKED))[0]:
                if not pulse.is_answered():
                    self._abandon(tool, loop)
            return result.result()
        finally:
            result.cancel()

    def _usable(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="tenex-plugin-loop", daemon=True).start()
        return self._loop

    def _abandon(self, tool: str, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            self._loop = None
            self.blocked_by[tool] = None
            log.error("plugin.blocked", source=self._source, tool=tool, seconds=BLOCKED)


async def _without_exit(start: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Wait for a coroutine; one that ends the program fails instead, for it would end the loop."""
    try:
        return await start()
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"it called {type(error).__name__}") from error


class _Pulse:
    """Whether a loop calls what it is given."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._called = threading.Event()
        loop.call_soon_threadsafe(self._called.set)

    def is_answered(self) -> bool:
        """Whether it did since the last question."""
        was_called = self._called.is_set()
        if was_called:
            self._called.clear()
            self._loop.call_soon_threadsafe(self._called.set)
        return was_called


_LOOPS: Final[dict[str, PluginLoop]] = {}


def loop_of(source: str) -> PluginLoop:
    """The loop of a file or package, which a reload keeps."""
    if source not in _LOOPS:
        _LOOPS[source] = PluginLoop(source)
    return _LOOPS[source]
