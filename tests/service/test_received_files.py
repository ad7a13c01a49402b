"""A real daemon, a real relay, a real server of files: what becomes of files that a person sends."""

import asyncio
import hashlib
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenex.app import open_application
from tenex.core import records as r
from tenex.feature import extensions_of
from tenex.features.received_files.loader import FILE_TIMEOUT
from tenex.main import FEATURES
from tenex.nostr.encrypted_file import EncryptedFile, encrypt
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import load
from tests.fakes.certificates import certificate
from tests.kits.addresses import Server
from tests.kits.direct_messages import began, listening, sdk, theirs
from tests.kits.transcription_server import transcription_server
from tests.programs import needs_bubblewrap

from . import person
from .kit import Folder, of_kind, ordered

DOMAIN = "media.example"
RECEIPT = b"Receipt\ntotal 12.50\n"


class Media(Server):
    """A server of files that the daemon finds under a public name."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        trusted, self.context = certificate(place, DOMAIN)
        self.environment = {"SSL_CERT_FILE": str(trusted)}
        self.port = 0

    def at(self, path: str) -> str:
        return f"https://{DOMAIN}:{self.port}/{path}"


@pytest.fixture
async def media(tmp_path: Path) -> AsyncIterator[Media]:
    server = Media(tmp_path)
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=server.context) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def reading(folder: Folder, media: Media, **more: Any) -> Any:
    """The daemon whose executor looks into what was sent."""
    return ordered(folder, model="reader", is_here=True, env=media.environment, **more)


def encrypted(folder: Folder, media: Media, made: EncryptedFile, *tags: list[str]) -> person.Wire:
    """A kind 15 in its gift wrap, as rust-nostr makes it."""
    described = [
        ["file-type", next((tag[1] for tag in tags if tag[0] == "m"), "text/plain")],
        ["encryption-algorithm", "aes-gcm"],
        ["decryption-key", made.key],
        ["decryption-nonce", made.nonce],
        ["x", made.x],
        ["ox", made.ox],
        *tags,
    ]
    builder = sdk.EventBuilder(sdk.Kind(15), media.at(made.x)).tags(
        [sdk.Tag.parse(tag) for tag in [["p", folder.project.public], *described]]
    )
    rumor = builder.finalize_unsigned(theirs(folder.owner).public_key())
    wrap = sdk.nip59_make_gift_wrap(theirs(folder.owner), sdk.PublicKey.parse(folder.project.public), rumor)
    made_wire: person.Wire = json.loads(wrap.as_json())
    return made_wire


async def ended(folder: Folder, name: str) -> str:
    """What the executor says in the end."""

    def answer() -> str:
        runs = of_kind(folder.records(name), r.RunEnded)
        return runs[-1].text if runs else ""

    said: str = await person.until(answer)
    return said


def written(folder: Folder, name: str) -> r.MessageRecorded:
    record: r.MessageRecorded
    (record,) = of_kind(folder.records(name), r.MessageRecorded)
    return record


@needs_bubblewrap
async def test_an_encrypted_file_of_another_library_is_read_by_the_agents_tools(
    tmp_path: Path, relay: str, media: Media
) -> None:
    folder = Folder(tmp_path / "data", relay)
    made = encrypt(RECEIPT)
    media.body = made.data
    wrap = encrypted(folder, media, made, ["name", "../../Receipt May.txt"])
    async with reading(folder, media):
        await listening(folder)
        await person.publish(relay, wrap)
        name = await began(folder, 2)
        said = await ended(folder, name)

    record = written(folder, name)
    assert record.text == "[file: ../../Receipt May.txt]"
    assert record.context == "It came with this file: /inbox/Receipt_May.txt (text/plain, 20 bytes)"
    assert (folder.conversation(name) / "inbox" / "Receipt_May.txt").read_bytes() == RECEIPT
    assert made.key not in (folder.conversation(name) / "journal.jsonl").read_text()
    assert hashlib.sha256(RECEIPT).hexdigest() in said, "by a program in the sandbox"
    assert "/inbox/Receipt_May.txt\n" in said
    assert "2\ttotal 12.50" in said
    assert "/inbox/Receipt_May.txt:2: total 12.50" in said
    assert "lies outside the workspace" in said
    assert "changed" not in (folder.conversation(name) / "inbox" / "Receipt_May.txt").read_text()
    assert not list(folder.workspace.rglob("*Receipt*"))


async def test_a_daemon_that_is_killed_while_it_loads_a_file_has_it_once_afterwards(
    tmp_path: Path, relay: str, media: Media
) -> None:
    folder = Folder(tmp_path / "data", relay)
    made = encrypt(RECEIPT)
    media.body = made.data
    media.answers = False
    async with reading(folder, media) as first:
        await listening(folder)
        await person.publish(relay, encrypted(folder, media, made, ["filename", "receipt.txt"]))
        await person.until(lambda: media.asked)
        first.signal(signal.SIGKILL)
        assert await first.ended() == -signal.SIGKILL
    assert len(folder.names) <= 2
    media.answers = True
    async with reading(folder, media):
        name = await began(folder, 2)
        await ended(folder, name)
    assert written(folder, name).files[0].path == "/inbox/receipt.txt"
    assert [path.name for path in (folder.conversation(name) / "inbox").iterdir()] == ["receipt.txt"]


async def test_a_daemon_that_stops_while_it_loads_a_file_says_that_it_has_none(
    tmp_path: Path, relay: str, media: Media
) -> None:
    folder = Folder(tmp_path / "data", relay)
    media.answers = False
    async with reading(folder, media) as first:
        note = person.note(folder.owner, f"Add up {media.at('a.csv')}", ["p", folder.project.public])
        await person.publish(relay, note)
        await person.until(lambda: media.asked)
        first.signal(signal.SIGTERM)
        await first.ended()
    async with reading(folder, media):
        said = await ended(folder, str(note["id"]))
    assert "the daemon stopped while they were loaded; they have to be sent again" in said


async def test_a_command_to_stop_does_not_wait_for_a_file(tmp_path: Path, relay: str, media: Media) -> None:
    folder = Folder(tmp_path / "data", relay)
    media.answers = False
    async with reading(folder, media):
        name = await folder.write(f"Add up {media.at('a.csv')}")
        await person.until(lambda: media.asked)
        began_at = time.monotonic()
        await folder.write("/stop", to=name)
        await person.until(lambda: of_kind(folder.records(name), r.CommandGiven))
        waited = time.monotonic() - began_at
        await folder.delivered(name)
    assert waited < FILE_TIMEOUT / 2
    assert "a command to stop came before they were loaded; they have to be sent again" in written(folder, name).context
    assert not of_kind(folder.records(name), r.RunStarted)


async def test_files_that_a_note_declares_or_links_to_are_loaded_and_what_fails_is_said_to_both(
    tmp_path: Path, relay: str, media: Media
) -> None:
    folder = Folder(tmp_path / "data", relay)
    media.body = RECEIPT
    tags = [
        ["imeta", f"url {media.at('0f' * 32)}", "m text/plain", f"x {hashlib.sha256(RECEIPT).hexdigest()}"],
        ["imeta", f"url {media.at('1f' * 32)}", "m application/pdf", f"x {'00' * 32}", "name invoice.pdf"],
    ]
    text = f"Look at {media.at('data.csv')} and {media.at('page')}"
    note = person.note(folder.owner, text, *tags, ["p", folder.project.public])
    name = str(note["id"])
    async with reading(folder, media):
        await person.publish(relay, note)
        await ended(folder, name)
        await folder.delivered(name)
    record = written(folder, name)
    assert record.text == text
    assert record.context == (
        "It came with these files: /inbox/data.csv (text/csv, 20 bytes); "
        "/inbox/file.txt (text/plain, 20 bytes). Not loaded, so do not guess what is in it: "
        "invoice.pdf (media.example gives another file than was sent (its SHA-256 differs))"
    )
    told = [sent.text for sent in of_kind(folder.records(name), r.MessageSent)]
    assert (
        "I could not load invoice.pdf (media.example gives another file than was sent (its SHA-256 differs))."
    ) in told


async def test_files_of_guests_are_not_asked_for(tmp_path: Path, relay: str, media: Media) -> None:
    folder = Folder(tmp_path / "data", relay)
    folder.edit("[people]\n", "[people]\nopen = true\n")
    guest = SecretKey.generate()
    note = person.note(guest, f"Look at {media.at('data.csv')}", ["p", folder.project.public])
    name = str(note["id"])
    async with reading(folder, media):
        await person.publish(relay, note)
        said = await ended(folder, name)
    assert media.asked == []
    assert "files of guests and agents elsewhere are not loaded" in said
    assert not (folder.conversation(name) / "inbox").exists()


async def test_a_voice_note_is_read_as_the_words_that_are_said_in_it(tmp_path: Path, relay: str, media: Media) -> None:
    made = encrypt(b"OggS of a voice")
    media.body = made.data
    async with transcription_server({"text": "yes\n/stop"}) as server:
        provider = f'[models.providers.near]\nkind = "openai"\nbase_url = "{server.url}"\n'
        folder = Folder(tmp_path / "data", relay, provider)
        folder.edit("\n[models]\n", '\n[models]\ntranscription = "near:whisper"\n')
        wrap = encrypted(folder, media, made, ["m", "audio/ogg"], ["name", "note.ogg"])
        async with reading(folder, media):
            await listening(folder)
            await person.publish(relay, wrap)
            name = await began(folder, 2)
            await ended(folder, name)
    assert written(folder, name).text == (
        "[file: note.ogg]\n\nVoice note /inbox/note.ogg, transcribed by a program:\n> yes\n> /stop"
    )
    assert not of_kind(folder.records(name), r.CommandGiven)


async def test_where_nothing_transcribes_both_read_that_once(tmp_path: Path, relay: str, media: Media) -> None:
    folder = Folder(tmp_path / "data", relay)
    made = encrypt(b"OggS of a voice")
    media.body = made.data
    async with reading(folder, media):
        await listening(folder)
        for number in range(2):
            wrap = encrypted(folder, media, made, ["m", "audio/ogg"], ["name", f"note{number}.ogg"])
            await person.publish(relay, wrap)
        name = await began(folder, 2)
        await person.until(lambda: len(of_kind(folder.records(name), r.MessageRecorded)) == 2)
        await folder.delivered(name)
    for record in of_kind(folder.records(name), r.MessageRecorded):
        assert "not transcribed, so do not guess what is said in it: nothing is set that transcribes" in record.context
    told = [sent.text for sent in of_kind(folder.records(name), r.MessageSent)]
    assert sum("Voice notes are not read" in text for text in told) == 1


async def test_without_the_feature_both_read_that_files_are_not_read(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay)
    features = [feature for feature in FEATURES if feature.name != "received_files"]
    settings = load(None, folder.data, env={}, parse_key=parse_public_key)
    note = person.note(folder.owner, "Hello, see https://a.example/a.pdf", ["p", folder.project.public])
    name = str(note["id"])
    async with open_application(settings, extensions=extensions_of(features)) as app, app.serving():
        await person.publish(relay, note)
        await ended(folder, name)
        await folder.delivered(name)
    why = "this daemon does not read files"
    assert written(folder, name).context == (
        f"Not loaded, so do not guess what is in it: https://a.example/a.pdf ({why})"
    )
    told = [sent.text for sent in of_kind(folder.records(name), r.MessageSent)]
    assert f"I could not load a.pdf ({why})." in told
