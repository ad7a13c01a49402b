"""Events are read strictly, identified as the libraries do, signed the same way every time."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pynostr.event import Event as PynostrEvent

from tenex.core.errors import InvalidEvent
from tenex.nostr.events import (
    MAX_EVENT_BYTES,
    MAX_TAGS,
    Event,
    event_id,
    is_genuine,
    parse_event,
    sign,
    to_wire,
    unsigned_event,
)
from tenex.nostr.keys import SecretKey

KEY = SecretKey(b"\x7f" * 32)
OTHER = SecretKey(b"\x11" * 32)


def made(content: str = "hello", tags: tuple[tuple[str, ...], ...] = (("p", "a" * 64),), kind: int = 1) -> Event:
    return sign(unsigned_event(KEY.public, 1_700_000_000, kind, tags, content), KEY)


def wire(**changes: Any) -> dict[str, Any]:
    return {**to_wire(made()), **changes}


def test_a_signed_event_survives_the_wire_and_is_genuine() -> None:
    event = made('grüße 🌍 \n\t"\\ \x00\x1b\x7f </script>')
    again = parse_event(json.loads(json.dumps(to_wire(event))))
    assert again == event
    assert is_genuine(again)
    assert PynostrEvent.from_dict(to_wire(made())).verify()
    assert made().sig == made().sig, "signing is deterministic"


@example(text='\b\f\n\r\t"\\ \x00\x01\x0b\x1b\x1f', tag=["&<>/"], created_at=5, kind=1)
@example(text="\x7f\x80\x9f \u2028\u2029 \ufffe\uffff\ufeff", tag=["👩‍👩‍👧"], created_at=5, kind=1)
@given(
    text=st.text(), tag=st.lists(st.text(), max_size=3), created_at=st.integers(0, 2**40), kind=st.integers(0, 65535)
)
def test_ids_are_those_of_pynostr_for_any_text(text: str, tag: list[str], created_at: int, kind: int) -> None:
    theirs = PynostrEvent(content=text, pubkey=KEY.public, created_at=created_at, kind=kind, tags=[tag])
    assert event_id(KEY.public, created_at, kind, [tag], text) == theirs.id


REFUSED: dict[str, list[object]] = {
    "id": ["A" * 64, "a" * 63, "a" * 64],
    "pubkey": [made().pubkey.upper()],
    "sig": ["a" * 127, "a" * 128 + "\n"],
    "created_at": [1.0, "1", -1, float("nan"), 2**60],
    "kind": [True, 1.0, 65536],
    "tags": ["abc", ["abc"], [{"a": "b"}], [["p", 1]], [["p", None]], [["t"]] * (MAX_TAGS + 1), [["\ud83d"]]],
    "content": [5, "half \ud83d"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_what_nip_01_does_not_allow_is_refused_naming_the_field(name: str, value: object) -> None:
    with pytest.raises(InvalidEvent, match=name):
        parse_event(wire(**{name: value}))


NULLED = ({**wire(), name: None} for name in wire())
LACKING = ({k: v for k, v in wire().items() if k != name} for name in wire())


@pytest.mark.parametrize("obj", [None, "event", [1, 2], *NULLED, *LACKING])
def test_what_is_no_event_at_all_is_refused(obj: object) -> None:
    with pytest.raises(InvalidEvent):
        parse_event(obj)


def test_a_refusal_never_repeats_the_text() -> None:
    secret = "the secret words"
    for changes in ({"content": secret}, {"sig": secret}, {"tags": [["x", secret, 1]]}):
        with pytest.raises(InvalidEvent) as refused:
            parse_event(wire(**changes))
        assert "secret words" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_an_event_above_the_limit_is_refused() -> None:
    around = len(json.dumps([0, KEY.public, 1_700_000_000, 1, [["p", "a" * 64]], ""], separators=(",", ":")))
    largest = made("x" * (MAX_EVENT_BYTES - around))
    assert parse_event(to_wire(largest)) == largest
    with pytest.raises(InvalidEvent, match="larger than 1048576"):
        parse_event(to_wire(made(largest.content + "x")))


def test_empty_tags_and_unknown_fields_do_no_harm() -> None:
    event = made(tags=((), ("p",)))
    assert parse_event({**to_wire(event), "seen_on": ["x"]}).tags == ((), ("p",))


@pytest.mark.parametrize(
    "changes", [{"sig": OTHER.sign_digest(bytes.fromhex(made().id))}, {"pubkey": "f" * 64}], ids=["other", "no key"]
)
def test_a_signature_by_somebody_else_or_for_no_point_on_the_curve_is_not_genuine(changes: dict[str, str]) -> None:
    assert not is_genuine(made().model_copy(update=changes))


def test_signing_for_another_author_or_a_false_id_is_refused() -> None:
    unsigned = unsigned_event(KEY.public, 1, 1, (), "x")
    with pytest.raises(ValueError, match="is by"):
        sign(unsigned, OTHER)
    false = unsigned_event(KEY.public, 1, 1, (), "y")
    object.__setattr__(false, "content", "x")
    with pytest.raises(ValueError, match="id of its content"):
        sign(false, KEY)
