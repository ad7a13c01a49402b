"""Which hosts are public. Relays that others name are connected to only there; those of the settings may be anywhere.

A name is checked three times: as it is written, as it resolves before an event is published, and as it resolves for the
connection, which then goes to the address that was checked: a name may resolve to another one the next time.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from websockets.proxy import get_proxy
from websockets.uri import parse_uri

from tenex.core.errors import RelayUnavailable

_PRIVATE_ENDINGS: Final = (".localhost", ".local", ".internal", ".lan", ".home", ".home.arpa", ".onion")
"""Names of this machine, of local networks, and of a network that only a proxy reaches."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE: Final = IPv6Network("::/96")
_RESOLVING: Final = 10.0
"""Seconds to resolve a name."""


def is_private(url: str) -> bool:
    """Whether a relay URL names a host that is not public, by its name alone."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    address = _address(host)
    if address is not None:
        return not is_public(address)
    return "." not in host or host.endswith(_PRIVATE_ENDINGS)


async def public_address(url: str) -> str | None:
    """Resolve the host of a relay URL to an address to connect to; None if a proxy resolves it.

    Raises:
        PrivateAddress: it is not public, or one of its addresses is not.
        OSError: it cannot be resolved.
    """
    parts = urlsplit(url)
    if is_private(url):
        raise PrivateAddress(parts.hostname or "")
    if get_proxy(parse_uri(url)) is not None:
        return None
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_RESOLVING):
        found = await loop.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]) for *_, where in found]
    if not addresses or not all(is_public(ip_address(each.partition("%")[0])) for each in addresses):
        raise PrivateAddress(parts.hostname or "")
    return addresses[0]


class PrivateAddress(RelayUnavailable):
    """A relay that others named is not at a public address."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is not at a public address; only relays of `relays.urls` may be elsewhere")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, however it is written: IPv4 also as one number, in octal or in hex."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if host else None
    except OSError:
        return None


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is reached from everywhere, also one within an address of another kind."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or address in _IPV4_COMPATIBLE):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast
