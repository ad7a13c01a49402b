"""Events of kinds that are not read: which are answered, and in which form."""

from collections.abc import Sequence

import pytest

from tenex.nostr.events import Event, to_wire
from tenex.nostr.keys import SecretKey, npub
from tenex.nostr.threading.base import BY_PROGRAM
from tenex.nostr.unread_kinds import UNREAD_KINDS, answer_to, read_unread

from .kit import NOW, OURS, PERSON, PLANNER, PROJECT, RELAY, written

TO_US = ["p", PROJECT.public]
ROOT, PARENT = "a" * 64, "b" * 64


def unread(*tags: Sequence[str], kind: int = 20, by: SecretKey = PERSON, text: str = "look") -> Event:
    return written(*tags, kind=kind, by=by, text=text)


def answered(event: Event) -> list[tuple[str, ...]]:
    """The tags of the answer by which clients place it."""
    found = read_unread(event, OURS)
    assert found is not None
    answer = answer_to(found, "I read text.", RELAY, NOW)
    assert (answer.pubkey, answer.content) == (PROJECT.public, "I read text.")
    assert answer.tags[-2:] == (("L", "agent"), ("l", "ai", "agent"))
    assert answer.kind == (24 if event.kind == 24 else 1111)
    return list(answer.tags[:-2])


@pytest.mark.parametrize("kind", sorted(set(UNREAD_KINDS) - {24, 30023, 34235, 34236}))
def test_an_event_is_answered_by_a_comment_on_it(kind: int) -> None:
    event = unread(TO_US, kind=kind)
    author = PERSON.public
    assert answered(event) == [
        ("E", event.id, RELAY, author),
        ("K", str(kind)),
        ("P", author, RELAY),
        ("e", event.id, RELAY, author),
        ("k", str(kind)),
        ("p", author, RELAY),
    ]


def test_an_article_is_answered_by_a_comment_on_its_address_and_version() -> None:
    event = unread(["d", "herons"], TO_US, kind=30023)
    author = PERSON.public
    address = f"30023:{author}:herons"
    assert answered(event) == [
        ("A", address, RELAY),
        ("K", "30023"),
        ("P", author, RELAY),
        ("a", address, RELAY),
        ("k", "30023"),
        ("e", event.id, RELAY, author),
        ("p", author, RELAY),
    ]


def test_a_voice_that_comments_is_answered_below_the_same_root() -> None:
    scope = (["E", ROOT, RELAY, PLANNER.public], ["K", "1222"], ["P", PLANNER.public])
    event = unread(*scope, ["e", PARENT, "", PLANNER.public], ["k", "1244"], TO_US, kind=1244)
    assert answered(event) == [
        *map(tuple, scope),
        ("e", event.id, RELAY, PERSON.public),
        ("k", "1244"),
        ("p", PERSON.public, RELAY),
    ]


def test_a_public_message_is_answered_by_one_without_e_tags() -> None:
    assert answered(unread(TO_US, kind=24)) == [("p", PERSON.public, RELAY)]


def test_what_is_in_a_group_is_answered_in_it() -> None:
    assert ("h", "kitchen") in answered(unread(TO_US, ["h", "kitchen"]))


def test_a_mention_in_the_text_counts_and_names_who_answers() -> None:
    found = read_unread(unread(TO_US, text=f"nostr:{npub(PLANNER.public)}, look"), OURS)
    assert found is not None
    assert found.to == PLANNER.public


@pytest.mark.parametrize(
    "event",
    [
        unread(),
        unread(["p", PERSON.public]),
        unread(TO_US, ["q", ROOT, RELAY, PROJECT.public]),
        unread(TO_US, kind=1),
        unread(TO_US, by=PLANNER),
        unread(TO_US, ["l", "ai", "agent"]),
        unread(TO_US, list(BY_PROGRAM)),
    ],
    ids=["no mention", "of another", "a quotation", "a kind that is read", "ours", "of a machine", "of a program"],
)
def test_what_is_not_for_us_or_not_by_a_person_is_not_answered(event: Event) -> None:
    assert read_unread(event, OURS) is None, to_wire(event)
