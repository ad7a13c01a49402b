"""Names of people such as `alice@example.com`, looked up on the web server of their domain (NIP-05).

A name is written by anybody, so the server is reached like a relay that others name: at a public address only, which is
checked and then connected to. The answer is bounded in size and time, and a redirect is refused, as the NIP asks.
"""

import asyncio
import json
import re
from typing import Final
from urllib.parse import quote

import httpx2

from tenex.core.ids import PublicKey
from tenex.core.text.foreign import plain

from .addresses import PrivateAddress
from .keys import parse_public_key
from .public_web import asked, body_of
from .urls import normalise_url

_NAME: Final = re.compile(r"(?P<local>[a-z0-9._-]{1,100})@(?P<domain>[^\s@/?#:\[\]]{1,253})")
_HEX64: Final = re.compile(r"[0-9a-fA-F]{64}")
_PORT: Final = 443
_TIMEOUT: Final = 10.0
"""Seconds for all of it, with the look-up of the domain; people wait at a terminal."""
_MOST_BYTES: Final = 512 * 1024
"""Some servers answer with all their names."""


def is_identifier(text: str) -> bool:
    """Whether a text is more like such a name than like a key."""
    return "@" in text


async def look_up(text: str) -> PublicKey:
    """Ask the domain of a name for the public key.

    Raises:
        ValueError: this is no such name, the server does not answer, or it does not have the name.
    """
    parts = _NAME.fullmatch(plain(text).strip().lower())
    if parts is None:
        raise ValueError("a name is written name@domain, such as alice@example.com")
    local = parts["local"]
    domain = normalise_url(f"wss://{parts['domain']}").removeprefix("wss://")
    try:
        async with asyncio.timeout(_TIMEOUT):
            body = await _fetch(domain, local)
    except TimeoutError:
        raise ValueError(f"{domain} has not answered within {_TIMEOUT:g} s") from None
    except PrivateAddress:
        raise ValueError(f"{domain} is not at a public address, so it is not asked") from None
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ValueError(f"{domain} does not answer: {_reason(error)}") from error
    return _key_of(local, domain, body)


async def _fetch(domain: str, local: str) -> bytes:
    url = f"https://{domain}:{_PORT}/.well-known/nostr.json?name={quote(local)}"
    async with asked(url, "application/json") as response:
        if response.is_redirect:
            raise ValueError(f"{domain} answers with a redirect, which NIP-05 does not permit")
        if response.status_code != httpx2.codes.OK:
            raise ValueError(f"{domain} answers HTTP {response.status_code}, and no list of names")
        body = await body_of(response, _MOST_BYTES)
    if body is None:
        raise ValueError(f"the list of names of {domain} is too large")
    return body


def _key_of(local: str, domain: str, body: bytes) -> PublicKey:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer of {domain} is not JSON") from None
    names = document.get("names") if isinstance(document, dict) else None
    key = names.get(local) if isinstance(names, dict) else None
    if key is None:
        raise ValueError(f"{domain} does not know the name {local}")
    if not isinstance(key, str) or not _HEX64.fullmatch(key):
        raise ValueError(f"{domain} has no key of 64 hex digits for {local}")
    return parse_public_key(key)


def _reason(error: Exception) -> str:
    return plain(str(error)).strip()[:200] or type(error).__name__
