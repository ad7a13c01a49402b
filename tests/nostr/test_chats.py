"""Chats (kind 9), in groups and outside: how they are read, and what answers them."""

import nostr_sdk as sdk
import pytest

from tenex.nostr.compose import NostrSealer
from tenex.nostr.threading import read_event

from .kit import FRIEND, OURS, PERSON, PROJECT, RELAY, answer, read, written

OTHER = "wss://other.example"
TO_US = ["p", PROJECT.public]
GROUP = ["h", "kitchen"]
SEALER = NostrSealer([RELAY, OTHER])


@pytest.mark.parametrize("group", [[GROUP], []])
def test_a_message_that_mentions_us_is_answered_by_one_that_quotes_it(group: list[list[str]]) -> None:
    asked = read(written(TO_US, *group, kind=9))
    assert asked.starts
    assert str(asked.conversation) == asked.event_id
    draft = answer(asked, asked, "Here it is.")
    (event,) = SEALER.seal(draft)
    assert event.kind == 9
    assert ("q", asked.event_id, RELAY, PERSON.public) in event.tags
    assert ("p", PERSON.public, RELAY) in event.tags
    assert not [tag for tag in event.tags if tag[0] == "e"]
    assert [tag for tag in event.tags if tag[0] == "h"] == [tuple(tag) for tag in group]
    first, text = event.content.split("\n", 1)
    named = sdk.Nip19Event.from_nostr_uri(first)
    assert text == "Here it is."
    assert named.event_id().to_hex() == asked.event_id
    assert (SEALER.relays(draft), SEALER.others(draft)) == ((RELAY,), ()), "it stays where the chat is"


def test_only_a_mention_or_a_reply_to_ours_is_for_us() -> None:
    asked = read(written(TO_US, GROUP, kind=9))
    (ours,) = SEALER.seal(answer(asked, asked))
    other = read(written(GROUP, kind=9, by=FRIEND))
    assert (other.starts, other.references) == (False, ())
    quoting = read(written(["q", ours.id, RELAY, PROJECT.public], GROUP, kind=9, by=FRIEND))
    assert (quoting.reply_to, quoting.references, quoting.quotes) == (ours.id, (ours.id,), ())
    threaded = read(written(["e", asked.event_id, "", "root"], ["e", ours.id, "", "reply"], GROUP, kind=9))
    assert threaded.references == (ours.id, asked.event_id)


def test_the_name_of_what_is_answered_is_no_part_of_what_is_said() -> None:
    asked = read(written(TO_US, kind=9))
    (ours,) = SEALER.seal(answer(asked, asked))
    name = ours.content.split("\n")[0]
    reply = read(written(TO_US, kind=9, text=f"{name}\n/stop"))
    assert (reply.text, reply.starts) == ("/stop", True)


def test_a_chat_without_its_relay_cannot_be_answered() -> None:
    assert read_event(written(TO_US, kind=9), OURS, {}, "", None) is None
