"""Threads: how kind 11 and the comments under it are read, and what an answer's tags are."""

from collections.abc import Sequence

import pytest

from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage
from tenex.nostr.events import Event, sign, unsigned_event
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.threading import read_event

from .kit import FRIEND, PERSON, PLANNER, PROJECT, answer_tags

OURS = frozenset({PROJECT.public, PLANNER.public})
SLUGS = {"planner": PLANNER.public}
RELAY = "wss://relay.example"
HINT, HINT2 = "wss://other.example", "wss://third.example"
ADDRESS = f"31933:{PERSON.public}:demo"
R, P, X = "a" * 64, "b" * 64, "c" * 64
STRANGER = PublicKey("d" * 64)


def made(kind: int, *tags: Sequence[str], text: str = "hello", by: SecretKey = PERSON) -> Event:
    return sign(unsigned_event(by.public, 1000, kind, tags, text), by)


def read(event: Event, relay: str = RELAY) -> InboundMessage:
    incoming = read_event(event, OURS, SLUGS, relay, ADDRESS)
    assert incoming is not None
    return incoming


@pytest.mark.parametrize(
    ("tags", "text", "starts"),
    [
        ([["p", PROJECT.public]], "hi", True),
        ([["a", ADDRESS]], "hi", True),
        ([], f"nostr:{npub(PLANNER.public)} hi", True),
        ([["a", ADDRESS + "2"], ["p", STRANGER]], "@planner hi", False),
    ],
)
def test_a_thread_starts_where_it_names_us(tags: list[list[str]], text: str, starts: bool) -> None:
    """A p tag of ours, our project's address or a key in the text; its id is the conversation's."""
    event = made(11, ["title", "Login"], *tags, text=text)
    incoming = read(event)
    assert (incoming.starts, str(incoming.conversation), incoming.title) == (starts, str(event.id), "Login")
    assert (incoming.references, incoming.reply_to, incoming.text) == ((), None, text)


def test_a_thread_is_answered_by_a_comment_on_it() -> None:
    """NIP-22: the root in capitals, the root again as parent, and p for the asker."""
    incoming = read(made(11, ["p", PROJECT.public], ["p", STRANGER]))
    root = incoming.event_id
    assert answer_tags(incoming, incoming) == [
        ("E", root, RELAY, PERSON.public),
        ("K", "11"),
        ("P", PERSON.public, RELAY),
        ("e", root, RELAY, PERSON.public),
        ("k", "11"),
        ("p", PERSON.public, RELAY),
    ]


def test_a_comment_is_read_by_its_root() -> None:
    event = made(
        1111,
        ["e", P, "", STRANGER],
        ["k", "1111"],
        ["p", PLANNER.public],
        ["P", STRANGER, HINT2],
        ["K", "11"],
        ["e", X],
        ["E", R, HINT, STRANGER],
        by=FRIEND,
    )
    incoming = read(event)
    assert (incoming.conversation, incoming.reply_to, incoming.references) == (R, P, (P, R, X))
    assert (incoming.starts, incoming.mentions) == (True, ())


def test_a_nested_comment_is_answered_under_the_root() -> None:
    """TENEX clients show only direct children of the root, so `e` is the root and not the comment."""
    opener = read(made(11, ["a", ADDRESS]))
    comment = read(made(1111, ["E", opener.event_id, HINT], ["K", "11"], ["e", P], ["k", "1111"], by=FRIEND), HINT2)
    assert answer_tags(opener, comment) == [
        ("E", opener.event_id, RELAY, PERSON.public),
        ("K", "11"),
        ("P", PERSON.public, RELAY),
        ("e", opener.event_id, RELAY, PERSON.public),
        ("k", "11"),
        ("p", FRIEND.public, HINT2),
    ]


