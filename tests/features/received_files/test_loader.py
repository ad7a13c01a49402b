"""Files of messages: loaded from real servers over TLS, at public addresses, in bounded size, number and time."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ids import ConversationId
from tenex.core.inbox.received_files import FileEncryption, NamedFile, ReceivedFile
from tenex.core.values import replace
from tenex.features.received_files import loader as files
from tenex.features.received_files.loader import FileLoader
from tenex.features.received_files.transcription import NotTranscribed
from tenex.nostr import addresses
from tenex.nostr.encrypted_file import EncryptedFile, encrypt
from tenex.store import atomic, conversation_files
from tenex.store.pictures import PictureFolder
from tests.fakes.certificates import certificate
from tests.kits.addresses import Server, resolving_to
from tests.kits.connections import ends_with_its_test

DOMAIN = "media.example"
PNG = b"\x89PNG\r\n\x1a\n and more"
PDF = b"%PDF-1.7\n of a receipt"
VOICE = b"OggS of a voice"
HERE = ConversationId("a" * 64)


@pytest.fixture
async def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Server, str]]:
    """A server of files and its address; loopback counts as public here, and its certificate is trusted."""
    trusted, context = certificate(tmp_path, DOMAIN)
    server = Server()
    server.body = PNG
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context) as listening:
        monkeypatch.setattr(addresses, "is_public", lambda _: True)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield server, f"https://{DOMAIN}:{listening.sockets[0].getsockname()[1]}/"


class Inbox:
    """What a loader works on, and the files that are there afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "inbox"
        self.pictures = PictureFolder(folder / "pictures")
        self.said = ""
        """In every voice note."""
        self.permission = ""
        """For every file in the store of a relay."""

    @property
    def loader(self) -> FileLoader:
        async def change(work: Callable[..., Any], *arguments: Any) -> Any:
            return await asyncio.to_thread(work, *arguments)

        async def transcribe(file: Path, media_type: str) -> str:
            assert (file.read_bytes(), media_type) == (VOICE, "audio/ogg")
            if not self.said:
                raise NotTranscribed("no words were found in it")
            return self.said

        async def permit(file: NamedFile) -> str:
            return self.permission

        return FileLoader(self.pictures, lambda _: self.folder, lambda _: Path("/inbox"), change, transcribe, permit)

    async def load(self, *wanted: NamedFile | str) -> list[ReceivedFile]:
        sent = [NamedFile(address=file) if isinstance(file, str) else file for file in wanted]
        return list(await self.loader.load(sent, HERE))

    async def fault(self, wanted: NamedFile | str) -> str:
        (received,) = await self.load(wanted)
        assert received.path == ""
        assert self.there == {}
        return received.fault

    @property
    def there(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()} if self.folder.exists() else {}


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "data")


def declared(address: str, media_type: str = "application/pdf", **more: Any) -> NamedFile:
    return NamedFile(address=address, media_type=media_type, is_declared=True, **more)


# ---- what is loaded


async def test_a_picture_is_loaded_once_for_models_and_for_tools(web: tuple[Server, str], inbox: Inbox) -> None:
    server, base = web
    address = f"{base}cat.png?size=1"
    (first,) = await inbox.load(address)
    assert await inbox.load(address) == [first]
    (head,) = server.asked
    assert head.splitlines()[0] == "GET /cat.png?size=1 HTTP/1.1"
    assert (first.path, first.media_type, first.size) == ("/inbox/cat.png", "image/png", len(PNG))
    assert inbox.there == {"cat.png": PNG}
    picture = inbox.pictures.read(address)
    assert picture is not None
    assert (picture.data, picture.media_type) == (PNG, "image/png")
    assert (inbox.folder / "cat.png").stat().st_mode & 0o777 == 0o600, "of the daemon's user alone"


