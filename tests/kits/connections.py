"""Connections of servers in tests, which end with the test that they belong to."""

import asyncio
from collections.abc import Awaitable, Callable

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ends_with_its_test(handle: Handle) -> Handle:
    """The handler of a server's connections, which leaves no socket behind: its warning would fail a later test."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.transport.abort()  # the loop may have no time left for the end of TLS

    return handled
