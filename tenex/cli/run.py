"""`tenex run`: the daemon.

    SIGTERM, SIGINT   stop in stages; a second one ends it at once
    SIGHUP            read settings and agents anew; a broken configuration is refused whole, and the old one stays

Nothing is lost by any of them: what was cut off is still pending on disk. A service manager that listens is told of
each (`service.notify`).

Never: anything that a service manager could not watch; results and talk go to stderr as logs.
"""

import asyncio
import faulthandler
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import structlog
import typer

from tenex.core.errors import TenexError

from .options import DataOption, open_settings, said

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.core.ports import Model
    from tenex.settings import Settings

log = structlog.get_logger(__name__)

FORCED: Final = 5
"""The exit code of a stop that was forced."""
LETTING_GO: Final = 10.0
"""Seconds beyond the deadline for steps in which words are flushed (2 s) and files closed."""
PRIVATE: Final = 0o077
"""The umask: whatever is made here, by us or by a library, is nobody else's to read."""


def run(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings to go by.")] = None,
    data: DataOption = None,
) -> None:
    """Run the daemon until it is stopped. A second signal ends it at once; SIGHUP reads the settings anew."""
    if config is not None:
        said(ctx).config = config
    if not serve(open_settings(ctx, data)):
        raise typer.Exit(FORCED)


def serve(settings: "Settings", *, model: "Model | None" = None) -> bool:
    """Be the daemon, logs on stderr, until a signal stops it; returns whether all came to rest in time.

    Args:
        settings: what the operator set.
        model: a mind to use in place of the configured ones.
    """
    from tenex.telemetry import configure

    os.umask(PRIVATE)
    faulthandler.enable()  # a watchdog ends a loop that hangs by SIGABRT: then the log shows where it hung
    telemetry = configure(settings.log.level, settings.log.format)
    try:
        return asyncio.run(_serve(settings, model))
    finally:
        telemetry.close()


async def _serve(settings: "Settings", model: "Model | None") -> bool:
    from tenex.app import open_application
    from tenex.app.report import standing
    from tenex.service.notify import Notifier

    loop = asyncio.get_running_loop()
    hung_up = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)  # from the first moment: its default is death
    notifier = Notifier.from_environment(os.environ, os.getpid())
    terminal = _terminal()
    async with open_application(settings, model=model) as app:
        signals = 0

        def line() -> str:
            return standing(app.runtime, app.pool)

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                os._exit(FORCED)  # the journal is whole at every moment: nothing needs to be put in order
            notifier.stopping(within=settings.shutdown.deadline + LETTING_GO)
            app.runtime.stop()

        async def hear() -> None:
            while await hung_up.wait():
                hung_up.clear()
                if _is_gone(terminal):
                    _talk_to_nobody()
                    stop()
                elif not signals:
                    notifier.reloading()
                    await _reload(app)
                    if not signals:
                        notifier.ready(line())  # whatever came of it

        async def ready() -> None:
            notifier.ready(line())
            chores.append(group.create_task(hear(), name="signals"))
            chores.append(group.create_task(notifier.keep_up(line), name="service manager"))

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        chores: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            try:
                return await app.serve(ready)
            finally:
                for chore in chores:
                    chore.cancel()


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
