"""Values JSON cannot hold are refused by name; the rest are copied, so that no one changes a state from outside."""

import json
import math
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.workflow.rounds import Called, Envelope, Finish, Handoff, faults_of_value, plain

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_what_json_holds_has_no_faults_and_comes_back(value: Any) -> None:
    assert list(faults_of_value(value, "v")) == []
    assert json.loads(json.dumps(plain(value), ensure_ascii=False).encode()) == value


class Colour(StrEnum):
    RED = "red"


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": {1, 2}}, "v.a is a set; only values that JSON can hold are allowed."),
        ([0, object()], "v[1] is a object; only values that JSON can hold are allowed."),
        ({"a": b"x"}, "v.a is a bytes; only values that JSON can hold are allowed."),
        (math.nan, "v is nan, which JSON has no word for."),
        (-math.inf, "v is -inf, which JSON has no word for."),
        ({1: 2}, "v has a key that is no string but int."),
        ("\ud800", "v holds half of a surrogate pair, which is no text."),
        ({"\udfff": 1}, "a key of v holds half of a surrogate pair, which is no text."),
        (1 << 5000, "v is a number of more than 4096 bits, which other programs cannot read."),
        (endless(), "is nested more than 32 levels deep."),
    ],
)
def test_what_json_cannot_hold_is_named(value: Any, sentence: str) -> None:
    found = list(faults_of_value(value, "v"))
    assert len(found) == 1
    assert found[0].endswith(sentence)


def test_a_plain_value_shares_nothing_with_the_one_it_was_made_of() -> None:
    value = {"list": [1, {"deep": (2, 3)}]}
    copied = plain(value)
    assert copied == {"list": [1, {"deep": [2, 3]}]}
    value["list"].append(4)
    assert copied == {"list": [1, {"deep": [2, 3]}]}
    assert list(faults_of_value(Colour.RED, "v")) == []


def test_a_round_shows_what_it_called_and_asked_for() -> None:
    handoff, finish = Handoff("b"), Finish("all done")
    calls = (Called("look"), Called("pass_on", handoff), Called("end", finish), Called("again", Handoff("c")))
    made = Envelope("a", "hello", calls)
    assert made.tools == ("look", "pass_on", "end", "again")
    assert (made.handoff, made.finish, made.tool) == (handoff, finish, "look")
    assert (Envelope("a").handoff, Envelope("a").finish, Envelope("a").tool) == (None, None, None)
