"""Which files of a message are in the store of the relay that it was written on."""

import pytest

from tenex.core.ids import PublicKey
from tenex.core.inbox.received_files import NamedFile
from tenex.nostr.blossom import store_of
from tenex.nostr.threading import read_event
from tenex.nostr.threading.base import on_host_of
from tenex.nostr.threading.room_threads import ROOM_THREADS
from tests.nostr.kit import written

RELAY = "wss://relay.example"
PROJECT = PublicKey("f" * 64)


def files_of(text: str, *tags: list[str], relay: str = RELAY) -> tuple[NamedFile, ...]:
    event = written(["h", "r"], ["p", PROJECT], *tags, text=text, kind=9)
    message = read_event(event, [PROJECT], {}, relay, None, ROOM_THREADS)
    assert message is not None
    return message.files


def test_a_file_on_the_relays_own_host_is_marked_with_the_room() -> None:
    inside = f"https://relay.example/media/{'a' * 64}.png"
    outside = "https://relay.example.org/a.png"
    first, second = files_of(f"![x]({inside}) and {outside}")
    assert (first.address, first.store, first.room) == (inside, RELAY, "r")
    assert (second.address, second.store, second.room) == (outside, "", "")


def test_an_address_by_http_is_a_file_where_the_relay_is_spoken_to_without_tls() -> None:
    tag = ["imeta", "url http://relay.example:7000/media/a", "m image/png"]
    assert files_of("see", tag) == ()
    (file,) = files_of("see", tag, relay="ws://relay.example:7000")
    assert (file.store, file.is_declared) == ("ws://relay.example:7000", True)
    assert files_of("see", tag, relay="ws://relay.example") == ()


def test_a_relay_is_named_with_the_query_by_which_it_is_known_here() -> None:
    relay = f"{RELAY}?token=x"
    (file,) = files_of("https://relay.example/media/a.png", relay=relay)
    assert file.store == relay
    assert store_of(relay).url == "https://relay.example"


@pytest.mark.parametrize(
    ("relay", "address", "is_there"),
    [
        ("wss://relay.example", "https://relay.example/media/a", True),
        ("wss://relay.example/path", "https://relay.example:443/a", True),
        ("wss://relay.example", "https://RELAY.example/a", True),
        ("wss://relay.example:8443", "https://relay.example:8443/a", True),
        ("wss://relay.example:8443", "https://relay.example/a", False),
        ("wss://relay.example", "http://relay.example/a", False),
        ("ws://relay.example", "https://relay.example/a", False),
        ("ws://127.0.0.1:80", "http://127.0.0.1/a", True),
        ("wss://relay.example", "https://relay.example@evil.example/a", False),
        ("wss://relay.example", "https://evil@relay.example/a", False),
        ("wss://relay.example", "https://evil.example/relay.example", False),
        ("wss://relay.example", "https://relay.example\\@evil.example/a", False),
        ("wss://relay.example", "https://relay.example:x/a", False),
        ("wss://relay.example", "https://[relay.example/a", False),
        ("wss://relay.example", "https://relay.example/a b", False),
        ("wss://relay.example", "", False),
    ],
)
def test_the_own_host_of_a_relay_is_its_name_its_port_and_tls(relay: str, address: str, *, is_there: bool) -> None:
    assert on_host_of(relay, address) is is_there


@pytest.mark.parametrize(
    ("relay", "store"),
    [("wss://relay.example/path?x=1", "https://relay.example"), ("ws://[::1]:7000", "http://[::1]:7000")],
)
def test_the_store_of_a_relay_is_on_its_own_host(relay: str, store: str) -> None:
    assert store_of(relay).url == store
    assert store_of(relay).authority == store.partition("//")[2]
