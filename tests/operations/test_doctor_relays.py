"""`tenex doctor` and relays: what is wrong with each is reported, in bounded time, and nothing is published."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from tenex.cli.init import prepare
from tenex.nostr.keys import KeyRing
from tenex.nostr.threading import KINDS
from tenex.operations.doctor import relays as module
from tenex.operations.doctor.configuration import settings
from tenex.operations.doctor.findings import Case, Finding, Level
from tests.fakes.faultrelay import FaultRelay, Peer

from .doctor_kit import found_by


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience for loopback."""
    for name in ("STEP_TIMEOUT", "DOCUMENT_TIMEOUT"):
        monkeypatch.setattr(module, name, 1.0)


async def look(tmp_path: Path, *urls: str) -> list[Finding]:
    """The findings for these relays."""
    case = Case(data=prepare(tmp_path / "data", None, urls).data, config=None, env={})
    assert {f.level for f in settings(case)} == {Level.OK}
    return await found_by(module.relays, case)


async def test_a_relay_that_serves_is_well_and_gets_no_event(tmp_path: Path) -> None:
    async with FaultRelay() as relay:
        relay.document = {"limitation": {"max_message_length": 5000}}
        found, limit = await look(tmp_path, f"{relay.url}/?token=tops3cret")
        assert (limit.level, "above 5,000 bytes" in limit.message) == (Level.WARNING, True)
        assert (found.level, found.message[:25]) == (Level.OK, "serves a subscription in ")
        assert (found.location.endswith("?..."), "tops3cret" in f"{found}") == (True, False)
        await relay.until(lambda: not relay.peers)
        (asked,) = relay.reqs()
        project = KeyRing(tmp_path / "data" / "keys").get("project").public
        assert asked[2] == {"kinds": [*KINDS], "limit": 1, "#p": [project]}
        assert {frame[0] for _, frame in relay.frames} <= {"REQ", "CLOSE"}


async def _silent(*_: object) -> None:
    return


def _closes(*texts: str) -> Callable[[Peer, str, list[dict[str, Any]]], Awaitable[None]]:
    remaining = iter(texts)

    async def closed(peer: Peer, sub_id: str, _: list[dict[str, Any]]) -> None:
        text = next(remaining, "")
        await (peer.send("CLOSED", sub_id, text) if text else peer.send("EOSE", sub_id))

    return closed


async def _drops(peer: Peer, *_: object) -> None:
    peer.drop()


@pytest.mark.parametrize(
    ("on_req", "what"),
    [
        (_silent, "does not answer the subscription for 1 s"),
        (_drops, "closed the connection after the subscription"),
        (_closes("restricted: members only"), "refuses the subscription: restricted: members only"),
        (_closes("error: too busy\x1b[2J"), "refuses the subscription: error: too busy [2J"),
    ],
)
async def test_a_relay_that_does_not_serve_is_a_fault(tmp_path: Path, on_req: Any, what: str) -> None:
    async with FaultRelay() as relay:
        relay.on_req = on_req
        (found,) = await look(tmp_path, relay.url)
    assert (found.level, found.location, found.error.exit_code) == (Level.FAULT, relay.url, 1)
    assert what in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("is_admitted", "later", "what"),
    [
        (True, (), "after authentication with the project's key"),
        (True, ("auth-required: and again",), "refuses the subscription: auth-required: and again"),
        (False, (), "refuses the project's key: restricted: not on the list"),
    ],
)
async def test_a_relay_that_asks_for_authentication_gets_the_projects_key(
    tmp_path: Path, is_admitted: bool, later: tuple[str, ...], what: str
) -> None:
    async def refuses(peer: Peer, event: dict[str, Any]) -> None:
        await peer.send("OK", event["id"], False, "restricted: not on the list")

    async with FaultRelay() as relay:
        relay.on_connect = lambda peer: peer.send("AUTH", "a challenge")
        relay.on_req = _closes("auth-required: who are you?", *later)
        relay.on_auth = relay.on_auth if is_admitted else refuses
        (found,) = await look(tmp_path, relay.url)
        (greeting,) = [frame[1] for _, frame in relay.frames if frame[0] == "AUTH"]
    assert greeting["pubkey"] == KeyRing(tmp_path / "data" / "keys").get("project").public
    assert what in found.message
    assert is_admitted or "npub" in found.fix


