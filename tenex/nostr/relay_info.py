"""A relay's published limits (NIP-11), clamped to the client's own; a relay need not publish any."""

import asyncio
import json
import ssl
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from tenex.log import get_logger

from .events import MAX_EVENT_BYTES
from .pagination import PAGE_LIMIT
from .threading.base import is_hex64
from .urls import is_loopback
from .wire import MAX_SUBSCRIPTIONS

log = get_logger(__name__)

_MOST_BYTES: Final = 128 * 1024
"""Real documents have a few KiB."""

MOST_SUBSCRIPTIONS: Final = 500
"""To one connection, however many a relay takes: each has a task and a filter here."""

_MOST_EXTENSIONS: Final = 100

_ROOMS: Final = 29
"""The number of the NIP."""


def _may_pass(fault: BaseException) -> bool:
    """Whether another try may succeed: the network failed, or the server is busy."""
    if isinstance(fault, httpx2.HTTPStatusError):
        return fault.response.status_code == 429 or fault.response.status_code >= 500
    return isinstance(fault, httpx2.TransportError)


_AGAIN: Final = AsyncRetrying(
    retry=retry_if_exception(_may_pass),
    stop=stop_after_attempt(3),
    wait=wait_random_exponential(multiplier=0.25, max=2),
    reraise=True,
)
"""A relay that restarts refuses a connection or two; its limits would be unknown until the next reconnect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """The limits that change what is sent."""

    max_message_length: int = MAX_EVENT_BYTES
    """Bytes of one frame."""
    max_content_length: int = MAX_EVENT_BYTES
    """Characters of the content of one event."""
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    max_limit: int = PAGE_LIMIT
    """Events per page."""
    rooms_key: str = ""
    """The key with which a relay of rooms (NIP-29) signs what it says of them; "" for any other relay."""
    extensions: frozenset[str] = frozenset()
    """What a relay of rooms has beyond the NIPs."""


class DocumentUnread(Exception):
    """A relay's document could not be read now; another time it may be."""


async def read_limits(url: str, timeout: float) -> RelayLimits | None:  # noqa: ASYNC109  (callers own no deadline)
    """Fetch a relay's document; None if it has none that can be used.

    Raises:
        DocumentUnread: the network or the server failed, or took longer than `timeout` seconds.
    """
    try:
        async with asyncio.timeout(timeout):
            raw: bytes = await _AGAIN.copy()(_get, url)
        return limits_of(json.loads(raw))
    except Exception as fault:  # optional: whatever is wrong with it, the relay is used without
        log.debug("relay.no_document", relay=url, fault=type(fault).__name__)
        if isinstance(fault, TimeoutError) or _may_pass(fault):
            raise DocumentUnread from fault
        return None


def limits_of(document: object) -> RelayLimits | None:
    """Read the limits of a document; numbers that would make a relay useless are ignored."""
    if not isinstance(document, dict):
        return None
    limitation = document.get("limitation")
    rooms_key = _rooms_key(document)
    if not isinstance(limitation, dict):
        return RelayLimits(rooms_key=rooms_key, extensions=_extensions(document)) if rooms_key else None
    own = RelayLimits()
    return RelayLimits(
        max_message_length=_clamp(limitation, "max_message_length", 4096, own.max_message_length),
        max_content_length=_clamp(limitation, "max_content_length", 1024, own.max_content_length),
        max_subscriptions=_clamp(limitation, "max_subscriptions", 3, MOST_SUBSCRIPTIONS, own.max_subscriptions),
        max_limit=_clamp(limitation, "max_limit", 10, own.max_limit),
        rooms_key=rooms_key,
        extensions=_extensions(document) if rooms_key else frozenset(),
    )


def _rooms_key(document: dict[str, Any]) -> str:
    key = document.get("self")
    nips = document.get("supported_nips")
    has_rooms = isinstance(nips, list) and _ROOMS in nips
    return key if has_rooms and isinstance(key, str) and is_hex64(key) else ""


def _extensions(document: dict[str, Any]) -> frozenset[str]:
    listed = document.get("supported_extensions")
    names = listed[:_MOST_EXTENSIONS] if isinstance(listed, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _clamp(limitation: dict[str, Any], name: str, least: int, most: int, default: int | None = None) -> int:
    value = limitation.get(name)
    if type(value) is int and value > 0:
        return max(least, min(value, most))
    return most if default is None else default


async def _get(url: str) -> bytes:
    is_local = is_loopback(url)
    # the certificates of the system take 40 ms to load, and a relay on this machine without TLS shows none
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_local and url.startswith("ws:") else True
    async with httpx2.AsyncClient(trust_env=not is_local, verify=verify, timeout=None) as client:
        head = {"Accept": "application/nostr+json", "Accept-Encoding": "identity", "User-Agent": "tenex"}
        async with client.stream("GET", f"http{url.removeprefix('ws')}", headers=head) as response:
            response.raise_for_status()
            raw = bytearray()
            async for piece in response.aiter_raw():
                raw += piece
                if len(raw) > _MOST_BYTES:
                    raise ValueError("the document is too large")
            return bytes(raw)
