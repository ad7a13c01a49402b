"""Sealing: splitting, sizes, tags every message carries, and where it goes; held to a real relay at the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import nostr_sdk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tenex.core.errors import ConfigurationError, InternalError
from tenex.core.ports import OutgoingMessage, Sealer, UnsignedEvent
from tenex.nostr.compose import NostrSealer, Publisher
from tenex.nostr.events import event_id, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.pool import RelayPool
from tenex.nostr.subscriptions import KINDS
from tenex.nostr.threading import read_event
from tenex.nostr.threading.split import clean_text, clip, split_text

from .kit import ALICE, BOB, FAST, NOW, PERSON, PROJECT

ADDRESS = f"31933:{PERSON.public}:demo"
RELAYS = ("wss://one.example", "WSS://One.Example:443/", "ws://127.0.0.1:7447")
MARKS = (("L", "agent"), ("l", "ai", "agent"))


def draft(
    text: str = "hello",
    *tags: tuple[str, ...],
    kind: int = 1,
    relay: str = "wss://seen.example",
    group: str = "",
    at: int = 2000,
) -> OutgoingMessage:
    """Answer a person's message of a kind, as the journal gives it back."""
    asked_tags = [["p", PROJECT.public], *([["h", group]] if group else [])]
    asked = read_event(
        sign(unsigned_event(PERSON.public, 1000, kind, asked_tags, "?"), PERSON), [PROJECT.public], {}, relay, None
    )
    assert asked is not None
    address: dict[str, Any] = json.loads(json.dumps(asked.address))
    origin: dict[str, Any] = json.loads(json.dumps(asked.origin))
    return OutgoingMessage(
        speaker=PROJECT.public, text=text, tags=tags, created_at=at, address=address, reply_to=origin
    )


def wire_bytes(event: UnsignedEvent) -> int:
    return len(json.dumps(to_wire(sign(event, PROJECT)), ensure_ascii=False, separators=(",", ":")).encode())


def squeezed(text: str) -> str:
    """Leave out the white space a split may drop."""
    return text.translate(dict.fromkeys(map(ord, " \t\r\n")))


@pytest.mark.parametrize(("kind", "answer_kind"), [(1, 1), (11, 1111)])
def test_a_message_gets_the_tags_of_its_scheme_and_of_every_message(kind: int, answer_kind: int) -> None:
    """The form's tags first, then the draft's, then the project and the label of a machine."""
    sealer: Sealer = NostrSealer(RELAYS, project=ADDRESS)
    (event,) = sealer.seal(draft("hi", ("phase", "chat"), (), kind=kind))
    assert (event.kind, event.pubkey, event.created_at, event.content) == (answer_kind, PROJECT.public, 2000, "hi")
    assert event.tags[-4:] == (("phase", "chat"), ("a", ADDRESS), *MARKS)
    assert event.tags[0][0] == ("e" if kind == 1 else "E")
    assert event.id == event_id(event.pubkey, event.created_at, event.kind, event.tags, event.content)


def test_without_a_project_event_there_is_no_address_tag() -> None:
    """`a` names something that exists."""
    (event,) = NostrSealer(RELAYS).seal(draft())
    assert "a" not in {tag[0] for tag in event.tags}


def test_the_same_draft_becomes_the_same_events() -> None:
    """A restart seals again and finds the ids it has in its journal."""
    sealer = NostrSealer(RELAYS)
    assert sealer.seal(draft("x" * 200_000)) == sealer.seal(draft("x" * 200_000))


def test_an_unknown_form_is_refused() -> None:
    """The sentence names the form and those that exist."""
    lost = OutgoingMessage(speaker=PROJECT.public, text="", created_at=1, address={"form": "pigeon"}, reply_to={})
    with pytest.raises(InternalError, match=r"'pigeon'.*notes, threads"):
        NostrSealer(RELAYS).seal(lost)


def test_a_long_text_becomes_several_events_in_order() -> None:
    """Paragraphs stay whole, each event fits, and the second counts up."""
    paragraphs = [f"Paragraph {n}: " + 'ü\\"\n' * 900 for n in range(40)]
    events = NostrSealer(RELAYS).seal(draft("\n\n".join(paragraphs), kind=11))
    assert len(events) > 2
    assert [event.created_at for event in events] == list(range(2000, 2000 + len(events)))
    assert all(event.content.startswith("Paragraph") for event in events)
    assert max(wire_bytes(event) for event in events) <= 62 * 1024
    assert squeezed("".join(event.content for event in events)) == squeezed("".join(paragraphs))
    assert {event.tags for event in events} == {events[0].tags}


