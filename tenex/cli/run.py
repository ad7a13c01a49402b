"""`tenex run`: the daemon.

SIGTERM and SIGINT stop it in stages; a second one ends it at once. Either way nothing is lost: what was cut off is
still pending on disk.

Never: anything that a service manager could not watch; results and talk go to stderr as logs.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from .options import DataOption, open_settings, said

FORCED = 5
"""The exit code of a stop that was forced."""


def run(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings to go by.")] = None,
    data: DataOption = None,
) -> None:
    """Run the daemon until it is stopped. A second signal ends it at once."""
    from tenex.settings import Settings
    from tenex.telemetry import configure

    if config is not None:
        said(ctx).config = config
    settings: Settings = open_settings(ctx, data)
    telemetry = configure(settings.log.level, settings.log.format)
    try:
        rested = asyncio.run(_serve(settings))
    finally:
        telemetry.close()
    if not rested:
        raise typer.Exit(FORCED)


async def _serve(settings: "Settings") -> bool:  # type: ignore[name-defined]  # noqa: F821
    from tenex.app import open_application

    async with open_application(settings) as app:
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
