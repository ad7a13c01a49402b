"""Opens a websocket to a relay, with bounds on redirects and on the size of messages."""

from collections.abc import Generator
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.streams import StreamReader

from .addresses import public_address
from .urls import is_loopback, normalise_url

MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""Larger messages are skipped: twice the largest event, because JSON may escape its text."""


class RelaySocket(ClientConnection):
    """A websocket that skips what is above `MAX_MESSAGE_BYTES` instead of hanging up.

    After a hang-up the relay would send the same message again on every new connection.
    """

    def __init__(self, protocol: ClientProtocol, **options: Any) -> None:
        """Make the protocol read with `_SkippingReader`; nothing has been received yet."""
        protocol.reader = _SkippingReader()
        protocol.parser = protocol.parse()
        next(protocol.parser)
        super().__init__(protocol, **options)

    async def receive(self) -> str:
        """Receive one message as text; "" for one that was too large.

        Bytes that are not UTF-8 are replaced, so that one bad event does not end the connection.

        Raises:
            ConnectionClosed: the connection has ended.
        """
        message = bytearray()
        is_too_large = False
        async for piece in self.recv_streaming(decode=False):
            is_too_large = is_too_large or len(message) + len(piece) > MAX_MESSAGE_BYTES
            if is_too_large:
                message.clear()
            else:
                message += piece
        return message.decode(errors="replace")

    @property
    def server_date(self) -> float | None:
        """The `Date` header of the handshake response, in seconds; None if it is missing or malformed."""
        dates = self.response.headers.get_all("Date") if self.response is not None else []
        try:
            date = parsedate_to_datetime(dates[0])
        except (IndexError, TypeError, ValueError, OverflowError):
            return None
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


class _SkippingReader(StreamReader):
    """Returns nothing in place of a payload that is too large, without buffering it."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        if n <= MAX_MESSAGE_BYTES:
            return (yield from super().read_exact(n))
        while len(self.buffer) < n:
            n -= len(self.buffer)
            self.discard()
            if self.eof:
                raise EOFError("stream ends within a message that is skipped")
            yield
        del self.buffer[:n]
        return bytearray()


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow a redirect only on the same host and port: a relay must not choose what the client connects to."""
        try:
            target = super().process_redirect(exc)
            if isinstance(target, str) and _origin(target) != _origin(self.uri):
                return exc
        except ValueError:
            return exc
        return target


def _origin(url: str) -> str:
    return urlsplit(normalise_url(url)).netloc


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "wss" else 80)


async def open_websocket(
    url: str,
    *,
    open_timeout: float,
    close_timeout: float,
    ping_interval: float = 20,
    ping_timeout: float = 20,
    must_be_public: bool = False,
) -> RelaySocket:
    """Connect to a relay; one that `must_be_public` only at a public address.

    Messages are not compressed: one that is too large when unpacked could not be skipped.

    Raises:
        PrivateAddress: it must be public and is not.
    """
    address = await public_address(url) if must_be_public else None
    # the name stays in the handshake
    where: dict[str, Any] = {"host": address, "port": _port(url)} if address is not None else {}
    opened = await _Connect(
        url,
        create_connection=RelaySocket,
        proxy=None if is_loopback(url) else True,  # True: from the environment
        compression=None,
        max_size=None,  # `RelaySocket` bounds it
        open_timeout=open_timeout,
        close_timeout=close_timeout,
        ping_interval=ping_interval,
        ping_timeout=ping_timeout,
        user_agent_header="tenex",
        **where,
    )
    assert isinstance(opened, RelaySocket)
    return opened