async def test_a_file_has_the_name_that_its_sender_or_its_server_gives_it(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, base = web
    server.body = PDF
    digest = "0f" * 32
    server.head = "Content-Type: application/pdf; charset=x\r\n"
    await inbox.load(declared(f"{base}{digest}", name="../../Receipt May.pdf"))
    await inbox.load(f"{base}folder/report%20one.pdf")
    server.body += b"2"
    await inbox.load(declared(f"{base}{digest}.pdf", media_type=""))
    server.head += 'Content-Disposition: attachment; filename="../invoice.pdf"\r\n'
    server.body += b"3"
    (named,) = await inbox.load(declared(f"{base}{digest}", media_type=""))
    assert named.media_type == "application/pdf"
    assert sorted(inbox.there) == ["Receipt_May.pdf", "file.pdf", "invoice.pdf", "report_one.pdf"]


async def test_the_same_file_twice_is_one_and_another_of_its_name_has_a_number(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, base = web
    server.body = PDF
    first = await inbox.load(f"{base}a/Scan.pdf", f"{base}b/Scan.pdf")
    server.body = PDF + b" of June"
    second = await inbox.load(f"{base}c/scan.pdf")
    assert [file.path for file in first + second] == ["/inbox/Scan.pdf", "/inbox/Scan.pdf", "/inbox/scan-2.pdf"]
    assert inbox.there == {"Scan.pdf": PDF, "scan-2.pdf": PDF + b" of June"}


def encrypted(base: str, made: EncryptedFile, **changed: str) -> NamedFile:
    values = {"algorithm": "aes-gcm", "key": made.key, "nonce": made.nonce, "digest": made.ox, **changed}
    return declared(f"{base}{made.x}", digest=made.x, name="receipt.pdf", encryption=FileEncryption(**values))


async def test_an_encrypted_file_is_kept_as_it_was_before(web: tuple[Server, str], inbox: Inbox) -> None:
    server, base = web
    made = encrypt(PDF)
    server.body = made.data
    (received,) = await inbox.load(encrypted(base, made))
    assert (received.path, received.size) == ("/inbox/receipt.pdf", len(PDF))
    assert inbox.there == {"receipt.pdf": PDF}


async def test_an_encrypted_picture_is_not_shown_to_who_names_its_address_elsewhere(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, base = web
    made = encrypt(PNG)
    server.body = made.data
    file = replace(encrypted(base, made), media_type="image/png", name="receipt.png")
    (received,) = await inbox.load(file)
    assert received.address == f"{file.address}#{sha256(PNG).hexdigest()}"
    picture = inbox.pictures.read(received.address)
    assert picture is not None
    assert picture.data == PNG
    assert not inbox.pictures.has(file.address)


async def test_a_picture_that_is_kept_is_another_than_was_sent_if_its_digest_differs(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, base = web
    address = f"{base}cat.png"
    await inbox.load(address)
    server.body = PNG + b" of today"
    file = declared(address, media_type="image/png", digest=sha256(server.body).hexdigest())
    (received,) = await inbox.load(file)
    assert inbox.there[received.name] == server.body


async def test_an_archive_is_bytes_like_all_others(web: tuple[Server, str], inbox: Inbox) -> None:
    """Nothing is unpacked, whatever it says of itself; nor is the answer of a server."""
    server, base = web
    server.body = b"PK\x03\x04" + bytes(1000)
    server.head = "Content-Encoding: gzip\r\n"
    (received,) = await inbox.load(f"{base}bomb.zip")
    assert received.size == 1004
    assert inbox.there == {"bomb.zip": server.body}


async def test_a_voice_note_has_a_transcript_or_why_not(web: tuple[Server, str], inbox: Inbox) -> None:
    server, base = web
    server.body = VOICE
    (mute,) = await inbox.load(declared(f"{base}note", "audio/ogg"))
    assert (mute.path, mute.transcript, mute.untranscribed) == ("/inbox/note.ogg", "", "no words were found in it")
    inbox.said = "Pay the rent."
    (spoken,) = await inbox.load(declared(f"{base}note", "audio/ogg"))
    assert (spoken.path, spoken.transcript, spoken.untranscribed) == ("/inbox/note.ogg", "Pay the rent.", "")


# ---- pictures that models are not shown


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("image/heic", b"\0\0\0\x18ftypheic", "models are shown PNG, JPEG, GIF and WebP"),
        ("image/png", PNG + bytes(100), "models are shown pictures of at most 50 bytes"),
    ],
)
async def test_a_picture_that_models_do_not_take_is_a_file_and_it_is_said_that_they_do_not_see_it(
    web: tuple[Server, str], inbox: Inbox, monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes, why: str
) -> None:
    server, base = web
    server.body = body
    monkeypatch.setattr(files, "MOST_BYTES", 50)
    (received,) = await inbox.load(declared(f"{base}photo", kind))
    assert (received.fault, received.unseen) == ("", why)
    assert list(inbox.there.values()) == [body]
    assert inbox.pictures.read(f"{base}photo") is None


# ---- what is not loaded, and why


@pytest.mark.parametrize(
    ("status", "head", "body", "why"),
    [
        ("200 OK", "", b"GIVE ME", "it is no PNG, JPEG, GIF or WebP"),
        ("200 OK", "", b"<html>", f"{DOMAIN} gives a page of the web (HTML) in its place"),
        ("404 Not Found", "", PNG, f"{DOMAIN} answers HTTP 404"),
        ("302 Found", "", PNG, f"{DOMAIN} answers HTTP 302"),
        ("200 OK", "", PNG + b"x" * 100, "it has more than 50 bytes"),
    ],
)
async def test_what_is_no_picture_is_not_kept(
    web: tuple[Server, str],
    inbox: Inbox,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    head: str,
    body: bytes,
    why: str,
) -> None:
    server, base = web
    server.status, server.head, server.body = status, head, body
    monkeypatch.setattr(files, "MOST_FILE_BYTES", 50)
    assert await inbox.fault(f"{base}cat.png") == why


async def test_a_page_in_place_of_a_declared_file_is_a_fault_and_of_a_link_it_is_a_link(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, base = web
    server.body = b"\n<!DOCTYPE html><title>Log in</title>"
    page = f"{DOMAIN} gives a page of the web (HTML) in its place"
    assert await inbox.fault(declared(f"{base}report.pdf")) == page
    assert await inbox.load(f"{base}README.md") == []
    server.body = b"Log in"
    server.head = "Content-Type: text/html\r\n"
    assert await inbox.fault(declared(f"{base}report.pdf")) == page
    assert inbox.there == {}


async def test_a_file_that_is_too_large_is_not_read_to_its_end(
    web: tuple[Server, str], inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one whose size is said, nor one that has no end."""
    server, _ = web
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{server.head}\r\n".encode())
        while not writer.is_closing():  # `drain` of a lost connection over TLS raises nothing
            writer.write(bytes(100_000))
            await writer.drain()
            await asyncio.sleep(0)
            sent += 100_000

    trusted, context = certificate(tmp_path, DOMAIN)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setattr(files, "MOST_FILE_BYTES", 1_000_000)
    async with await asyncio.start_server(ends_with_its_test(endless), "127.0.0.1", 0, ssl=context) as listening:
        address = f"https://{DOMAIN}:{listening.sockets[0].getsockname()[1]}/big.pdf"
        assert await inbox.fault(address) == "it has more than 1.0 MB"
        assert sent < 20_000_000
        server.head = f"Content-Length: {10 * 1024**3}\r\n"
        sent = 0
        assert await inbox.fault(address) == "it has more than 1.0 MB"
        assert sent < 20_000_000


async def test_another_file_than_was_sent_is_not_kept(web: tuple[Server, str], inbox: Inbox) -> None:
    server, base = web
    server.body = PDF
    other = f"{DOMAIN} gives another file than was sent (its SHA-256 differs)"
    assert await inbox.fault(declared(f"{base}a.pdf", digest=sha256(b"other").hexdigest())) == other
    made = encrypt(PDF)
    server.body = made.data[:-1] + bytes([made.data[-1] ^ 1])
    assert await inbox.fault(encrypted(base, made)) == other
    assert await inbox.fault(replace(encrypted(base, made), digest="")) == "the file is damaged, or its key is another"
    server.body = made.data
    wrong = encrypted(base, made, digest="00" * 32)
    assert await inbox.fault(wrong) == "it is another file than was sent (its SHA-256 differs)"
    unread = encrypted(base, made, algorithm="rot13")
    assert await inbox.fault(unread) == "it is encrypted by “rot13”; aes-gcm is read"
    assert "decryption-key" in await inbox.fault(encrypted(base, made, key="no key"))


async def test_a_disk_that_is_full_is_a_fault_like_others(
    web: tuple[Server, str], inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, base = web

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "replace", full)
    fault = await inbox.fault(f"{base}cat.png")
    assert fault == f"{DOMAIN} does not answer, or it cannot be kept (No space left on device)"


async def test_a_conversation_has_so_many_files_and_no_more(
    web: tuple[Server, str], inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, base = web
    monkeypatch.setattr(conversation_files, "MOST_FILES", 2)
    for number in range(3):
        server.body = PDF + bytes([number])
        (received,) = await inbox.load(f"{base}{number}.pdf")
    assert received.fault == "this conversation has 2 files, the most it may have"
    monkeypatch.setattr(conversation_files, "MOST_FILES", 3)
    monkeypatch.setattr(conversation_files, "MOST_BYTES", 2 * len(PDF) + 2)
    (received,) = await inbox.load(f"{base}3.pdf")
    assert received.fault.startswith("the files of this conversation would have more than")
    assert sorted(inbox.there) == ["0.pdf", "1.pdf"]


@pytest.mark.parametrize(
    "address", ["https://[x].png", "https://a\u2100b.example/cat.png", "https://a.example:x/cat.png", "cat.png", ""]
)
async def test_an_address_that_is_none_is_a_fault_like_others(inbox: Inbox, address: str) -> None:
    assert await inbox.fault(declared(address))


async def test_only_https_is_read(inbox: Inbox) -> None:
    assert await inbox.fault(declared("http://a.example/a.pdf")) == "only https addresses are read"
    assert await inbox.fault(declared("file:///etc/passwd")) == "only https addresses are read"


async def test_what_goes_wrong_unexpectedly_is_a_fault_like_others(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(PictureFolder, "read", fails)
    assert await inbox.fault(f"https://{DOMAIN}/cat.png") == f"{DOMAIN} does not answer, or it cannot be kept"


@pytest.mark.parametrize("name", ["cat.png", "report.pdf"])
async def test_a_server_that_is_silent_is_not_waited_for(
    web: tuple[Server, str], inbox: Inbox, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server, base = web
    server.answers = False
    monkeypatch.setattr(files, "TIMEOUT", 0.05)
    monkeypatch.setattr(files, "FILE_TIMEOUT", 0.05)
    assert await inbox.fault(f"{base}{name}") == f"{DOMAIN} has not given it within 0.05 s"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "192.168.1.2", "10.0.0.1", "printer.local", "0x7f.1"]
)
async def test_nothing_is_asked_at_a_private_address(inbox: Inbox, host: str) -> None:
    assert (await inbox.fault(f"https://{host}:1/cat.png")).endswith(" is not at a public address")


async def test_a_name_that_resolves_to_a_private_address_is_not_asked(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert await inbox.fault(f"https://{DOMAIN}/cat.png") == f"{DOMAIN} is not at a public address"


async def test_a_file_in_the_store_of_a_relay_is_asked_for_with_an_authorization_and_never_elsewhere(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    server, address = web
    file = declared(f"{address}photo.png", "image/png", store="wss://relay.example", room="r")
    await inbox.load(file)
    assert "Authorization" not in server.asked[-1], "no key of ours is in that room"

    inbox.permission = "Nostr e30"
    (received,) = await inbox.load(file)
    assert "\r\nAuthorization: Nostr e30\r\n" in server.asked[-1], "what is there already was not taken for it"
    assert (received.fault, received.unseen) == ("", "")
    shown = inbox.pictures.read(file.address)
    assert shown is not None
    assert shown.data == PNG
    asked = len(server.asked)
    server.status = "302 Found"
    server.head = f"Location: {address}elsewhere\r\n"
    (received,) = await inbox.load(file)
    assert received.fault == f"{DOMAIN} answers HTTP 302"
    assert len(server.asked) == asked + 1


async def test_a_picture_for_members_of_a_room_is_given_to_no_one_by_its_address(
    web: tuple[Server, str], inbox: Inbox
) -> None:
    """Models are shown it by an address that only who has the picture can name."""
    server, base = web
    address = f"{base}cat.png"
    inbox.permission = "Nostr e30"
    (shown,) = await inbox.load(NamedFile(address=address, store="wss://relay.example", room="kitchen"))
    assert shown.address == f"{address}#{sha256(PNG).hexdigest()}"
    assert inbox.pictures.has(shown.address)
    assert not inbox.pictures.has(address)
    inbox.permission = ""
    server.body = b"<!doctype html> not for you"
    (elsewhere,) = await inbox.load(address)
    assert elsewhere.path == ""
