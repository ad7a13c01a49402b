"""A thread we begin ourselves: in the form of the conversation it follows on, and a reply to it finds its way there."""

from dataclasses import replace
from typing import Any

import pytest

from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.nostr.compose import NostrSealer

from .kit import PERSON, PROJECT, RELAY, answer_tags, read, written

OLD = "b" * 64


def begun(form: str, **more: Any) -> tuple[UnsignedEvent, dict[str, Any]]:
    address = {"root": OLD, "root_kind": 1, "root_author": PERSON.public, "root_relay": f"{RELAY}/?token=secret"}
    draft = OutgoingMessage(
        speaker=PROJECT.public,
        text="Fork of it: reply here.",
        tags=(("phase", "execute"),),
        created_at=1000,
        address={"form": form, **address, "relays": [RELAY], **more},
        reply_to={},
    )
    return NostrSealer([RELAY]).begin(draft, "Fork of it", [PERSON.public, PROJECT.public, ""])


@pytest.mark.parametrize(("form", "kind"), [("notes", 1), ("threads", 11)])
def test_a_reply_to_it_belongs_to_the_new_conversation(form: str, kind: int) -> None:
    event, address = begun(form)
    assert (event.kind, event.pubkey, address["root"]) == (kind, PROJECT.public, event.id)
    assert (("title", "Fork of it") in event.tags) == (kind == 11)
    if kind == 1:
        reply = written(["e", event.id, RELAY, "root"], ["p", PROJECT.public])
    else:
        comment = (["E", event.id, RELAY, PROJECT.public], ["K", "11"], ["e", event.id], ["k", "11"])
        reply = written(*comment, kind=1111)
    incoming = read(reply)
    assert (str(incoming.conversation), incoming.references) == (event.id, (event.id,))
    opener = replace(incoming, address=address)
    assert event.id in [tag[1] for tag in answer_tags(opener, incoming) if tag[0] in ("e", "E")]


def test_it_quotes_the_other_calls_the_person_and_answers_nothing() -> None:
    event, address = begun("notes")
    assert ("q", OLD, RELAY, PERSON.public) in event.tags, "an access token is not passed on"
    assert [tag for tag in event.tags if tag[0] == "p"] == [("p", PERSON.public)]
    assert not [tag for tag in event.tags if tag[0] in ("e", "E", "h")]
    assert ("phase", "execute") in event.tags
    assert ("l", "ai", "agent") in event.tags
    assert address["relays"] == [RELAY]


def test_what_belongs_to_a_group_stays_in_it() -> None:
    event, address = begun("notes", group="ours")
    assert ("h", "ours") in event.tags
    assert address["group"] == "ours"