async def test_relays_are_asked_at_the_same_time_and_all_of_them_away_is_reported_too(tmp_path: Path) -> None:
    async with FaultRelay() as one, FaultRelay() as two, FaultRelay() as three:
        for relay in (one, two, three):
            relay.on_req = _silent
        began = time.monotonic()
        found = await look(tmp_path, one.url, two.url, three.url)
    assert time.monotonic() - began < 2.9, "one after the other takes three seconds"
    assert len([f for f in found if "does not answer" in f.message]) == 3
    assert "no relay can be used" in found[-1].message


@pytest.mark.parametrize(
    ("seconds", "level", "way"), [(3_600, Level.FAULT, "3,60"), (-120, Level.WARNING, "behind"), (30, None, "")]
)
async def test_a_clock_that_is_wrong_is_reported_against_the_relays(
    tmp_path: Path, seconds: int, level: Level | None, way: str
) -> None:
    def dated(_: ServerConnection, __: Request, response: Response) -> Response:
        del response.headers["Date"]  # `serve` adds its own
        response.headers["Date"] = format_datetime(datetime.now(UTC) - timedelta(seconds=seconds), usegmt=True)
        return response

    async def honest(peer: ServerConnection) -> None:
        async for frame in peer:
            await peer.send(f'["EOSE","{str(frame).split(chr(34))[3]}"]')

    async with serve(honest, "127.0.0.1", 0, process_response=dated) as server:
        found = await look(tmp_path, f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")
    skewed = [f for f in found if "clock" in f.message]
    assert [f.level for f in skewed] == ([level] if level else [])
    assert all(way in f.message for f in skewed)


async def test_a_port_without_a_listener_and_a_name_that_is_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = await look(tmp_path, f"ws://127.0.0.1:{port}", "wss://no-such-host.invalid")
    assert "no relay listens there" in found[0].message
    assert f"`tenex relay --port {port}`" in found[0].fix
    assert "name is not known" in found[1].message or "no answer in time" in found[1].message


@pytest.mark.parametrize(
    ("greeting", "url", "message"),
    [
        (b"220 mail ready\r\n", "ws://127.0.0.1:{}", "it speaks no websocket there"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "ws://127.0.0.1:{}", "it answers HTTP 403"),
        (b"220 mail ready\r\n", "wss://localhost:{}", "no TLS"),
        (b"", "ws://127.0.0.1:{}", "no answer in time"),
        (None, "wss://127.0.0.1:{}", "it closes the connection without an answer"),
    ],
)
async def test_a_server_that_is_no_relay(tmp_path: Path, greeting: bytes | None, url: str, message: str) -> None:
    async with _raw(greeting) as port:
        (found,) = await look(tmp_path, url.format(port))
    assert message in found.message
    assert found.fix


@asynccontextmanager
async def _raw(greeting: bytes | None) -> AsyncIterator[int]:
    """A server that sends one thing, or nothing; with None it hangs up."""
    writers: list[asyncio.StreamWriter] = []  # one that is collected closes its connection

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if greeting is None:
            writer.transport.abort()
        elif greeting:
            writer.write(greeting)
            writer.write_eof()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for writer in writers:
                writer.transport.abort()


async def test_a_certificate_that_is_not_to_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def untrusted(*_: object, **__: object) -> None:
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_message = "self-signed certificate"
        raise error

    monkeypatch.setattr(module, "open_websocket", untrusted)
    (found,) = await look(tmp_path, "wss://localhost:1")
    assert found.message == "its certificate cannot be trusted: self-signed certificate"
