"""`tenex run`: the daemon.

    SIGTERM, SIGINT   stop in stages; a second one exits at once
    SIGHUP            reload settings and agents; an invalid configuration is rejected, and the old one stays;
                      but stop, as SIGTERM, where the terminal it was started in has been closed

A terminal that is closed sends SIGHUP as well. It ends the daemon unless `nohup` had SIGHUP ignored; a service or a
container has no controlling terminal (ADR 52).

None of them loses anything: interrupted work is still pending on disk. A service manager is notified of each
(`service.notify`).
"""

import asyncio
import faulthandler
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tenex.core.errors import TenexError
from tenex.log import get_logger

from .shared import output
from .shared.options import Globals

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.core.ports import Model
    from tenex.feature import Feature
    from tenex.service.notify import Notifier
    from tenex.settings import Settings

log = get_logger(__name__)

COLLECT_AFTER: Final = 5_000
"""Net new objects after which the youngest generation is collected: half a MB to a few MB of them."""

FORCED: Final = 5
"""The exit code of a stop that was forced."""
CLOSING: Final = 10.0
"""Seconds beyond the deadline for steps, in which messages are flushed (2 s) and files closed."""
DEFERRED: Final = (signal.SIGHUP, signal.SIGTERM)
"""Blocked until the loop handles them: SIGHUP would kill the process, and process 1 of a container ignore SIGTERM."""
PRIVATE: Final = 0o077
"""The umask: no other user may read what we or a library create. In the workspace that of the start holds."""


def run(
    given: Globals,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The configuration file.")] = None,
) -> None:
    """Run the daemon until it is stopped. A second signal exits at once; SIGHUP reloads the settings."""
    signal.pthread_sigmask(signal.SIG_BLOCK, DEFERRED)
    try:
        if config is not None:
            given.config = config
        if not serve(given.settings(), given.features):
            raise typer.Exit(FORCED)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEFERRED)


def serve(settings: "Settings", features: "Sequence[Feature]", *, model: "Model | None" = None) -> bool:
    """Run the daemon, with logs on stderr, until a signal stops it; returns whether all work stopped in time.

    Args:
        settings: the configuration.
        features: what extends the daemon.
        model: a model that replaces the configured ones.
    """
    from tenex.telemetry import configure

    umask = os.umask(PRIVATE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # it would hold the keys
    faulthandler.enable()  # a watchdog kills a blocked loop by SIGABRT: then the log shows where it was
    telemetry = configure(settings.log.level, settings.log.format)
    try:
        return asyncio.run(_serve(settings, features, model, lambda: telemetry.dropped, umask))
    finally:
        telemetry.close()


async def _serve(
    settings: "Settings",
    features: "Sequence[Feature]",
    model: "Model | None",
    lines_dropped: Callable[[], int],
    umask: int | None = None,
) -> bool:
    from tenex.app import open_application
    from tenex.feature import extensions_of
    from tenex.operations.status import service_status
    from tenex.service.notify import Notifier

    notifier = Notifier.from_environment(os.environ, os.getpid())
    signals = _Signals(notifier, within=settings.shutdown.deadline + CLOSING)
    signals.listen()
    background: list[asyncio.Task[None]] = []
    try:
        opening = open_application(
            settings,
            model=model,
            lines_dropped=lines_dropped,
            shown=output.progress,
            umask=umask,
            extensions=extensions_of(features),
        )
        async with opening as app:
            signals.app = app

            def line() -> str:
                return service_status(app.runtime, app.pool)

            async def ready() -> None:
                relays = [status.url for status in app.pool.status()]
                log.info("daemon.serving", address=app.project.npub, relays=relays, data=str(app.places.data))
                notifier.ready(line())
                tune_gc()
                background.append(group.create_task(signals.on_hang_up(line), name="signals"))
                background.append(group.create_task(notifier.keep_up(line), name="service manager"))

            async with asyncio.TaskGroup() as group:
                try:
                    return await app.serve(ready)
                finally:
                    for task in background:
                        task.cancel()
    except asyncio.CancelledError:
        if not signals.has_ended_the_start:
            raise
        log.info("runtime.stopped", rested=True, before="it was ready")  # nothing was started
        return True


def tune_gc() -> None:
    """Run the garbage collector less often, and never on loaded modules: a full collection delays a turn by 50 ms.

    We make few cycles. Python's threshold of 700 new objects is for programs whose objects die young; here a thousand
    conversations wait for models at once, and scanning them took an eighth of the processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


class _Signals:
    """Handles signals, from the start of the loop."""

    def __init__(self, notifier: "Notifier", *, within: float) -> None:
        self.app: Application | None = None
        """None until it serves."""
        self.has_ended_the_start = False
        self._notifier = notifier
        self._within = within
        self._stops = 0
        self._hung_up = asyncio.Event()
        self._start = asyncio.current_task()
        self._terminal = _controlling_terminal()

    def listen(self) -> None:
        """Install the handlers, and let in the signals that arrived before."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEFERRED)

    def _stop(self) -> None:
        self._stops += 1
        if self._stops > 1:
            os._exit(FORCED)  # the journal is consistent at every moment
        self._notifier.stopping(within=self._within)
        if self.app is not None:
            self.app.runtime.stop()
        elif self._start is not None:  # cancelling closes what was opened
            self.has_ended_the_start = True
            self._start.cancel()

    def _hang_up(self) -> None:
        if self._terminal is None or not output.is_hung_up(self._terminal):
            self._hung_up.set()
            return
        closed = [one.fileno() for one in (sys.stdout, sys.stderr) if output.is_hung_up(one.fileno())]
        output.redirect_to_null(*closed)
        if not self._stops:  # the shell and the kernel may both send one
            self._stop()

    async def on_hang_up(self, line: Callable[[], str]) -> None:
        """Reload the configuration at each SIGHUP, until cancelled.

        `line` gives the status text for the service manager.
        """
        assert self.app is not None
        while await self._hung_up.wait():
            self._hung_up.clear()
            if self._stops:
                continue
            self._notifier.reloading()
            try:
                await self.app.reload()
            except TenexError:
                pass  # the faults are in the log and in `tenex status`; the old configuration stays
            except Exception:  # an internal error in reading it must not stop the daemon
                log.exception("configuration.failed")
            if not self._stops:
                self._notifier.ready(line())  # also after a failed reload


def _controlling_terminal() -> int | None:
    """A descriptor of the terminal whose end is ours; None where there is none, as in a service, or under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return None
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
