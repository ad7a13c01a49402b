"""What is sent in OpenAI's protocol for chat: answers and misbehaviour as values, and their bytes.

Tokens are counted in words, so that a test and the server come to the same number: `tokens_in` of a request,
`tokens_out` of an answer.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; `arguments` as an object, or as the very text that is sent."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""
    """Empty: `call-<number of the request>-<place>`."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer: text, calls, both or neither."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    """What some servers send beside the text, as `reasoning_content`."""
    refusal: str = ""
    finish: str = ""
    """Empty: `tool_calls` where there are calls, else `stop`."""
    usage: tuple[int, int] | None = None
    """Input and output tokens; None: they are counted."""
    cached: int = 0
    """Input tokens of `usage` that a cache gave."""
    stored: int = 0
    """Input tokens of `usage` that a cache stored."""
    reports: Literal["all", "nothing", "nulls", "no total", "only total", "only output", "each chunk"] = "all"
    """What is sent of the usage; `each chunk` of a stream holds the sum so far, as some servers send it."""
    delay: float = 0.0
    """Seconds before the first byte."""
    pace: float = 0.0
    """Seconds between two chunks of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """An answer of HTTP that is an error."""

    status: int = 500
    message: str = "The server had an error while processing your request"
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    body: Any = None
    """The whole document, for servers with another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaks:
    """A good answer whose socket closes in its middle; with `stall` it stays open, and nothing more comes.

    `after` counts chunks of a stream, or tenths of a plain body.
    """

    answer: Answer
    after: int = 2
    stall: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closes:
    """The socket closes without a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hangs:
    """No byte ever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """Any bytes as a body, with 200."""

    body: bytes
    content_type: str = "application/json"


Reply = Answer | Fails | Breaks | Closes | Hangs | Sends


def nonsense(tokens: int) -> str:
    """That many words without a meaning, always the same."""
    return " ".join(f"w{(place * 7919) % 9973:x}" for place in range(tokens))


def tokens_in(request: Json) -> int:
    """The words of a request's messages and tools."""
    return len(json.dumps([request.get("messages"), request.get("tools")], ensure_ascii=False).split())


def tokens_out(answer: Answer) -> int:
    """The words of an answer, reasoning and calls included; at least 1."""
    words = [answer.text, answer.reasoning, answer.refusal, *(f"{call.tool} {call.text}" for call in answer.calls)]
    return max(1, sum(len(text.split()) for text in words))


def usage_of(request: Json, answer: Answer) -> tuple[int, int]:
    return answer.usage or (tokens_in(request), tokens_out(answer))


def fault_of(request: Any) -> str | None:
    """Why OpenAI's server would refuse a request with 400; None if it would not."""
    if not isinstance(request, dict) or not isinstance(request.get("model"), str):
        return "you must provide a model parameter"
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return "Invalid 'messages': empty array. Expected an array with minimum length 1."
    names = [tool["function"]["name"] for tool in request.get("tools") or []]
    wrong = [name for name in names if not _TOOL_NAME.fullmatch(name)]
    if wrong:
        return f"Invalid 'tools[0].function.name': {wrong[0]!r}"
    if len(set(names)) < len(names):
        return "Tool names must be unique."
    if "tool_choice" in request and not names:
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    return _unanswered(messages)


def _unanswered(messages: list[Json]) -> str | None:
    """Each call has exactly one result, directly after the message that asked for it."""
    unanswered: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in unanswered:
                return f"messages[{place}]: a 'tool' message must answer a preceding message with 'tool_calls'."
            unanswered.remove(message["tool_call_id"])
            continue
        if unanswered:
            return f"messages[{place}]: tool_call_ids did not have response messages: {', '.join(unanswered)}"
        calls = message.get("tool_calls") or []
        unanswered = [call["id"] for call in calls]
        if message.get("content") is None and not calls:
            return f"Invalid value for 'content' of messages[{place}]: expected a string, got null."
        if any(not isinstance(call["function"]["arguments"], str) for call in calls):
            return f"Invalid type for 'arguments' in messages[{place}]: expected a string."
    return f"tool_call_ids did not have response messages: {', '.join(unanswered)}" if unanswered else None


def error_body(fails: Fails) -> bytes:
    if fails.body is not None:
        return json.dumps(fails.body).encode()
    kind = "invalid_request_error" if fails.status < 500 else "server_error"
    error = {"message": fails.message, "type": kind, "param": None, "code": fails.code}
    return json.dumps({"error": error}).encode()


def whole_body(request: Json, answer: Answer, number: int) -> bytes:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": _id(call, number, place),
                "type": "function",
                "function": {"name": call.tool, "arguments": call.text},
            }
            for place, call in enumerate(answer.calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    head = _head(request, number, "chat.completion")
    reported = {} if answer.reports == "nothing" else {"usage": _usage(request, answer)}
    return json.dumps({**head, "choices": [choice], **reported}).encode()


def chunks(request: Json, answer: Answer, number: int) -> Iterator[bytes]:
    head = _head(request, number, "chat.completion.chunk")
    with_usage = bool((request.get("stream_options") or {}).get("include_usage")) and answer.reports != "nothing"
    usage = _usage(request, answer) if answer.reports == "each chunk" else None

    def event(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], **({"usage": usage} if with_usage else {})})

    yield event({"role": "assistant", "content": "" if answer.text else None})
    for piece in _pieces(answer.reasoning):
        yield event({"reasoning_content": piece})
    for piece in _pieces(answer.text):
        yield event({"content": piece})
    if answer.refusal:
        yield event({"refusal": answer.refusal})
    for place, call in enumerate(answer.calls):
        first = {"name": call.tool, "arguments": ""}
        one = {"index": place, "id": _id(call, number, place), "type": "function", "function": first}
        yield event({"tool_calls": [one]})
        for piece in _pieces(call.text):
            yield event({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    yield event({}, _finish(answer))
    if with_usage:
        yield _event({**head, "choices": [], "usage": _usage(request, answer)})
    yield b"data: [DONE]\n\n"


def answer_id(number: int) -> str:
    """The id of the answer to a request, by the request's number."""
    return f"chatcmpl-{number}"


def _id(call: Call, number: int, place: int) -> str:
    return call.id or f"call-{number}-{place}"


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def _head(request: Json, number: int, kind: str) -> Json:
    return {"id": answer_id(number), "object": kind, "created": int(time.time()), "model": request["model"]}


def _usage(request: Json, answer: Answer) -> Json:
    inputs, outputs = usage_of(request, answer)
    match answer.reports:
        case "nulls":
            return {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}
        case "no total":
            return {"prompt_tokens": inputs, "completion_tokens": outputs}
        case "only total":
            return {"total_tokens": inputs + outputs}
        case "only output":
            return {"prompt_tokens": 0, "completion_tokens": outputs, "total_tokens": outputs}
    return {
        "prompt_tokens": inputs,
        "completion_tokens": outputs,
        "total_tokens": inputs + outputs,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": answer.stored},
        "completion_tokens_details": {"reasoning_tokens": len(answer.reasoning.split())},
    }


def _pieces(text: str) -> list[str]:
    """A text in pieces of about the size vendors send, at most 200 of them."""
    size = max(12, -(-len(text) // 200))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
