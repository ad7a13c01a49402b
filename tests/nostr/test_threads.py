"""Threads: how kind 11 and the comments under it are read, and what an answer's tags are."""

from collections.abc import Sequence

import pytest

from tenex.core.ids import PublicKey
from tenex.core.signals import InboundMessage
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.threading import read_event

from .kit import FRIEND, OURS, PERSON, PLANNER, PROJECT, RELAY, answer_tags, read, written

HINT, HINT2 = "wss://other.example", "wss://third.example"
ADDRESS = f"31933:{PERSON.public}:demo"
R, P, X = "a" * 64, "b" * 64, "c" * 64
STRANGER = PublicKey("d" * 64)
TO_US = ["p", PROJECT.public]


def thread(*tags: Sequence[str], text: str = "hello") -> InboundMessage:
    return read(written(*tags, kind=11, text=text), project=ADDRESS)


def comment(*tags: Sequence[str], by: SecretKey = PERSON, relay: str = RELAY) -> InboundMessage:
    return read(written(*tags, ["K", "11"], kind=1111, by=by), relay)


def under(root: str, *author: str, by: SecretKey = PERSON, relay: str = RELAY) -> list[tuple[str, ...]]:
    """The tags of an answer in a thread of which the root's relay and author are known, to somebody."""
    about = [("P", author[1], RELAY)] if author[1:] else []
    return [("E", root, *author), ("K", "11"), *about, ("e", root, *author), ("k", "11"), ("p", by.public, relay)]


@pytest.mark.parametrize(
    ("tags", "text", "starts"),
    [
        ([TO_US], "hi", True),
        ([["a", ADDRESS]], "hi", True),
        ([], f"nostr:{npub(PLANNER.public)} hi", True),
        ([["a", ADDRESS + "2"], ["p", STRANGER]], "@planner hi", False),
    ],
)
def test_a_thread_starts_where_it_names_us(tags: list[list[str]], text: str, starts: bool) -> None:
    """A p tag of ours, our project's address or a key in the text; its id is the conversation's."""
    incoming = thread(["title", "Login"], *tags, text=text)
    assert (incoming.starts, str(incoming.conversation), incoming.title) == (starts, str(incoming.event_id), "Login")
    assert (incoming.references, incoming.reply_to, incoming.text) == ((), None, text)


def test_a_thread_is_answered_by_a_comment_on_it() -> None:
    """NIP-22: the root in capitals, the root again as parent, and p for the asker; without one, for its author."""
    opener = thread(TO_US, ["p", STRANGER])
    root = opener.event_id
    expected = [
        ("E", root, RELAY, PERSON.public),
        ("K", "11"),
        ("P", PERSON.public, RELAY),
        ("e", root, RELAY, PERSON.public),
        ("k", "11"),
        ("p", PERSON.public, RELAY),
    ]
    assert answer_tags(opener, opener) == answer_tags(opener, None) == expected
    ours = comment(["E", R, "", PROJECT.public])
    assert [tag for tag in answer_tags(ours, None) if tag[0] == "p"] == []


def test_a_comment_is_read_by_its_root() -> None:
    parent = (["e", P, "", STRANGER], ["k", "1111"], ["p", PLANNER.public])
    incoming = comment(*parent, ["P", STRANGER, HINT2], ["e", X], ["E", R, HINT, STRANGER], by=FRIEND)
    assert (incoming.conversation, incoming.reply_to, incoming.references) == (R, P, (P, R, X))
    assert (incoming.starts, incoming.mentions) == (True, ())


def test_a_nested_comment_or_a_note_is_answered_under_the_root() -> None:
    """TENEX clients show only direct children of the root, so `e` is the root and not what is answered."""
    opener = thread(["a", ADDRESS])
    root = opener.event_id
    nested = comment(["E", root, HINT], ["e", P], ["k", "1111"], by=FRIEND, relay=HINT2)
    assert answer_tags(opener, nested) == under(root, RELAY, PERSON.public, by=FRIEND, relay=HINT2)
    reply = read(written(["e", root, "", "root"], by=FRIEND))  # some clients reply to a kind 11 with a kind 1
    assert reply.references == (root,)
    assert answer_tags(opener, reply) == under(root, RELAY, PERSON.public, by=FRIEND)


def test_a_comment_may_call_us_into_a_thread() -> None:
    """The root's tags are copied with their hints; what is missing is left out, or taken from a later comment."""
    called = comment(["E", R, HINT], ["e", R], TO_US)
    assert called.starts
    assert answer_tags(called, called) == under(R, HINT)
    fuller = comment(["E", R, HINT, STRANGER], ["P", STRANGER, HINT2], ["e", P], by=FRIEND)
    assert not fuller.starts
    assert answer_tags(called, fuller)[:4] == [
        ("E", R, HINT, STRANGER),
        ("K", "11"),
        ("P", STRANGER, HINT2),
        ("e", R, HINT, STRANGER),
    ]


def test_a_comment_from_another_thread_does_not_move_the_conversation() -> None:
    """It may join by its parent, but the answer stays under the root the conversation has."""
    called = comment(["E", R, HINT], TO_US)
    other = comment(["E", X], ["P", STRANGER], ["e", P], by=FRIEND)
    assert answer_tags(called, other) == under(R, HINT, by=FRIEND)


def test_the_author_of_the_root_may_be_in_one_tag_only() -> None:
    """P alone, or the E tag alone, is enough to copy both."""
    for tags in ([["P", STRANGER], ["E", R]], [["E", R, "", STRANGER]]):
        incoming = comment(*tags, TO_US)
        assert answer_tags(incoming, incoming) == under(R, RELAY, STRANGER)


def test_a_comment_without_a_parent_answers_the_root() -> None:
    """A broken `e` does not lose the comment."""
    incoming = comment(["E", R], ["e", "nonsense"])
    assert (incoming.reply_to, incoming.references) == (R, (R,))


@pytest.mark.parametrize(
    "tags",
    [
        [["K", "11"]],
        [["E", "A" * 64], ["K", "11"]],
        [["E"], ["K"]],
    ],
)
def test_a_comment_without_a_root_is_not_taken(tags: list[list[str]]) -> None:
    """It names nothing that an answer could be under."""
    assert read_event(written(*tags, TO_US, kind=1111), OURS, {}, RELAY, ADDRESS) is None
