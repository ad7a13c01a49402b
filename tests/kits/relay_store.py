"""The store of files on the host of a room relay: `PUT /upload` and `GET /media/`, with the rules of Buzz's.

Both ask for an authorization (kind 24242) of a member, dated at most a minute ago; a key may upload 30 times a minute.
"""

import base64
import json
import logging
import mimetypes
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tenex.nostr.events import is_genuine, parse_event

Raw = dict[str, Any]

UPLOADS: Final = 30
"""Of a key in a minute."""
VALID_FOR: Final = 60
"""Seconds from the date of an authorization to its expiration, at most."""
FUTURE: Final = 5
LARGEST_FILE: Final = 100_000_000
QUIET: Final = logging.getLogger("tests.kits.relay_store")
"""For what the library says of a connection that is no handshake."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class Refused(Exception):
    """Holds the status and the reason of an answer."""


@dataclass(kw_only=True)
class RelayStore:
    """What it has, who asked, and how it answers."""

    is_member: Callable[[str], bool]
    now: Callable[[], float]
    url: str = ""
    is_there: bool = True
    """False: the relay has none, and says 404."""
    answers: int = 0
    """A status in place of every answer; 0 for none."""
    redirects_to: str = ""
    """Where a GET is sent on to; "" for nowhere."""
    blobs: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Content and media type, by hash."""
    uploads: list[tuple[str, str]] = field(default_factory=list)
    """The key and the hash of each upload that was taken."""
    reads: list[tuple[str, str]] = field(default_factory=list)
    """The key and the hash of each file that was given."""
    refused: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, bool]] = field(default_factory=list)
    """The method and the path of each request, and whether it had an authorization."""
    usage: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def keep(self, data: bytes, media_type: str) -> str:
        """Have a file that a person has uploaded; its address."""
        digest = sha256(data).hexdigest()
        self.blobs[digest] = (data, media_type)
        return f"{self.url}/media/{digest}{mimetypes.guess_extension(media_type) or ''}"

    def read(self, url: str) -> bytes:
        """What is at an address."""
        return self.blobs[_hash_in(url)][0]

    def answer(self, method: str, path: str, headers: Headers, body: bytes) -> Response:
        """The answer to a request."""
        header = headers.get("Authorization", "")
        self.asked.append((method, path, bool(header)))
        if not self.is_there or self.answers:
            return _response(self.answers or 404, {"X-Reason": "not now"}, b"")
        try:
            if method == "PUT" and path == "/upload":
                return self._taken(header, headers, body)
            return self._given(header, path)
        except Refused as refusal:
            status, reason = refusal.args
            self.refused.append(reason)
            return _response(status, {"X-Reason": reason}, b"")

    def _taken(self, header: str, headers: Headers, body: bytes) -> Response:
        digest = sha256(body).hexdigest()
        if len(body) > LARGEST_FILE:
            raise Refused(413, "too large")
        event = self._authorized(header, "upload")
        if headers.get("X-SHA-256") != digest or digest not in _values(event, "x"):
            raise Refused(401, "the hash is of another file")
        author = event["pubkey"]
        recent = [at for at in self.usage[author] if at > time.monotonic() - 60]
        if len(recent) >= UPLOADS:
            raise Refused(429, "too many uploads")
        self.usage[author] = [*recent, time.monotonic()]
        media_type = headers.get("Content-Type", "application/octet-stream")
        url = self.keep(body, media_type)
        self.uploads.append((author, digest))
        told = {"url": url, "sha256": digest, "size": len(body), "type": media_type, "uploaded": int(self.now())}
        return _response(200, {"Content-Type": "application/json"}, json.dumps(told).encode())

    def _given(self, header: str, path: str) -> Response:
        digest = _hash_in(path)
        event = self._authorized(header, "get")
        if _values(event, "x") not in ([], [digest]):
            raise Refused(401, "it is for another file")
        if self.redirects_to:
            return _response(302, {"Location": self.redirects_to}, b"")
        if digest not in self.blobs:
            raise Refused(404, "no such file")
        data, media_type = self.blobs[digest]
        self.reads.append((event["pubkey"], digest))
        return _response(200, {"Content-Type": media_type}, data)

    def _authorized(self, header: str, verb: str) -> Raw:
        """The event of an authorization.

        Raises:
            Refused: it is none of a member for this.
        """
        scheme, _, encoded = header.partition(" ")
        if scheme != "Nostr":
            raise Refused(401, "there is no authorization")
        try:
            event: Raw = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
            is_signed = is_genuine(parse_event(event))
        except Exception as fault:
            raise Refused(401, "the authorization cannot be read") from fault
        now = self.now()
        expiration = int(next(iter(_values(event, "expiration")), "0"))
        checks = {
            "the signature is wrong": is_signed,
            "the kind is not 24242": event["kind"] == 24242,
            "it has no words": bool(event["content"].strip()),
            f"t is not {verb}": _values(event, "t") == [verb],
            "it has expired": expiration > now,
            "it is of another time": now - VALID_FOR <= event["created_at"] <= now + FUTURE,
            "it is valid for too long": expiration <= event["created_at"] + VALID_FOR,
            "it is for another server": _values(event, "server") == [self.url.partition("://")[2]],
        }
        reason = next((reason for reason, holds in checks.items() if not holds), "")
        if reason:
            raise Refused(401, reason)
        if not self.is_member(event["pubkey"]):
            raise Refused(403, "not a member")
        return event


class StoreConnection(ServerConnection):
    """A connection to a relay that may be a PUT of a file, which the library of web sockets does not read."""

    store: RelayStore
    _received: bytearray | None = None

    def data_received(self, data: bytes) -> None:
        """Take in what came; a PUT is answered once it is whole."""
        if self._received is None and not data.startswith(b"PUT "):
            super().data_received(data)
            return
        self._received = (self._received or bytearray()) + data
        head, end, body = bytes(self._received).partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode().split("\r\n")
        headers = Headers([(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)])
        if len(body) < int(headers.get("Content-Length", "0")):
            return
        method, path, _ = first.split(" ")
        self.transport.write(self.store.answer(method, path, headers, body).serialize())
        self.transport.close()


def given(store: RelayStore, request: Request) -> Response | None:
    """The answer to a GET of a file; None for what is no such request."""
    is_file = request.path.startswith("/media/")
    return store.answer("GET", request.path, request.headers, b"") if is_file else None


def _response(status: int, headers: dict[str, str], body: bytes) -> Response:
    shown = Headers({**headers, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status, "Answer", shown, body)


def _values(event: Raw, name: str) -> list[str]:
    return [tag[1] for tag in event["tags"] if len(tag) > 1 and tag[0] == name]


def _hash_in(url: str) -> str:
    return url.rpartition("/")[2].partition(".")[0]
