"""Uploads to a Blossom server: what it stores is what was sent, and what it answers is checked."""

import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from tenex.core.errors import FileNotSent
from tenex.nostr import blossom
from tenex.nostr.blossom import SERVER_LIST, FileServer, servers_in, upload
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey
from tests.kits.blossom_server import BlossomServer, Fault, blossom_server

KEY = SecretKey.generate()
DATA = b"\x89PNG\r\n\x1a\n of a chart"
DIGEST = sha256(DATA).hexdigest()


async def signed(event: Any) -> Event:
    return sign(event, KEY)


def now() -> int:
    return int(time.time())


async def sent(*servers: FileServer, at: int = 0, sign_with: Callable[[Any], Awaitable[Event]] = signed) -> str:
    return await upload(servers, DATA, "image/png", KEY.public, sign_with, at or now())


def trusted(server: BlossomServer) -> FileServer:
    return FileServer(server.url, is_trusted=True)


async def test_a_file_is_stored_with_an_authorization_that_another_library_verifies() -> None:
    with blossom_server() as server:
        url = await sent(trusted(server))
        assert url == f"{server.url}/{DIGEST}.png"
        assert server.read(url) == DATA
        assert server.blobs[DIGEST][1] == "image/png"
        assert (server.refused, server.authors) == ([], [KEY.public])


async def test_what_a_server_has_is_not_uploaded_again() -> None:
    with blossom_server() as server:
        assert await sent(trusted(server)) == await sent(trusted(server))
        assert server.uploads == [DIGEST]


async def test_a_file_of_the_same_hash_and_another_size_is_no_proof_that_it_is_there() -> None:
    with blossom_server() as server:
        server.blobs[DIGEST] = (b"a page for every address", "text/html")
        assert server.read(await sent(trusted(server))) == DATA


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("401", "127.0.0.1 answers HTTP 401: this key may not upload"),
        ("413", "127.0.0.1 answers HTTP 413: no room"),
        ("503", "127.0.0.1 answers HTTP 503: no room"),
        ("redirect", "127.0.0.1 answers HTTP 307"),
        ("slow", "127.0.0.1 has not taken it within 0.3 s"),
        ("other hash", "127.0.0.1 has stored something else than what it was sent"),
        ("other size", "127.0.0.1 has stored something else than what it was sent"),
        ("no json", "127.0.0.1 does not answer as a Blossom server"),
        ("long", "127.0.0.1 does not answer as a Blossom server"),
        ("other url", "127.0.0.1 gives no usable address of the file"),
    ],
)
async def test_what_a_server_refuses_or_answers_wrongly_is_said_and_the_next_is_asked(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, sentence: str
) -> None:
    monkeypatch.setattr(blossom, "UPLOADING", 0.3 if fault == "slow" else 30.0)
    with blossom_server(fault) as server, blossom_server() as other:
        with pytest.raises(FileNotSent) as failed:
            await sent(trusted(server))
        assert str(failed.value).startswith(sentence)
        assert str(failed.value).isprintable(), "what a server says steers no terminal"
        monkeypatch.setattr(blossom, "UPLOADING", 30.0)
        server.fault = "413"
        server.blobs.clear()
        assert (await sent(trusted(server), trusted(other))).startswith(other.url)


async def test_an_authorization_that_has_expired_is_refused_by_the_server() -> None:
    with blossom_server() as server, pytest.raises(FileNotSent, match="HTTP 401: it has expired"):
        await sent(trusted(server), at=now() - 3_600)


async def test_a_server_that_others_name_is_not_asked_at_a_private_address() -> None:
    with blossom_server() as server:
        with pytest.raises(FileNotSent, match=r"127\.0\.0\.1 is not at a public address"):
            await sent(FileServer(server.url))
        assert server.uploads == []


async def test_no_server_at_all_and_one_that_is_away_are_said() -> None:
    with pytest.raises(FileNotSent, match="there is no file server"):
        await sent()
    with blossom_server() as server:
        pass
    with pytest.raises(FileNotSent, match=r"127\.0\.0\.1 cannot be reached \(ConnectError\)"):
        await sent(trusted(server))


def test_of_a_persons_list_the_first_public_servers_count() -> None:
    listed = [
        "https://one.example/",
        "http://plain.example",
        "https://127.0.0.1",
        "https://printer.local",
        "https://user:word@two.example",
        "https://two.example/?token=1",
        "wss://relay.example",
        "https://[",
        "https://two.example:8443",
        "https://one.example",
        "https://three.example",
        "https://four.example",
    ]
    tags = [["server", url] for url in listed]
    event = sign(
        unsigned_event(KEY.public, now(), SERVER_LIST, [*tags, ["server"], ["r", "https://no.example"]], ""), KEY
    )
    assert servers_in(event) == (
        FileServer("https://one.example"),
        FileServer("https://two.example:8443"),
        FileServer("https://three.example"),
    )
