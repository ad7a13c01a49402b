"""Names such as alice@example.com: asked at the domain itself, over TLS, at a public address, in bounded time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr import addresses, identifiers
from tenex.nostr.identifiers import is_identifier, look_up
from tests.fakes.certificates import certificate
from tests.kits.addresses import PRIVATE, Server, resolving_to

from .kit import ALICE

DOMAIN = "people.example"


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """The domain's server; loopback counts as public here, and its certificate is trusted."""
    trusted, context = certificate(tmp_path, DOMAIN)
    web = Server()
    async with await asyncio.start_server(web.handle, "127.0.0.1", 0, ssl=context) as listening:
        monkeypatch.setattr(identifiers, "_PORT", listening.sockets[0].getsockname()[1])
        monkeypatch.setattr(addresses, "is_public", lambda _: True)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield web


@pytest.mark.parametrize("text", [f"alice@{DOMAIN}", f" Alice@{DOMAIN.upper()} ", f"_@{DOMAIN}"])
async def test_a_name_is_asked_for_at_its_domain(server: Server, text: str) -> None:
    assert await look_up(text) == ALICE.public
    (head,) = server.asked
    assert head.startswith(f"GET /.well-known/nostr.json?name={text.strip().lower().partition('@')[0]} HTTP/1.1\r\n")
    assert f"\r\nHost: {DOMAIN}:{identifiers._PORT}\r\n" in head


def refusing(**changes: object) -> Callable[[Server], None]:
    def change(server: Server) -> None:
        for name, value in changes.items():
            setattr(server, name, value)

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bob", refusing(), f"{DOMAIN} does not know the name bob"),
        ("broken", refusing(), "has no key of 64 hex digits for broken"),
        ("listed", refusing(), "has no key of 64 hex digits for listed"),
        ("alice", refusing(status="302 Found", head="Location: https://other.example/\r\n"), "answers with a redirect"),
        ("alice", refusing(status="404 Not Found"), "answers HTTP 404"),
        ("alice", refusing(body=b"<html>"), "is not JSON"),
        ("alice", refusing(body=b"[" * 100_000), "is not JSON"),
        ("alice", refusing(body=b"[]"), "does not know the name"),
        ("alice", refusing(body=b'{"names": []}'), "does not know the name"),
        ("alice", refusing(body=b" " * 600_000), "is too large"),
        ("alice", refusing(body=json.dumps({"names": {"alice": "ff" * 32}}).encode()), "not a public key"),
    ],
)
async def test_an_answer_without_a_key_is_a_sentence(
    server: Server, name: str, change: Callable[[Server], None], message: str
) -> None:
    change(server)
    with pytest.raises(ValueError, match=message):
        await look_up(f"{name}@{DOMAIN}")
    assert len(server.asked) == 1, "a redirect is not followed"


async def test_a_server_that_says_nothing_is_waited_for_in_bounded_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = False
    monkeypatch.setattr(identifiers, "_TIMEOUT", 0.2)
    with pytest.raises(ValueError, match=f"{DOMAIN} has not answered within 0.2 s"):
        await look_up(f"alice@{DOMAIN}")


async def test_the_certificate_has_to_be_that_of_the_domain(server: Server) -> None:
    with pytest.raises(ValueError, match=r"other\.example does not answer: .*certificate"):
        await look_up("alice@other.example")
    assert not server.asked


async def test_a_domain_that_is_not_public_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [host for host in PRIVATE if ":" not in host and "[" not in host]
    for host in names:
        with pytest.raises(ValueError, match=r"is not at a public address|a name is written"):
            await look_up(f"alice@{host}")
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("8.8.8.8", "10.0.0.1"))
    with pytest.raises(ValueError, match=r"rebind\.example is not at a public address"):
        await look_up("alice@rebind.example")


@pytest.mark.parametrize(
    "text", ["@", "alice@", f"@{DOMAIN}", f"a b@{DOMAIN}", f"alice@{DOMAIN}/x", f"a@b@{DOMAIN}", f"al:ce@{DOMAIN}"]
)
async def test_what_is_no_such_name_is_asked_nowhere(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> None:
        raise AssertionError("resolved")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    with pytest.raises(ValueError, match="name@domain"):
        await look_up(text)


def test_a_name_is_known_by_its_sign() -> None:
    assert is_identifier("alice@example.com")
    assert not is_identifier(ALICE.npub)
