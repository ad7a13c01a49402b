"""The status port over real sockets: its answers, and that no client can block it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from tenex.core.errors import ConfigurationError
from tenex.features.metrics import http
from tenex.features.metrics.http import Health, StatusPort
from tenex.features.metrics.port import unreachable

HOST = "127.0.0.1"
FULL = "/data cannot be written to: No space left on device."


def relay(*, connected: bool = True, serves: bool = True, refused: tuple[str, ...] = (), fault: str = "") -> Any:
    return SimpleNamespace(
        url="ws://one", connected=connected, serves=serves, refused=refused, fault=fault, publish_only=False
    )


@pytest.fixture
def state() -> Any:
    """The readings of the parts."""
    disk, numbers = AsyncMock(return_value=""), Mock(return_value=b"tenex_turns 1\n")
    return SimpleNamespace(relays=[relay()], is_serving=True, disk=disk, numbers=numbers)


@pytest.fixture
async def port(state: Any) -> AsyncIterator[StatusPort]:
    health = Health(
        probe=lambda: state.disk(), unreachable=lambda: unreachable(state.relays, is_serving=state.is_serving)
    )
    port = StatusPort(health, lambda: state.numbers())
    await port.open(HOST, 0)
    yield port
    await port.close()


@asynccontextmanager
async def connection(port: StatusPort) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(port: StatusPort, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """One request as it is; status line, headers, body."""
    async with connection(port) as (reader, writer):
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 10)
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def get(port: StatusPort, path: str) -> tuple[int, Any]:
    status, headers, body = await ask(port, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    assert int(headers["Content-Length"]) == len(body)
    is_json = headers["Content-Type"] == "application/json"
    return int(status.split()[1]), json.loads(body) if is_json else body


async def is_well(port: StatusPort) -> bool:
    with suppress(OSError, KeyError):  # hung up on, with a reset or without an answer
        return (await get(port, "/healthz"))[0] == 200
    return False


@pytest.mark.parametrize(("method", "body"), [(b"GET", b"tenex_turns 1\n"), (b"HEAD", b"")])
async def test_the_numbers_are_prometheus_text(port: StatusPort, method: bytes, body: bytes) -> None:
    found = await ask(port, method + b" /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n")
    kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8", "Content-Length": "14"}
    assert found == ("HTTP/1.1 200 OK", {**kind, "Cache-Control": "no-store", "Connection": "close"}, body)


async def test_a_full_disk_is_unhealthy_with_its_reason(port: StatusPort, state: Any) -> None:
    state.disk = AsyncMock(return_value=FULL)
    for path in ("/healthz", "/readyz"):
        assert await get(port, path) == (503, {"ok": False, "faults": [FULL]})
    assert state.disk.call_count == 1, "the disk is flushed for us: an answer of it holds for some seconds"


async def test_a_disk_that_hangs_is_probed_once_and_blocks_no_client(
    port: StatusPort, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "PROBE_TIMEOUT", 0.05)
    monkeypatch.setattr(http, "PROBE_EVERY", 0.0)
    repaired = asyncio.Event()

    async def hangs() -> str:
        await repaired.wait()
        return ""

    well, state.disk = state.disk, AsyncMock(side_effect=hangs)
    for _ in range(3):
        code, answer = await get(port, "/healthz")
        assert (code, state.disk.call_count) == (503, 1)
        assert "has not answered" in answer["faults"][0]
    repaired.set()
    state.disk = well
    assert await get(port, "/healthz") == (200, {"ok": True, "faults": []})


@pytest.mark.parametrize(
    ("relays", "sentence"),
    [
        ([relay(connected=False, serves=False, fault="refused")], "ws://one is not connected: refused"),
        ([relay(connected=False, serves=False)], "ws://one is not connected"),
        ([relay(serves=False)], "ws://one is connected and does not serve"),
        ([relay(serves=False, refused=("addressed: auth-required",))], "ws://one refuses: addressed: auth-required"),
        ([], "there is no relay in the settings"),
    ],
)
async def test_without_a_relay_that_serves_it_is_well_and_not_ready(
    port: StatusPort, state: Any, relays: list[Any], sentence: str
) -> None:
    state.relays = relays
    assert await get(port, "/readyz") == (503, {"ok": False, "faults": [sentence]})
    assert (await get(port, "/healthz"))[0] == 200
    state.relays = [*relays, relay()]
    assert await get(port, "/readyz") == (200, {"ok": True, "faults": []})
    state.is_serving = False
    code, answer = await get(port, "/readyz")
    assert (code, "not admitted" in answer["faults"][0]) == (503, True)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 Method Not Allowed"),
        (b"hello\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/2.0\r\nHost: localhost\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x00\r\n\r\n", "400 Bad Request"),
    ],
)
async def test_what_it_does_not_know_it_refuses(port: StatusPort, request_: bytes, status: str) -> None:
    assert (await ask(port, request_))[0] == f"HTTP/1.1 {status}"


async def test_a_request_without_end_is_refused(port: StatusPort) -> None:
    async with connection(port) as (reader, writer):
        writer.write(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20_000)
        try:
            answer = await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:  # hung up on while it was still talking
            answer = b"HTTP/1.1 431"
        assert answer.startswith(b"HTTP/1.1 431")
    assert (await get(port, "/healthz"))[0] == 200


async def test_a_silent_client_is_disconnected(port: StatusPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.05)
    async with connection(port) as (reader, writer):
        writer.write(b"GET /met")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 10)


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/"])
@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"evil.example:9464",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"x",
        b"localhost@evil.example",
        b"evil.example/127.0.0.1",
        b"[::1].evil.example",
        b"localhost..",
        b"",
    ],
)
async def test_a_name_that_is_not_this_machine_s_is_refused(port: StatusPort, path: str, host: bytes) -> None:
    """As a browser sends it for a page whose name was pointed to this machine after it was loaded."""
    status, _, body = await ask(port, b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path.encode(), host))
    assert (status, b"tenex_turns" in body) == ("HTTP/1.1 421 Misdirected Request", False)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9464",
        "LocalHost",
        "localhost.:9464",
        "[::1]:9464",
        "[::1]",
        "10.0.0.7:9464",
        socket.gethostname(),
        "tenex:9464",
        "Metrics.Example.",
    ],
)
async def test_addresses_and_configured_names_are_answered(state: Any, host: str) -> None:
    health = Health(probe=AsyncMock(return_value=""), unreachable=list)
    port = StatusPort(health, state.numbers, ["tenex", "metrics.example"])
    await port.open(HOST, 0)
    try:
        assert (await ask(port, f"GET /metrics HTTP/1.1\r\nhost:{host}\r\n\r\n".encode()))[0] == "HTTP/1.1 200 OK"
    finally:
        await port.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHOST : evil.example\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost, evil.example\r\n\r\n", 421),
        (b"GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET http://localhost/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET http:///metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET //evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    ],
)
async def test_a_request_names_one_host_in_its_head_and_its_target(
    port: StatusPort, request_: bytes, status: int
) -> None:
    assert (await ask(port, request_))[0].split()[1] == str(status)


async def test_hundreds_of_slow_clients_do_not_block_the_health_check(port: StatusPort) -> None:
    """They send a byte now and then, and connect again as soon as they are disconnected."""
    ended = asyncio.Event()

    async def slow() -> None:
        while not ended.is_set():
            with suppress(OSError):
                async with connection(port) as (reader, writer):
                    while not ended.is_set() and not reader.at_eof():
                        writer.write(b"G")
                        with suppress(TimeoutError):
                            await asyncio.wait_for(reader.read(1), 0.2)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(http.CLIENTS + 50):
            group.create_task(slow())
        while len(port._clients) < http.CLIENTS:
            await asyncio.sleep(0)
        try:
            for _ in range(10):
                assert await is_well(port)
                assert len(port._clients) <= http.CLIENTS
        finally:
            ended.set()


async def test_clients_that_read_no_answer_are_disconnected_and_block_nobody(
    port: StatusPort, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CLIENTS", 8)
    state.numbers = Mock(return_value=b"x" * 16 * 1024**2)  # more than the system buffers
    async with asyncio.timeout(60), AsyncExitStack() as crowd:
        for _ in range(3 * http.CLIENTS):
            _, writer = await crowd.enter_async_context(connection(port))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(5):
            assert await is_well(port)


async def test_an_answer_that_is_not_read_ends_with_the_time_of_a_request(
    port: StatusPort, state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is smaller than what is buffered in this process, for which nothing waits by itself."""
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.2)
    state.numbers = Mock(return_value=b"x" * 60 * 1024)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        for server in port._server.sockets if port._server is not None else ():
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        await loop.sock_connect(client, (HOST, port.port))
        await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(30):
            while not port._clients:
                await asyncio.sleep(0)
            (task,) = port._clients
            await asyncio.wait([task])
    assert not port._clients


async def test_a_fault_of_ours_is_an_answer_too(port: StatusPort, state: Any) -> None:
    state.numbers = Mock(side_effect=KeyError("a gauge"))
    assert (await get(port, "/metrics"))[0] == 500
    assert (await get(port, "/healthz"))[0] == 200


async def test_a_port_in_use_is_reported_at_start() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        number = taken.getsockname()[1]
        health = Health(probe=AsyncMock(return_value=""), unreachable=list)
        with pytest.raises(ConfigurationError, match=rf"^metrics.port: {number} on 127.0.0.1 is in use"):
            await StatusPort(health, bytes).open(HOST, number)
        with pytest.raises(ConfigurationError, match=r"^metrics.host: cannot listen on 192.0.2.1"):
            await StatusPort(health, bytes).open("192.0.2.1", 0)


async def test_closing_hangs_up_and_may_be_repeated(port: StatusPort) -> None:
    async with connection(port) as (reader, writer):
        writer.write(b"GET /met")
        await get(port, "/healthz")  # by now the other one is being served
        await port.close()
        await port.close()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 10)
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection(HOST, port.port)
