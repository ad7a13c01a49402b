"""CONNECT for an ACP agent: connections to the hosts that its file names, such as those of a vendor's own login.

What goes through is encrypted between the agent and the host, so nothing of it is measured but its bytes. Names are
resolved here, to public addresses only; a private address is reached where the file names that address itself. Where
the environment names a proxy for HTTPS, as in companies, the connection goes through that one, which resolves the name.
"""

import asyncio
import base64
import socket
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import h11

from tenex.core.errors import ConfigurationError
from tenex.log import get_logger
from tenex.nostr.addresses import is_public

HTTPS: Final = 443
HEAD: Final = 16 * 1024
"""Bytes of the head of a request."""
ASKING: Final = 10.0
"""Seconds in which a head has to come, and a connection to be made."""
MOST: Final = 64
"""Connections at once."""
_PIECE: Final = 64 * 1024

log = get_logger(__name__)

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Traffic:
    """What went through to one host."""

    connections: int = 0
    sent: int = 0
    received: int = 0
    """Bytes."""


class _Refused(Exception):
    """Why no connection is made, with a status of HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Tunnels:
    """The tunnels of one agent's process. Belongs to one event loop."""

    def __init__(self, listener: socket.socket, hosts: Sequence[str]) -> None:
        """Take names of hosts, or `name:port`; the port is that of HTTPS unless it is given.

        Raises:
            ConfigurationError: one is no host.
        """
        self._listener = listener
        self._traffic = {_target(host): Traffic() for host in hosts}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """What went through, by `host:port`."""
        return MappingProxyType({f"{host}:{port}": traffic for (host, port), traffic in self._traffic.items()})

    async def start(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._accept, sock=self._listener, limit=HEAD)

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="acp.tunnel")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                host, port = await self._asked(reader)
                there = await self._connected(host, port)
            except _Refused as refused:
                log.info("tunnel.refused", status=refused.status)
                writer.write(_answer(refused.status, str(refused)))
                await writer.drain()
                return
            traffic = self._traffic[host, port]
            traffic.connections += 1
            try:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay((reader, writer), there, traffic)
            finally:
                there[1].transport.abort()
        except OSError:
            pass  # one of both sides is gone
        finally:
            with suppress(OSError):
                if writer.can_write_eof() and not writer.is_closing():
                    writer.write_eof()
            writer.close()

    async def _asked(self, reader: asyncio.StreamReader) -> tuple[str, int]:
        """The host and port that a client wants."""
        if len(self._open) > MOST:
            raise _Refused(503, "Too many connections are open.")
        try:
            async with asyncio.timeout(ASKING):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise _Refused(400, "No request came that can be read.") from error
        connection = h11.Connection(h11.SERVER)
        try:
            connection.receive_data(head)
            request = connection.next_event()
        except h11.RemoteProtocolError as error:
            raise _Refused(400, "The request cannot be read.") from error
        if not isinstance(request, h11.Request) or request.method != b"CONNECT":
            raise _Refused(405, "Only CONNECT is answered here.")
        asked = request.target.decode("ascii", "replace")
        try:
            target = _target(asked)
        except ConfigurationError as error:
            raise _Refused(400, "The request names no host.") from error
        if target not in self._traffic:
            raise _Refused(403, f"{asked[:80]} is not among the hosts of the agent's file.")
        return target

    async def _connected(self, host: str, port: int) -> _Streams:
        try:
            async with asyncio.timeout(ASKING):
                proxy = _proxy_for(host)
                if proxy is not None:
                    return await _through(proxy, host, port)
                return await _opened(await _addresses(host, port), port)
        except TimeoutError as error:
            raise _Refused(504, f"{host} was not reached in time.") from error
        except OSError as error:
            raise _Refused(502, f"{host} cannot be reached: {error.strerror or type(error).__name__}.") from error


def _target(text: str) -> tuple[str, int]:
    """Host and port, as they are compared.

    Raises:
        ConfigurationError: it is none.
    """
    fault = ConfigurationError([f'acp.hosts: "{text[:80]}" is no host; write it as "name" or "name:port".'])
    try:
        parts = urlsplit(f"//{text}")
        port = HTTPS if parts.port is None else parts.port
    except ValueError as error:
        raise fault from error
    host = (parts.hostname or "").rstrip(".")
    if not host or parts.path or parts.query or parts.fragment or parts.username is not None or "*" in host or not port:
        raise fault
    return host, port


async def _addresses(host: str, port: int) -> Sequence[str]:
    """The addresses to connect to; only a host that is an address may be a private one."""
    with suppress(ValueError):
        return [str(ip_address(host))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]) for *_, where in found]
    if not addresses or not all(is_public(ip_address(each.partition("%")[0])) for each in addresses):
        raise _Refused(403, f"{host} is not at a public address; name the address itself in the agent's file.")
    return addresses


async def _opened(addresses: Sequence[str], port: int) -> _Streams:
    """A connection to the first of these addresses that takes one."""
    *others, last = addresses
    for address in others:
        with suppress(OSError):
            return await asyncio.open_connection(address, port)
    return await asyncio.open_connection(last, port)


def _proxy_for(host: str) -> SplitResult | None:
    """The proxy that the environment names for HTTPS to this host."""
    named = urllib.request.getproxies_environment()
    address = named.get("https") or named.get("all")
    if not address or urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _Refused(502, "The daemon's environment names a proxy for HTTPS that cannot be used for this.")
    return parts


async def _through(proxy: SplitResult, host: str, port: int) -> _Streams:
    """A connection through a proxy."""
    is_encrypted = proxy.scheme == "https"
    there = await asyncio.open_connection(
        proxy.hostname, proxy.port or (HTTPS if is_encrypted else 80), ssl=is_encrypted or None, limit=HEAD
    )
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    login = ""
    if proxy.username is not None:
        words = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        login = f"Proxy-Authorization: Basic {base64.b64encode(words.encode()).decode()}\r\n"
    try:
        there[1].write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode())
        head = await there[0].readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        there[1].transport.abort()
        raise _Refused(502, "The proxy of the daemon's environment gave no answer that can be read.") from error
    except BaseException:
        there[1].transport.abort()
        raise
    status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
    if status != [b"200"]:
        there[1].transport.abort()
        raise _Refused(502, "The proxy of the daemon's environment refused the connection.")
    return there


async def _relay(here: _Streams, there: _Streams, traffic: Traffic) -> None:
    """Pass bytes on in both directions until both have ended."""

    def sent(count: int) -> None:
        traffic.sent += count

    def received(count: int) -> None:
        traffic.received += count

    async with asyncio.TaskGroup() as group:
        group.create_task(_copy(here[0], there[1], sent), name="acp.tunnel.out")
        group.create_task(_copy(there[0], here[1], received), name="acp.tunnel.in")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: "_Count") -> None:
    try:
        while piece := await reader.read(_PIECE):
            count(len(piece))
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()  # so that the other direction ends too


_Count = Callable[[int], None]


def _answer(status: int, sentence: str) -> bytes:
    body = f"{sentence}\n".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
