"""CONNECT reaches the hosts of the agent's file, and nothing else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.features.acp_agents import tunnels
from tenex.features.acp_agents.tunnels import Tunnels

from .proxy_kit import config_for, listener, proxy
from .vendor_server import vendor_server


class EchoServer:
    """Gives back what it is sent; `heads` holds what came first on each connection."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def running(self, *, is_proxy: bool = False) -> AsyncIterator["EchoServer"]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if is_proxy:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self


@asynccontextmanager
async def serving(*hosts: str) -> AsyncIterator[tuple[Tunnels, int]]:
    """Tunnels, and their port."""
    listening = listener()
    made = Tunnels(listening, hosts)
    await made.start()
    try:
        yield made, listening.getsockname()[1]
    finally:
        await made.close()


async def ask(port: int, head: str) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a head; gives the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        answer = await reader.readuntil(b"\r\n\r\n")
    return answer.decode().splitlines()[0], reader, writer


async def refusal(port: int, head: str) -> str:
    """The status and the sentence of a refusal."""
    line, reader, writer = await ask(port, head)
    async with asyncio.timeout(20):
        said = (await reader.read()).decode().strip()
    writer.close()
    return f"{line.split()[1]} {said}"


async def echo(port: int, target: str) -> bytes:
    line, reader, writer = await ask(port, f"CONNECT {target} HTTP/1.1\r\nHost: {target}")
    assert line == "HTTP/1.1 200 Connection established"
    writer.write(b"hello" * 50_000)
    writer.write_eof()
    async with asyncio.timeout(20):
        back = await reader.read()
    writer.close()
    return back


async def test_a_named_address_is_reached_and_its_bytes_are_counted() -> None:
    async with EchoServer().running() as there, serving(f"127.0.0.1:{there.port}") as (made, port):
        assert await echo(port, f"127.0.0.1:{there.port}") == b"hello" * 50_000
        (traffic,) = made.traffic.values()
        assert (traffic.connections, traffic.sent, traffic.received) == (1, 250_000, 250_000)


async def test_other_hosts_ports_and_methods_are_refused() -> None:
    async with EchoServer().running() as there, serving(f"127.0.0.1:{there.port}", "login.example") as (made, port):
        for head, said in (
            ("CONNECT other.example:443 HTTP/1.1\r\nHost: a", "403 other.example:443 is not among the hosts"),
            ("CONNECT login.example:80 HTTP/1.1\r\nHost: a", "403 login.example:80 is not among the hosts"),
            ("CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: a", "403 127.0.0.1:1 is not among"),
            ("CONNECT sub.login.example:443 HTTP/1.1\r\nHost: a", "403 sub.login.example:443 is not among"),
            ("CONNECT @ HTTP/1.1\r\nHost: a", "400 The request names no host"),
            ("GET http://login.example/ HTTP/1.1\r\nHost: a", "405 Only CONNECT"),
            ("nonsense", "400 The request cannot be read"),
        ):
            assert (await refusal(port, head)).startswith(said)
        assert all(traffic.connections == 0 for traffic in made.traffic.values())


def resolving_to(*addresses: str) -> Any:
    async def getaddrinfo(host: str, port: int, **_: object) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return getaddrinfo


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["169.254.169.254"]])
async def test_a_name_of_a_private_address_is_refused(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to(*addresses))
    async with serving("login.example") as (_, port):
        said = await refusal(port, "CONNECT login.example:443 HTTP/1.1\r\nHost: a")
    assert said.startswith("403 login.example is not at a public address")


async def test_a_name_is_reached_at_the_address_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with EchoServer().running() as there, serving(f"Login.Example.:{there.port}") as (_, port):
        loop = asyncio.get_running_loop()
        answers = [resolving_to("127.0.0.2", "127.0.0.1"), resolving_to("192.0.2.1")]  # nothing listens at the first
        plain = loop.getaddrinfo

        async def getaddrinfo(host: str, port: int, **more: Any) -> Any:
            return await (answers.pop(0) if host == "login.example" else plain)(host, port, **more)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(tunnels, "is_public", lambda _: True)
        assert await echo(port, f"LOGIN.example:{there.port}") == b"hello" * 50_000


async def test_a_host_that_cannot_be_reached_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        there = unused.getsockname()[1]
        async with serving(f"127.0.0.1:{there}") as (_, port):
            said = await refusal(port, f"CONNECT 127.0.0.1:{there} HTTP/1.1\r\nHost: a")
    assert said.startswith("502 127.0.0.1 cannot be reached")


async def test_a_companys_proxy_is_used_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    company = EchoServer()
    async with company.running(is_proxy=True), serving("login.example") as (_, port):
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{company.port}")
        assert await echo(port, "login.example:443") == b"hello" * 50_000
    (head,) = company.heads
    assert head.startswith(b"CONNECT login.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in head


async def test_closing_ends_connections() -> None:
    async with EchoServer().running() as there:
        async with serving(f"127.0.0.1:{there.port}") as (_, port):
            _, reader, writer = await ask(port, f"CONNECT 127.0.0.1:{there.port} HTTP/1.1\r\nHost: a")
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()


async def test_a_client_that_leaves_ends_the_connection_to_the_host() -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        ended.set()
        writer.close()

    there = await asyncio.start_server(serve, "127.0.0.1", 0)
    target = f"127.0.0.1:{there.sockets[0].getsockname()[1]}"
    async with there, serving(target) as (_, port):
        _, _, writer = await ask(port, f"CONNECT {target} HTTP/1.1\r\nHost: a")
        writer.transport.abort()
        async with asyncio.timeout(20):
            await ended.wait()


@pytest.mark.parametrize("host", ["", "*.example", "https://a.example", "a.example/x", "a.example:0", "a:b", "u@a"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with listener() as listening, pytest.raises(ConfigurationError, match="is no host"):
        Tunnels(listening, [host])


async def test_a_proxy_has_an_address_for_hosts_only_where_there_are_some() -> None:
    async with vendor_server() as server:
        async with proxy(config_for(server)) as made:
            assert "proxy" not in made.addresses
            assert made.tunnels is None
        async with proxy(config_for(server), hosts=["login.example"]) as made:
            port = int(made.addresses["proxy"].rpartition(":")[2])
            assert (await refusal(port, "CONNECT a:443 HTTP/1.1\r\nHost: a")).startswith("403")
            assert made.tunnels is not None
            assert set(made.tunnels.traffic) == {"login.example:443"}
