"""Uploads to Blossom servers, which store files by their SHA-256 (BUD-01, BUD-02, BUD-11), and to stores of relays.

    HEAD /<sha256>.<ending>   the server has the file already: nothing is uploaded again
    PUT  /upload              with a signed event of kind 24242, for this file, this server and ten minutes

What a server answers is checked: status, hash, size, and that the address is one of this file. A server that others
name is spoken to over TLS and at a public address only (`public_web`), one of the settings also on this machine.

A relay may have a store on its own host, as Buzz's does. It asks for an authorization to read a file too, and accepts
one for a minute.
"""

import asyncio
import base64
import json
import mimetypes
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from tenex.core.errors import FileNotSent
from tenex.core.ids import PublicKey
from tenex.core.port_values import UnsignedEvent
from tenex.core.text.foreign import printable

from .addresses import PrivateAddress, is_private
from .events import Event, to_wire, unsigned_event
from .public_web import asked, body_of
from .threading.base import tags_named

AUTHORIZATION: Final = 24242
SERVER_LIST: Final = 10063
"""The servers of a person (BUD-03)."""

MOST_SERVERS: Final = 3
"""Of a person's list: the first are those they trust most."""

LOOKING: Final = 5.0
"""Seconds in which a server says whether it has a file."""
UPLOADING: Final = 40.0
"""Seconds for one server to take a file, its signature included: 20 MB at 4 Mbit/s."""

_VALID_FOR: Final = 600
"""Seconds of an authorization."""
_EARLIER: Final = 60
"""Seconds by which it is dated back: servers refuse one of the future, and clocks differ."""
_STORE_VALID_FOR: Final = 50
_STORE_EARLIER: Final = 5
"""The same for the store of a relay: Buzz's takes 60 seconds from the date to the expiration at most."""
_REFUSALS: Final = frozenset({401, 402, 403, 409, 411, 413, 415, 429, 500, 502, 503, 504, 507})
"""Answers of a server that stores files, to one that it does not take now; any other says that it stores none."""
_LONGEST_ANSWER: Final = 64 * 1024
_LONGEST_URL: Final = 1_000
"""Characters: with `url ` before it, it has to fit into an element of a tag."""
_LONGEST_REASON: Final = 120
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_SERVER: Final = 200


@dataclass(frozen=True, slots=True)
class FileServer:
    """A server, and whether the settings name it, or the relay whose host it is on."""

    url: str
    """Without a slash at the end."""
    is_trusted: bool = False
    is_store: bool = False
    """Whether it is the store of a relay, on the relay's own host."""

    @property
    def host(self) -> str:
        """Its name, as people are told it."""
        return urlsplit(self.url).hostname or self.url

    @property
    def authority(self) -> str:
        """Its name as authorizations have it; of the store of a relay with the port."""
        return (urlsplit(self.url).netloc if self.is_store else self.host).lower()


class NoFileServer(FileNotSent):
    """What was asked to store a file has answered as something that stores none."""


SignUpload = Callable[[UnsignedEvent], Awaitable[Event]]
"""Signs an authorization."""


def servers_in(event: Event) -> tuple[FileServer, ...]:
    """The first servers of a person's list that may be used: over TLS, and not at a private address."""
    servers: dict[str, None] = {}
    for tag in tags_named(event, "server"):
        url = tag[1].strip().rstrip("/")
        try:
            parts = urlsplit(url)
            is_usable = parts.scheme == "https" and not is_private(url) and parts.port != 0
        except ValueError:
            continue
        is_plain = url.isprintable() and not set("?#@ ") & set(url) and len(url) <= _LONGEST_SERVER
        if is_usable and is_plain:
            servers[url] = None
    return tuple(FileServer(url) for url in servers)[:MOST_SERVERS]


def store_of(relay: str) -> FileServer:
    """Where a relay of the settings would have a store: on its own host, over TLS if it is spoken to over TLS."""
    parts = urlsplit(relay)
    scheme = "https" if parts.scheme == "wss" else "http"
    return FileServer(f"{scheme}://{parts.netloc}", is_trusted=True, is_store=True)


async def permission_to_read(store: FileServer, url: str, reader: PublicKey, sign: SignUpload, now: int) -> str:
    """The `Authorization` of a GET of one file of a store, by the key that reads it."""
    hashes = _SHA256.findall(urlsplit(url).path)
    of_file = (("x", hashes[-1]),) if hashes else ()
    return _header(await sign(_authorization(store, "get", of_file, reader, now)))


async def upload(
    servers: Iterable[FileServer], data: bytes, media_type: str, author: PublicKey, sign: SignUpload, now: int
) -> str:
    """Have the first server that will store a file; its address there.

    Raises:
        NoFileServer: the only one is none.
        FileNotSent: none has; the sentence says why of each.
    """
    faults: list[str] = []
    servers = tuple(servers)
    for server in servers:
        try:
            async with asyncio.timeout(UPLOADING):
                return await _uploaded(server, data, media_type, author, sign, now)
        except FileNotSent as fault:
            if len(servers) == 1:
                raise
            faults.append(str(fault))
        except TimeoutError:
            faults.append(f"{server.host} has not taken it within {UPLOADING:g} s")
        except PrivateAddress:
            faults.append(f"{server.host} is not at a public address")
        except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as fault:
            faults.append(f"{server.host} cannot be reached ({type(fault).__name__})")
    raise FileNotSent("; ".join(faults) or "there is no file server")


