"""Converts an answer of pydantic-ai to a step: text, thinking, calls with checked arguments, usage."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelResponse, ToolCallPart

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId
from tenex.core.memory.window import tokens
from tenex.core.messages import DEPTH, CallRequest, ModelStep, ToolSpec, Usage, is_too_deep

from .markup import has_mark, rewritten
from .overflow import body_of
from .provider_parts import kept
from .thoughts import split, without_tags
from .written_calls import before_mark, offered_name, written_calls

SHOWN: Final = 200
"""Characters of unusable arguments that the model is shown again, so that it finds its mistake."""


def step_of(
    response: ModelResponse,
    name: str,
    maker: str,
    usage: Usage,
    decision_tool: str = "",
    tools: Sequence[ToolSpec] = (),
) -> ModelStep:
    """The step an answer is.

    `maker` is empty where the step is never sent back to a model, so nothing more has to be kept of it.
    `decision_tool` is the tool whose arguments are the answer, where a decision was asked for that way; they become
    the text, as they were sent. `tools` are those that were offered; their calls are also read from the text.

    Raises:
        ModelRefused: the answer was filtered, or cut off where its text ends.
        ModelUnavailable: the server reports a failure in the middle of it.
    """
    if response.finish_reason == "content_filter":
        raise ModelRefused(f"{name} did not answer: the provider's content filter stopped it", usage)
    if (response.provider_details or {}).get("finish_reason") in _MALFORMED:
        raise ModelRefused(f"{name} made a call that its own server could not read: call one tool at a time", usage)
    if response.finish_reason == "error":
        raise ModelUnavailable(f"{name} ended its answer with an error", usage=usage)
    parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
    decided = next((part for part in parts if decision_tool and part.tool_name == decision_tool), None)
    thought, text = split(response.text or "").end()
    thought_in_tokens, text = split(rewritten(text)).end()
    thinking = "\n\n".join(part for part in (response.thinking, thought, thought_in_tokens) if part)
    if decided is not None:
        text = decided.args if isinstance(decided.args, str) else json.dumps(decided.args or {}, ensure_ascii=False)
    cut_off = response.finish_reason == "length"
    calls = () if decision_tool else tuple(_call(part, cut_off=cut_off) for part in parts)
    if calls or cut_off:
        text = before_mark(text)
    if not calls and not cut_off and not decision_tool:
        written = written_calls(text, tools)
        text = written.text
        calls = tuple(written.calls)
        if not calls and not text.strip() and thinking:  # the server took a call for a part of the thoughts
            calls = tuple(written_calls(without_tags(rewritten(thinking)), tools).calls)
        if not calls and has_mark(text):
            raise ModelRefused(
                f"{name} wrote a call or a token that cannot be read: make calls by the interface for tools, show "
                "tokens as code, or choose another model",
                usage,
            )
    names = [tool.name for tool in tools]
    calls = tuple(replace(call, tool=offered_name(call.tool, names)) for call in calls)
    if cut_off and not calls:
        what = "its answer was cut off" if text.strip() else "it thought until nothing was left for an answer"
        raise ModelRefused(
            f"{name} reached its limit of {usage.output_tokens} tokens and {what}: answer in fewer words, or raise "
            "models.max_output_tokens.",
            usage,
        )
    step = ModelStep(text=text, calls=calls, thinking=thinking, model=name, usage=usage)
    return replace(step, vendor=kept(response, step, maker)) if maker else step


def refused_call(error: Exception, name: str, tools: Sequence[ToolSpec]) -> ModelStep | None:
    """The call of a model that its own server could not read and gives back in its error, as a call that failed."""
    written = body_of(error).get("failed_generation") if isinstance(error, ModelAPIError) else None
    if not isinstance(written, str):
        return None
    fault = f"The server could not read this call. It was: {written[:SHOWN]!r}. Make it again, in the form of the tool."
    names = [tool.name for tool in tools]
    calls = (replace(call, arguments={}, fault=fault) for call in written_calls(rewritten(written), tools).calls)
    known = tuple(replace(call, tool=offered_name(call.tool, names)) for call in calls)
    return ModelStep(calls=known, model=name) if known else None


def written_tokens(response: ModelResponse) -> int:
    """The estimated tokens of an answer, its thoughts and calls included."""
    calls = (f"{part.tool_name}{part.args_as_json_str()}" for part in response.parts if isinstance(part, ToolCallPart))
    return tokens("".join((response.text or "", response.thinking or "", *calls)))


def _call(part: ToolCallPart, *, cut_off: bool) -> CallRequest:
    arguments, fault = _arguments(part.args)
    if fault and cut_off:
        fault = (
            "The answer was cut off at the limit of its length, in the middle of these arguments. Ask for less at once."
        )
    return CallRequest(id=CallId(part.tool_call_id), tool=part.tool_name, arguments=arguments, fault=fault)


def _arguments(sent: str | dict[str, Any] | None) -> tuple[dict[str, Any], str]:
    """The arguments, or why they cannot be used. An object within a string, as some servers send it, is taken."""
    value: Any = sent
    for _ in range(2):
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}, ""
        if isinstance(value, dict):
            return ({}, _TOO_DEEP) if is_too_deep(value) else (value, "")
        if not isinstance(value, str):
            break
        try:
            value = _parsed(value)
        except (ValueError, RecursionError) as error:
            where = f" ({error.msg} at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
            return (
                {},
                f"The arguments are no valid JSON{where}. They began: {str(sent)[:SHOWN]!r}. Send one JSON object.",
            )
    if isinstance(value, dict):
        return ({}, _TOO_DEEP) if is_too_deep(value) else (value, "")
    return {}, f"The arguments must be one JSON object, not {_kind(value)}. They began: {str(sent)[:SHOWN]!r}."


def _parsed(text: str) -> Any:
    """The JSON value of a text; one that is there several times, as some servers repeat it, is taken once.

    Raises:
        ValueError: it is none, or there are different ones.
    """
    plain = _without_fence(text)
    first, end = _DECODER.raw_decode(plain)
    while (start := _after_space(plain, end)) < len(plain):
        again, end = _DECODER.raw_decode(plain, start)
        if again != first:
            raise ValueError("several different objects")
    return first


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _without_fence(text: str) -> str:
    """A text without what templates leave around an object: a fence, and special tokens."""
    plain = _FENCE.sub("", text, count=1).rstrip()
    for _ in range(MOST_TOKENS):
        found = _LAST_TOKEN.search(plain, max(0, len(plain) - LONGEST_TOKEN))
        if found is None:
            break
        plain = plain[: found.start()].rstrip()
    return plain


MOST_TOKENS: Final = 8
"""Special tokens after an object: templates leave one or two."""
LONGEST_TOKEN: Final = 44
_FENCE: Final = re.compile(r"\A\s*(?:```(?:json)?\s*)?")
_LAST_TOKEN: Final = re.compile(r"(?:```|<[|｜/][^<>]{1,40}>)\Z")
_SPACE: Final = re.compile(r"\s*")

_MALFORMED: Final = ("MALFORMED_FUNCTION_CALL", "malformed_function_call")
"""Gemini's reasons for the end of an answer whose call it could not read itself."""

_TOO_DEEP: Final = f"The arguments are nested deeper than {DEPTH} levels. Send them flatter."


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", bool: "a truth value"}.get(type(value), "a number")
