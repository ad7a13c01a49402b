"""Tuples, sets and mappings as JSON."""

from collections.abc import Mapping
from typing import Any, NewType

import pytest

from tenex.core.errors import InternalError
from tenex.core.phases import Phase
from tenex.store.mismatch import Mismatch
from tenex.store.shapes import shape_of

Name = NewType("Name", str)


def test_a_set_is_written_in_order_so_equal_sets_have_equal_bytes() -> None:
    shape = shape_of(frozenset[str], "test")
    assert shape.encode(frozenset("cab")) == ["a", "b", "c"]
    assert shape.decode(["c", "a", "b", "a"]) == frozenset("abc")


def test_the_keys_of_a_mapping_are_texts_in_the_file_and_themselves_again() -> None:
    for hint, value, written in (
        (Mapping[int, str], {-3: "a", 12: "b"}, {"-3": "a", "12": "b"}),
        (Mapping[Phase, int], {Phase.CHORES: 1}, {"chores": 1}),
        (Mapping[Name, None], {"x": None}, {"x": None}),
    ):
        shape = shape_of(hint, "test")
        assert shape.encode(value) == written
        assert all(type(key) is str for key in shape.encode(value))
        assert shape.decode(written) == value


def test_a_mapping_keeps_its_order() -> None:
    shape = shape_of(Mapping[int, int], "test")
    assert list(shape.decode(shape.encode({3: 0, 1: 0, 2: 0}))) == [3, 1, 2]


def test_a_tuple_of_fixed_length_has_a_type_for_each_place() -> None:
    shape = shape_of(tuple[tuple[int, str], ...], "test")
    assert shape.encode(((1, "a"), (2, "b"))) == [[1, "a"], [2, "b"]]
    assert shape.decode([[1, "a"]]) == ((1, "a"),)


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (tuple[int, str], [1]),
        (tuple[int, str], [1, "a", "b"]),
        (tuple[int, str], ["1", "a"]),
        (tuple[int, str], "1a"),
        (frozenset[str], ["a", 1]),
        (frozenset[str], {"a": 1}),
        (Mapping[int, str], {"01": "a"}),
        (Mapping[int, str], {"1.0": "a"}),
        (Mapping[int, str], {"²": "a"}),
        (Mapping[Phase, str], {"nowhere": "a"}),
        (Mapping[str, None], {"a": 0}),
    ],
)
def test_reading_takes_nothing_else_for_it(hint: Any, data: Any) -> None:
    with pytest.raises(Mismatch):
        shape_of(hint, "test").decode(data)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (frozenset[str], {"a"}),
        (tuple[int, str], (1,)),
        (Mapping[int, str], {"1": "a"}),
        (Mapping[int, str], {True: "a"}),
    ],
)
def test_writing_refuses_what_could_not_be_read_again(hint: Any, value: Any) -> None:
    with pytest.raises(Mismatch):
        shape_of(hint, "test").encode(value)


def test_a_mismatch_names_the_place_and_neither_key_nor_value() -> None:
    with pytest.raises(Mismatch) as caught:
        shape_of(Mapping[str, tuple[int, str]], "test").decode({"a secret": [1, 2]})
    assert str(caught.value) == "`(a key).1` must be a string, but is an integer"


@pytest.mark.parametrize("hint", [Mapping[float, str], Mapping[tuple[int, int], str]])
def test_keys_that_are_no_text_in_json_are_refused_when_they_are_compiled(hint: Any) -> None:
    with pytest.raises(InternalError, match="keys of the type"):
        shape_of(hint, "here")
