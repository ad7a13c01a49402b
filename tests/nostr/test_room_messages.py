"""What is read in a room with threads beside a kind 9: edits, rich text, diffs, and commands of Buzz's clients."""

import pytest

from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage
from tenex.nostr.deletions import deleted_events
from tenex.nostr.threading import read_event
from tenex.nostr.threading.room_threads import ROOM_THREADS
from tests.nostr.kit import written

RELAY = "wss://relay.example"
PROJECT = PublicKey("f" * 64)
ROOT, PARENT = "1" * 64, "2" * 64


def read(*tags: list[str], text: str = "hello", kind: int = 9, in_room: bool = True) -> InboundMessage | None:
    event = written(["h", "r"], *tags, text=text, kind=kind)
    return read_event(event, [PROJECT], {}, RELAY, None, ROOM_THREADS if in_room else None)


def test_an_edit_is_a_message_with_the_place_of_what_it_edits() -> None:
    message = read(["e", ROOT], kind=40003, text="Build it")
    assert message is not None
    assert (message.text, message.edits, message.references, message.starts) == ("Build it", ROOT, (ROOT,), False)
    assert message.address["group"] == "r"
    assert message.origin["id"] == ROOT, "clients show answers to the message, not to its edit"


@pytest.mark.parametrize("tags", [[], [["e", "short"]], [["a", ROOT]]])
def test_an_edit_that_names_no_event_is_none(tags: list[list[str]]) -> None:
    assert read(*tags, kind=40003) is None


def test_an_edit_that_mentions_us_starts_nothing() -> None:
    message = read(["e", ROOT], ["p", PROJECT], kind=40003)
    assert message is not None
    assert not message.starts


@pytest.mark.parametrize("kind", [40002, 40008])
def test_rich_text_and_diffs_have_their_place_in_a_thread(kind: int) -> None:
    message = read(["e", ROOT, "", "root"], ["e", PARENT, "", "reply"], kind=kind)
    assert message is not None
    assert (message.conversation, message.reply_to) == (ROOT, PARENT)


@pytest.mark.parametrize("kind", [40002, 40003, 40008])
def test_outside_of_such_a_room_none_of_them_is_read(kind: int) -> None:
    assert read(["e", ROOT], kind=kind, in_room=False) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("!cancel", "/stop"),
        (" !cancel\n", "/stop"),
        ("@Executor !cancel", "/stop"),
        ("@Project Manager !cancel", "/stop"),
        ("@Executor @Project Manager !cancel", "/stop"),
        ("!shutdown", "/shutdown"),
        ("!rotate", "/rotate"),
        ("!cancel the order", "!cancel the order"),
        ("please !cancel", "please !cancel"),
        ("!Cancel", "!Cancel"),
        ("> !cancel", "> !cancel"),
    ],
)
def test_a_command_of_buzz_is_one_of_ours_or_an_unknown_one(text: str, command: str) -> None:
    message = read(["p", PROJECT], text=text)
    assert message is not None
    assert message.text == command


@pytest.mark.parametrize(("kind", "is_read"), [(5, True), (9005, True), (7, False), (9001, False)])
def test_two_kinds_delete(kind: int, *, is_read: bool) -> None:
    assert bool(deleted_events(written(["e", ROOT], kind=kind))) is is_read
