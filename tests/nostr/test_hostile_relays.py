"""What a hostile relay may send: it ends no other relay's connection, holds no memory and is backed off."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection
from websockets.utils import accept_key

from tenex.nostr import connection as connection_module
from tenex.nostr.events import to_wire
from tenex.nostr.relay import RelayStatus
from tenex.nostr.relay_info import DocumentUnread, read_limits
from tenex.nostr.websocket import MAX_MESSAGE_BYTES
from tests.fakes.faultrelay import FaultRelay, Peer

from .kit import BOB, FAST, LONG_AGO, NOTES, NOW, Received, closes, connection, listening, note, pool, running, until

END = b"\r\n\r\n"


def accepted(head: bytes, *fields: bytes) -> bytes:
    """The answer that opens a websocket."""
    key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
    accept = b"Sec-WebSocket-Accept: " + accept_key(key.decode()).encode()
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade"
    return b"\r\n".join([upgrade, accept, *fields]) + END


@asynccontextmanager
async def http_server(
    handshake: Callable[[bytes], bytes] = accepted,
    *,
    document: bytes = b"",
    endless: bytes = b"",
    frames: bytes = b"",
) -> AsyncIterator[str]:
    """A server on loopback.

    Args:
        handshake: the bytes that answer the head of a request for a websocket.
        document: the bytes that answer any other.
        endless: what follows the document again and again.
        frames: what follows a handshake once the client has sent something.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(END)
            if b"pgrade: websocket" in head:
                writer.write(handshake(head))
                await reader.read(1)
                writer.write(frames)
            else:
                writer.write(document)
                while endless:
                    writer.write(endless)
                    await writer.drain()
                writer.write_eof()
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


def was_tried(status: RelayStatus) -> object:
    return status.fault or status.counters["sessions"]


async def status_beside_honest_relay(bad: str, happened: Callable[[RelayStatus], object] = was_tried) -> RelayStatus:
    """Listen to a hostile and an honest relay until the honest one's event arrives; gives the hostile one's status."""
    received = Received()
    async with FaultRelay() as good:
        relays = pool(bad, good.url, on_event=received)
        async with running(relays, LONG_AGO, notes=NOTES):
            await until(lambda: happened(relays.status()[0]), 20)
            await asyncio.sleep(0.3)
            await relays.listening("notes", 10)
            event = note()
            await good.spread(to_wire(event))
            await received.has(event)
            return relays.status()[0]


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
    async with http_server(lambda _: head + END) as bad:
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
    async with http_server(document=document) as bad:
        with suppress(DocumentUnread):
            assert await read_limits(bad, 2) is None
        status = await status_beside_honest_relay(bad)
    assert status.connected
    assert status.counters["sessions"] == 1


async def test_a_document_that_never_ends_is_given_up() -> None:
    document = b"HTTP/1.1 200 OK\r\nContent-Type: application/json" + END
    async with http_server(document=document, endless=b" " * 65536) as bad, asyncio.timeout(4):
        assert await read_limits(bad, 30) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_redirect_to_another_host_or_port_is_not_followed(host: str) -> None:
    """A relay must not make the daemon open connections to what is reachable from this machine only."""
    async with FaultRelay() as other:
        moved = f"HTTP/1.1 302 Found\r\nLocation: ws://{host}:{other.port}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with http_server(lambda _: moved) as bad:
            status = await status_beside_honest_relay(bad)
        assert other.connections == 0
    assert "302" in status.fault


async def test_a_redirect_to_another_path_of_the_same_relay_is_followed() -> None:
    moved = b"HTTP/1.1 308 Permanent Redirect\r\nLocation: /v2\r\nContent-Length: 0" + END
    async with http_server(lambda head: accepted(head) if head.startswith(b"GET /v2 ") else moved) as url:
        assert (await status_beside_honest_relay(url)).connected


@pytest.mark.parametrize(
    "date", [b"Mon, 01 Jan " + b"9" * 25 + b" 00:00:00 GMT", b"Mon, 01 Jan 2020 00:00:00 +9999999999", b"x"]
)
async def test_a_date_that_is_none_is_no_reason_to_hang_up(date: bytes) -> None:
    async with http_server(lambda head: accepted(head, b"Date: " + date)) as url:
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
    async with running(pool(fault.url, on_event=received, is_seen=is_seen), LONG_AGO, notes=NOTES) as relays:
        await relays.listening("notes", 10)
        await fault.spread(to_wire(bad))
        await fault.spread(to_wire(good))
        await received.has(good)
        assert relays.status()[0].counters["failures"] >= 1
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
    real = connection_module.ClientConnection.write

    async def write(self: connection_module.ClientConnection) -> None:
        try:
            await real(self)
        except asyncio.CancelledError:
            raise ArithmeticError("cannot convert") from None

    monkeypatch.setattr(connection_module.ClientConnection, "write", write)
    async with running(connection(fault.url)) as relay:
        await relay.connected.wait()


