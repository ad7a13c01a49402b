"""Sealing: splitting, sizes, tags every message carries, and where it goes; held to a real relay at the end."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tenex.core.errors import ConfigurationError, InternalError
from tenex.core.port_values import AttachedFile
from tenex.core.ports import OutgoingMessage, Sealer, UnsignedEvent
from tenex.nostr.compose import LEAST_BYTES, NostrSealer, Publisher
from tenex.nostr.direct import nip44_encrypt
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import event_id, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.keys import RemoteKey, SecretKey
from tenex.nostr.relay_info import RelayLimits
from tenex.nostr.threading import KINDS
from tenex.nostr.threading.split import MAX_EVENT_BYTES, clean_text, clip, split_text
from tests.kits.drafts import ADDRESS, draft

from .kit import ALICE, BOB, NOW, PERSON, PROJECT, RELAY, answer, answer_tags, pool, read, written

RELAYS = ("wss://one.example", "WSS://One.Example:443/", "ws://127.0.0.1:7447")
MARKS = (("L", "agent"), ("l", "ai", "agent"))


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
    (without_project,) = NostrSealer(RELAYS).seal(draft(kind=kind))
    assert "a" not in {tag[0] for tag in without_project.tags}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("notifies", "silent", "named"),
    [
        (None, (), {PERSON.public, BOB.public}),
        ((), (), set()),
        ((BOB.public,), (), {BOB.public}),
        (None, (PERSON.public,), {BOB.public}),
        ((BOB.public,), (BOB.public,), set()),
    ],
)
def test_p_tags_name_only_whom_a_message_may_notify(kind: int, notifies: Any, silent: Any, named: set[str]) -> None:
    root = [["E", "e" * 64], ["K", "1"], ["e", "e" * 64], ["k", "1"]] if kind == 1111 else []
    asked = read(written(["p", PROJECT.public], *root, kind=kind), "wss://seen.example")
    sent = answer(asked, asked, "hello", ("p", BOB.public))
    (event,) = NostrSealer(RELAYS).seal(replace(sent, notifies=notifies, silent=silent))
    assert {tag[1] for tag in event.tags if tag[0] == "p"} == named
    assert event.id == event_id(event.pubkey, event.created_at, event.kind, event.tags, event.content)


def test_the_readers_of_a_private_message_are_named_whomever_it_notifies() -> None:
    address = {"form": "direct", "room": "r" * 64, "key": PROJECT.public, "people": [PERSON.public, BOB.public]}
    sent = replace(
        draft(), address=address, reply_to={"form": "direct", "id": "e" * 64}, notifies=(), silent=(BOB.public,)
    )
    (event,) = NostrSealer(RELAYS, keys={PROJECT.public: PROJECT}).seal(sent)
    assert {tag[1] for tag in event.tags if tag[0] == "p"} == {PERSON.public, BOB.public}


def test_an_unknown_form_is_refused() -> None:
    """The sentence names the form and those that exist."""
    with pytest.raises(InternalError, match=r"'pigeon'.*notes, threads"):
        NostrSealer(RELAYS).seal(replace(draft(), address={"form": "pigeon"}))


def test_a_long_text_becomes_several_events_in_order() -> None:
    """Paragraphs stay whole, and a restart finds the ids it has in its journal."""
    message = draft("\n\n".join(f"Paragraph {n}: " + 'ü\\"\n' * 900 for n in range(40)), kind=11)
    events = NostrSealer(RELAYS).seal(message)
    assert len(events) > 2
    assert all(event.content.startswith("Paragraph") for event in events)
    assert {event.tags for event in events} == {events[0].tags}
    assert NostrSealer(RELAYS).seal(message) == events


@pytest.mark.parametrize(
    ("limits", "characters", "size"),
    [
        (RelayLimits(max_content_length=1200), 1200, MAX_EVENT_BYTES),
        (RelayLimits(max_message_length=20_000), MAX_EVENT_BYTES, 20_000),
        (RelayLimits(max_message_length=4096), MAX_EVENT_BYTES, LEAST_BYTES),
        (RelayLimits(), MAX_EVENT_BYTES, MAX_EVENT_BYTES),
    ],
)
def test_a_text_is_split_as_the_smallest_of_its_relays_demands(limits: RelayLimits, characters: int, size: int) -> None:
    """Large tags leave room for text, whatever a relay says."""
    message = draft("word " * 20_000, *((f"t{number}", "x" * 1000) for number in range(9)), kind=11)
    sealer = NostrSealer(RELAYS)
    targets = sealer.relays(message)
    limited = NostrSealer(RELAYS, limits=lambda relay: limits if relay == targets[-1] else RelayLimits())
    events = limited.seal(message)
    assert max(len(event.content) for event in events) <= characters
    assert max(map(wire_bytes, events)) <= size
    assert squeezed("".join(event.content for event in events)) == "word" * 20_000


def test_transition_tags_are_on_the_first_part_and_completion_tags_on_the_last() -> None:
    """Clients add up costs and draw each transition, so neither is repeated on every part."""
    names = ("phase", "phase-transition", "phase-from", "new-phase", "status", "tool", "llm-cost-usd", "error")
    events = NostrSealer(RELAYS).seal(draft("word " * 40_000, *((name, "x") for name in names)))
    assert len(events) == 4
    own = [{tag[0] for tag in event.tags} - {"e", "p", "L", "l"} for event in events]
    assert own[0] == {"phase", "error", "phase-transition", "phase-from", "new-phase"}
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


def test_what_cannot_be_published_is_replaced_and_a_long_tag_shortened() -> None:
    """Halves become a replacement character, two halves that belong together their character; NUL goes too."""
    (event,) = NostrSealer(RELAYS).seal(draft("a\ud800b \ud83d\ude00 c\0d", ("error", "\udfff", "ü" * 1000)))
    assert event.content == "a\ufffdb 😀 c\ufffdd"
    assert ("error", "\ufffd", "ü" * 510 + "…") in event.tags
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


def test_tags_that_fill_an_event_are_a_bug() -> None:
    with pytest.raises(InternalError, match="tags of a kind 1 leave"):
        NostrSealer(RELAYS).seal(draft("x", *[("t", "y" * 1000)] * 70))


def test_descriptions_of_files_never_fill_an_event() -> None:
    """The addresses of all are in the text; a remote signer is asked for small events only."""
    files = tuple(
        AttachedFile(
            name="n" * 300, media_type="image/png", size=1, url=f"https://b.example/{number}", caption="é" * 200
        )
        for number in range(60)
    )
    (event,) = NostrSealer(RELAYS).seal(replace(draft("x" * 1000), files=files))
    described = [tag for tag in event.tags if tag[0] == "imeta"]
    assert [tag[1] for tag in described] == [f"url https://b.example/{number}" for number in range(len(described))]
    assert 5 < len(described) < 20


def test_relays_are_those_of_the_conversation_then_of_the_message_then_the_configured() -> None:
    """Each once, in one spelling, in order; what belongs to a group stays on its relay."""
    configured, seen = ("wss://one.example", "ws://127.0.0.1:7447"), "wss://seen.example"
    sealer = NostrSealer(RELAYS)
    assert sealer.relays(draft()) == (seen, *configured)
    assert sealer.relays(draft(relay="wss://ONE.example/")) == configured
    assert sealer.relays(draft(relay="")) == configured
    elsewhere = replace(draft(), reply_to=draft(relay="wss://two.example").reply_to)
    assert sealer.relays(elsewhere) == (seen, "wss://two.example", *configured)
    for kind in (1, 11):
        assert sealer.relays(draft(kind=kind, group="room")) == (seen,)


def test_relays_that_are_none_are_named() -> None:
    """All of them in one error."""
    with pytest.raises(ConfigurationError) as caught:
        NostrSealer(["wss://fine.example", "http://one", "two"])
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize("kind", [1, 11])
@pytest.mark.parametrize("text", ["short", 'quote " and \\ and ü\n' * 9000, "\x1f" * 30_000, "😀" * 40_000])
async def test_a_real_relay_takes_every_part(kind: int, text: str) -> None:
    """Ids, signatures and sizes are what somebody else's relay takes for right; it refuses events above 64 KiB."""
    async with embedded_relay() as url, asyncio.timeout(30), connect(url, proxy=None) as socket:
        for event in NostrSealer([url]).seal(draft(text, ("phase", "chat"), kind=kind, relay=url)):
            frame = json.dumps(["EVENT", to_wire(sign(event, PROJECT))], ensure_ascii=False)
            await socket.send(frame)
            assert json.loads(await socket.recv())[:3] == ["OK", event.id, True]


