"""What only its maker understands: kept small, given back whole, and to no one else."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart

from tenex.core.ids import CallId
from tenex.core.messages import ModelStep, Usage
from tenex.llm.provider_parts import BYTES, restored
from tenex.llm.response import step_of

MAKER = "anthropic:anthropic"


def thought(text: str, signature: str = "c2ln") -> ThinkingPart:
    return ThinkingPart(text, signature=signature, provider_name="anthropic")


PARTS = (
    thought("A long thought."),
    TextPart("I will write it."),
    ToolCallPart("write_file", {"path": "a.py"}, tool_call_id="c1"),
    ToolCallPart("write_file", '{"path": "b.py"}', tool_call_id="c1"),
)


def step(*parts: ModelResponsePart) -> ModelStep:
    answer = ModelResponse(
        parts=parts or PARTS, model_name="claude", provider_name="anthropic", provider_url="https://user:secret@host/"
    )
    return step_of(answer, "anthropic:claude", MAKER, Usage())


def test_the_maker_gets_its_answer_back_with_the_ids_the_core_gave() -> None:
    given = step()
    first, second = given.calls
    back = restored(replace(given, calls=(first, replace(second, id=CallId("c1-1.1")))), MAKER)
    assert back is not None
    thinking, text, *calls = back.parts
    assert isinstance(thinking, ThinkingPart)
    assert (thinking.content, thinking.signature, thinking.provider_name) == ("A long thought.", "c2ln", "anthropic")
    assert isinstance(text, TextPart)
    assert text.content == "I will write it."
    found: Any = calls
    assert [(call.tool_call_id, call.args) for call in found] == [
        ("c1", {"path": "a.py"}),
        ("c1-1.1", {"path": "b.py"}),
    ]
    assert back.provider_name == "anthropic"
    assert restored(given, "openai:local") is None


def test_nothing_is_kept_twice_and_no_address() -> None:
    kept = json.dumps(step().vendor)
    assert "c2ln" in kept
    assert not [word for word in ("thought", "write", "a.py", "secret") if word in kept]


@pytest.mark.parametrize(
    "parts", [(TextPart("Hi"), ToolCallPart("ask", {}, tool_call_id="c")), (thought("x", "s" * BYTES), TextPart("Hi"))]
)
def test_a_plain_answer_and_one_that_is_too_large_keep_nothing(parts: tuple[ModelResponsePart, ...]) -> None:
    assert step(*parts).vendor is None


def test_several_thoughts_are_separated() -> None:
    back = restored(step(thought("one"), TextPart("a"), thought("two"), TextPart("b")), MAKER)
    assert back is not None
    assert [getattr(part, "content", "") for part in back.parts] == ["one", "a", "two", "b"]


BAD: Any = ([{}], [{"part_kind": "nonsense"}], None, [{"part_kind": "tool-call"}] * 3, [{"part_kind": "text"}])


@pytest.mark.parametrize(
    "vendor", ["text", {"by": MAKER}, *({"by": MAKER, "from": {}, "parts": parts} for parts in BAD)]
)
def test_a_damaged_value_is_passed_over(vendor: object) -> None:
    assert restored(replace(step(), vendor=vendor), MAKER) is None
