"""The schema of a server's tool, as every provider takes it, and the tools that are left out for theirs."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tenex.mcp.config import Configured
from tenex.mcp.connection import CallFailed
from tenex.mcp.results import read_result
from tenex.mcp.schemas import MOST_SCHEMA, Unusable, parameters_of
from tenex.mcp.servers import McpServers
from tenex.tools.arguments import Arguments

from .conftest import config, connection_to, launch, running, text_of

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def takes(schema: Any, arguments: Any) -> bool:
    """Whether a call with these arguments is made, by the schema as it is rewritten."""
    return Arguments("tool", parameters_of(schema).schema).fault(arguments) is None


def test_a_schema_without_a_type_is_one_of_an_object() -> None:
    schema = parameters_of({"properties": {"a": {"type": "string"}}}).schema
    assert schema == {"properties": {"a": {"type": "string"}}, "type": "object"}
    assert parameters_of({}).schema == {"type": "object"}
    assert parameters_of({"type": ["object", "null"]}).schema == {"type": "object"}


@pytest.mark.parametrize("name", ["anyOf", "oneOf", "allOf"])
def test_combinations_at_the_top_are_put_together_and_said_in_words(name: str) -> None:
    inner = [
        {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "string"}}, "required": ["a", "n"]},
        {"$ref": "#/$defs/other"},
    ]
    other = {"properties": {"b": {"type": "integer"}, "n": {"type": "integer"}}, "required": ["b", "n"]}
    made = parameters_of({name: inner, "$defs": {"other": other}})
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & made.schema.keys()
    assert list(made.schema["properties"]) == ["a", "n", "b"]
    assert made.schema["properties"]["n"] == {}, "of two kinds"
    assert made.schema["required"] == (["a", "b", "n"] if name == "allOf" else ["n"])
    assert f'"{name}": [' in made.words


def test_a_reference_at_the_top_is_followed() -> None:
    schema = {"$ref": "#/definitions/Args", "definitions": {"Args": {"type": "object", "required": ["a"]}}}
    assert parameters_of(schema).schema["type"] == "object"
    with_property = {**schema, "definitions": {"Args": {"properties": {"a": {}}, "required": ["a"]}}}
    assert parameters_of(with_property).schema["required"] == ["a"]


def test_draft_4_is_read_as_what_it_is() -> None:
    schema = {
        "$schema": DRAFT_4,
        "id": "http://example.org/x",
        "type": "object",
        "properties": {
            "above": {"type": "number", "minimum": 3, "exclusiveMinimum": True},
            "least": {"type": "number", "minimum": 3, "exclusiveMinimum": False},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
        },
        "dependencies": {"pair": ["above"]},
    }
    for listed in (schema, {name: part for name, part in schema.items() if name != "$schema"}):
        made = parameters_of(listed).schema
        Draft202012Validator.check_schema(made)
        assert made["properties"]["above"] == {"type": "number", "exclusiveMinimum": 3}
        assert takes(listed, {"above": 4, "least": 3, "pair": ["x", 1]})
        assert not takes(listed, {"above": 3})
        assert not takes(listed, {"above": 4, "pair": ["x", 1, 2]})
        assert not takes(listed, {"pair": ["x", 1]}), "above depends on it"


def test_draft_7_is_read_as_what_it_is() -> None:
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"p": {"items": [{"type": "string"}, True]}}}
    assert parameters_of(schema).schema["properties"]["p"] == {"prefixItems": [{"type": "string"}, {}], "items": {}}
    assert takes(schema, {"p": ["x", 1, 2]})
    assert not takes(schema, {"p": [1]})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "no schema"),
        ({"type": "string"}, 'of the type "string"'),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, 'of the type "string"'),
        ({"type": "obj"}, "no JSON Schema"),
        ({"properties": {"a": {"type": "text"}}}, r"no JSON Schema: properties\.a\.type"),
        ({"properties": {"a": {"$ref": "https://example.org/a"}}}, "refers to https://example.org/a, which is not"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "which is not in it"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        ({"$schema": DRAFT_4, "required": True}, "no JSON Schema"),
    ],
)
def test_what_no_call_can_fulfil_is_unusable_with_a_reason(schema: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        parameters_of(schema)


def test_what_providers_refuse_is_said_in_words_alone() -> None:
    odd = parameters_of({"properties": {"Größe (cm)": {"type": "integer"}}})
    assert odd.schema == {"type": "object"}
    assert '"Größe (cm)"' in odd.words
    large = parameters_of({"properties": {"a": {"description": "x" * MOST_SCHEMA}}})
    assert (large.schema, large.words[:9]) == ({"type": "object"}, "Its argum")
    assert parameters_of({"properties": {"a": {"type": "array", "maximum": float("inf")}}}).schema["properties"] == {
        "a": {"type": "array", "items": {}}
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["object", "array", "a", "#"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "$defs", "a", "required", "enum",
                         "dependencies", "minimum", "exclusiveMinimum", "additionalProperties", "not"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_every_value_is_unusable_or_a_schema_that_can_be_sent_and_checked_by(value: Any) -> None:
    try:
        made = parameters_of(value)
    except Unusable:
        return
    json.dumps(made.schema, allow_nan=False)
    assert made.schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & made.schema.keys()
    Arguments("tool", made.schema).fault({"a": 1})


# ---- a server with such tools ----------------------------------------------------------------------------------------

LISTED: list[Any] = [
    {"name": "bare", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "either", "inputSchema": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}},
    {"name": "old", "inputSchema": {"$schema": DRAFT_4, "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}},
    {"name": "none"},
    {"name": "text", "inputSchema": {"type": "string"}},
    {"name": "lost", "inputSchema": {"properties": {"a": {"$ref": "#/x"}}}},
    {
        "name": "odd",
        "inputSchema": {"type": "object"},
        "annotations": 7,
        "outputSchema": [],
        "description": 3,
        "_meta": 1,
    },
    {"inputSchema": {"type": "object"}},
    "nothing",
]


@pytest.mark.parametrize("arguments", [(), ("--modern",)])
async def test_a_tool_that_cannot_be_used_leaves_the_others_and_is_named(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps(LISTED))
    servers = McpServers(lambda wanted: launch(wanted, tmp_path))
    servers.apply(Configured(servers=(config("faulty", *arguments, "--listed", str(listed)),), faults={}))
    await servers.settle(20)
    (server,) = servers.status()
    assert server["state"] == "ready", server["why"]
    named = servers.tools
    assert {f"faulty__{name}" for name in ("echo", "bare", "either", "old", "odd")} <= named.keys()
    assert server["tools"] == len(named)
    assert {left["tool"]: left["why"].partition(":")[0] for left in server["leftOut"]} == {
        "?": "it is no object",
        "lost": "its schema refers to #/x, which is not in it",
        "none": "it has no schema of its arguments",
        "text": "its schema is of the type string, and arguments are an object",
    }
    await servers.close()


async def test_an_answer_that_is_nested_too_deeply_is_an_error_at_once_and_the_server_goes_on(tmp_path: Path) -> None:
    async with running(connection_to(config("faulty", "--odd"), tmp_path)) as connection:
        with pytest.raises(CallFailed, match="nested more than 100 levels deep"):
            await connection.call("deep", {})
        assert text_of(await connection.call("echo", {"text": "on"})) == "on"
        assert connection.counters.losses == 0


async def test_numbers_that_json_cannot_hold_are_null(tmp_path: Path) -> None:
    async with running(connection_to(config("faulty", "--odd"), tmp_path)) as connection:
        reply = read_result(await connection.call("infinite", {}))
    assert reply.parts == ('{"a": null, "b": [null, 1.5]}',)
