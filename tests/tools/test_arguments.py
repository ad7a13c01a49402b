"""Errors of arguments are reported all at once, without their values."""

from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.tools.arguments import Arguments
from tenex.tools.tool import boolean, integer, object_schema, string

READ = Arguments(
    "read",
    object_schema(
        {"path": string("where", min_length=1, max_length=5)},
        {
            "n": integer("how many", maximum=9),
            "all": boolean("all"),
            "verdict": {"enum": ["good", "bad"]},
            "list": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        },
    ),
)


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({}, "`path` is missing"),
        ({"path": ""}, "`path` must satisfy `minLength: 1`"),
        ({"path": None}, '`path` must satisfy `type: "string"`'),
        ({"path": "secret"}, "`path` must satisfy `maxLength: 5`"),
        ({"path": "a", "n": 0}, "`n` must satisfy `minimum: 1`"),
        ({"path": "a", "n": 10}, "`n` must satisfy `maximum: 9`"),
        ({"path": "a", "verdict": "secret"}, '`verdict` must satisfy `enum: ["good", "bad"]`'),
        ({"path": "a", "list": ["a", {}]}, '`list.1` must satisfy `type: "string"`'),
        ([], 'the arguments must satisfy `type: "object"`'),
        (
            {"n": 0, "all": 1, "x": 2},
            '`path` is missing; `x` is not known; `all` must satisfy `type: "boolean"`; `n` must satisfy `minimum: 1`',
        ),
        (
            {"path": "a", **{f"x{number}": 1 for number in range(50)}},
            "; ".join(f"`x{number}` is not known" for number in range(8)) + "; and 42 more",
        ),
    ],
)
def test_each_error_names_its_parameter_and_no_value(given: Any, sentences: str) -> None:
    assert READ.fault(given) == (
        f"read was not called, because its arguments are invalid: {sentences}. It takes: path, n, all, verdict, list."
    )
    assert READ.fault({"path": "a", "n": 9, "all": True, "verdict": "bad", "list": ["x"]}) is None


def test_an_invalid_schema_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="not a JSON Schema"):
        Arguments("t", {"type": "nonsense"})
    with pytest.raises(InternalError, match="of type object"):
        Arguments("t", {"type": "string"})
