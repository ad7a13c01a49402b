"""The same output as one JSON object: a schema that an engine takes, and the same faults as in a stream."""

import json
from functools import cache
from typing import Any

import pytest

from tenex.output_states import AgentStateMachine, Python, Thinking, ToolCallState
from tenex.output_states.answers import answer_schema, is_strict, read_answer, without_lengths
from tenex.output_states.requests import (
    for_llama_cpp,
    for_openai,
    for_vllm,
    for_vllm_as_structural_tag,
    for_vllm_before_0_12,
    structural_tag,
)

from .kit import STOP, TREE, Engine, said

THOUGHT = {"state": "thinking", "content": "see"}
CALL = {"state": "tool_call", "content": {"name": "stop", "arguments": {}}}


@cache
def machine() -> AgentStateMachine:
    planning = [Thinking(character_min=2, character_max=5)]
    return AgentStateMachine(planning, [ToolCallState((STOP, TREE)), Python()], max_planning_loops=2)


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
        (answer(CALL, {"state": "thinking", "content": "x"}), "thinking is 1 characters; it takes 2 to 5"),
        (answer(CALL, {"state": "thinking", "content": "x" * 6}), "The length of thinking is 6 characters"),
        (answer(CALL, {"state": "thinking", "content": 7}), "its content must be a text"),
        (answer({"state": "tool_call", "content": {"name": "go", "arguments": {}}}), "There is no tool"),
        (answer({"state": "tool_call", "content": {"name": "tree", "arguments": {"root": {}}}}), "`root.v` is missing"),
        ("{", "This is no JSON"),
        ("[]", "the answer must be an object"),
        (answer() + answer(), "This is no JSON"),
    ],
)
def test_an_answer_is_right_where_reader_and_schema_say_so(text: str, sentence: str) -> None:
    segments, faults = read_answer(machine(), text)
    assert sentence in said(faults)
    assert bool(sentence) == bool(faults)
    assert _engine().accepts(text) == (not faults)
    assert all(segment.is_complete for segment in segments) == (not faults) or not segments


@cache
def _engine() -> Engine:
    return Engine.of_schema(answer_schema(machine()))


def test_a_program_that_is_none_is_found_by_the_reader_alone() -> None:
    segments, faults = read_answer(machine(), answer({"state": "python", "content": "print("}))
    assert "This is no Python" in said(faults)
    assert [segment.is_complete for segment in segments] == [True, False]
    assert [segment.role for segment in segments] == ["plan", "action"]


def test_the_schema_compiles_and_bears_the_limits() -> None:
    assert _engine().fault == ""
    content = answer_schema(machine())["properties"]["plan"]["items"]["anyOf"][0]["properties"]["content"]
    assert content == {"type": "string", "minLength": 2, "maxLength": 5}


def test_strict_mode_is_asked_for_where_it_can_be() -> None:
    strict = AgentStateMachine([Thinking()], [ToolCallState((STOP,))])
    asked = for_openai(strict)["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert "50 to 1000 characters" in json.dumps(asked["schema"])
    assert "minLength" not in json.dumps(asked["schema"])
    assert for_openai(machine())["response_format"]["json_schema"]["strict"] is False  # `in` need not be given
    assert not is_strict({"type": "object", "properties": {}})
    assert is_strict({"type": "array", "items": {"type": "string"}})
    assert "plan" not in without_lengths(AgentStateMachine([], [ToolCallState((STOP,))]))["properties"]


def test_each_server_gets_the_grammar_under_its_own_name() -> None:
    text = for_llama_cpp(machine())["grammar"]
    assert text.startswith("root ::= ")
    assert for_vllm(machine())["structured_outputs"]["grammar"] == text
    assert for_vllm_before_0_12(machine())["guided_grammar"] == text
    tag = structural_tag(machine())
    assert tag["format"] == {"type": "grammar", "grammar": text}
    assert json.loads(for_vllm_as_structural_tag(machine())["structured_outputs"]["structural_tag"]) == tag
    assert len(for_llama_cpp(machine(), limits=True)["grammar"]) > len(text)
