"""`tenex run`: the daemon.

SIGTERM and SIGINT stop it in stages; a second one ends it at once. Either way nothing is lost: what was cut off is
still pending on disk.

Never: anything that a service manager could not watch; results and talk go to stderr as logs.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import DataOption, open_settings, said

if TYPE_CHECKING:
    from tenex.core.ports import Model
    from tenex.settings import Settings

FORCED = 5
"""The exit code of a stop that was forced."""


def run(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings to go by.")] = None,
    data: DataOption = None,
) -> None:
    """Run the daemon until it is stopped. A second signal ends it at once."""
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

    telemetry = configure(settings.log.level, settings.log.format)
    try:
        return asyncio.run(_serve(settings, model))
    finally:
        telemetry.close()


async def _serve(settings: "Settings", model: "Model | None") -> bool:
    from tenex.app import open_application

    async with open_application(settings, model=model) as app:
        signals = 0

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                os._exit(FORCED)  # the journal is whole at every moment: nothing needs to be put in order
            app.runtime.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        return await app.serve()
