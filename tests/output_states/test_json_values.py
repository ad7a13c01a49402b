"""JSON is read strictly, and never raises."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.output_states.endings import JsonExtent
from tenex.output_states.json_values import faults, moved, read

_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.text(max_size=8, alphabet=st.characters(codec="utf-8"))
)
_NAMES = st.text(alphabet='ab"{}[]\\', max_size=3)
VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=8
)


@settings(max_examples=150, database=None)
@given(VALUES.filter(lambda value: isinstance(value, dict | list)), st.booleans(), st.sampled_from([None, 1]))
def test_the_end_of_a_value_is_where_its_bracket_closes(value: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    extent = JsonExtent()
    assert [extent.step(character) for character in text] == [False] * (len(text) - 1) + [True]
    assert read(text) == (value, "")


@settings(max_examples=150, database=None)
@given(st.text(alphabet='{}[]":,\\u0d8e1 \n', max_size=20))
def test_nothing_raises(text: str) -> None:
    value, fault = read(text)
    assert value is None or not fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a":1,"a":2}', "A name occurs twice"),
        ('{"a":12345678901234567890}', "more than 19 digits"),
        ('{"a":1e999}', "2 in the exponent"),
        ('{"a":NaN}', "NaN is no JSON"),
        ('{"a":"\\ud83d"}', "half of a surrogate pair"),
        ('{"a":"\\ude00\\ud83d"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested deeper than 64"),
        ('{"a":01}', "This is no JSON"),
        ("9" * 5000, "more than 19 digits"),
    ],
)
def test_what_a_reader_could_trip_over_is_refused(text: str, sentence: str) -> None:
    value, fault = read(text)
    assert value is None
    assert sentence in fault


def test_an_escaped_backslash_begins_no_escape() -> None:
    assert read('["\\\\ud83d", "\\ud83d\\ude00"]') == (["\\ud83d", "😀"], "")


def test_at_most_eight_faults_are_reported() -> None:
    schema = {"type": "object", "required": [f"p{i}" for i in range(20)]}
    sentences = faults({}, schema)
    assert len(sentences) == 9
    assert sentences[-1] == "and 12 more faults"


def test_a_schema_takes_its_references_along() -> None:
    schema = {"$ref": "#/$defs/a", "properties": {"$ref": {"const": {"$ref": "#/x"}}}, "x": [{"$ref": "other#/y"}]}
    assert moved(schema, "#/in") == {
        "$ref": "#/in/$defs/a",
        "properties": {"$ref": {"const": {"$ref": "#/x"}}},
        "x": [{"$ref": "other#/y"}],
    }
