"""From an answer of the library to a step: arguments, faults, cut-off and filtered answers."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import CallRequest, Usage
from tenex.llm.response import step_of

USAGE = Usage(input_tokens=7, output_tokens=3)


def call(args: object, finish: str = "tool_call") -> CallRequest:
    part = ToolCallPart("write_file", args, tool_call_id="c")  # type: ignore[arg-type]
    step = step_of(ModelResponse(parts=[part], finish_reason=finish), "p:m", "p:p", USAGE)  # type: ignore[arg-type]
    return step.calls[0]


@pytest.mark.parametrize(
    ("args", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        ("{}", {}),
        ("null", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
    ],
)
def test_arguments_that_leave_no_doubt_are_read(args: object, read: object) -> None:
    request = call(args)
    assert request.arguments == read
    assert not request.fault


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ('{"a": ', "no valid JSON"),
        ("{'a': 1}", "no valid JSON"),
        ('{"a": 1} {"b": 2}', "no valid JSON"),
        ("[1]", "not a list"),
        ("7", "not a number"),
        ("true", "not a truth value"),
        ('"\\"x\\""', "not a string"),
        ('{"a": NaN}', "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("9" * 5000, "no valid JSON"),
    ],
)
def test_arguments_that_cannot_be_used_are_a_fault_the_model_can_read(args: str, expected: str) -> None:
    request = call(args)
    assert request.arguments == {}
    assert expected in request.fault
    assert args[:10] in request.fault.replace("\\\\", "\\").replace("\\'", "'")
    assert len(request.fault) < 500


def test_arguments_cut_off_by_the_limit_are_reported() -> None:
    assert "cut off" in call('{"path": "a', finish="length").fault
    assert not call('{"path": "a"}', finish="length").fault


def test_text_thinking_and_calls_are_separated_and_keep_their_order() -> None:
    one, two = ToolCallPart("a", {}, tool_call_id="1"), ToolCallPart("b", {}, tool_call_id="2")
    answer = ModelResponse(parts=[ThinkingPart("hm"), TextPart("One."), one, TextPart("Two."), two])
    step = step_of(answer, "p:m", "p:p", USAGE)
    assert (step.text, step.thinking, step.model, step.usage) == ("One.\n\nTwo.", "hm", "p:m", USAGE)
    assert [(request.id, request.tool) for request in step.calls] == [("1", "a"), ("2", "b")]


def test_a_thought_whose_opening_tag_was_in_the_prompt_is_no_part_of_the_answer() -> None:
    step = step_of(ModelResponse(parts=[TextPart("PRIVATE</think>\n\nHello")]), "p:m", "p:p", USAGE)
    assert (step.text, step.thinking) == ("Hello", "PRIVATE")


@pytest.mark.parametrize(
    ("parts", "expected"), [([TextPart("Half a")], "cut off"), ([ThinkingPart("hm")], "it thought")]
)
def test_an_answer_cut_off_in_its_text_is_of_no_use_but_was_paid(parts: list[TextPart], expected: str) -> None:
    with pytest.raises(ModelRefused, match=expected) as caught:
        step_of(ModelResponse(parts=parts, finish_reason="length"), "p:m", "p:p", USAGE)
    assert caught.value.usage == USAGE
    assert "models.max_output_tokens" in str(caught.value)


def test_a_filtered_answer_is_refused_without_its_words() -> None:
    answer = ModelResponse(parts=[TextPart("I cannot say PRIVATE")], finish_reason="content_filter")
    with pytest.raises(ModelRefused, match="content filter") as caught:
        step_of(answer, "p:m", "p:p", USAGE)
    assert "PRIVATE" not in str(caught.value)


def test_an_answer_the_server_failed_in_is_asked_for_again() -> None:
    with pytest.raises(ModelUnavailable, match="ended its answer with an error") as caught:
        step_of(ModelResponse(parts=[TextPart("Ha")], finish_reason="error"), "p:m", "p:p", USAGE)
    assert caught.value.usage == USAGE


@pytest.mark.parametrize("args", [{"agents": ["a"]}, '{"agents": ["a"]}'])
def test_a_decision_made_by_a_call_is_the_text(args: object) -> None:
    part = ToolCallPart("decision", args)  # type: ignore[arg-type]
    step = step_of(ModelResponse(parts=[TextPart("Well."), part]), "p:m", "", USAGE, "decision")
    assert (step.text, step.calls, step.vendor) == ('{"agents": ["a"]}', (), None)


def test_a_decision_in_prose_is_the_text_too() -> None:
    step = step_of(ModelResponse(parts=[TextPart("Ask the planner.")]), "p:m", "", USAGE, "decision")
    assert step.text == "Ask the planner."


def test_an_empty_answer_is_an_empty_step() -> None:
    assert step_of(ModelResponse(parts=[], finish_reason="stop"), "p:m", "p:p", USAGE).text == ""
