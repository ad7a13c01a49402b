"""The HTTP endpoints `/metrics` (Prometheus), `/healthz` and `/readyz` (JSON), by GET.

Requests are answered on the event loop, so an answer proves that the loop runs. The size and time of a request and the
number of clients are bounded.
"""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from tenex.core.errors import ConfigurationError

from .health import Health

log = structlog.get_logger(__name__)

CLIENTS: Final = 16
"""Concurrent clients: a Prometheus, a supervisor and a few more; others are disconnected."""

HEAD: Final = 8 * 1024
"""Bytes of a request's head; a scraper sends a few hundred."""

REQUEST_TIMEOUT: Final = 5.0
"""Seconds from connection to the end of the answer."""


class _Answer(NamedTuple):
    status: str
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    more: str = ""


class StatusPort:
    """The HTTP listener; open it once."""

    def __init__(self, health: Health, metrics: Callable[[], bytes]) -> None:
        """Configure the answers.

        Args:
            health: the checks of `/healthz` and `/readyz`.
            metrics: returns the text of `/metrics`.
        """
        self._health = health
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen; port 0 lets the system choose, see `port`.

        Raises:
            ConfigurationError: the address is in use or not one of this machine.
        """
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD)
        except OSError as fault:
            raise ConfigurationError([_explain(host, port, fault)]) from fault
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("status_port.listening", host=host, port=self.port)

    async def close(self) -> None:
        """Stop listening and disconnect every client; a second call does nothing."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for task in self._clients:
            task.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        await self._health.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                is_head, answer = await self._safe_answer(reader)
                writer.write(_bytes(answer, is_head=is_head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.CancelledError):  # the client is gone or too slow, or we stop
            writer.transport.abort()
        finally:
            self._clients.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _safe_answer(self, reader: asyncio.StreamReader) -> tuple[bool, _Answer]:
        try:
            return await self._answer(reader)
        except OSError:
            raise
        except Exception:  # an internal error in a reading is not a dead daemon
            log.exception("status_port.failed")
            return False, _Answer("500 Internal Server Error", b"an internal error; see the log\n")

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bool, _Answer]:
        if len(self._clients) > CLIENTS:
            raise ConnectionError("too many clients")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as fault:
            raise ConnectionError from fault
        except asyncio.LimitOverrunError:
            return False, _Answer("431 Request Header Fields Too Large", b"the request is too long\n")
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return False, _Answer("400 Bad Request", b"this is not HTTP\n")
        method, path = words[0], words[1].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return False, _Answer("405 Method Not Allowed", b"GET only\n", more="Allow: GET, HEAD\r\n")
        return method == b"HEAD", await self._route(path)

    async def _route(self, path: bytes) -> _Answer:
        match path:
            case b"/metrics":
                return _Answer("200 OK", self._metrics(), "text/plain; version=0.0.4; charset=utf-8")
            case b"/healthz":
                return await _health_answer(self._health.healthy)
            case b"/readyz":
                return await _health_answer(self._health.ready)
        return _Answer("404 Not Found", b"/metrics /healthz /readyz\n")


async def _health_answer(ask: Callable[[], Awaitable[list[str]]]) -> _Answer:
    faults = await ask()
    body = json.dumps({"ok": not faults, "faults": faults}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return _Answer("503 Service Unavailable" if faults else "200 OK", body, "application/json")


def _bytes(answer: _Answer, *, is_head: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status}\r\nContent-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n"
        f"{answer.more}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if is_head else answer.body)


def _explain(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"metrics.port: {port} on {host} is in use by another program; stop that program or choose another port."
    if fault.errno in (errno.EACCES, errno.EPERM):
        return f"metrics.port: no permission to listen on {port}; choose a port above 1023."
    return f"metrics.host: cannot listen on {host} ({fault.strerror or fault}); use 127.0.0.1 for this machine."
