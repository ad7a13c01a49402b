"""A service manager, as a daemon sees it."""

import asyncio
import re
import socket
from contextlib import suppress

from tests.service.kit import PATIENCE


class Manager:
    """A service manager of the test's own: the socket daemons notify, also an abstract one (`@name`)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(re.sub("^@", "\0", address))
        self.received: list[dict[str, str]] = []

    def _take(self, words: bytes) -> dict[str, str]:
        message = dict(line.split("=", 1) for line in words.decode().splitlines())
        self.received.append(message)
        return message

    async def next(self, patience: float = PATIENCE) -> dict[str, str]:
        async with asyncio.timeout(patience):
            return self._take(await asyncio.get_running_loop().sock_recv(self._socket, 65536))

    async def expect(self, **words: str) -> dict[str, str]:
        """Wait for a message that holds these words; returns it."""
        async with asyncio.timeout(PATIENCE):
            while not words.items() <= (message := await self.next()).items():
                pass
        return message

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._take(self._socket.recv(65536))

    def close(self) -> None:
        self._socket.close()
