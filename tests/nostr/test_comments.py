"""Comments (kind 1111) under a note: how they are read, and the tags of what answers them."""

from collections.abc import Sequence

import pytest

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.nostr.compose import NostrSealer
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event

from .kit import FRIEND, OURS, PERSON, PLANNER, PROJECT, RELAY, answer, read, written

HINT = "wss://other.example"
R, P, X = "a" * 64, "b" * 64, "c" * 64
STRANGER = PublicKey("d" * 64)
TO_US = ["p", PROJECT.public]
ON_A_NOTE = (["K", "1"], ["k", "1"])


def comment(*tags: Sequence[str], by: SecretKey = PERSON, relay: str = RELAY) -> InboundMessage:
    return read(written(*tags, kind=1111, by=by), relay)


def sealed(opener: InboundMessage, to: InboundMessage | None, speaker: SecretKey = PROJECT) -> UnsignedEvent:
    (event,) = NostrSealer([RELAY]).seal(answer(opener, to, speaker=speaker))
    return event


def threading(event: UnsignedEvent) -> list[tuple[str, ...]]:
    return [tag for tag in event.tags if tag[0] in "EKPekp"]


def answered(to: InboundMessage, *scope: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The tags of a comment under this root that answers that comment."""
    author = str(to.author)
    return [*scope, ("e", to.event_id, RELAY, author), ("k", "1111"), ("p", author, RELAY)]


def test_a_comment_on_our_root_joins_and_is_answered_by_a_comment_on_it() -> None:
    """As Amethyst writes a reply: the root in capitals, the same note as parent."""
    opener = read(written(TO_US))
    root = opener.event_id
    reply = comment(
        ["E", root, HINT, PERSON.public],
        ["K", "1"],
        ["P", PERSON.public, HINT],
        ["e", root, HINT, PERSON.public],
        ["k", "1"],
        ["p", PERSON.public, HINT],
        by=FRIEND,
    )
    assert (str(reply.conversation), reply.reply_to, reply.references) == (root, root, (root,))
    event = sealed(opener, reply)
    assert event.kind == 1111
    scope = [("E", root, HINT, PERSON.public), ("K", "1"), ("P", PERSON.public, HINT)]
    assert threading(event) == answered(reply, *scope)


def test_a_comment_on_an_agents_note_or_on_a_comment_keeps_the_scope_it_was_written_in() -> None:
    opener = read(written(TO_US))
    root = opener.event_id
    on_an_answer = comment(["E", P, "", PLANNER.public], ["e", P, "", PLANNER.public], *ON_A_NOTE)
    assert (on_an_answer.reply_to, on_an_answer.references) == (P, (P,))
    scope = [("E", P, RELAY, PLANNER.public), ("K", "1"), ("P", PLANNER.public, RELAY)]
    assert threading(sealed(opener, on_an_answer)) == answered(on_an_answer, *scope)
    nested = comment(["E", root], ["K", "1"], ["e", X], ["k", "1111"], ["p", PLANNER.public], by=FRIEND)
    assert (nested.reply_to, nested.references) == (X, (X, root))
    scope = [("E", root, RELAY, PERSON.public), ("K", "1"), ("P", PERSON.public, RELAY)]
    assert threading(sealed(opener, nested)) == answered(nested, *scope), "the author is the conversation's"


def test_notes_and_comments_of_one_thread_are_each_answered_in_kind() -> None:
    """Also a note that answers a comment, and a conversation that a comment has begun."""
    opener = read(written(TO_US))
    begun_by_a_comment = comment(["E", R], ["e", R], *ON_A_NOTE, TO_US)
    assert begun_by_a_comment.starts
    note = read(written(["e", R, "", "root"], ["e", begun_by_a_comment.event_id, "", "reply"], by=FRIEND))
    assert note.references == (begun_by_a_comment.event_id, R)
    for first in (opener, begun_by_a_comment):
        assert sealed(first, note).kind == 1
        assert sealed(first, begun_by_a_comment).kind == 1111
    assert [tag[:4] for tag in sealed(begun_by_a_comment, note).tags if tag[0] == "e"] == [
        ("e", R, RELAY, "root"),
        ("e", note.event_id, RELAY, "reply"),
    ]
    unasked = sealed(begun_by_a_comment, None)
    assert (unasked.kind, threading(unasked)) == (
        1111,
        [("E", R, RELAY), ("K", "1"), ("e", R, RELAY), ("k", "1")],
    )


def test_a_comment_on_a_thread_is_answered_under_the_thread_whatever_it_calls_its_root() -> None:
    """A conversation under a kind 11 has one scope."""
    opener = read(written(["title", "Hello"], TO_US, kind=11))
    root = opener.event_id
    for tags in (
        (["E", root], ["K", "1"], ["e", root], ["k", "1"]),
        (["E", root], ["e", P], ["k", "1111"]),
        (["e", root], ["k", "11"]),
        (["e", root],),
    ):
        event = sealed(opener, comment(*tags, by=FRIEND))
        assert threading(event)[:4] == [
            ("E", root, RELAY, PERSON.public),
            ("K", "11"),
            ("P", PERSON.public, RELAY),
            ("e", root, RELAY, PERSON.public),
        ]


@pytest.mark.parametrize(
    ("tags", "references"),
    [
        ([["e", R], ["k", "1"]], (R,)),
        ([["e", R], ["K", "1"]], (R,)),
        ([["E", R], ["k", "1"]], (R,)),
        ([["E", R], ["e", P], ["k", "1111"]], (P, R)),
        ([["K", "1"], ["e", P], ["k", "1111"]], (P,)),
        ([["e", P], ["k", "1111"]], (P,)),
        ([["E", P], ["K", "1111"], ["e", P], ["k", "1111"]], (P,)),
        ([["E", R]], (R,)),
        ([["e", R]], (R,)),
        ([["e", R, "", "root"], ["e", P, "", "reply"]], (R, P)),
        ([["E", R], ["E", X], ["K", "1"], ["K", "1"], ["e", P], ["k", "1"]], (P, R, X)),
        ([["E", "nonsense"], ["E", R], ["K", ""], ["K", "1"], ["e", ""], ["e", R], ["k", "1"]], (R,)),
        ([["E", R], ["K", "web"], ["K", "1"], ["I", "https://example.com"], ["e", R]], (R,)),
    ],
    ids=[
        "no capitals",
        "no E, no k",
        "no K",
        "no K under a comment",
        "no E under a comment",
        "no capitals under a comment",
        "a comment as root",
        "no kind",
        "no kind, no capitals",
        "no kind, the markers of a note",
        "doubled",
        "malformed copies",
        "two scopes",
    ],
)
def test_missing_and_doubled_tags_lose_no_comment(tags: list[list[str]], references: tuple[str, ...]) -> None:
    """It joins by any id it names, and its answer names a root in any case."""
    opener = read(written(TO_US))
    incoming = comment(*tags)
    assert incoming.references == references
    event = sealed(opener, incoming)
    named = [tag[0] for tag in threading(event)]
    assert (event.kind, sorted(named)) in [(1111, sorted("EKPekp")), (1111, sorted("EKekp"))]
    assert ("K", "1") in event.tags


def test_a_comment_that_does_not_name_its_root_starts_no_conversation() -> None:
    """It may belong to anything; where its parent is known it joins."""
    assert not comment(["e", P], ["k", "1111"], TO_US).starts
    assert not comment(["E", R], ["e", P], ["k", "1111"], TO_US).starts
    assert not comment(["e", R], TO_US).starts
    assert comment(["e", R], ["k", "1"], TO_US).starts


@pytest.mark.parametrize(
    "tags",
    [
        [["K", "1"], ["k", "1"]],
        [["E"], ["K"], ["e"], [""], []],
    ],
)
def test_a_comment_on_nothing_is_not_read(tags: list[list[str]]) -> None:
    assert read_event(written(*tags, TO_US, kind=1111), OURS, {}, RELAY, None) is None


def test_an_agent_never_calls_itself_and_a_group_keeps_its_comments() -> None:
    opener = read(written(TO_US, ["h", "kitchen"]))
    reply = comment(["E", opener.event_id], ["e", opener.event_id], *ON_A_NOTE, ["h", "kitchen"])
    event = sealed(opener, reply, speaker=PERSON)
    assert not [tag for tag in event.tags if tag[0] == "p"]
    assert ("h", "kitchen") in event.tags
