"""Errors of arguments are reported all at once, without their values."""

from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.tools.arguments import Arguments
from tenex.tools.tool import boolean, integer, object_schema, string

SCHEMA = object_schema(
    {"path": string("where", min_length=1, max_length=5)},
    {
        "n": integer("how many", maximum=9),
        "all": boolean("all"),
        "verdict": {"enum": ["good", "bad"]},
        "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "odd": {"type": "integer", "multipleOf": 2},
    },
)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "`path` is missing"),
        ({"path": ""}, "`path` must satisfy `minLength: 1`"),
        ({"path": 3}, '`path` must satisfy `type: "string"`'),
        ({"path": None}, '`path` must satisfy `type: "string"`'),
        ({"path": "abcdef"}, "`path` must satisfy `maxLength: 5`"),
        ({"path": "a", "n": 0}, "`n` must satisfy `minimum: 1`"),
        ({"path": "a", "n": 10}, "`n` must satisfy `maximum: 9`"),
        ({"path": "a", "n": "3"}, '`n` must satisfy `type: "integer"`'),
        ({"path": "a", "all": "yes"}, '`all` must satisfy `type: "boolean"`'),
        ({"path": "a", "verdict": "fine"}, '`verdict` must satisfy `enum: ["good", "bad"]`'),
        ({"path": "a", "list": []}, "`list` must satisfy `minItems: 1`"),
        ({"path": "a", "list": ["a", "b", "c"]}, "`list` must satisfy `maxItems: 2`"),
        ({"path": "a", "list": ["a", {}]}, '`list.1` must satisfy `type: "string"`'),
        ({"path": "a", "odd": 3}, "`odd` must satisfy `multipleOf: 2`"),
        ({"path": "a", "pfad": "b"}, "`pfad` is not known"),
        ([], 'the arguments must satisfy `type: "object"`'),
    ],
)
def test_each_error_names_its_parameter(given: Any, sentence: str) -> None:
    fault = Arguments("read", SCHEMA).fault(given)
    assert fault is not None
    assert sentence in fault
    assert fault.startswith("read was not called")
    assert fault.endswith("It takes: path, n, all, verdict, list, odd.")


def test_all_errors_are_in_one_sentence_counted_and_without_values() -> None:
    read = Arguments("read", SCHEMA)
    fault = read.fault({"n": "x", "all": 1, "bogus": 2}) or ""
    assert all(part in fault for part in ("`path` is missing", "`n` must", "`all` must", "`bogus` is not known"))
    fault = read.fault({"path": "a", **{f"x{i}": 1 for i in range(50)}}) or ""
    assert "and 42 more" in fault
    assert len(fault) < 500
    fault = read.fault({"path": "my secret words", "verdict": "private"}) or ""
    assert "secret" not in fault
    assert "private" not in fault
    assert read.fault({"path": "a", "n": 9, "all": True, "verdict": "bad", "list": ["x"]}) is None


def test_an_invalid_schema_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="not a JSON Schema"):
        Arguments("t", {"type": "nonsense"})
    with pytest.raises(InternalError, match="of type object"):
        Arguments("t", {"type": "string"})
