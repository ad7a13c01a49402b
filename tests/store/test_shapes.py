"""Values as JSON by their type hints."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.core.messages import AgentText, Entry, ModelStep, Note, Usage
from tenex.core.phases import Phase
from tenex.core.ports import Handoff
from tenex.core.records import PhaseTransition
from tenex.store.mismatch import Mismatch
from tenex.store.shapes import camel, object_shape, shape_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [("from_", "from"), ("agent_pubkey", "agentPubkey"), ("cost_usd", "costUsd"), ("at", "at"), ("is_done_", "isDone")],
)
def test_field_names_become_camel_case_without_trailing_underscore(name: str, expected: str) -> None:
    assert camel(name) == expected


def test_a_handoff_is_written_with_the_names_of_the_seed() -> None:
    handoff = Handoff(from_=Phase.CHAT, to=Phase.PLAN, message="m", reason="r", summary="s")
    shape = object_shape(Handoff)
    written = shape.encode(handoff)
    assert written == {"from": "chat", "to": "plan", "message": "m", "reason": "r", "summary": "s"}
    assert type(written["from"]) is str
    assert shape.decode(written) == handoff


def test_fields_at_their_default_are_left_out_and_come_back() -> None:
    shape = object_shape(ModelStep)
    assert shape.encode(ModelStep(text="hi")) == {"text": "hi"}
    assert shape.encode(ModelStep(usage=Usage(input_tokens=3))) == {"usage": {"inputTokens": 3}}
    assert shape.decode({}) == ModelStep()


def test_a_member_of_a_union_is_known_by_its_name() -> None:
    shape = shape_of(Entry, "test")
    assert shape.encode(Note(title="t", text="x")) == {"is": "Note", "title": "t", "text": "x"}
    assert shape.decode({"is": "AgentText", "author": "a", "text": "x"}) == AgentText(author="a", text="x")


@pytest.mark.parametrize("data", [None, [], {"text": "x"}, {"is": "Stranger"}, {"is": 3}, {"is": ["Note"]}])
def test_no_member_of_the_union_is_refused(data: Any) -> None:
    with pytest.raises(Mismatch, match=r"`is` is one of UserText, Note"):
        shape_of(Entry, "test").decode(data)


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (int, True),
        (int, 1.0),
        (int, "1"),
        (bool, 1),
        (str, 1),
        (str, None),
        (float, True),
        (float, 2**60 + 1),
        (Phase, "nowhere"),
        (Phase, "Chat"),
        (Phase, ["chat"]),
        (tuple[str, ...], "abc"),
        (tuple[str, ...], ["a", 1]),
        (Mapping[str, str], {"a": 1}),
        (Mapping[str, Any], [["a", 1]]),
        (Phase | None, 0),
        (Handoff, []),
    ],
)
def test_reading_takes_no_other_type_for_the_right_one(hint: Any, data: Any) -> None:
    with pytest.raises(Mismatch):
        shape_of(hint, "test").decode(data)


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, 1.5), (int, True), (str, b"x"), (Phase, "chat"), (tuple[str, ...], "abc"), (tuple[int, ...], ["1"])],
)
def test_writing_refuses_what_could_not_be_read_again(hint: Any, value: Any) -> None:
    with pytest.raises(Mismatch):
        shape_of(hint, "test").encode(value)


def test_a_whole_number_is_a_number() -> None:
    assert shape_of(float, "test").decode(3) == 3.0


def test_a_mismatch_names_the_place_and_not_the_value() -> None:
    good = {"to": "plan", "message": "m", "reason": "r", "summary": "s"}
    with pytest.raises(Mismatch) as caught:
        object_shape(Handoff).decode({"from": "a secret word", **good})
    assert str(caught.value).startswith("`from` must be one of chat,")
    assert "secret" not in str(caught.value)
    with pytest.raises(Mismatch, match="`from` is missing"):
        object_shape(Handoff).decode(good)
    with pytest.raises(Mismatch, match=r"`calls\.1` must be an object, but is an integer"):
        object_shape(ModelStep).decode({"calls": [{"id": "1", "tool": "t"}, 7]})


def test_unknown_fields_are_accepted_and_kept_out() -> None:
    assert object_shape(Usage).decode({"inputTokens": 1, "newThing": [1]}) == Usage(input_tokens=1)


def test_any_mapping_is_written_as_an_object() -> None:
    shape = shape_of(Mapping[str, Any], "test")
    written = shape.encode(MappingProxyType({"a": 1}))
    assert written == {"a": 1}
    assert type(written) is dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    is_: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    value: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strange:
    value: set[int]


@pytest.mark.parametrize("kind", [Clash, Unclear, Strange])
def test_a_type_that_json_cannot_tell_apart_is_refused_when_it_is_compiled(kind: type) -> None:
    with pytest.raises(InternalError, match=kind.__name__):
        object_shape(kind)


def test_fields_that_stand_elsewhere_are_left_to_the_caller() -> None:
    shape = object_shape(PhaseTransition, leave_out=("seq", "at"))
    with pytest.raises(Mismatch, match="`from` is missing"):
        shape.decode({"seq": 1})