@pytest.mark.parametrize(("key", "kind", "why"), [(ALICE, 0, "kind 0"), (ALICE, 5, "kind 5"), (BOB, 1, "the key")])
async def test_only_messages_by_our_keys_are_signed(key: SecretKey, kind: int, why: str) -> None:
    """A journal that was carried here may hold anything, such as a profile or a deletion by one of our keys."""
    publisher = Publisher(pool(), {ALICE.public: ALICE}, KINDS)
    outcome = await publisher.publish(unsigned_event(key.public, NOW, kind, [], "hello"), "ws://127.0.0.1:9")
    assert not outcome.accepted
    assert why in outcome.detail


# ---- a conversation we begin ourselves -----------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("kind", "shown"),
    [(1, "Title\n\nbold, a.md (b)"), (11, "# Title\n\n**bold**, [a.md](b)"), (9, "Title\n\nbold, a.md (b)")],
)
def test_markdown_of_a_model_is_plain_where_clients_show_it_as_it_is_written(kind: int, shown: str) -> None:
    markdown = "# Title\n\n**bold**, [a.md](b)"
    message = draft(markdown, kind=kind)
    (ours,) = NostrSealer(RELAYS).seal(message)
    (of_model,) = NostrSealer(RELAYS).seal(replace(message, is_markdown=True))
    quoted = ours.content.removesuffix(markdown)
    assert of_model.content == quoted + shown


