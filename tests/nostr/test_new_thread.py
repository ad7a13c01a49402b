"""A thread we begin ourselves: in the form of the conversation it follows on, and a reply to it finds its way there."""

from typing import Any

import pytest

from tenex.core.ports import OutgoingMessage
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import Event, sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event, scheme_named

PROJECT, OWNER = SecretKey.generate(), SecretKey.generate()
RELAY = "wss://relay.example"
OLD = "b" * 64


def begun(form: str, **more: Any) -> tuple[Any, dict[str, Any]]:
    address = {
        "form": form,
        "root": OLD,
        "root_kind": 1,
        "root_author": OWNER.public,
        "root_relay": f"{RELAY}/?token=secret",
        "relays": [RELAY],
        **more,
    }
    draft = OutgoingMessage(
        speaker=PROJECT.public,
        text="Fork of it: reply here.",
        tags=(("phase", "execute"),),
        created_at=1_700_000_000,
        address=address,
        reply_to={},
    )
    return NostrSealer([RELAY]).begin(draft, "Fork of it", [OWNER.public, PROJECT.public, ""])


def replied(*tags: list[str], kind: int) -> Event:
    unsigned = unsigned_event(OWNER.public, 1_700_000_100, kind, tags, "go on")
    wire = to_wire(sign(unsigned, OWNER))
    return Event(**{**wire, "tags": tuple(tuple(tag) for tag in wire["tags"])})


@pytest.mark.parametrize(("form", "kind"), [("notes", 1), ("threads", 11)])
def test_a_reply_to_it_belongs_to_the_new_conversation(form: str, kind: int) -> None:
    event, address = begun(form)
    assert (event.kind, event.pubkey, address["root"]) == (kind, PROJECT.public, event.id)
    assert (["title", "Fork of it"] in [list(tag) for tag in event.tags]) == (kind == 11)
    if kind == 1:
        reply = replied(["e", event.id, RELAY, "root"], ["p", PROJECT.public], kind=1)
    else:
        reply = replied(["E", event.id, RELAY, PROJECT.public], ["K", "11"], ["e", event.id], ["k", "11"], kind=1111)
    incoming = read_event(reply, {PROJECT.public}, {}, RELAY, None)
    assert incoming is not None
    assert (incoming.conversation, incoming.references) == (event.id, (event.id,))
    answer = OutgoingMessage(
        speaker=PROJECT.public, text="done", created_at=1_700_000_200, address=address, reply_to=incoming.origin
    )
    (sealed,) = scheme_named(form).seal(answer, ())
    assert event.id in [tag[1] for tag in sealed.tags if tag[0] in ("e", "E")]


def test_it_quotes_the_other_calls_the_person_and_answers_nothing() -> None:
    event, address = begun("notes")
    assert ("q", OLD, RELAY, OWNER.public) in event.tags, "an access token is not passed on"
    assert [tag for tag in event.tags if tag[0] == "p"] == [("p", OWNER.public)]
    assert not [tag for tag in event.tags if tag[0] in ("e", "E", "h")]
    assert ("phase", "execute") in event.tags
    assert ("l", "ai", "agent") in event.tags
    assert address["relays"] == [RELAY]


def test_what_belongs_to_a_group_stays_in_it() -> None:
    event, address = begun("notes", group="ours")
    assert ("h", "ours") in event.tags
    assert address["group"] == "ours"
