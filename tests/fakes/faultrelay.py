"""A relay on loopback that misbehaves exactly as a test states.

Without instructions it is a small honest relay: it stores, serves stored events newest first, broadcasts, answers
OK and EOSE. A test replaces `on_req`, `on_event` or `on_auth`, or does something to the connections.
"""

import asyncio
import http
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tenex.nostr.filters import AnyFilter

_silent = logging.getLogger("tests.faultrelay")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Peer:
    def __init__(self, number: int, socket: ServerConnection) -> None:
        self.number = number
        self.socket = socket
        self.subscriptions: dict[str, list[dict[str, Any]]] = {}

    async def send(self, *frame: Any) -> None:
        """Send a frame; a client that has gone is no fault of the relay."""
        await self.send_text(json.dumps(list(frame)))

    async def send_text(self, text: str | bytes) -> None:
        with suppress(ConnectionClosed):
            await self.socket.send(text)

    def freeze(self) -> None:
        """Read nothing any more and answer no ping: the link is half open."""
        self.socket.transport.pause_reading()

    def drop(self) -> None:
        self.socket.transport.abort()


class FaultRelay:
    """The relay. `received` lists every frame in order, with the number of its connection (counted from 1)."""

    def __init__(self, *, clamp: int = 500) -> None:
        self.clamp = clamp
        self.port = 0
        self.stored: list[dict[str, Any]] = []
        self.frames: list[tuple[int, list[Any]]] = []
        self.peers: list[Peer] = []
        self.connections = 0
        self.document: dict[str, Any] | None = None
        self.on_req: Callable[[Peer, str, list[dict[str, Any]]], Awaitable[None]] = self.serve_stored
        self.on_event: Callable[[Peer, dict[str, Any]], Awaitable[None]] = self.accept
        self.on_auth: Callable[[Peer, dict[str, Any]], Awaitable[None]] = self.accept_auth
        self.on_connect: Callable[[Peer], Awaitable[None]] | None = None
        self._changed = asyncio.Condition()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after a stop, on the same port again."""
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            process_request=self._document,
            ping_interval=None,
            close_timeout=0.2,
            logger=_silent,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        for peer in self.peers:
            peer.drop()
        self._server.close()
        await self._server.wait_closed()
        self._server = None

    async def until(self, happened: Callable[[], object], timeout: float = 5.0) -> None:  # noqa: ASYNC109
        """Return once `happened()` is true, asked again after every frame and every connection."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: bool(happened()))

    def reqs(self, number: int | None = None) -> list[list[Any]]:
        """The REQs heard so far, of one connection or of all."""
        return [frame for peer, frame in self.frames if frame[0] == "REQ" and number in (None, peer)]

    def live(self, number: int | None = None) -> list[list[Any]]:
        """The REQs that ask for what is new: with `limit: 0`, or 1 in the simple form."""
        return [frame for frame in self.reqs(number) if frame[2].get("limit") in (0, 1)]

    def events(self) -> list[dict[str, Any]]:
        """The events sent to this relay, each copy."""
        return [frame[1] for _, frame in self.frames if frame[0] == "EVENT"]

    async def serve_stored(self, peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        """What an honest relay does with a REQ."""
        for wanted in filters:
            matching = [event for event in self.stored if AnyFilter([wanted]).matches(event)]
            matching.sort(key=lambda event: (-event["created_at"], event["id"]))
            for event in matching[: min(self.clamp, wanted.get("limit", self.clamp))]:
                await peer.send("EVENT", sub_id, event)
        await peer.send("EOSE", sub_id)

    async def serve_new_only(self, peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        """Confirm REQs for new events; leave those for stored events unanswered."""
        if filters[0]["limit"] == 0:
            await peer.send("EOSE", sub_id)

    async def accept(self, peer: Peer, event: dict[str, Any]) -> None:
        known = any(stored["id"] == event["id"] for stored in self.stored)
        if not known:
            await self.spread(event)
        await peer.send("OK", event["id"], True, "duplicate: have it" if known else "")

    async def accept_auth(self, peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], True, "")

    async def spread(self, event: dict[str, Any]) -> None:
        """Store an event and send it to every subscription it matches."""
        self.stored.append(event)
        for peer in list(self.peers):
            for sub_id, filters in list(peer.subscriptions.items()):
                if AnyFilter([{k: v for k, v in f.items() if k != "limit"} for f in filters]).matches(event):
                    await peer.send("EVENT", sub_id, event)

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        peer = Peer(self.connections, socket)
        self.peers.append(peer)
        try:
            if self.on_connect is not None:
                await self.on_connect(peer)
            await self._notify()
            async for text in socket:
                frame = json.loads(text)
                self.frames.append((peer.number, frame))
                match frame:
                    case ["REQ", sub_id, *filters]:
                        peer.subscriptions[sub_id] = filters
                        await self.on_req(peer, sub_id, filters)
                    case ["CLOSE", sub_id]:
                        peer.subscriptions.pop(sub_id, None)
                    case ["EVENT", event]:
                        await self.on_event(peer, event)
                    case ["AUTH", event]:
                        await self.on_auth(peer, event)
                await self._notify()
        except ConnectionClosed:
            pass
        finally:
            self.peers.remove(peer)
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _document(self, socket: ServerConnection, request: Request) -> Response | None:
        if "Upgrade" in request.headers:
            return None
        body = json.dumps(self.document or {}).encode()
        head = Headers([("Content-Length", str(len(body))), ("Content-Type", "application/nostr+json")])
        return Response(http.HTTPStatus.OK, "OK", head, body)
