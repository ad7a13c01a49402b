"""One HTTP/1.1 connection as a server sees it: requests in turn, and notice when the client has gone."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any


class Gone(Exception):
    """The client closed its socket, or we mean to close ours."""


class Connection:
    """A kept-alive socket; `answer` is called with each request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = b""
        self._reading: asyncio.Task[bytes] | None = None

    async def serve(self) -> None:
        try:
            while True:
                await self.answer(*await self._request())
        except (Gone, ConnectionError):
            pass
        finally:
            if self._reading is not None:
                self._reading.cancel()
            self._writer.transport.abort()  # a cancelled server does not wait for anybody
            with suppress(ConnectionError):
                await self._writer.wait_closed()

    async def answer(self, target: str, headers: dict[str, str], body: bytes) -> None:
        """Answer one request; `target` is its method and path, the names of headers are in lower case."""
        raise NotImplementedError

    async def unless_gone(self, work: Awaitable[Any]) -> Any:
        """Wait for something while the client is there; raise Gone once it is not."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                self._reading = self._reading or asyncio.ensure_future(self._reader.read(65_536))
                await asyncio.wait({task, self._reading}, return_when=asyncio.FIRST_COMPLETED)
                if self._reading.done() and not task.done():
                    await self._read()
            return task.result()
        finally:
            task.cancel()

    def head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:  # 529 and others that no standard names
            phrase = "Unknown"
        lines = [f"HTTP/1.1 {status} {phrase}", f"content-type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """Close after what was written, and serve no more."""
        self._writer.close()
        raise Gone

    async def send(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.head(status, content_type, {"content-length": str(len(body)), **(headers or {})})
        await self.write(body)

    async def _request(self) -> tuple[str, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._buffer:
            await self._read()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(self._buffer) < length:
            await self._read()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        method, path, _ = first.split(" ")
        return f"{method} {path.partition('?')[0]}", headers, body

    async def _read(self) -> None:
        data = await (self._reading or self._reader.read(65_536))
        self._reading = None
        if not data:
            raise Gone
        self._buffer += data