async def test_a_page_holds_no_more_than_was_asked_for(fault: FaultRelay) -> None:
    """A relay that sends events and never EOSE: its page is cut, and what it sends afterwards is dropped."""

    async def endless(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        if filters[0]["limit"] == 0:
            await peer.send("EOSE", sub_id)
            return
        raw = to_wire(note(at=NOW - 10))
        for number in range(3000):
            await peer.send("EVENT", sub_id, raw | {"id": f"{number:064x}"})

    fault.on_req = endless
    async with listening(connection(fault.url), LONG_AGO) as relay:
        await until(lambda: relay.status().counters.get("over_limit"))
        sub_id = next(frame[1] for frame in fault.reqs() if frame[2]["limit"])
        await fault.until(lambda: sub_id in closes(fault), 20)


async def test_more_than_was_asked_for_after_eose_ends_no_connection(fault: FaultRelay) -> None:
    async def generous(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        frames = [json.dumps(["EOSE", sub_id]), *[json.dumps(["EVENT", sub_id, to_wire(note())])] * 60]
        await asyncio.gather(*map(peer.send_text, frames))

    fault.on_req = generous
    async with running(connection(fault.url)) as relay:
        for _ in range(20):
            await relay.fetch([{"kinds": [1], "limit": 1}], lambda raw: None)
        assert relay.status().counters["over_limit"]
        assert relay.status().counters["sessions"] == 1


@pytest.mark.parametrize(
    "raw", [{}, to_wire(note()) | {"sig": BOB.sign_digest(b"0" * 32)}], ids=["not asked for", "forged"]
)
async def test_a_relay_that_goes_on_sending_junk_is_left(
    raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fault: FaultRelay
) -> None:
    monkeypatch.setattr(connection_module, "MOST_DROPPED", 500)

    async def flood(peer: Peer, sub_id: str, filters: list[dict[str, Any]]) -> None:
        await peer.send("EOSE", sub_id)
        while fault.connections < 3:
            await peer.send("EVENT", sub_id if raw else "unknown", raw)
            await asyncio.sleep(0)

    fault.on_req = flood
    times = replace(FAST, stable_after=1e-9)
    with capture_logs() as logs:
        async with running(pool(fault.url, timeouts=times), notes=NOTES) as relays:
            await fault.until(lambda: fault.connections == 3, 20)
            assert "malformed, forged or not asked for" in relays.status()[0].fault
    tries = [entry["tries"] for entry in logs if entry["event"] == "relay.lost"]
    assert tries == [1, 2], "it has not served, though it answered: each pause is longer"


@pytest.mark.parametrize("in_fragments", [False, True])
async def test_a_message_above_the_limit_is_skipped_and_the_next_is_read(
    in_fragments: bool, fault: FaultRelay, received: Received
) -> None:
    """Hanging up on it would lose what comes next, and the relay would send it again after every reconnect."""
    async with listening(connection(fault.url, received)) as relay:
        sub_id, event = fault.live()[0][1], note()
        huge = json.dumps(["EVENT", sub_id, to_wire(note()) | {"content": "x" * MAX_MESSAGE_BYTES}])
        if in_fragments:
            await fault.peers[0].socket.send([huge[: len(huge) // 2], huge[len(huge) // 2 :]])
        else:
            await fault.peers[0].send_text(huge)
        await fault.spread(to_wire(event))
        await received.has(event)
        assert (relay.status().counters["malformed"], relay.status().last_received) == (1, NOW)
    assert fault.connections == 1


async def test_a_message_that_is_no_utf8_is_skipped(received: Received) -> None:
    event = note()
    text = json.dumps(["EVENT", "1.1", to_wire(event)]).encode()
    frames = b"\x81\x04\xff\xfe\xfd\xfc" + b"\x81\x7f" + struct.pack("!Q", len(text)) + text
    async with http_server(frames=frames) as url, running(connection(url, received, probe_timeout=0.5), notes=NOTES):
        await received.has(event)
