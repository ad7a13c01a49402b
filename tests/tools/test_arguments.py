"""Faults of arguments are told all at once, in words, without their values."""

from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.tools.arguments import Arguments
from tenex.tools.tool import count, flag, takes, text

SCHEMA = takes(
    {"path": text("where", shortest=1, longest=5)},
    {
        "n": count("how many", most=9),
        "all": flag("all"),
        "verdict": {"enum": ["good", "bad"]},
        "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "odd": {"type": "integer", "multipleOf": 2},
    },
)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "`path` is missing"),
        ({"path": ""}, "`path` must not be empty"),
        ({"path": 3}, "`path` must be a text, not a number"),
        ({"path": None}, "`path` must be a text, not null"),
        ({"path": "abcdef"}, "`path` must have at most 5 characters, not 6"),
        ({"path": "a", "n": 0}, "`n` must be at least 1"),
        ({"path": "a", "n": 10}, "`n` must be at most 9"),
        ({"path": "a", "n": "3"}, "`n` must be a whole number, not a text"),
        ({"path": "a", "all": "yes"}, "`all` must be true or false, not a text"),
        ({"path": "a", "verdict": "fine"}, "`verdict` must be one of: good, bad"),
        ({"path": "a", "list": []}, "`list` must hold at least 1 entries"),
        ({"path": "a", "list": ["a", "b", "c"]}, "`list` must hold at most 2 entries, not 3"),
        ({"path": "a", "list": ["a", {}]}, "`list.1` must be a text, not an object"),
        ({"path": "a", "odd": 3}, "`odd` breaks the schema's rule `multipleOf`"),
        ({"path": "a", "pfad": "b"}, "`pfad` is not known"),
        ([], "the arguments must be an object, not a list"),
    ],
)
def test_each_fault_is_named_with_its_parameter(given: Any, words: str) -> None:
    fault = Arguments("read", SCHEMA).fault(given)
    assert fault is not None
    assert words in fault
    assert fault.startswith("read was not called")
    assert fault.endswith("It takes: path, n, all, verdict, list, odd.")


def test_all_faults_stand_in_one_sentence() -> None:
    fault = Arguments("read", SCHEMA).fault({"n": "x", "all": 1, "bogus": 2})
    assert fault is not None
    assert all(words in fault for words in ("`path` is missing", "`n` must", "`all` must", "`bogus` is not known"))


def test_a_flood_of_faults_is_counted_not_listed() -> None:
    fault = Arguments("read", SCHEMA).fault({"path": "a", **{f"x{i}": 1 for i in range(50)}})
    assert fault is not None
    assert "and 42 more" in fault
    assert len(fault) < 500


def test_values_are_not_repeated() -> None:
    fault = Arguments("read", SCHEMA).fault({"path": "my secret words", "verdict": "private"})
    assert fault is not None
    assert "secret" not in fault
    assert "private" not in fault


def test_arguments_that_fit_have_no_fault() -> None:
    assert Arguments("read", SCHEMA).fault({"path": "a", "n": 9, "all": True, "verdict": "bad", "list": ["x"]}) is None


def test_a_schema_that_is_none_is_our_bug() -> None:
    with pytest.raises(InternalError, match="no JSON Schema"):
        Arguments("t", {"type": "nonsense"})
    with pytest.raises(InternalError, match="of type object"):
        Arguments("t", {"type": "string"})
