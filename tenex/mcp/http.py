"""The transport for a server at an address: the SDK's, with limits on what the server sends, set below it.

The SDK reads an answer whole, whatever its size, and waits for its end as long as something comes. So bytes are counted
and time is taken where the HTTP client hands them over:

* An answer to a request, one document or a stream of events, has a size and an end.
* A stream for notifications (the GET of the protocols before 2026-07-28, `subscriptions/listen` of that one) stays open
  as long as the server wants. Each event has a size, which the SDK checks, and events and streams are counted by the
  minute.
* Compressed answers are not asked for and not taken: a kilobyte of one may become a gigabyte at once.

An answer that is too large fails its call alone. What comes too often ends the connection.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import httpx2

from .config import ServerConfig
from .limits import COMPRESSED, LARGEST_MESSAGE, MOST_STREAMS, TOO_LARGE, TOO_MANY_MESSAGES, TOO_MANY_STREAMS, Rate

CONNECT: Final = 10.0
"""Seconds to connect to an address."""
EXTRA: Final = 30.0
"""Seconds that an answer may take beyond the timeout of a call: a list of tools has this time too."""

_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
"""The end of an event."""
_KEPT: Final = 3
"""Bytes in which a blank line may have begun."""


@asynccontextmanager
async def http_transport(
    config: ServerConfig, rate: Rate, on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams of messages of a server at an address; `on_end` gets the reason where it sends too much."""
    from mcp.client.streamable_http import streamable_http_client

    limits = _Limits(config, rate, on_end)
    client = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **config.headers},
        timeout=httpx2.Timeout(CONNECT, read=config.timeout + EXTRA),
        follow_redirects=False,  # the headers hold a key
        event_hooks={"request": [limits.on_request], "response": [limits.on_response]},
    )
    async with (
        client,
        streamable_http_client(
            config.url, http_client=client, terminate_on_close=False, max_sse_event_size=LARGEST_MESSAGE
        ) as streams,
    ):
        yield streams


def _stays_open(request: httpx2.Request) -> bool:
    """Whether the answer to a request is a stream for notifications."""
    return request.method == "GET" or request.headers.get("mcp-method") == "subscriptions/listen"


class _Limits:
    """The hooks of an HTTP client that limit what a server sends to it."""

    def __init__(self, config: ServerConfig, rate: Rate, on_end: Callable[[str], None]) -> None:
        self._seconds = config.timeout + EXTRA
        self._messages = rate
        self._streams = Rate(MOST_STREAMS)
        self._on_end = on_end

    async def on_request(self, request: httpx2.Request) -> None:
        """Let a stream for notifications be silent, and count it."""
        if not _stays_open(request):
            return
        request.extensions = {**request.extensions, "timeout": {**request.extensions["timeout"], "read": None}}
        if not self._streams.takes():
            self._on_end(TOO_MANY_STREAMS)
            raise httpx2.RequestError(TOO_MANY_STREAMS, request=request)

    async def on_response(self, response: httpx2.Response) -> None:
        """Limit an answer whose body has not been read."""
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            self._on_end(COMPRESSED)
            raise httpx2.DecodingError(COMPRESSED, request=response.request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        stays_open = _stays_open(response.request)
        response.stream = _Body(
            response.stream,
            fault=httpx2.SSEError if is_events else httpx2.StreamError,  # what the SDK takes for a fault of the answer
            count=self._count if is_events else None,
            most=None if stays_open else LARGEST_MESSAGE,
            seconds=None if stays_open else self._seconds,
        )

    def _count(self, events: int) -> None:
        if not self._messages.takes(events):
            self._on_end(TOO_MANY_MESSAGES)
            raise httpx2.SSEError(TOO_MANY_MESSAGES)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, counted as it is read."""

    def __init__(
        self,
        source: httpx2.AsyncByteStream,
        *,
        fault: Callable[[str], Exception],
        count: Callable[[int], None] | None,
        most: int | None,
        seconds: float | None,
    ) -> None:
        self._source = source
        self._fault = fault
        self._count = count
        self._most = most
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        until = None if self._seconds is None else asyncio.get_running_loop().time() + self._seconds
        size = 0
        end = b""
        async with aclosing(aiter(self._source)) as pieces:  # type: ignore[type-var]  # the bodies are generators
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise self._fault(f"its answer took more than {self._seconds:g} s") from None
                size += len(piece)
                if self._most is not None and size > self._most:
                    raise self._fault(TOO_LARGE)
                if self._count is not None:
                    text = end + piece
                    ends = [blank.end() for blank in _BLANK_LINE.finditer(text)]
                    self._count(len(ends))
                    end = text[max([0, len(text) - _KEPT, *ends[-1:]]) :]
                yield piece

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        await self._source.aclose()
