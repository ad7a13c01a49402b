"""`tenex relay`: the embedded relay alone.

Never: more than loopback; a relay for others is another program.
"""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from . import output


def relay(
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Where to listen on 127.0.0.1.")] = 7447,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Keep events here; else in memory.")
    ] = None,
) -> None:
    """Run the embedded relay alone, on this machine only, until interrupted."""
    asyncio.run(_serve(port, data))


async def _serve(port: int, data: Path | None) -> None:
    from tenex.nostr.embedded import embedded_relay

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with embedded_relay(port, data) as url:
        output.result(url)
        output.say(f"Events are kept {f'in {data}' if data else 'in memory only'}. Ctrl-C ends the relay.")
        await stop.wait()