async def _uploaded(
    server: FileServer, data: bytes, media_type: str, author: PublicKey, sign: SignUpload, now: int
) -> str:
    digest = sha256(data).hexdigest()
    url = f"{server.url}/{digest}{_ending(media_type)}"
    if not server.is_store and await _has(server, url, len(data)):
        return url

    authorization = await sign(_authorization(server, "upload", (("x", digest),), author, now))
    headers = {
        "Authorization": _header(authorization),
        "Content-Type": media_type,
        "X-SHA-256": digest,
    }
    async with _asked(server, f"{server.url}/upload", "PUT", headers, data) as response:
        body = await body_of(response, _LONGEST_ANSWER)
        if response.status_code not in (httpx2.codes.OK, httpx2.codes.CREATED):
            why_not = FileNotSent if response.status_code in _REFUSALS else NoFileServer
            raise why_not(_refusal(server, response))
    return _checked_url(server, body, digest, len(data))


async def _has(server: FileServer, url: str, size: int) -> bool:
    """Whether a server has a file of this address and size; not where it does not answer in time."""
    try:
        async with asyncio.timeout(LOOKING), _asked(server, url, "HEAD", {}, None) as response:
            is_there = response.status_code == httpx2.codes.OK
            return is_there and response.headers.get("Content-Length") == str(size)
    except (TimeoutError, httpx2.HTTPError):
        return False


def _authorization(
    server: FileServer, what: str, of_file: tuple[tuple[str, str], ...], author: PublicKey, now: int
) -> UnsignedEvent:
    earlier, valid_for = (_STORE_EARLIER, _STORE_VALID_FOR) if server.is_store else (_EARLIER, _VALID_FOR)
    tags = (("t", what), *of_file, ("expiration", str(now + valid_for)), ("server", server.authority))
    return unsigned_event(author, max(0, now - earlier), AUTHORIZATION, tags, f"{what.capitalize()} a file")


def _header(event: Event) -> str:
    """An event as `Authorization`.

    Servers read it by either alphabet of Base64, with or without padding: no character of it needs the two letters in
    which these differ, and spaces at its end make padding unnecessary.
    """
    text = json.dumps(to_wire(event), separators=(",", ":"))
    text += " " * (-len(text) % 3)
    return f"Nostr {base64.urlsafe_b64encode(text.encode()).decode()}"


def _refusal(server: FileServer, response: httpx2.Response) -> str:
    reason = printable(response.headers.get("X-Reason", ""))[:_LONGEST_REASON].strip()
    said = f": {reason}" if reason else ""
    return f"{server.host} answers HTTP {response.status_code}{said}"


def _checked_url(server: FileServer, body: bytes | None, digest: str, size: int) -> str:
    """The address in a server's answer.

    Raises:
        FileNotSent: the answer is none, or is of another file.
    """
    answer: Any = None
    with suppress(ValueError, RecursionError):
        answer = json.loads(body or b"")
    if not isinstance(answer, Mapping):
        raise NoFileServer(f"{server.host} does not answer as a Blossom server")
    if answer.get("sha256") != digest or answer.get("size", size) != size:
        raise FileNotSent(f"{server.host} has stored something else than what it was sent")
    url = answer.get("url")
    if not isinstance(url, str) or not _is_address_of(server, url, digest):
        raise FileNotSent(f"{server.host} gives no usable address of the file")
    return url


def _is_address_of(server: FileServer, url: str, digest: str) -> bool:
    """Whether people can load a file of this hash there: BUD-03 takes the last hash in an address."""
    try:
        parts = urlsplit(url)
        hashes = _SHA256.findall(url)
    except ValueError:
        return False
    is_secure = parts.scheme == "https" or (server.is_trusted and parts.scheme == "http")
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST_URL
    return is_secure and bool(parts.hostname) and is_plain and hashes[-1:] == [digest]


def _ending(media_type: str) -> str:
    return mimetypes.guess_extension(media_type.partition(";")[0]) or ""


def _asked(
    server: FileServer, url: str, method: str, headers: Mapping[str, str], content: bytes | None
) -> AbstractAsyncContextManager[httpx2.Response]:
    if not server.is_trusted:
        return asked(url, "application/json", method=method, headers=headers, content=content)
    return asked_there(url, method, headers, content)


@asynccontextmanager
async def asked_there(
    url: str, method: str, headers: Mapping[str, str], content: bytes | None = None
) -> AsyncIterator[httpx2.Response]:
    """The answer of a server of the settings, wherever it is; redirects are not followed."""
    head = {**headers, "Accept-Encoding": "identity", "User-Agent": "tenex"}
    client = httpx2.AsyncClient(timeout=None, follow_redirects=False)
    async with client, client.stream(method, url, headers=head, content=content) as response:
        yield response
