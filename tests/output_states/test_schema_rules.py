"""Rules written from a JSON Schema permit what the schema does, for schemas and values nobody thought of."""

import json
import os
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tenex.output_states.json_extent import faults, read
from tenex.output_states.rules import GrammarRules
from tenex.output_states.schema_rules import SchemaRules

from .kit import Engine

SECONDS = float(os.environ.get("FUZZ_SECONDS", "20"))
"""How long the soak test looks for a difference; an hour for a release."""

_BOUNDS = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3))


def _bounded(lowest: str, highest: str, offset: int = 0) -> st.SearchStrategy[dict[str, int]]:
    def keywords(bounds: tuple[int, int | None]) -> dict[str, int]:
        low, extra = bounds
        return {lowest: low + offset} | ({} if extra is None else {highest: low + offset + extra})

    return st.just({}) | _BOUNDS.map(keywords)


_NAMES = ("a", "b", 'q"')


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_FLAT: st.SearchStrategy[dict[str, Any]] = st.one_of(
    _bounded("minLength", "maxLength").map(lambda bounds: {"type": "string", **bounds}),
    _bounded("minimum", "maximum", -2).map(lambda bounds: {"type": "integer", **bounds}),
    _bounded("exclusiveMinimum", "maximum", 97).map(lambda bounds: {"type": "integer", **bounds}),
    st.sampled_from([{"type": "number"}, {"type": "boolean"}, {"type": ["null", "string"]}, {"const": "\n"}]),
    st.lists(st.sampled_from(["", "a", "é", 1, None, True, [1], {"a": 2}]), min_size=1, max_size=3, unique_by=repr).map(
        lambda values: {"enum": values}
    ),
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _FLAT,
    lambda inner: st.one_of(
        st.tuples(inner, _bounded("minItems", "maxItems")).map(lambda t: {"type": "array", "items": t[0], **t[1]}),
        _objects(inner),
        st.lists(inner, min_size=1, max_size=2).map(lambda schemas: {"anyOf": schemas}),
    ),
    max_leaves=5,
)


@st.composite
def fitting(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """A value that fits, or misses a bound by a little."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from([None, True, 0, 1.5, "", "a", [], {}, [1], {"a": 1}]))
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return draw(fitting(draw(st.sampled_from(schema["anyOf"]))))
    kind = schema["type"]
    match kind if isinstance(kind, str) else draw(st.sampled_from(kind)):
        case "string":
            return draw(st.text(alphabet='ab"\\\n😀é', max_size=6))
        case "integer":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -3))
            return draw(st.integers(low - 1, schema.get("maximum", low + 20) + 1))
        case "number":
            return draw(st.integers(-9, 9) | st.floats(-100, 100).map(lambda value: round(value, 3)))
        case "boolean":
            return draw(st.booleans())
        case "array":
            return draw(st.lists(fitting(schema["items"]), max_size=schema.get("maxItems", 3) + 1))
        case "object":
            shown = [name for name in schema["properties"] if name in schema["required"] or draw(st.booleans())]
            return {name: draw(fitting(schema["properties"][name])) for name in draw(st.permutations(shown))}
        case _:
            return None


def compare(examples: int, seconds: float = 0.0) -> None:
    until, right, wrong = time.monotonic() + seconds, 0, 0

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), derandomize=not seconds, database=None)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal right, wrong
        schema = data.draw(SCHEMAS)
        rules = GrammarRules()
        text = rules.text(SchemaRules(rules, schema).value(schema))
        assume(not rules.unsaid)
        held = Engine.of_gbnf(text)
        assert held.fault == ""
        for _ in range(4):
            written = json.dumps(
                data.draw(fitting(schema)), ensure_ascii=False, indent=data.draw(st.sampled_from([None, 1]))
            )
            value, fault = read(written)
            assert not fault
            fits = not faults(value, schema)
            right, wrong = right + fits, wrong + (not fits)
            assert held.accepts(written) == fits, (written, schema)

    agree()
    while time.monotonic() < until:
        agree()
    assert min(right, wrong) > 20


def test_rules_and_schema_agree() -> None:
    compare(60)


@pytest.mark.soak
def test_rules_and_schema_agree_for_long() -> None:
    compare(1000, SECONDS)
