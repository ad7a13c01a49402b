"""The HTTP endpoints `/metrics` (Prometheus), `/healthz` and `/readyz` (JSON), by GET, and the checks behind them.

    healthz   the event loop answers and the conversations' folder is writable; otherwise restart or repair
    readyz    healthy, serving, and a relay serves every subscription; otherwise wait

Requests are answered on the event loop, so an answer proves that the loop runs. The size and time of a request and the
number of clients are bounded; where there are too many, the one that has sent no request for the longest is
disconnected, so that slow clients do not keep others out.

A request must name this machine as a person or a scraper would: by an address, or by a name that is configured. A page
in a browser can have a name of its own point to this machine (DNS rebinding), and would read what we answer.
"""

import asyncio
import errno
import json
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

import h11

from tenex.core.errors import ConfigurationError
from tenex.log import get_logger

log = get_logger(__name__)

CLIENTS: Final = 256
"""Concurrent clients: a Prometheus, a supervisor and a few more. In a flood of connections one that sends its request
at once is answered before so many newer ones are accepted; the loop accepts 100 at a time."""

HEAD: Final = 8 * 1024
"""Bytes of a request's head; a scraper sends a few hundred."""

REQUEST_TIMEOUT: Final = 5.0
"""Seconds from connection to the end of the answer."""

PROBE_TIMEOUT: Final = 2.0
"""Seconds a probe of the disk may take; supervisors wait about 5 s for an answer."""

PROBE_EVERY: Final = 5.0
"""Seconds a probe's result is reused: each one flushes the disk that conversations write to."""


