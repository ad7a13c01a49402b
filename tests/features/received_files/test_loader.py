"""Pictures of messages: loaded from real servers over TLS, at public addresses, in bounded size, number and time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.features.pictures import loader as pictures
from tenex.features.pictures.loader import PictureLoader
from tenex.nostr import addresses
from tenex.store import pictures as folder
from tenex.store.pictures import PictureFolder, media_type
from tests.fakes.certificates import certificate
from tests.kits.addresses import Server, resolving_to

DOMAIN = "media.example"
PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.fixture
async def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Server, str]]:
    """A server of pictures and its address; loopback counts as public here, and its certificate is trusted."""
    trusted, context = certificate(tmp_path, DOMAIN)
    server = Server()
    server.body = PNG
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context) as listening:
        monkeypatch.setattr(addresses, "_is_public", lambda _: True)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield server, f"https://{DOMAIN}:{listening.sockets[0].getsockname()[1]}/cat.png?size=1"


async def test_a_picture_is_loaded_once_and_kept_for_the_daemons_user_alone(
    web: tuple[Server, str], tmp_path: Path
) -> None:
    server, address = web
    kept = PictureFolder(tmp_path / "pictures")
    assert await PictureLoader(kept).load([address]) == ()
    assert await PictureLoader(kept).load([address]) == ()
    (head,) = server.asked
    assert head.splitlines()[0] == "GET /cat.png?size=1 HTTP/1.1"
    picture = kept.read(address)
    assert picture is not None
    assert (picture.data, picture.media_type) == (PNG, "image/png")
    (file,) = (tmp_path / "pictures").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        ("200 OK", b"<html>", "it is no PNG, JPEG, GIF or WebP"),
        ("404 Not Found", PNG, f"{DOMAIN} answers HTTP 404"),
        ("302 Found", PNG, f"{DOMAIN} answers HTTP 302"),
        ("200 OK", PNG + b"x" * 100, "it has more than 0.00 MB"),
    ],
)
async def test_what_is_no_picture_is_not_kept(
    web: tuple[Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, body: bytes, why: str
) -> None:
    server, address = web
    server.status = status
    server.body = body
    monkeypatch.setattr(pictures, "MOST_BYTES", 50)
    kept = PictureFolder(tmp_path / "pictures")
    assert await PictureLoader(kept).load([address]) == (why,)
    assert kept.read(address) is None


@pytest.mark.parametrize(
    "address", ["https://[x].png", "https://a\u2100b.example/cat.png", "https://a.example:x/cat.png"]
)
async def test_an_address_that_is_none_is_a_fault_like_others(tmp_path: Path, address: str) -> None:
    (fault,) = await PictureLoader(PictureFolder(tmp_path)).load([address])
    assert fault


async def test_what_goes_wrong_unexpectedly_is_a_fault_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(PictureFolder, "has", fails)
    loader = PictureLoader(PictureFolder(tmp_path))
    assert await loader.load([f"https://{DOMAIN}/cat.png"]) == (f"{DOMAIN} does not answer, or it cannot be kept",)


async def test_a_server_that_is_silent_is_not_waited_for(
    web: tuple[Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, address = web
    server.answers = False
    monkeypatch.setattr(pictures, "TIMEOUT", 0.05)
    loader = PictureLoader(PictureFolder(tmp_path / "pictures"))
    assert await loader.load([address]) == (f"{DOMAIN} has not given it within 0.05 s",)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "192.168.1.2", "10.0.0.1", "printer.local", "0x7f.1"]
)
async def test_nothing_is_asked_at_a_private_address(tmp_path: Path, host: str) -> None:
    (fault,) = await PictureLoader(PictureFolder(tmp_path)).load([f"https://{host}:1/cat.png"])
    assert fault.endswith(" is not at a public address")


async def test_a_name_that_resolves_to_a_private_address_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    loader = PictureLoader(PictureFolder(tmp_path))
    assert await loader.load([f"https://{DOMAIN}/cat.png"]) == (f"{DOMAIN} is not at a public address",)


def test_the_newest_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "KEPT", 2)
    kept = PictureFolder(tmp_path)
    for number in range(4):
        kept.write(f"https://{DOMAIN}/{number}.png", PNG)
    assert len(list(tmp_path.iterdir())) == 2
    assert kept.has(f"https://{DOMAIN}/3.png")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "image/webp"),
        (b"RIFF1234WAVE", ""),
        (b"<svg>", ""),
        (b"", ""),
    ],
)
def test_a_picture_is_known_by_how_it_begins(data: bytes, kind: str) -> None:
    assert media_type(data) == kind


def test_a_file_that_another_message_removes_at_the_same_time_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = PictureFolder(tmp_path / "pictures")
    kept.write("https://a.example/1.png", PNG)
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [*glob(path, pattern), path / ("0" * 64)])
    kept.write("https://a.example/2.png", PNG)
    assert kept.read("https://a.example/2.png") is not None
