"""A faulty server, and a connection to it whose pauses are short."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.mcp.config import ServerConfig
from tenex.mcp.connection import ServerConnection
from tenex.mcp.stdio import Program
from tenex.tools.process import supervised
from tenex.tools.shell_runner import LIMITS
from tests.fakes import mcp_server

SCRIPT = Path(mcp_server.__file__)


def config(name: str = "faulty", *arguments: str, **more: Any) -> ServerConfig:
    """The faulty server as it is configured, without a sandbox."""
    command = {} if "url" in more else {"command": sys.executable, "args": ("-I", "-S", str(SCRIPT), *arguments)}
    return ServerConfig(name=name, prefix=name, place=f"mcp.servers.{name}", **{"sandbox": False, **command, **more})


def launch(server: ServerConfig, folder: Path) -> Program:
    command = supervised([server.command, *server.args], LIMITS)
    return Program(command=tuple(command), environment=server.env, folder=folder)


def connection_to(
    server: ServerConfig,
    folder: Path,
    on_tools: Callable[[], None] = lambda: None,
    *,
    start: float = 20,
    ready: float = 20,
    again: float = 0.05,
) -> ServerConnection:
    """One whose starts and waits are bounded by what a busy machine needs, and whose pauses are the shortest."""
    return ServerConnection(
        server,
        lambda wanted: launch(wanted, folder),
        on_tools,
        draw=lambda _least, _most: 0.0,
        start=start,
        ready=ready,
        again=again,
    )


@asynccontextmanager
async def running(connection: ServerConnection) -> AsyncIterator[ServerConnection]:
    """The connection with its owner, which has ended afterwards."""
    task = asyncio.create_task(connection.run())
    try:
        yield connection
    finally:
        connection.stop(task)
        await asyncio.wait([task])


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.fixture(autouse=True)
def _sdk() -> None:
    """The SDK is imported once, outside the time that a server has to start."""
    import mcp.client  # noqa: F401
