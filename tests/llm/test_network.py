"""Certificates and proxies of the environment: what is wrong with a variable, and what a connection failed of."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenex.core.errors import ConfigurationError, ModelUnavailable
from tenex.llm.config import ProviderConfig
from tenex.llm.network import PROXY_LOGIN, fault_of
from tenex.llm.providers import make_provider
from tests.fakes.certificates import certificate

from .clients import client_for, work

VARIABLES = [name for one in ("https_proxy", "http_proxy", "all_proxy", "no_proxy") for name in (one, one.upper())]
TLS = ["SSL_CERT_FILE", "SSL_CERT_DIR"]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, *TLS):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SSL_CERT_FILE", "{tmp}/none.pem", "cannot be read (No such file or directory): unset it"),
        ("SSL_CERT_FILE", "{tmp}", "cannot be read (Is a directory): unset it"),
        ("SSL_CERT_FILE", "{tmp}/garbage.pem", "holds no certificates: unset it"),
        ("SSL_CERT_FILE", "{tmp}/empty.pem", "holds no certificates: unset it"),
        ("SSL_CERT_DIR", "{tmp}/none", "is no folder: unset it"),
        ("ALL_PROXY", "socks://127.0.0.1:9", "begins with socks://, which is not known: write socks5://"),
        ("all_proxy", "socks4://127.0.0.1:9", "begins with socks4://, which is not known"),
        ("https_proxy", "ftp://127.0.0.1:9", "begins with ftp://, which is not known: write http://"),
        ("HTTPS_PROXY", "http://127.0.0.1:abc", "holds no address of a proxy: write it as http://HOST:PORT"),
        ("HTTPS_PROXY", "http://127.0.0.1:99999999", "holds no address of a proxy"),
        ("HTTP_PROXY", "http://[::1:80", "holds no address of a proxy"),
        ("HTTP_PROXY", ":", "holds no address of a proxy"),
    ],
)
def test_a_variable_that_makes_every_request_impossible_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    (tmp_path / "garbage.pem").write_bytes(b"\x00\xff no certificate")
    (tmp_path / "empty.pem").write_bytes(b"")
    monkeypatch.setenv(name, value.format(tmp=tmp_path))
    for kind in ("openai", "anthropic"):
        with pytest.raises(ConfigurationError) as caught:
            make_provider(ProviderConfig(name="mine", kind=kind, api_key="sk-secret"))
        assert str(caught.value).startswith(f"models.providers.mine: the environment variable {name} ")
        assert expected in str(caught.value)


def test_a_socks_proxy_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenex.llm.network.importlib.util.find_spec", lambda _: None)
    found = fault_of({"ALL_PROXY": "socks5://u:secret@127.0.0.1:9"})
    assert found is not None
    assert "needs the package socksio: install it by" in found
    assert "secret" not in found
    assert fault_of({"ALL_PROXY": "http://127.0.0.1:9"}) is None


@pytest.mark.parametrize("value", ["http://127.0.0.1:9", "127.0.0.1:9", "localhost", "http://u:p@127.0.0.1", ""])
def test_what_clients_take_is_no_fault(value: str) -> None:
    assert fault_of({"HTTPS_PROXY": value, "no_proxy": "x", "PATH": "socks://"}) is None


def test_certificates_that_are_there_are_no_fault(tmp_path: Path) -> None:
    trusted, _ = certificate(tmp_path, "localhost")
    assert fault_of({"SSL_CERT_FILE": str(trusted), "SSL_CERT_DIR": "/none"}) is None
    assert fault_of({"SSL_CERT_DIR": str(tmp_path)}) is None


@asynccontextmanager
async def listening(answer: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(attend, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def failure(base_url: str) -> str:
    client = client_for(ProviderConfig(name="local", kind="openai", base_url=base_url, api_key="k"))
    with pytest.raises(ModelUnavailable) as caught:
        await client.step(work())
    await client.close()
    return str(caught.value)


async def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    _, context = certificate(tmp_path, "localhost")
    async with listening(b"", context) as port:
        said = await failure(f"https://localhost:{port}/v1")
    assert "has a certificate that is not trusted here (self" in said
    assert "let SSL_CERT_FILE name a file that holds that CA" in said


async def test_a_proxy_that_wants_a_login_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with listening(answer) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        said = await failure("https://models.example/v1")
        assert "is behind a proxy that refuses the connection (407" in said
        assert PROXY_LOGIN in said
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        said = await failure("http://models.example/v1")
        assert f"is behind a proxy that wants a login (407): {PROXY_LOGIN}" in said
        assert "choose another model" not in said
