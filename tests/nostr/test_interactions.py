"""Prompts with buttons: which questions become one, and which events are a press."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tenex.core.delivery.buttons import numbered, yes_or_no
from tenex.core.ids import EventId, Millis
from tenex.core.ports import OutgoingMessage
from tenex.nostr.compose import NostrSealer
from tenex.nostr.interactions import EXTENSION, PRESS, PROMPT, ShownPrompt, read_press, to_prompts
from tenex.nostr.relay_info import RelayLimits, limits_of
from tenex.nostr.threading import read_event
from tenex.nostr.threading.room_threads import ROOM_THREADS

from .kit import OURS, PERSON, PLANNER, PROJECT, RELAY, answer, note, written

ROOM = ["h", "0b5a3c9c-7d4e-4f43-9a2c-1f6f1c7f9d10"]
OFFERS = RelayLimits(extensions=frozenset({EXTENSION}))
SEALER = NostrSealer([RELAY], limits=lambda relay: OFFERS if relay == RELAY else RelayLimits())
PROMPTED = "a" * 64


def draft(text: str = "Which colour?", labels: tuple[str, ...] = ("red", "blue")) -> OutgoingMessage:
    """An answer in a thread of a room that asks something."""
    asked = read_event(written(["p", PROJECT.public], ROOM, kind=9), OURS, {}, RELAY, None, ROOM_THREADS)
    assert asked is not None
    address, origin = json.loads(json.dumps([asked.address, asked.origin]))
    asked = replace(asked, address=address, origin=origin)
    return replace(answer(asked, asked, text), buttons=numbered(labels, Millis(0)))


def test_a_question_in_a_room_with_buttons_is_a_prompt_in_its_thread() -> None:
    asks = draft()
    assert SEALER.has_buttons(asks)
    (event,) = SEALER.seal(asks)
    root = str(asks.address["root"])
    assert (event.kind, event.content) == (PROMPT, "Which colour?")
    assert {
        ("e", root, "", "reply"),
        tuple(ROOM),
        ("p", PERSON.public),
        ("itype", "buttons"),
        ("opt", "1", "red", "default"),
        ("opt", "2", "blue", "default"),
        ("closes", "manual"),
        ("responders", "members"),
    } <= set(event.tags)
    (end,) = SEALER.closing(asks, event.id)
    assert end.tags == (tuple(ROOM), ("e", event.id, "", "prompt"))


def test_a_yes_and_a_no_have_their_styles_and_end_with_the_request() -> None:
    asks = replace(draft(), buttons=yes_or_no(Millis(0), Millis(60_000)))
    (event,) = SEALER.seal(asks)
    assert {("opt", "yes", "Yes", "primary"), ("opt", "no", "No", "danger"), ("deadline", "60")} <= set(event.tags)


@pytest.mark.parametrize(
    "asks",
    [
        replace(draft(), buttons=None),
        draft(labels=("red", "Red ")),
        draft(labels=("2", "1")),
        draft(labels=("red", "  ")),
        draft(labels=("red", "blue\nor green")),
        draft(labels=("red", "b" * 257)),
        draft(labels=tuple("abcdefghi")),
        draft("x" * 16_385),
        replace(draft(), address={**draft().address, "form": "chats"}, reply_to={}),
        replace(draft(), address={**draft().address, "relays": ["wss://other.example"]}),
    ],
)
def test_what_a_relay_would_not_take_as_a_prompt_stays_a_plain_message(asks: OutgoingMessage) -> None:
    assert not SEALER.has_buttons(asks)
    assert not NostrSealer([RELAY]).has_buttons(asks)


@pytest.mark.parametrize(("choice", "picture"), [("1", "1️⃣"), ("8", "8️⃣"), ("yes", "👍"), ("no", "👎")])
def test_a_press_is_the_reaction_that_means_the_same(choice: str, picture: str) -> None:
    event = note(by=PERSON, kind=PRESS, tags=[ROOM, ["e", PROMPTED, "", "prompt"], ["choice", choice]])
    press = read_press(event, OURS, RELAY)
    assert press is not None
    assert (press.text, press.reply_to, press.is_reaction, press.starts) == (picture, PROMPTED, True, False)


@pytest.mark.parametrize(
    ("tags", "more"),
    [
        ([["e", PROMPTED, "", "reply"], ["choice", "1"]], {}),
        ([["e", "no id", "", "prompt"], ["choice", "1"]], {}),
        ([["e", PROMPTED, "", "prompt"], ["e", "b" * 64, "", "prompt"], ["choice", "1"]], {}),
        ([["e", PROMPTED, "", "prompt"]], {}),
        ([["e", PROMPTED, "", "prompt"], ["choice", "1"], ["choice", "2"]], {}),
        ([["e", PROMPTED, "", "prompt"], ["choice", "maybe"]], {}),
        ([["e", PROMPTED, "", "prompt"], ["choice", "1"]], {"by": PLANNER}),
        ([["e", PROMPTED, "", "prompt"], ["choice", "1"]], {"kind": 7}),
        ([["e", PROMPTED, "", "prompt"], ["choice", "1"], ["l", "ai", "agent"], ["L", "agent"]], {}),
    ],
)
def test_any_other_event_is_no_press(tags: list[list[str]], more: dict[str, Any]) -> None:
    event = note(**{"by": PERSON, "kind": PRESS, "tags": [ROOM, *tags], **more})
    assert read_press(event, OURS, RELAY) is None


def test_a_reply_to_the_relays_words_of_a_prompt_is_one_to_the_prompt() -> None:
    words, root = "c" * 64, "d" * 64
    event = note("red", by=PERSON, kind=9, tags=[ROOM, ["e", root, "", "root"], ["e", words, "", "reply"]])
    message = read_event(event, OURS, {}, RELAY, None, ROOM_THREADS)
    assert message is not None
    meant = to_prompts(message, {words: ShownPrompt(EventId(PROMPTED), "Which colour? red, blue")})
    assert (meant.reply_to, meant.references, meant.conversation) == (PROMPTED, (PROMPTED, root), root)
    assert (meant.shown_in, meant.shown_as) == (words, "Which colour? red, blue")
    assert to_prompts(message, {}) is message


def test_a_relay_offers_what_its_document_lists_if_it_has_rooms() -> None:
    key = "e" * 64
    document: dict[str, Any] = {"supported_nips": [29], "self": key, "supported_extensions": [EXTENSION, 7]}
    limits = limits_of(document)
    assert limits is not None
    assert limits.extensions == {EXTENSION}
    without_rooms = limits_of({**document, "supported_nips": [1], "limitation": {}})
    assert without_rooms is not None
    assert not without_rooms.extensions
    odd = limits_of({**document, "supported_extensions": EXTENSION})
    assert odd is not None
    assert not odd.extensions
