"""A Blossom server on loopback (BUD-01, BUD-02, BUD-11) that checks authorizations with another library.

It stores what it was sent by its hash, and can be told to answer wrongly.
"""

import base64
import json
import mimetypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Literal

import nostr_sdk

Fault = Literal["", "401", "413", "503", "slow", "other hash", "other size", "no json", "other url", "long", "redirect"]


@dataclass(kw_only=True)
class BlossomServer:
    """What it has, and how it answers."""

    url: str = ""
    blobs: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Content and media type, by hash."""
    uploads: list[str] = field(default_factory=list)
    """The hash of each body that was sent to it whole."""
    authors: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Why authorizations were not accepted."""
    fault: Fault = ""
    released: Event = field(default_factory=Event)
    """Set when a slow answer is to be given."""

    def read(self, url: str) -> bytes:
        """What a person loads from an address."""
        return self.blobs[_hash_in(url)][0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: BlossomServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._give(with_body=False)

    def do_GET(self) -> None:
        self._give(with_body=True)

    def do_PUT(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = sha256(body).hexdigest()
        reason = _why_not(self.headers.get("Authorization", ""), digest, "127.0.0.1")
        if reason:
            state.refused.append(reason)
        if reason or state.fault == "401":
            self._answer(401, b"", {"X-Reason": reason or "this key may not upload"})
            return
        if self.path != "/upload" or self.headers.get("X-SHA-256", digest) != digest:
            self._answer(409, b"", {})
            return
        state.uploads.append(digest)
        state.authors.append(_event_in(self.headers["Authorization"])["pubkey"])
        if state.fault in ("413", "503"):
            self._answer(int(state.fault), b"", {"X-Reason": "no room\x1b[31m"})
            return
        if state.fault == "redirect":
            self._answer(307, b"", {"Location": f"{state.url}/elsewhere"})
            return
        is_new = digest not in state.blobs
        media_type = self.headers.get("Content-Type", "application/octet-stream")
        state.blobs[digest] = (body, media_type)
        if state.fault == "slow":
            state.released.wait(60)
        self._answer(201 if is_new else 200, _descriptor(state, digest, len(body), media_type), {})

    def _give(self, *, with_body: bool) -> None:
        blob = self.server.state.blobs.get(_hash_in(self.path))
        if blob is None:
            self._answer(404, b"", {})
            return
        self._answer(200, blob[0], {"Content-Type": blob[1]}, with_body=with_body)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool = True) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


@contextmanager
def blossom_server(fault: Fault = "") -> Iterator[BlossomServer]:
    """Serve until the end of the block."""
    state = BlossomServer(fault=fault)
    with _Server(state) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            state.released.set()
            server.shutdown()
            thread.join()


def _hash_in(url: str) -> str:
    return url.rpartition("/")[2].partition(".")[0]


def _descriptor(state: BlossomServer, digest: str, size: int, media_type: str) -> bytes:
    if state.fault == "no json":
        return b"<html>stored</html>"
    if state.fault == "long":
        return b" " * 1_000_000
    answer = {
        "url": f"{state.url}/{digest}{mimetypes.guess_extension(media_type) or ''}",
        "sha256": digest,
        "size": size,
        "type": media_type,
        "uploaded": int(time.time()),
    }
    if state.fault == "other hash":
        answer["sha256"] = "0" * 64
    if state.fault == "other size":
        answer["size"] = size + 1
    if state.fault == "other url":
        answer["url"] = f"{state.url}/{'0' * 64}"
    return json.dumps(answer).encode()


def _event_in(header: str) -> dict[str, Any]:
    encoded = header.removeprefix("Nostr ")
    event: dict[str, Any] = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    return event


def _why_not(header: str, digest: str, domain: str) -> str:
    """Why an authorization is not accepted, as BUD-11 has it; "" where it is."""
    if not header.startswith("Nostr ") or "=" in header:
        return "there is no authorization in base64url without padding"
    try:
        raw = _event_in(header)
        is_signed = nostr_sdk.Event.from_json(json.dumps(raw)).verify()
    except Exception as error:
        return f"the event cannot be read: {error}"
    tags: dict[str, list[str]] = {}
    for name, *values in raw["tags"]:
        tags.setdefault(name, []).extend(values[:1])
    now = time.time()
    checks = {
        "the signature is wrong": is_signed,
        "the kind is not 24242": raw["kind"] == 24242,
        "the date is not in the past": raw["created_at"] <= now,
        "t is not upload": tags.get("t") == ["upload"],
        "x is another file": digest in tags.get("x", []),
        "it has expired": int(tags.get("expiration", ["0"])[0]) > now,
        "it is for another server": domain in tags.get("server", [domain]),
    }
    return next((reason for reason, holds in checks.items() if not holds), "")