def test_transition_tags_are_on_the_first_part_and_completion_tags_on_the_last() -> None:
    """Clients add up costs and draw each transition, so neither is repeated on every part."""
    message = draft(
        "word " * 40_000,
        ("phase", "plan"),
        ("phase-from", "chat"),
        ("new-phase", "plan"),
        ("status", "completed"),
        ("tool", "complete"),
        ("llm-cost-usd", "0.1"),
        ("error", "agent"),
    )
    events = NostrSealer(RELAYS).seal(message)
    assert len(events) == 4
    own = [{tag[0] for tag in event.tags} - {"e", "p", "L", "l"} for event in events]
    assert own[0] == {"phase", "error", "phase-from", "new-phase"}
    assert own[1:-1] == [{"phase", "error"}] * 2
    assert own[-1] == {"phase", "error", "status", "tool", "llm-cost-usd"}


@given(
    text=st.text(st.one_of(st.sampled_from(' \n\t\r"\\\0\x1f'), st.characters(codec="utf-8")), max_size=400),
    room=st.integers(6, 120),
)
def test_splitting_loses_nothing_but_white_space_at_the_cuts(text: str, room: int) -> None:
    """Pieces hold the text in order, none is too large, none empty unless all is."""
    pieces = split_text(text, room)
    assert squeezed("".join(pieces)) == squeezed(text)
    assert all(len(json.dumps(piece, ensure_ascii=False).encode()) - 2 <= room for piece in pieces)
    assert pieces == ("",) or all(pieces)
    if len(json.dumps(text, ensure_ascii=False).encode()) - 2 <= room:
        assert pieces == (text,)


@given(
    text=st.text(st.one_of(st.sampled_from(" \n"), st.characters()), min_size=1, max_size=50),
    times=st.sampled_from([1, 700, 3000]),
    kind=st.sampled_from([1, 11]),
)
def test_every_event_of_every_text_can_be_published(text: str, times: int, kind: int) -> None:
    """Sizes hold, seconds count up, and each part reads back as a genuine event, lone surrogates or not."""
    events = NostrSealer(RELAYS).seal(draft(text * times, kind=kind))
    assert [event.created_at for event in events] == list(range(2000, 2000 + len(events)))
    assert squeezed("".join(event.content for event in events)) == squeezed(clean_text(text * times))
    for event in events:
        assert wire_bytes(event) <= 62 * 1024
        assert parse_event(to_wire(sign(event, PROJECT))).content == event.content


def test_text_is_cut_where_a_reader_would() -> None:
    """Paragraphs before lines, lines before words, words before letters; indentation stays."""
    assert split_text("aa bb\ncc\n\ndd ee", 12) == ("aa bb\ncc", "dd ee")
    assert split_text("aa\nbb cc\n  dd", 10) == ("aa\nbb cc", "  dd")
    assert split_text("aaa bbb ccc", 8) == ("aaa bbb", "ccc")
    assert split_text("aaaaaaaaaa", 8) == ("aaaaaaaa", "aa")
    assert split_text("😀😀😀", 8) == ("😀😀", "😀")
    assert split_text("\n" * 50, 8) == ("",)
    assert split_text("", 8) == ("",)
    with pytest.raises(ValueError, match="6"):
        split_text("a", 5)


def test_what_cannot_be_published_is_replaced() -> None:
    """Halves become a replacement character, two halves that belong together their character; NUL goes too."""
    (event,) = NostrSealer(RELAYS).seal(draft("a\ud800b \ud83d\ude00 c\0d", ("error", "\udfff")))
    assert event.content == "a\ufffdb 😀 c\ufffdd"
    assert ("error", "\ufffd") in event.tags
    assert clean_text("\ufeffas it was") == "\ufeffas it was"


