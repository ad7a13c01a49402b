"""`tenex relay`: the embedded relay alone, on the loopback interface only."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from .shared import output
from .shared.options import Globals

WS_PORT: Final = 80
"""The port of a ws:// address that names none."""


def relay(
    given: Globals,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="The port on 127.0.0.1; default: that of relays.urls in the settings, or 7447."
        ),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Store events in this folder; default: in memory.")
    ] = None,
) -> None:
    """Run the embedded relay alone, on this machine only, until interrupted."""
    from tenex.settings import EMBEDDED_RELAY_PORT

    if port is None:
        here = [url for url in given.settings().relays.urls if is_here(url)]
        port = (urlsplit(here[0]).port or WS_PORT) if here else EMBEDDED_RELAY_PORT
    asyncio.run(_serve(port, events))


def is_here(url: str) -> bool:
    """Whether a relay's address could be that of the embedded relay."""
    from tenex.nostr.urls import is_loopback

    return urlsplit(url).scheme == "ws" and is_loopback(url)


async def _serve(port: int, events: Path | None) -> None:
    from tenex.nostr.embedded import embedded_relay

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with embedded_relay(port, events) as url:
        output.result(url)
        output.message(f"Events are stored {f'in {events}' if events else 'in memory only'}. Ctrl-C stops the relay.")
        await stop.wait()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the relay's library may still run, and crash in an interpreter that is ending
