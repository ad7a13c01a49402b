"""What a server is sent to enforce the states, and answers as one JSON object: an engine and the reader agree."""

import json
from functools import cache
from typing import Any

import pytest

from tenex.output_states import AgentStateMachine, OutputPlan, Python, Thinking, ToolCallState
from tenex.output_states.requests import (
    answer_schema,
    for_openai,
    for_vllm,
    is_strict,
    read_answer,
    structural_tag,
)

from .kit import STOP, TREE, Engine, messages_of, read

THOUGHT = {"state": "thinking", "content": "see"}
CALL = {"state": "tool_call", "content": {"name": "stop", "arguments": {}}}


@cache
def machine() -> OutputPlan:
    planning = [Thinking(character_min=2, character_max=5)]
    return AgentStateMachine(planning, [ToolCallState((STOP, TREE)), Python()], max_planning_loops=2).plan()


def answer(action: Any = CALL, *plan: Any) -> str:
    return json.dumps({"plan": plan or [THOUGHT], "action": action})


TREE_CALL = {"state": "tool_call", "content": {"name": "tree", "arguments": {"root": {"v": 1, "in": [{"v": 2}]}}}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (answer(), ""),
        (answer(CALL, THOUGHT, THOUGHT), ""),
        (answer(TREE_CALL), ""),
        (answer({"state": "python", "content": "print(1)"}), ""),
        (answer(CALL, THOUGHT, THOUGHT, THOUGHT), "`plan` must have at most 2 entries"),
        (json.dumps({"plan": [], "action": CALL}), "`plan` must have at least 1 entries"),
        (json.dumps({"plan": [THOUGHT]}), "`action` is missing"),
        (answer(THOUGHT), "`action.state` must be one of: tool_call, python"),
        (answer(CALL, CALL), "`plan.0.state` must be one of: thinking"),
        (
            answer(CALL, {"state": "thinking", "content": "x"}),
            "The length of thinking is 1 characters; it takes 2 to 5",
        ),
        (answer(CALL, {"state": "thinking", "content": "x" * 6}), "The length of thinking is 6 characters"),
        (answer(CALL, {"state": "thinking", "content": 7}), "its content must be a text"),
        (answer({"state": "tool_call", "content": {"name": "go", "arguments": {}}}), "There is no tool"),
        (answer({"state": "tool_call", "content": {"name": "tree", "arguments": {"root": {}}}}), "`root.v` is missing"),
        (answer({"state": "python", "content": "print("}), "python: This is no Python"),
        ("{", "This is no JSON"),
        ("[]", "the answer must be an object"),
        (answer() + answer(), "This is no JSON"),
    ],
)
def test_an_answer_is_right_where_reader_and_schema_have_so(text: str, sentence: str) -> None:
    segments, faults = read_answer(machine(), text)
    assert sentence in messages_of(faults)
    assert bool(sentence) == bool(faults)
    is_found_by_the_reader_alone = sentence.startswith(("The length of", "python:"))
    assert _engine().accepts(text) == (not faults or is_found_by_the_reader_alone)
    assert all(segment.is_complete for segment in segments) == (not faults) or not segments


@cache
def _engine() -> Engine:
    engine = Engine.of_schema(answer_schema(machine()))
    assert engine.fault == ""
    return engine


def test_strict_mode_is_asked_for_where_it_can_be() -> None:
    strict = AgentStateMachine([Thinking()], [ToolCallState((STOP,))]).plan()
    asked = for_openai(strict)["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert "50 to 1000 characters" in json.dumps(asked["schema"])
    assert "minLength" not in json.dumps(asked["schema"])
    assert for_openai(machine())["response_format"]["json_schema"]["strict"] is False  # `in` need not be given
    assert not is_strict({"type": "object", "properties": {}})
    assert is_strict({"type": "array", "items": {"type": "string"}})
    bare = AgentStateMachine([], [ToolCallState((STOP,))]).plan()
    assert "plan" not in answer_schema(bare)["properties"]
    assert read_answer(bare, json.dumps({"action": CALL}))[1] == ()


THINKS = "```thinking\nsee\n```\n"
CALLS = '```tool\n{"name":"stop","arguments":{}}\n```'


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (THINKS + CALLS, True),
        (THINKS * 2 + CALLS, True),
        (THINKS + "```python\nprint(1)\n```", True),
        (THINKS + CALLS.replace("{}", '{"root":{"v":1,"in":[{"v":2}]}}').replace("stop", "tree"), True),
        (CALLS, False),
        (THINKS * 3 + CALLS, False),
        (THINKS, False),
        (THINKS + CALLS.replace("stop", "go"), False),
        (THINKS + CALLS.replace("{}", '{"x":1}'), False),
        (THINKS + CALLS + CALLS, False),
    ],
)
def test_a_structural_tag_permits_what_the_parser_takes(text: str, fits: bool) -> None:
    engine = Engine.of_tag(structural_tag(machine()))
    assert engine.fault == ""
    assert engine.accepts(text) is fits
    assert read(machine(), text).is_valid is fits


def test_vllm_is_sent_the_tag_as_text() -> None:
    tag = structural_tag(machine())
    assert json.loads(for_vllm(machine())["structured_outputs"]["structural_tag"]) == tag
    small = AgentStateMachine([Thinking()], [ToolCallState((STOP,)), Python()]).plan()
    assert len(json.dumps(structural_tag(small))) < 8_000