@given(st.text(st.characters(codec="utf-8"), max_size=1200))
def test_tag_values_are_cut_between_characters(value: str) -> None:
    """At most 1 KiB of UTF-8, an ellipsis where something is gone, the rest as it was."""
    short = clip(value)
    assert len(short.encode()) <= 1024
    if len(value.encode()) <= 1024:
        assert short == clean_text(value)
    else:
        assert short[-1] == "…"
        assert clean_text(value).startswith(short[:-1])
        assert len(short.encode()) > 1024 - 4


def test_a_long_tag_value_is_shortened() -> None:
    (event,) = NostrSealer(RELAYS).seal(draft("x", ("error", "ü" * 1000)))
    assert next(tag[1] for tag in event.tags if tag[0] == "error") == "ü" * 510 + "…"


def test_tags_that_fill_an_event_are_a_bug() -> None:
    with pytest.raises(InternalError, match="tags of a kind 1 leave"):
        NostrSealer(RELAYS).seal(draft("x", *[("t", "y" * 1000)] * 70))


def test_relays_are_those_of_the_message_then_the_configured() -> None:
    """Each once, in one spelling, in order."""
    assert NostrSealer(RELAYS).relays(draft()) == ("wss://seen.example", "wss://one.example", "ws://127.0.0.1:7447")
    assert NostrSealer(RELAYS).relays(draft(relay="wss://ONE.example/"))[0] == "wss://one.example"
    assert len(NostrSealer(RELAYS).relays(draft(relay=""))) == 2


def test_an_asker_on_another_relay_is_answered_there_too() -> None:
    """The conversation's relay comes first, then the asker's."""
    opened, asked = draft(), draft(relay="wss://two.example")
    both = OutgoingMessage(
        speaker=PROJECT.public, text="", created_at=1, address=opened.address, reply_to=asked.reply_to
    )
    assert NostrSealer([]).relays(both) == ("wss://seen.example", "wss://two.example")


@pytest.mark.parametrize("kind", [1, 11])
def test_what_belongs_to_a_group_stays_on_its_relay(kind: int) -> None:
    """The configured relays never see it."""
    assert NostrSealer(RELAYS).relays(draft(kind=kind, group="room")) == ("wss://seen.example",)


def test_relays_that_are_none_are_named() -> None:
    """All of them in one error."""
    with pytest.raises(ConfigurationError) as caught:
        NostrSealer(["wss://fine.example", "http://one", "two"])
    assert len(caught.value.faults) == 2


@pytest.fixture
async def relay_url() -> AsyncIterator[str]:
    """A real relay in this process, which refuses events above 64 KiB."""
    relay = nostr_sdk.LocalRelayBuilder().addr("127.0.0.1").build()
    await relay.run()
    try:
        yield str(await relay.url())
    finally:
        relay.shutdown()


@pytest.mark.parametrize("kind", [1, 11])
@pytest.mark.parametrize("text", ["short", 'quote " and \\ and ü\n' * 9000, "\x1f" * 30_000, "😀" * 40_000])
async def test_a_real_relay_takes_every_part(relay_url: str, kind: int, text: str) -> None:
    """Ids, signatures and sizes are what somebody else's relay takes for right."""
    events = NostrSealer([relay_url]).seal(draft(text, ("phase", "chat"), kind=kind, relay=relay_url))
    async with asyncio.timeout(30), connect(relay_url, proxy=None) as socket:
        for event in events:
            frame = json.dumps(["EVENT", to_wire(sign(event, PROJECT))], ensure_ascii=False)
            await socket.send(frame)
            assert json.loads(await socket.recv())[:3] == ["OK", event.id, True]


@pytest.mark.parametrize(("key", "kind", "why"), [(ALICE, 0, "kind 0"), (ALICE, 5, "kind 5"), (BOB, 1, "the key")])
async def test_only_messages_by_our_keys_are_signed(key: object, kind: int, why: str) -> None:
    """A journal that was carried here may hold anything, such as a profile or a deletion by one of our keys."""
    relays = RelayPool([], on_event=lambda event, relay: None, timeouts=FAST)
    publisher = Publisher(relays, {ALICE.public: ALICE}, KINDS)
    event = unsigned_event((ALICE if key is ALICE else BOB).public, NOW, kind, [], "hello")
    outcome = await publisher.publish(event, "ws://127.0.0.1:9")
    assert not outcome.accepted
    assert why in outcome.detail
