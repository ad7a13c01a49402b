"""From an answer of the library to a step: arguments, faults, cut-off and filtered answers."""

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import entry_weight
from tenex.core.messages import CallRequest, ModelStep, ToolSpec, Usage
from tenex.core.text.foreign import well_formed_value
from tenex.llm.response import step_of

USAGE = Usage(input_tokens=7, output_tokens=3)


def step(*parts: Any, finish: Any = None, maker: str = "p:p", decision: str = "") -> ModelStep:
    return step_of(ModelResponse(parts=parts, finish_reason=finish), "p:m", maker, USAGE, decision)


def call(args: Any, finish: str = "tool_call") -> CallRequest:
    return step(ToolCallPart("write_file", args, tool_call_id="c"), finish=finish).calls[0]


@pytest.mark.parametrize("args", ['{"a": 1}', {"a": 1}, '"{\\"a\\": 1}"', "  ", None, "null"])
def test_arguments_that_leave_no_doubt_are_read(args: Any) -> None:
    request = call(args)
    assert (request.arguments, request.fault) == ({"a": 1} if args and "a" in args else {}, "")


BROKEN = ('{"a": ', "{'a': 1}", '{"a": 1} {"b": 2}', '{"a": NaN}', "[" * 100_000, "9" * 5000)
NO_OBJECTS = {"[1]": "a list", "7": "a number", "true": "a truth value", '"\\"x\\""': "a string"}


@pytest.mark.parametrize("args", [*BROKEN, *NO_OBJECTS])
def test_arguments_that_cannot_be_used_are_a_fault_the_model_can_read(args: str) -> None:
    request = call(args)
    assert request.arguments == {}
    assert ("no valid JSON" if args in BROKEN else f"not {NO_OBJECTS[args]}") in request.fault
    assert args[:10] in request.fault.replace("\\\\", "\\").replace("\\'", "'")
    assert len(request.fault) < 500


def test_arguments_cut_off_by_the_limit_are_reported() -> None:
    assert "cut off" in call('{"path": "a', finish="length").fault
    assert not call('{"path": "a"}', finish="length").fault


def test_text_thinking_and_calls_are_separated_and_keep_their_order() -> None:
    one, two = ToolCallPart("a", {}, tool_call_id="1"), ToolCallPart("b", {}, tool_call_id="2")
    found = step(ThinkingPart("hm"), TextPart("me</think>One."), one, TextPart("Two."), two)
    assert (found.text, found.thinking, found.model, found.usage) == ("One.\n\nTwo.", "hm\n\nme", "p:m", USAGE)
    assert [(request.id, request.tool) for request in found.calls] == [("1", "a"), ("2", "b")]
    assert step(finish="stop").text == ""


@pytest.mark.parametrize(
    ("part", "finish", "kind", "expected"),
    [
        (TextPart("PRIVATE"), "length", ModelRefused, r"cut off.*models\.max_output_tokens"),
        (ThinkingPart("PRIVATE"), "length", ModelRefused, r"it thought.*models\.max_output_tokens"),
        (TextPart("PRIVATE"), "error", ModelUnavailable, "ended its answer with an error"),
    ],
)
def test_an_answer_that_did_not_end_well_is_of_no_use_but_was_paid(
    part: Any, finish: str, kind: Any, expected: str
) -> None:
    with pytest.raises(kind, match=expected) as caught:
        step(part, finish=finish)
    assert caught.value.usage == USAGE
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("args", [{"agents": ["a"]}, '{"agents": ["a"]}'])
def test_a_decision_made_by_a_call_is_the_text(args: Any) -> None:
    found = step(TextPart("Well."), ToolCallPart("decision", args), maker="", decision="decision")
    assert (found.text, found.calls, found.vendor) == ('{"agents": ["a"]}', (), None)
    assert step(TextPart("Ask the planner."), maker="", decision="decision").text == "Ask the planner."


@pytest.mark.parametrize("depth", [99, 300, 600, 900])
@pytest.mark.parametrize("written", [False, True], ids=["called", "in the text"])
def test_arguments_nested_without_end_are_refused_and_the_step_can_be_kept(depth: int, *, written: bool) -> None:
    """Whatever JSON can be read, the core could not copy or weigh beyond some 500 levels."""
    arguments = f'{{"a": {"[" * depth}{"]" * depth}}}'
    part: Any = ToolCallPart("write_file", arguments)
    if written:
        part = TextPart(f'<tool_call>{{"name": "write_file", "arguments": {arguments}}}</tool_call>')
    tool = ToolSpec(name="write_file", description="Write.", parameters={"type": "object"})
    step = step_of(ModelResponse([part]), "a:b", "", Usage(), tools=[tool])
    assert [bool(call.fault) for call in step.calls] == [depth > 99]
    assert entry_weight(well_formed_value(step)) > 0
