"""Reads from web servers that anybody may name: over TLS unless allowed otherwise, and at a public address only.

No redirect is followed. The host is resolved first, and the connection goes to the address that was checked, as to a
relay that others name. The certificate has to be that of the name.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

from .addresses import public_address

_PORTS: Final = {"https": 443, "http": 80}


@asynccontextmanager
async def asked(
    url: str,
    accept: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    allows_http: bool = False,
) -> AsyncIterator[httpx2.Response]:
    """The answer to a request of an https address, whose body is not read yet; the caller bounds the time.

    `allows_http` reads an http address as it is, without TLS.

    Raises:
        PrivateAddress: the host is not at a public address.
        OSError, httpx2.HTTPError, httpx2.InvalidURL: it cannot be resolved, or does not answer.
    """
    parts = urlsplit(url)
    name = parts.hostname or ""
    scheme = "http" if allows_http and parts.scheme == "http" else "https"
    authority = f"[{name}]" if ":" in name else name
    address = await public_address(f"{scheme.replace('http', 'ws')}://{authority}")  # None: a proxy resolves the name
    host = name if address is None else f"[{address}]" if ":" in address else address
    port = parts.port or _PORTS[scheme]
    target = urlunsplit((scheme, f"{host}:{port}", parts.path or "/", parts.query, ""))
    head = {
        **(headers or {}),
        "Host": authority if port == _PORTS[scheme] else f"{authority}:{port}",
        "Accept": accept,
        "Accept-Encoding": "identity",
        "User-Agent": "tenex",
    }
    client = httpx2.AsyncClient(
        verify=ssl.create_default_context(), trust_env=address is None, timeout=None, follow_redirects=False
    )
    sni = {"sni_hostname": name}
    async with client, client.stream(method, target, headers=head, content=content, extensions=sni) as response:
        yield response


async def body_of(response: httpx2.Response, most: int) -> bytes | None:
    """The body of an answer; None if it has more than so many bytes."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > most:
            return None
    return bytes(body)
