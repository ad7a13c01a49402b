"""A server that transcribes as OpenAI's does: it gives one answer to everything, and keeps what it was asked."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .connections import ends_with_its_test


class TranscriptionServer:
    """Over HTTP, on loopback."""

    def __init__(self, answer: Any, status: int) -> None:
        self.answer, self.status = json.dumps(answer).encode(), status
        self.asked: list[tuple[str, bytes]] = []
        """Head and body of each request."""
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        assert length, head
        self.asked.append((head, await reader.readexactly(int(length[1]))))
        size = f"Content-Length: {len(self.answer)}\r\n"
        writer.write(f"HTTP/1.1 {self.status} X\r\n{size}Connection: close\r\n\r\n".encode() + self.answer)


@asynccontextmanager
async def transcription_server(answer: Any, status: int = 200) -> AsyncIterator[TranscriptionServer]:
    """A server that gives this answer, as JSON."""
    server = TranscriptionServer(answer, status)
    async with await asyncio.start_server(ends_with_its_test(server.handle), "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server
