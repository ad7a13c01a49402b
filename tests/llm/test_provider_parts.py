"""What only its maker understands: kept small, given back whole, and to no one else."""

import json
from dataclasses import replace

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from tenex.core.ids import CallId
from tenex.core.messages import ModelStep, Usage
from tenex.llm.provider_parts import BYTES, restored
from tenex.llm.response import step_of

MAKER = "anthropic:anthropic"
ANSWER = ModelResponse(
    parts=[
        ThinkingPart("A long thought.", signature="c2lnbmVk", provider_name="anthropic"),
        TextPart("I will write it."),
        ToolCallPart("write_file", {"path": "a.py"}, tool_call_id="c1"),
        ToolCallPart("write_file", '{"path": "b.py"}', tool_call_id="c1"),
    ],
    model_name="claude",
    provider_name="anthropic",
    provider_url="https://user:secret@host/",
    finish_reason="tool_call",
)


def step(answer: ModelResponse = ANSWER) -> ModelStep:
    return step_of(answer, "anthropic:claude", MAKER, Usage())


def test_the_maker_gets_its_answer_back_with_the_ids_the_core_gave() -> None:
    given = step()
    first, second = given.calls
    back = restored(replace(given, calls=(first, replace(second, id=CallId("c1-1.1")))), MAKER)
    assert back is not None
    thinking, text, one, two = back.parts
    assert isinstance(thinking, ThinkingPart)
    assert (thinking.content, thinking.signature, thinking.provider_name) == (
        "A long thought.",
        "c2lnbmVk",
        "anthropic",
    )
    assert isinstance(text, TextPart)
    assert text.content == "I will write it."
    assert isinstance(one, ToolCallPart)
    assert isinstance(two, ToolCallPart)
    assert (one.tool_call_id, two.tool_call_id) == ("c1", "c1-1.1")
    assert (one.args, two.args) == ({"path": "a.py"}, {"path": "b.py"})
    assert back.provider_name == "anthropic"


def test_nothing_is_kept_twice_and_no_address() -> None:
    kept = json.dumps(step().vendor)
    assert "c2lnbmVk" in kept
    for word in ("thought", "write", "a.py", "secret"):
        assert word not in kept


def test_another_model_gets_nothing_of_it() -> None:
    assert restored(step(), "openai:local") is None


def test_a_plain_answer_keeps_nothing() -> None:
    assert step(ModelResponse(parts=[TextPart("Hi"), ToolCallPart("ask", {}, tool_call_id="c")])).vendor is None


def test_several_thoughts_are_separated() -> None:
    one, two = (ThinkingPart(text, signature="s", provider_name="anthropic") for text in ("one", "two"))
    given = step(ModelResponse(parts=[one, TextPart("a"), two, TextPart("b")], provider_name="anthropic"))
    back = restored(given, MAKER)
    assert back is not None
    assert [getattr(part, "content", "") for part in back.parts] == ["one", "a", "two", "b"]


def test_what_grows_too_large_is_not_kept() -> None:
    large = ThinkingPart("x", signature="s" * BYTES, provider_name="anthropic")
    assert step(ModelResponse(parts=[large, TextPart("Hi")], provider_name="anthropic")).vendor is None


@pytest.mark.parametrize(
    "vendor",
    [
        "text",
        7,
        {"by": MAKER},
        {"by": MAKER, "from": {}, "parts": [{}]},
        {"by": MAKER, "from": 1, "parts": []},
        {"by": MAKER, "from": {}, "parts": [{"part_kind": "nonsense"}]},
        {"by": MAKER, "from": {}, "parts": None},
        {"by": MAKER, "from": {}, "parts": [{"part_kind": "tool-call"}] * 3},
        {"by": MAKER, "from": {}, "parts": [{"part_kind": "text"}]},
    ],
)
def test_a_damaged_value_is_passed_over(vendor: object) -> None:
    assert restored(replace(step(), vendor=vendor), MAKER) is None
