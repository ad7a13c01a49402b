"""`tenex run`: the daemon.

    SIGTERM, SIGINT   stop in stages; a second one ends it at once
    SIGHUP            read settings and agents anew; a broken configuration is refused whole, and the old one stays

Nothing is lost by any of them: what was cut off is still pending on disk. A service manager that listens is told of
each (`service.notify`).
"""

import asyncio
import faulthandler
import gc
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import structlog
import typer

from tenex.core.errors import TenexError

from .options import DataOption, open_settings, said
from .progress import shown

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.core.ports import Model
    from tenex.service.notify import Notifier
    from tenex.settings import Settings

log = structlog.get_logger(__name__)

COLLECT_AFTER: Final = 5_000
"""New values, beyond those let go of, after which the youngest are looked through: half a MB to a few MB of them."""

FORCED: Final = 5
"""The exit code of a stop that was forced."""
LETTING_GO: Final = 10.0
"""Seconds beyond the deadline for steps in which words are flushed (2 s) and files closed."""
_HUP: Final = signal.SIGHUP
_TERM: Final = signal.SIGTERM
PRIVATE: Final = 0o077
"""The umask: whatever is made here, by us or by a library, is nobody else's to read."""


def run(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings to go by.")] = None,
    data: DataOption = None,
) -> None:
    """Run the daemon until it is stopped. A second signal ends it at once; SIGHUP reads the settings anew."""
    with _early_signals() as early:
        if config is not None:
            said(ctx).config = config
        if not serve(open_settings(ctx, data), early=early):
            raise typer.Exit(FORCED)


@contextmanager
def _early_signals() -> Iterator[list[int]]:
    """Note what comes before the loop can hear it, while libraries are loaded.

    SIGHUP would be death by default; SIGTERM nothing at all for process 1 of a container.
    """
    heard: list[int] = []
    before = {number: signal.signal(number, lambda got, _: heard.append(got)) for number in (_HUP, _TERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve(settings: "Settings", *, model: "Model | None" = None, early: Sequence[int] = ()) -> bool:
    """Be the daemon, logs on stderr, until a signal stops it; returns whether all came to rest in time.

    Args:
        settings: what the operator set.
        model: a mind to use in place of the configured ones.
        early: signals that came before.
    """
    from tenex.telemetry import configure

    os.umask(PRIVATE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # it would hold the keys
    faulthandler.enable()  # a watchdog ends a loop that hangs by SIGABRT: then the log shows where it hung
    telemetry = configure(settings.log.level, settings.log.format)
    try:
        return asyncio.run(_serve(settings, model, early, lambda: telemetry.dropped))
    finally:
        telemetry.close()


async def _serve(
    settings: "Settings", model: "Model | None", early: Sequence[int], lines_dropped: Callable[[], int]
) -> bool:
    from tenex.app import open_application
    from tenex.service.notify import Notifier

    notifier = Notifier.from_environment(os.environ, os.getpid())
    signals = _Signals(notifier, within=settings.shutdown.deadline + LETTING_GO)
    signals.listen(early)
    try:
        async with open_application(settings, model=model, lines_dropped=lines_dropped, shown=shown) as app:
            return await _serve_on(app, signals, notifier)
    except asyncio.CancelledError:
        if not signals.has_ended_the_start:
            raise
        log.info("runtime.stopped", rested=True, before="it was ready")  # nothing has been begun
        return True


def spare_the_collector() -> None:
    """Have the collector of cycles look less often, and never at what was loaded: that would hold up a turn for 50 ms.

    We make few cycles. Python's own threshold, 700 new values, is for programs whose values die young; here a thousand
    conversations wait for models at once, and looking through them took an eighth of their processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


async def _serve_on(app: "Application", signals: "_Signals", notifier: "Notifier") -> bool:
    from tenex.operations.status import standing

    signals.app = app
    chores: list[asyncio.Task[None]] = []

    def line() -> str:
        return standing(app.runtime, app.pool)

    async def ready() -> None:
        relays = [status.url for status in app.pool.status()]
        log.info("daemon.serving", address=app.project.npub, relays=relays, data=str(app.places.data))
        notifier.ready(line())
        spare_the_collector()
        chores.append(group.create_task(signals.hear_hang_ups(line), name="signals"))
        chores.append(group.create_task(notifier.keep_up(line), name="service manager"))

    async with asyncio.TaskGroup() as group:
        try:
            return await app.serve(ready)
        finally:
            for chore in chores:
                chore.cancel()


class _Signals:
    """What signals do, from the first moment of the loop on."""

    def __init__(self, notifier: "Notifier", *, within: float) -> None:
        self.app: Application | None = None
        """Whoever serves; None until it can."""
        self.has_ended_the_start = False
        self._notifier = notifier
        self._within = within
        self._stops = 0
        self._hung_up = asyncio.Event()
        self._start = asyncio.current_task()
        self._terminal = _terminal()

    def listen(self, early: Sequence[int]) -> None:
        """Hear signals, those that came before first."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(_HUP, self._hung_up.set)
        for number in (signal.SIGINT, _TERM):
            loop.add_signal_handler(number, self._stop)
        if _HUP in early:
            self._hung_up.set()
        if _TERM in early:
            self._stop()

    def _stop(self) -> None:
        self._stops += 1
        if self._stops > 1:
            os._exit(FORCED)  # the journal is whole at every moment: nothing needs to be put in order
        self._notifier.stopping(within=self._within)
        if self.app is not None:
            self.app.runtime.stop()
        elif self._start is not None:  # whatever has been opened is closed again on the way out
            self.has_ended_the_start = True
            self._start.cancel()

    async def hear_hang_ups(self, line: Callable[[], str]) -> None:
        """Read the configuration anew for each SIGHUP, until cancelled; stop where it meant that the terminal is gone.

        `line` tells how things stand, for the service manager.
        """
        assert self.app is not None
        while await self._hung_up.wait():
            self._hung_up.clear()
            if _is_gone(self._terminal):
                _talk_to_nobody()
                if not self._stops:
                    self._stop()
            elif not self._stops:
                self._notifier.reloading()
                await _reload(self.app)
                if not self._stops:
                    self._notifier.ready(line())  # whatever came of it


async def _reload(app: "Application") -> None:
    try:
        await app.reload()
    except TenexError:
        pass  # every fault is in the log and in `tenex status`, and the old configuration stays
    except Exception:  # a fault of ours in reading it must not end what works
        log.exception("configuration.failed")


def _terminal() -> int | None:
    return sys.stderr.fileno() if sys.stderr.isatty() else None


def _is_gone(terminal: int | None) -> bool:
    """Whether the terminal we were started on has been closed: that is what this signal meant first."""
    if terminal is None:
        return False
    look = select.poll()
    look.register(terminal, 0)
    return any(event & (select.POLLHUP | select.POLLNVAL) for _, event in look.poll(0))


def _talk_to_nobody() -> None:
    """Let go of the terminal: a log that cannot be written would be the last thing to fail at the end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
