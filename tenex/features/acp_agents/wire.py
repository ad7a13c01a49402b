"""Messages of an agent's process, a line each, as a transport of the SDK's connection.

Whatever else is on its standard output is skipped: programs print there what they should not. The SDK handles each
message in a task of its own; what needs the order in which it came, or the id of a request, is taken here before.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from tenex.core.text.foreign import well_formed_value

from .session_events import LINE_LIMIT, Process

_KEPT: Final = 200
"""Characters of the last line that was no message: programs print there why they end."""


class Wire:
    """Both directions of one process.

    `take` is given every message as it arrives; what it returns True for is not given to the SDK.
    """

    def __init__(self, process: Process, take: Callable[[dict[str, Any]], bool]) -> None:
        self._process = process
        self._take = take
        self._sending = asyncio.Lock()
        self.stray = ""
        """The last line that was no message."""
        self.fault = ""
        """Why reading has ended, where it was not the end of the output."""

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            ConnectionError: the process no longer reads.
        """
        line = json.dumps(message, separators=(",", ":")) + "\n"
        async with self._sending:
            try:
                self._process.stdin.write(line.encode())
                await self._process.stdin.drain()
            except (OSError, RuntimeError) as error:  # RuntimeError: the transport is closed
                raise ConnectionError("the agent has closed its input") from error

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is for the SDK; None at the end of the output."""
        while True:
            try:
                line = await self._process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                self._note_stray(error.partial)
                return None
            except asyncio.LimitOverrunError:
                self.fault = f"it sent a message of more than {LINE_LIMIT // 1024**2} MB"
                return None
            except OSError:
                return None
            message = self._message(line)
            if message is not None and not self._take(message):
                return message

    async def close(self) -> None:
        """Close the input of the process, by which it is asked to end."""
        self._process.stdin.close()

    def _message(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = json.loads(line, parse_constant=lambda _: None)  # NaN is no JSON
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._note_stray(line)
            return None
        return well_formed_value(message)

    def _note_stray(self, line: bytes) -> None:
        text = line[-4 * _KEPT :].decode("utf-8", "replace").strip()
        if text:
            self.stray = text[-_KEPT:]