class Health:
    """The checks behind `/healthz` and `/readyz`; use it on the event loop."""

    def __init__(self, *, probe: Callable[[], Awaitable[str]], unreachable: Callable[[], list[str]]) -> None:
        """Configure the checks.

        Args:
            probe: writes to the folder; returns why that failed, or "".
            unreachable: returns why users cannot reach a daemon that works, as sentences.
        """
        self._probe = probe
        self._unreachable = unreachable
        self._probing: asyncio.Task[str] | None = None
        self._asked_at = 0.0

    async def healthy(self) -> list[str]:
        """Why the daemon cannot work, as sentences; empty if it can."""
        loop = asyncio.get_running_loop()
        is_old = loop.time() - self._asked_at >= PROBE_EVERY
        # a disk that hangs is probed once: each probe blocks one of the store's threads
        if self._probing is None or (self._probing.done() and is_old):
            self._probing, self._asked_at = asyncio.ensure_future(self._probe()), loop.time()
        await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)
        if not self._probing.done():
            return [f"the disk has not answered for {loop.time() - self._asked_at:.0f} s"]
        why = self._probing.result()
        return [why] if why else []

    async def ready(self) -> list[str]:
        """Why users cannot reach it, as sentences; empty if they can."""
        return [*await self.healthy(), *self._unreachable()]

    async def close(self) -> None:
        """Cancel a probe that has not returned."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing], timeout=PROBE_TIMEOUT)


class StatusPort:
    """The HTTP listener; open it once."""

    def __init__(self, health: Health, metrics: Callable[[], bytes], hosts: Iterable[str] = ()) -> None:
        """Configure the answers.

        Args:
            health: the checks of `/healthz` and `/readyz`.
            metrics: returns the text of `/metrics`.
            hosts: names of this machine, beside its addresses, `localhost` and its own host name.
        """
        self._health = health
        self._metrics = metrics
        self._hosts = {_plain(name) for name in ("localhost", socket.gethostname(), *hosts)}
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], bool] = {}
        """In the order in which they connected; whether the request has arrived."""
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
        self._hosts.add(_plain(host))
        self.port = self._server.sockets[0].getsockname()[1]
        log.info("status_port.listening", host=host, port=self.port)

    async def close(self) -> None:
        """Stop listening and disconnect every client; a second call does nothing."""
        if self._server is None:
            return
        server = self._server
        self._server = None
        server.close()
        clients = [*self._clients]
        for task in clients:
            task.cancel()
        if clients:
            await asyncio.wait(clients)
        await self._health.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._make_room()
        self._clients[task] = False
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all was sent
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                writer.write(await self._answer(reader, task))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):  # the client is gone or too slow, or we stop
            writer.transport.abort()
        finally:
            self._clients.pop(task, None)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _make_room(self) -> None:
        """Disconnect the oldest client without a request, or else the oldest, where there is no place for another."""
        if len(self._clients) >= CLIENTS:
            idle = (task for task, has_request in self._clients.items() if not has_request)
            oldest = next(idle, None) or next(iter(self._clients))
            del self._clients[oldest]
            oldest.cancel()

    async def _answer(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> bytes:
        try:
            request = await _request(reader)
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the request is too long\n")
            return _response(HTTPStatus.BAD_REQUEST, b"this is not HTTP/1.1 with one Host\n")
        self._clients[task] = True
        if request.method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, b"GET only\n", more="Allow: GET, HEAD\r\n")
        target = _target(request.target)
        if target is None or not request.http_version.startswith(b"1."):
            return _response(HTTPStatus.BAD_REQUEST, b"this is not HTTP/1.1\n")
        authority, path = target
        hosts = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
        if not all(self._is_here(host) for host in (*hosts, *authority)):
            return _response(HTTPStatus.MISDIRECTED_REQUEST, b"this name is not in metrics.hosts; use an address\n")
        try:
            answer = await self._page(path)
        except Exception:  # an internal error in a reading is not a dead daemon
            log.exception("status_port.failed")
            answer = _response(HTTPStatus.INTERNAL_SERVER_ERROR, b"an internal error; see the log\n")
        return answer if request.method == b"GET" else b"".join(answer.partition(b"\r\n\r\n")[:2])

    def _is_here(self, authority: str) -> bool:
        """Whether a host, perhaps with a port, is an address or a name of this machine."""
        parts = _AUTHORITY.fullmatch(authority)
        if parts is None:
            return False
        name = _plain(parts["name"] or parts["v6"])
        try:
            ip_address(name)
        except ValueError:
            return parts["v6"] is None and name in self._hosts
        return True  # no name leads to an address that is written as one

    async def _page(self, path: bytes) -> bytes:
        match path:
            case b"/metrics":
                return _response(HTTPStatus.OK, self._metrics(), "text/plain; version=0.0.4; charset=utf-8")
            case b"/healthz":
                faults = await self._health.healthy()
            case b"/readyz":
                faults = await self._health.ready()
            case _:
                return _response(HTTPStatus.NOT_FOUND, b"/metrics /healthz /readyz\n")
        body = json.dumps({"ok": not faults, "faults": faults}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        return _response(HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK, body, "application/json")


_AUTHORITY: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


def _plain(name: str) -> str:
    """A host's name as it is compared."""
    return name.lower().removesuffix(".")


async def _request(reader: asyncio.StreamReader) -> h11.Request:
    """Read the head of a request; h11 refuses one without a Host, or with two.

    Raises:
        RemoteProtocolError: it is not HTTP, or longer than `HEAD`.
        EOFError: the client is gone.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise EOFError("the client sent no request")
        connection.receive_data(await reader.read(HEAD))


def _target(target: bytes) -> tuple[list[str], bytes] | None:
    """The host that a request's target names, where it names one, and the path; None where it is no target."""
    if target.startswith(b"/"):
        return [], target.partition(b"?")[0]
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return None
    authority, slash, path = rest.partition(b"/")
    return [authority.decode("latin-1")], slash + path.partition(b"?")[0]


def _response(status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8", more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"{more}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _explain(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"metrics.port: {port} on {host} is in use by another program; stop that program or choose another port."
    if fault.errno in (errno.EACCES, errno.EPERM):
        return f"metrics.port: no permission to listen on {port}; choose a port above 1023."
    return f"metrics.host: cannot listen on {host} ({fault.strerror or fault}); use 127.0.0.1 for this machine."
