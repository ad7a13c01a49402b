"""What a relay says about its own limits (NIP-11), clamped to ours: advice, so a relay without it is no fault.

Never: raise because of anything a relay answers, or wait longer than told.
"""

import asyncio
import io
import json
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, cast
from urllib.parse import urlsplit

from .events import MAX_EVENT_BYTES
from .paging import PAGE_LIMIT
from .wire import MAX_SUBSCRIPTIONS

_MOST_BYTES: Final = 128 * 1024
"""Real documents have a few KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """The limits that change what we send."""

    max_message_length: int = MAX_EVENT_BYTES
    """Bytes of one frame."""
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    max_limit: int = PAGE_LIMIT
    """Events to a page."""


async def read_limits(url: str, timeout: float) -> RelayLimits | None:  # noqa: ASYNC109  (callers own no deadline)
    """Ask a relay for its document; None where it has none, or none in time."""
    try:
        async with asyncio.timeout(timeout):
            raw = await _get(url)
        document = json.loads(_body(raw))
    except (OSError, ValueError, HTTPException, RecursionError):
        return None
    return limits_of(document)


def limits_of(document: object) -> RelayLimits | None:
    """Take the limits out of a document; numbers that would make a relay useless are not believed."""
    limitation = document.get("limitation") if isinstance(document, dict) else None
    if not isinstance(limitation, dict):
        return None
    ours = RelayLimits()
    return RelayLimits(
        max_message_length=_clamp(limitation, "max_message_length", 4096, ours.max_message_length),
        max_subscriptions=_clamp(limitation, "max_subscriptions", 3, ours.max_subscriptions),
        max_limit=_clamp(limitation, "max_limit", 10, ours.max_limit),
    )


def _clamp(limitation: dict[str, Any], name: str, least: int, most: int) -> int:
    said = limitation.get(name)
    return max(least, min(said, most)) if type(said) is int and said > 0 else most


async def _get(url: str) -> bytes:
    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None
    )
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"GET {target} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Accept: application/nostr+json",
            "Connection: close",
        )
        writer.write("\r\n".join((*head, "", "")).encode("ascii"))
        raw = b""
        while len(raw) <= _MOST_BYTES and (piece := await reader.read(16 * 1024)):
            raw += piece
        return raw
    finally:
        writer.transport.abort()


def _body(raw: bytes) -> bytes:
    """Let the standard library undo headers and chunks of an answer that has been read whole."""
    response = HTTPResponse(cast("Any", _Answered(raw)))
    response.begin()
    if response.status != 200:
        raise ValueError(f"status {response.status}")
    return response.read()


class _Answered:
    """As much of a socket as `HTTPResponse` looks at."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)
