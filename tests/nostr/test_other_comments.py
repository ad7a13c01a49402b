"""Comments (kind 1111) on articles, pages of the web and other events: how they are read, and what answers them."""

from collections.abc import Sequence

import pytest

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.nostr.compose import NostrSealer
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event

from .kit import FRIEND, OURS, PERSON, PROJECT, RELAY, answer, read, written

STRANGER = PublicKey("d" * 64)
ARTICLE = f"30023:{STRANGER}:on-herons"
URL = "https://example.com/page?a=1"
ISSUE, PARENT = "a" * 64, "b" * 64
TO_US = ["p", PROJECT.public]
ON_AN_ARTICLE = (["A", ARTICLE, RELAY], ["K", "30023"], ["P", STRANGER, RELAY])
ON_A_PAGE = (["I", URL], ["K", "web"])
ON_AN_ISSUE = (["E", ISSUE, RELAY, STRANGER], ["K", "1621"], ["P", STRANGER])


def comment(*tags: Sequence[str], by: SecretKey = PERSON, text: str = "hello") -> InboundMessage:
    return read(written(*tags, kind=1111, by=by, text=text))


def sealed(opener: InboundMessage, to: InboundMessage | None, speaker: SecretKey = PROJECT) -> UnsignedEvent:
    (event,) = NostrSealer([RELAY]).seal(answer(opener, to, speaker=speaker))
    return event


@pytest.mark.parametrize(
    ("scope", "parent", "about"),
    [
        (ON_AN_ARTICLE, (["a", ARTICLE, RELAY], ["k", "30023"]), ARTICLE),
        (ON_A_PAGE, (["i", URL], ["k", "web"]), URL),
        (ON_AN_ISSUE, (["e", ISSUE, RELAY, STRANGER], ["k", "1621"]), ""),
    ],
    ids=["article", "page", "issue"],
)
def test_a_comment_that_mentions_us_begins_a_conversation_and_is_answered_by_a_comment_on_it(
    scope: tuple[list[str], ...], parent: tuple[list[str], ...], about: str
) -> None:
    opener = comment(*scope, *parent, TO_US)
    assert opener.starts
    assert (str(opener.conversation), opener.about) == (opener.event_id, about)
    event = sealed(opener, opener)
    assert event.kind == 1111
    named = [list(tag) for tag in event.tags if tag[0] in "EAIKP"]
    assert named == list(scope)
    behind = [tag for tag in event.tags if tag[0] in "eakip"]
    assert behind == [
        ("e", opener.event_id, RELAY, PERSON.public),
        ("k", "1111"),
        ("p", PERSON.public, RELAY),
    ]


def test_a_reply_to_ours_belongs_to_the_conversation_and_another_comment_below_the_article_does_not() -> None:
    opener = comment(*ON_AN_ARTICLE, ["a", ARTICLE], ["k", "30023"], TO_US)
    ours = sealed(opener, opener)
    reply = comment(*ON_AN_ARTICLE, ["e", ours.id, RELAY], ["k", "1111"], by=FRIEND)
    assert reply.references[0] == ours.id == reply.reply_to
    assert not reply.starts
    event = sealed(opener, reply)
    assert ("e", reply.event_id, RELAY, FRIEND.public) in event.tags
    other = comment(*ON_AN_ARTICLE, ["a", ARTICLE], ["k", "30023"], by=FRIEND)
    assert (other.references, other.starts) == ((), False)
    assert other.conversation != opener.conversation


def test_without_a_message_to_answer_the_comment_that_began_is_answered() -> None:
    opener = comment(*ON_A_PAGE, ["i", URL], ["k", "web"], TO_US)
    event = sealed(opener, None)
    assert ("e", opener.event_id, RELAY, PERSON.public) in event.tags
    assert ("p", PERSON.public) in event.tags


@pytest.mark.parametrize(
    "tags",
    [
        [["A", "nonsense"], ["K", "30023"]],
        [["A", f"30023:{STRANGER}:{'x' * 1024}"], ["K", "30023"]],
        [["I", "https://example.com/" + "x" * 1024], ["K", "web"]],
        [["E", "nonsense"], ["K", "1621"]],
        [["K", "1"], ["k", "1"]],
        [["E"], ["K"], ["e"], [""], []],
    ],
)
def test_a_comment_on_what_cannot_be_named_is_not_read(tags: list[list[str]]) -> None:
    assert read_event(written(*tags, TO_US, kind=1111), OURS, {}, RELAY, None) is None


def test_the_kind_of_an_article_and_of_a_page_need_not_be_named() -> None:
    for tag, kind in ((["A", ARTICLE], "30023"), (["I", URL], "web")):
        opener = comment(tag, TO_US)
        assert ("K", kind) in sealed(opener, opener).tags