def test_a_comment_may_call_us_into_a_thread() -> None:
    """The root's tags are copied with their hints; what is missing is left out, or taken from a later comment."""
    called = read(made(1111, ["E", R, HINT], ["K", "11"], ["e", R], ["p", PROJECT.public]))
    assert called.starts
    assert answer_tags(called, called) == [
        ("E", R, HINT),
        ("K", "11"),
        ("e", R, HINT),
        ("k", "11"),
        ("p", PERSON.public, RELAY),
    ]
    fuller = read(made(1111, ["E", R, HINT, STRANGER], ["K", "11"], ["P", STRANGER, HINT2], ["e", P], by=FRIEND))
    assert not fuller.starts
    assert answer_tags(called, fuller)[:4] == [
        ("E", R, HINT, STRANGER),
        ("K", "11"),
        ("P", STRANGER, HINT2),
        ("e", R, HINT, STRANGER),
    ]


def test_a_comment_from_another_thread_does_not_move_the_conversation() -> None:
    """It may join by its parent, but the answer stays under the root the conversation has."""
    called = read(made(1111, ["E", R, HINT], ["K", "11"], ["p", PROJECT.public]))
    other = read(made(1111, ["E", X], ["K", "11"], ["P", STRANGER], ["e", P], by=FRIEND))
    assert answer_tags(called, other) == [
        ("E", R, HINT),
        ("K", "11"),
        ("e", R, HINT),
        ("k", "11"),
        ("p", FRIEND.public, RELAY),
    ]


def test_the_author_of_the_root_may_be_in_one_tag_only() -> None:
    """P alone, or the E tag alone, is enough to copy both."""
    for tags in ([["P", STRANGER], ["E", R]], [["E", R, "", STRANGER]]):
        incoming = read(made(1111, *tags, ["K", "11"], ["p", PROJECT.public]))
        assert answer_tags(incoming, incoming)[:3] == [("E", R, RELAY, STRANGER), ("K", "11"), ("P", STRANGER, RELAY)]


def test_a_comment_without_a_parent_answers_the_root() -> None:
    """A broken `e` does not lose the comment."""
    incoming = read(made(1111, ["E", R], ["K", "11"], ["e", "nonsense"]))
    assert (incoming.reply_to, incoming.references) == (R, (R,))


@pytest.mark.parametrize(
    "tags",
    [
        [["E", R], ["K", "30023"]],
        [["E", R]],
        [["K", "11"]],
        [["E", "A" * 64], ["K", "11"]],
        [["I", "https://example.com"], ["K", "web"]],
        [["E"], ["K"]],
    ],
)
def test_a_comment_on_anything_else_is_not_taken(tags: list[list[str]]) -> None:
    """Articles, urls and comments without a root belong to other forms."""
    assert read_event(made(1111, *tags, ["p", PROJECT.public]), OURS, SLUGS, RELAY, ADDRESS) is None


def test_words_without_a_question_are_for_the_author_of_the_root() -> None:
    opener = read(made(11, ["p", PROJECT.public], ["p", STRANGER]))
    assert [tag for tag in answer_tags(opener, None) if tag[0] == "p"] == [("p", PERSON.public, RELAY)]
    ours = read(made(1111, ["E", R, "", PROJECT.public], ["K", "11"]))
    assert [tag for tag in answer_tags(ours, None) if tag[0] == "p"] == []


def test_a_note_in_a_thread_is_answered_in_the_thread() -> None:
    """Some clients reply to a kind 11 with a kind 1; the conversation keeps its form."""
    opener = read(made(11, ["p", PROJECT.public]))
    reply = read(made(1, ["e", opener.event_id, "", "root"], by=FRIEND))
    assert reply.references == (opener.event_id,)
    assert answer_tags(opener, reply)[-1] == ("p", FRIEND.public, RELAY)


def test_a_group_keeps_its_threads() -> None:
    """Flotilla's threads are in rooms: `h` is copied."""
    event = made(11, ["h", "room"], ["p", PROJECT.public])
    incoming = read(event)
    assert answer_tags(incoming, incoming)[-1] == ("h", "room")
    assert read_event(event, OURS, SLUGS, "", ADDRESS) is None
