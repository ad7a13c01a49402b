"""What a hostile relay may send: it ends no other relay's connection, holds no memory and is backed off."""

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from tenex.nostr import connection as session_module
from tenex.nostr.events import to_wire
from tenex.nostr.pool import RelayPool
from tenex.nostr.relay import RelayStatus
from tenex.nostr.relay_info import read_limits
from tenex.nostr.websocket import MAX_MESSAGE_BYTES
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import BOB, FAST, NOTES, NOW, Received, connection, note, running

LONG_AGO = NOW - 100_000
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def http_server(answer: Answer) -> AsyncIterator[str]:
    """A server on loopback that answers each request's head with whatever bytes `answer` writes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
            await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def accepted(head: bytes) -> bytes:
    """The answer that opens a websocket."""
    key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )


def text_frame(text: str) -> bytes:
    payload = text.encode()
    return b"\x81\x7f" + struct.pack("!Q", len(payload)) + payload


def was_tried(status: RelayStatus) -> bool:
    return bool(status.fault or status.counters["sessions"])


async def status_beside_honest_relay(
    bad: str, happened: Callable[[RelayStatus], bool] = was_tried, **options: Any
) -> RelayStatus:
    """Listen to a hostile and an honest relay until the honest one's event arrives; gives the hostile one's status."""
    received = Received()
    async with FaultRelay() as good:
        pool = RelayPool(
            [bad, good.url], on_event=received, timeouts=FAST, rng=Random(7), now=lambda: float(NOW), **options
        )
        pool.subscribe("notes", NOTES, LONG_AGO)
        async with running(pool):
            async with asyncio.timeout(20):
                while not happened(pool.status()[0]):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.3)
                await pool.listening("notes", 10)
            event = note()
            await good.spread(to_wire(event))
            await received.has(event)
            return pool.status()[0]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30,
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 40,
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://[::1",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ws://x:99999",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ws://user:secret@x",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ws://\xff\xfe/",
        b"\x16\x03\x01nonsense",
    ],
)
async def test_a_malformed_handshake_is_that_relays_failure_only(head: bytes) -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"\r\n\r\n")

    async with http_server(answer) as bad:
        status = await status_beside_honest_relay(bad)
    assert status.fault
    assert not status.connected


@pytest.mark.parametrize(
    "document",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 9999999999999999999999 OK\r\n\r\n",
    ],
)
async def test_a_malformed_document_leaves_the_connection_as_it_was(document: bytes) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"pgrade: websocket" in head:
            writer.write(accepted(head))
        else:
            writer.write(document)
            writer.write_eof()

    async with http_server(answer) as bad:
        assert await read_limits(bad, 2) is None
        status = await status_beside_honest_relay(bad)
    assert status.connected
    assert status.counters["sessions"] == 1


async def test_a_document_that_never_ends_is_given_up() -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    async with http_server(answer) as bad, asyncio.timeout(4):
        assert await read_limits(bad, 30) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_redirect_to_another_host_or_port_is_not_followed(host: str) -> None:
    """A relay must not make the daemon open connections to what is reachable from this machine only."""
    async with FaultRelay() as other:

        async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
            target = f"ws://{host}:{other.port}/"
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

        async with http_server(answer) as bad:
            status = await status_beside_honest_relay(bad)
        assert other.connections == 0
    assert "302" in status.fault


async def test_a_redirect_to_another_path_of_the_same_relay_is_followed() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        moved = b"HTTP/1.1 308 Permanent Redirect\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n"
        writer.write(accepted(head) if head.startswith(b"GET /v2 ") else moved)

    async with http_server(answer) as url:
        assert (await status_beside_honest_relay(url)).connected


@pytest.mark.parametrize(
    "date", [b"Mon, 01 Jan " + b"9" * 25 + b" 00:00:00 GMT", b"Mon, 01 Jan 2020 00:00:00 +9999999999", b"x"]
)
async def test_a_date_that_is_none_is_no_reason_to_hang_up(date: bytes) -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(accepted(head)[:-2] + b"Date: " + date + b"\r\n\r\n")

    async with http_server(answer) as url:
        status = await status_beside_honest_relay(url)
    assert status.connected
    assert status.counters["sessions"] == 1


async def test_an_exception_while_an_event_is_taken_loses_that_event_only(
    fault: FaultRelay, received: Received
) -> None:
    bad, good = note(), note()

    def is_seen(event_id: str) -> bool:
        if event_id == bad.id:
            raise RuntimeError("the index is broken")
        return False

    fault.stored += [to_wire(bad)]
    pool = RelayPool([fault.url], on_event=received, is_seen=is_seen, timeouts=FAST, now=lambda: float(NOW))
    pool.subscribe("notes", NOTES, LONG_AGO)
    async with running(pool):
        await pool.listening("notes", 10)
        await fault.spread(to_wire(bad))
        await fault.spread(to_wire(good))
        await received.has(good)
        assert pool.status()[0].counters["failures"] >= 1
    assert received.ids == [good.id]
    assert fault.connections == 1


async def test_an_exception_in_a_relays_tasks_is_that_relays_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised while one relay is used or closed: the others go on, and this one is connected to again."""
    ports: list[int] = []

    def broken(real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(self: ClientConnection, *args: Any, **options: Any) -> Any:
            if self.remote_address[1] in ports:
                raise ArithmeticError("cannot convert")
            return await real(self, *args, **options)

        return call

    for name in ("close", "send"):
        monkeypatch.setattr(ClientConnection, name, broken(getattr(ClientConnection, name)))
    async with FaultRelay() as bad:
        ports.append(bad.port)
        status = await status_beside_honest_relay(bad.url, lambda status: status.counters["sessions"] > 1)
    assert status.counters["failures"] >= 1
    assert "ArithmeticError" in status.fault


async def test_an_error_that_comes_with_the_cancellation_does_not_keep_a_relay_running(
    fault: FaultRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group of a connection's tasks then raises that error and no cancellation."""
    real = session_module.ClientConnection.write

    async def write(self: session_module.ClientConnection) -> None:
        try:
            await real(self)
        except asyncio.CancelledError:
            raise ArithmeticError("cannot convert") from None

    monkeypatch.setattr(session_module.ClientConnection, "write", write)
    relay = connection(fault.url, Received())
    async with running(relay):
        await relay.connected.wait()


async def test_a_page_holds_no_more_than_was_asked_for(fault: FaultRelay) -> None:
    """A relay that sends events and never EOSE: its page is cut, and what it sends afterwards is dropped."""
    sent = 0

    async def endless(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        nonlocal sent
        if filters[0]["limit"] == 0:
            await peer.send("EOSE", sub_id)
            return
        raw = to_wire(note(at=NOW - 10))
        for number in range(3000):
            await peer.send("EVENT", sub_id, raw | {"id": f"{number:064x}"})
            sent += 1

    fault.on_req = endless
    relay = connection(fault.url, Received())
    relay.subscribe("notes", NOTES, LONG_AGO)
    async with running(relay), asyncio.timeout(30):
        while not relay.status().counters.get("over_limit"):
            await asyncio.sleep(0.01)
        sub_id = next(frame[1] for frame in fault.reqs() if frame[2]["limit"])
        await fault.until(lambda: ["CLOSE", sub_id] in [frame for _, frame in fault.frames], 20)


@pytest.mark.parametrize(
    "raw", [{}, to_wire(note()) | {"sig": BOB.sign_digest(b"0" * 32)}], ids=["not asked for", "forged"]
)
async def test_a_relay_that_goes_on_sending_junk_is_left(
    raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fault: FaultRelay
) -> None:
    monkeypatch.setattr(session_module, "MOST_DROPPED", 500)

    async def flood(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        await peer.send("EOSE", sub_id)
        while fault.connections == 1:
            await peer.send("EVENT", sub_id if raw else "unknown", raw)
            await asyncio.sleep(0)

    fault.on_req = flood
    pool = RelayPool([fault.url], on_event=Received(), timeouts=FAST, now=lambda: float(NOW))
    pool.subscribe("notes", NOTES, None)
    async with running(pool):
        await fault.until(lambda: fault.connections == 2, 20)
        assert "malformed, forged or not asked for" in pool.status()[0].fault


@pytest.mark.parametrize("in_fragments", [False, True])
async def test_a_message_above_the_limit_is_skipped_and_the_next_is_read(
    in_fragments: bool, fault: FaultRelay, received: Received
) -> None:
    """Hanging up on it would lose what comes next, and the relay would send it again after every reconnect."""
    relay = connection(fault.url, received)
    relay.subscribe("notes", NOTES, None)
    async with running(relay):
        await relay.connected.wait()
        await relay.listening("notes")
        sub_id, event = fault.live()[0][1], note()
        huge = json.dumps(["EVENT", sub_id, to_wire(note()) | {"content": "x" * MAX_MESSAGE_BYTES}])
        if in_fragments:
            await fault.peers[0].socket.send([huge[: len(huge) // 2], huge[len(huge) // 2 :]])
        else:
            await fault.peers[0].send_text(huge)
        await fault.spread(to_wire(event))
        await received.has(event)
        assert relay.status().counters["malformed"] == 1
    assert fault.connections == 1


async def test_a_message_that_is_no_utf8_is_skipped() -> None:
    event, received = note(), Received()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"pgrade: websocket" not in head:
            return
        writer.write(accepted(head))
        await asyncio.sleep(0.3)  # until the REQ is there
        writer.write(b"\x81\x04\xff\xfe\xfd\xfc" + text_frame(json.dumps(["EVENT", "1.1", to_wire(event)])))

    async with http_server(answer) as url:
        relay = connection(url, received)
        relay.subscribe("notes", NOTES, None)
        async with running(relay):
            await received.has(event)