def test_what_a_remote_signer_is_to_sign_fits_into_a_request() -> None:
    """Also of a text that JSON and the encryption of a request make as long as any: relays take 64 KiB."""
    key = RemoteKey(public=PROJECT.public, signer=BOB.public, relays=(RELAY,), client=ALICE)
    text = '"quoted"\n\n' * 9_000
    whole = NostrSealer(RELAYS).seal(draft(text))
    parts = NostrSealer(RELAYS, keys={PROJECT.public: key}).seal(draft(text))
    assert len(parts) > len(whole)
    assert squeezed("".join(part.content for part in parts)) == squeezed(text)
    for part in parts:
        request = json.dumps(
            {"id": "0" * 32, "method": "sign_event", "params": [json.dumps(to_wire(sign(part, PROJECT)))]}
        )
        assert len(nip44_encrypt(request, ALICE.shared_secret(BOB.public))) < 62_000


def test_a_private_answer_by_a_key_at_a_remote_signer_is_not_made() -> None:
    key = RemoteKey(public=PROJECT.public, signer=BOB.public, relays=(RELAY,), client=ALICE)
    address = {"form": "direct", "room": "r", "people": [PERSON.public], "key": PROJECT.public, "root": "a" * 64}
    outgoing = replace(draft(), address=address, reply_to={"form": "direct", "inboxes": {PERSON.public: [RELAY]}})
    for keys, count in (({PROJECT.public: PROJECT}, 1), ({PROJECT.public: key}, 0)):
        sealer = NostrSealer(RELAYS, keys=keys)
        assert len(sealer.wraps(outgoing, sealer.seal(outgoing))) == count
        assert sealer.relays(outgoing) == ()
