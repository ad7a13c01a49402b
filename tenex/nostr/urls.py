"""Canonical relay URLs: two are equal if they mean the same relay."""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from tenex.core.text.foreign import trimmed

LONGEST = 2_048
"""Characters; real ones have fewer than 100, and the spelling of a long name takes long."""

_HOST: Final = re.compile(r"\[[0-9a-f:.]+(?:%[\w.]+)?\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)
"""A name or IPv4 address, or an IPv6 address in brackets; `_` is no letter of a host, and local networks have it."""

_DEFAULT_PORT = {"ws": 80, "wss": 443}


@lru_cache(maxsize=1024)  # the same few, for every event in and out
def normalise_url(url: str) -> str:
    """The canonical spelling: lower-case scheme and host, no default port, no lone slash, no fragment.

    Raises:
        ValueError: it is not a ws:// or wss:// URL; the message is for the user.
    """
    if len(url) > LONGEST:
        raise ValueError(f"{url[:40]!r}... is not a relay URL: it is longer than {LONGEST:,} characters")
    text = trimmed(url)
    try:
        parts = urlsplit(text)
        host = parts.hostname
        port = parts.port
    except ValueError as fault:
        raise ValueError(f"{text!r} is not a relay URL: {fault}") from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORT:
        raise ValueError(f"{text!r} is not a relay URL: it must begin with wss:// or ws://")
    if not host or any(not char.isprintable() or char.isspace() for char in text):
        raise ValueError(f"{text!r} is not a relay URL: it names no host, or holds spaces")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"the relay url for {host} holds a user or a password; relays know people by their keys")
    try:
        name = host.encode("idna").decode("ascii") if ":" not in host else f"[{host}]"
    except UnicodeError:
        raise ValueError(f"{text!r} is not a relay URL: its host is not a valid name") from None
    if not _HOST.fullmatch(name):
        raise ValueError(f"{text!r} is not a relay URL: its host is not a valid name; give each relay by itself")
    begins_twice = parts.netloc.endswith(":") and parts.path.startswith("//")
    if begins_twice or "://" in parts.path:
        raise ValueError(f"{text!r} is not a relay URL: it holds two addresses; give each relay by itself")
    if port == 0:
        raise ValueError(f"{text!r} is not a relay URL: 0 is no port")
    place = name if port is None or port == _DEFAULT_PORT[scheme] else f"{name}:{port}"
    path = parts.path if parts.path != "/" else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{place.lower()}{path}{query}"


@lru_cache(maxsize=1024)
def is_loopback(url: str) -> bool:
    """Whether a URL names this machine, so that no proxy is used."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
