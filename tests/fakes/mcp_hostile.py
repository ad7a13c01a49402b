"""An MCP server at an address of this machine that answers as a test wants, byte by byte: endless, too large, never."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

Message = dict[str, Any]
Answering = Callable[["Exchange"], Awaitable[None]]

PIECE: Final = 64 * 1024
TOOL: Final = {"name": "use", "description": "Does it.", "inputSchema": {"type": "object"}}


class Exchange:
    """A request, and the connection on which it is answered."""

    def __init__(
        self, server: "HostileServer", message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.message = message
        self._reader = reader
        self._writer = writer

    async def head(self, kind: str, *more: str, status: str = "200 OK") -> None:
        """Begin an answer whose length is not said."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more, "", ""]
        self._writer.write("\r\n".join(lines).encode())
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        """Send a piece of its body; raises ConnectionError once the client has gone."""
        if self._writer.is_closing():
            raise ConnectionResetError
        self._writer.write(data)
        self.server.sent += len(data)
        await self._writer.drain()

    async def until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        await self._reader.read()
        raise ConnectionResetError

    async def result(self, result: Message, *more: str) -> None:
        """Answer with a result."""
        await self.head("application/json", *more)
        await self.send(json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode())


class HostileServer:
    """What it does by method; `requests` are those that came, `sent` the bytes of all bodies."""

    def __init__(self, ways: Mapping[str, Answering]) -> None:
        self._ways: dict[str, Answering] = {"initialize": initialize, "tools/list": one_tool, "GET": refused, **ways}
        self.requests: list[str] = []
        self.sent = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.gone = asyncio.Event()
        """Set once a client has closed a connection before the answer had ended."""
        self.url = ""

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            message = json.loads(body) if body else {"method": head.split()[0]}
            method = message.get("method", "an answer")
            self.requests.append(method)
            await self._ways.get(method, unknown)(Exchange(self, message, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def hostile_server(**ways: Answering) -> AsyncIterator[HostileServer]:
    """One that listens; a method is named with `_` for its `/`."""
    server = HostileServer({name.replace("_", "/"): way for name, way in ways.items()})
    listening = await asyncio.start_server(server.attend, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    try:
        yield server
    finally:
        listening.close()
        for task in server.tasks:
            task.cancel()
        if server.tasks:
            await asyncio.wait(server.tasks)


async def initialize(exchange: Exchange) -> None:
    """Speak the protocol of 2025-11-25."""
    info = {"name": "hostile", "version": "1"}
    capabilities = {"tools": {"listChanged": True}}
    result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    await exchange.result(result, "Mcp-Session-Id: 1")


async def one_tool(exchange: Exchange) -> None:
    await exchange.result({"tools": [TOOL]})


async def refused(exchange: Exchange) -> None:
    """No stream for notifications."""
    await exchange.head("text/plain", status="405 Method Not Allowed")


async def unknown(exchange: Exchange) -> None:
    """Accept a notification, and refuse a request."""
    if "id" not in exchange.message:
        await exchange.head("text/plain", status="202 Accepted")
        return
    await exchange.head("application/json")
    error = {"code": -32601, "message": "no such method"}
    await exchange.send(json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}).encode())


def text(words: str) -> Answering:
    async def answer(exchange: Exchange) -> None:
        await exchange.result({"content": [{"type": "text", "text": words}]})

    return answer


async def endless_document(exchange: Exchange) -> None:
    """A text that never ends."""
    await exchange.head("application/json")
    await exchange.send(b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "')
    while True:
        await exchange.send(b"x" * PIECE)


async def endless_event(exchange: Exchange) -> None:
    """An event that never ends."""
    await exchange.head("text/event-stream")
    await exchange.send(b"data: ")
    while True:
        await exchange.send(b"x" * PIECE)


async def endless_events(exchange: Exchange) -> None:
    """Notifications without end, and no answer."""
    await exchange.head("text/event-stream")
    said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "still here"}}
    event = f"data: {json.dumps(said)}\n\n".encode()
    while True:
        await exchange.send(event * 50)


async def endless_questions(exchange: Exchange) -> None:
    """Requests of its own without end, each of which has to be answered."""
    await exchange.head("text/event-stream")
    number = 0
    while True:
        number += 1
        said = {"jsonrpc": "2.0", "id": f"q{number}", "method": "ping"}
        await exchange.send(f"data: {json.dumps(said)}\n\n".encode())


async def drops(exchange: Exchange) -> None:
    """A few bytes now and then, without end."""
    await exchange.head("text/event-stream")
    while True:
        await exchange.send(b": wait\n")
        await asyncio.sleep(0.02)


async def never(exchange: Exchange) -> None:
    """Nothing at all, until the client goes."""
    await exchange.until_gone()


async def ends_at_once(exchange: Exchange) -> None:
    """A stream that ends, and asks to be begun again without a pause."""
    await exchange.head("text/event-stream")
    await exchange.send(b"retry: 0\n\n")


async def compressed(exchange: Exchange) -> None:
    """What may be a gigabyte."""
    await exchange.head("application/json", "Content-Encoding: gzip")
    await exchange.send(b"\x1f\x8b not really")
