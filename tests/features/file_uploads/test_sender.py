"""Which servers a file goes to, by which key, and how it is encrypted where its conversation is."""

from collections.abc import Sequence
from typing import Any

import pytest

from tenex.core.config import Role
from tenex.core.errors import FileNotSent
from tenex.core.port_values import AttachedFile, FileDestination
from tenex.core.values import replace
from tenex.features.file_uploads.sender import BlossomSender
from tenex.nostr.blossom import SERVER_LIST
from tenex.nostr.encrypted_file import decrypt
from tenex.nostr.events import Event, sign, sign_here, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.runtime.clock import SystemClock
from tests.kits.blossom_server import BlossomServer, blossom_server
from tests.kits.room_relay import RoomRelay, Rules, room_relay

PROJECT = SecretKey.generate()
PERSON = SecretKey.generate()
AGENT = SecretKey.generate()
DATA = b"# Minutes\n"
NOTE = FileDestination(
    address={"form": "notes", "root": "0" * 64}, reply_to={"form": "notes"}, person=PERSON.public, role=Role.OWNER
)
ROOM = replace(
    NOTE,
    address={"form": "direct", "room": "r", "key": PROJECT.public, "people": [PERSON.public]},
    reply_to={"form": "direct"},
)


class Relays:
    """Relays that have some events, and keep what they were asked for."""

    def __init__(self, *events: Event) -> None:
        self.events = list(events)
        self.asked: list[Any] = []

    async def fetch(self, filters: Sequence[dict[str, object]], seconds: float) -> list[Event]:
        self.asked += filters
        return self.events


def listing(*urls: str, at: int = 1, by: SecretKey = PERSON) -> Event:
    return sign(unsigned_event(by.public, at, SERVER_LIST, [["server", url] for url in urls], ""), by)


def sender_with(relays: Relays, *servers: str) -> BlossomSender:
    return BlossomSender(
        servers=lambda: servers,
        pool=relays,
        keys={PROJECT.public: PROJECT, AGENT.public: AGENT},
        project=lambda: PROJECT,
        sign=sign_here,
        clock=SystemClock(),
    )


async def sent(sender: BlossomSender, where: FileDestination, data: bytes = DATA, unique: str = "c:7") -> AttachedFile:
    return await sender.send(data, name="minutes.md", media_type="text/markdown", unique=unique, destination=where)


async def to(server: BlossomServer, where: FileDestination, **more: Any) -> AttachedFile:
    return await sent(sender_with(Relays(), server.url), where, **more)


async def test_servers_of_the_settings_are_used_alone_and_the_project_asks() -> None:
    relays = Relays(listing("https://theirs.example"))
    with blossom_server() as server:
        file = await sent(sender_with(relays, server.url), NOTE)
        assert server.read(file.url) == DATA
        assert (file.key, file.ox) == ("", "")
        assert server.authors == [PROJECT.public]
    assert relays.asked == []


async def test_without_any_the_newest_list_of_the_person_counts() -> None:
    relays = Relays(
        listing("https://10.0.0.1", "https://127.0.0.1", at=9),
        listing("https://old.invalid", at=8),
        listing("https://strangers.invalid", at=10, by=SecretKey.generate()),
    )
    with pytest.raises(FileNotSent, match="no file server is set"):
        await sent(sender_with(relays), NOTE)
    assert relays.asked == [{"kinds": [SERVER_LIST], "authors": [PERSON.public]}]
    relays.events.append(listing("https://blossom.invalid", at=11))
    with pytest.raises(FileNotSent, match=r"^blossom\.invalid cannot be reached"):
        await sent(sender_with(relays), NOTE)


@pytest.mark.parametrize(
    "where", [replace(NOTE, role=Role.GUEST), replace(NOTE, person=None), replace(NOTE, role=None)]
)
async def test_the_list_of_a_guest_is_not_asked_for(where: FileDestination) -> None:
    relays = Relays(listing("https://theirs.example"))
    with pytest.raises(FileNotSent, match="no file server is set"):
        await sent(sender_with(relays), where)
    assert relays.asked == []


async def test_in_direct_messages_it_is_encrypted_and_a_repetition_is_the_same_upload() -> None:
    with blossom_server() as server:
        first = await to(server, ROOM)
        assert decrypt(server.read(first.url), first.key, first.nonce) == DATA
        assert await to(server, ROOM) == first
        assert len(server.uploads) == 1, "a repetition after a restart uploads nothing"
        other_call = await to(server, ROOM, unique="c:8")
        other_data = await to(server, ROOM, data=b"other")
        assert len({first.key, other_call.key, other_data.key}) == 3, "no key is used twice"
        assert len({first.nonce, other_call.nonce, other_data.nonce}) == 3
        assert {media_type for _, media_type in server.blobs.values()} == {"application/octet-stream"}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (FileDestination(), "nothing is published from here"),
        (replace(ROOM, address={**ROOM.address, "form": "nip04"}, reply_to={"form": "nip04"}), "carry no files"),
        (replace(ROOM, reply_to={"form": "nip04"}), "carry no files"),
        (replace(ROOM, address={**ROOM.address, "key": "f" * 64}), "the key of this conversation is not here"),
    ],
)
async def test_where_it_cannot_be_sent_nothing_is_uploaded(where: FileDestination, why: str) -> None:
    with blossom_server() as server:
        with pytest.raises(FileNotSent, match=why):
            await to(server, where)
        assert server.uploads == []


def in_room(relay: RoomRelay, speaker: SecretKey | None = None) -> FileDestination:
    address = {"form": "room threads", "root": "0" * 64, "group": "g", "relays": [relay.url]}
    return replace(NOTE, address=address, reply_to={}, speaker=speaker.public if speaker is not None else None)


@pytest.mark.parametrize("speaker", [None, AGENT])
async def test_in_a_room_the_store_of_its_relay_has_it_by_the_key_that_speaks(speaker: SecretKey | None) -> None:
    async with room_relay(Rules()) as relay:
        relay.make("room", AGENT.public, PROJECT.public)
        with blossom_server() as server:
            file = await sent(sender_with(Relays(), server.url), in_room(relay, speaker))
            assert server.uploads == []
        assert relay.store.read(file.url) == DATA
        assert [key for key, _ in relay.store.uploads] == [(speaker or PROJECT).public]


@pytest.mark.parametrize(("status", "asked"), [(429, 2), (503, 2), (401, 2), (404, 1), (405, 1), (200, 1)])
async def test_a_store_that_refuses_is_asked_again_and_a_relay_without_one_is_not(status: int, asked: int) -> None:
    async with room_relay(Rules()) as relay:
        relay.store.answers = status
        with blossom_server() as server:
            sender = sender_with(Relays(), server.url)
            for data in (DATA, b"other"):
                file = await sent(sender, in_room(relay), data)
                assert server.read(file.url) == data
        assert len(relay.store.asked) == asked


async def test_what_both_say_is_read_where_neither_takes_it() -> None:
    async with room_relay(Rules()) as relay:
        relay.store.answers = 429
        with pytest.raises(FileNotSent, match=r"^127\.0\.0\.1 answers HTTP 429: not now$"):
            await sent(sender_with(Relays()), in_room(relay))
        with (
            blossom_server("413") as server,
            pytest.raises(FileNotSent, match=r"HTTP 429: not now; .* HTTP 413: no room"),
        ):
            await sent(sender_with(Relays(), server.url), in_room(relay))
