"""What providers require of a request's messages, each as a function: the fault it would be refused for, or None.

OpenAI's own rules are `modelprotocol.fault_of`. The texts are those of the real servers.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .modelprotocol import Json

Rule = Callable[[Json], str | None]

_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")

MISTRAL_NEMO = """
{%- if messages[0].role == "system" %}{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in rest %}
  {%- if not (message.role == "tool" or message.tool_calls) %}
    {%- if (message.role == "user") != (ns.index % 2 == 0) %}
      {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/...") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
  {%- endif %}
  {%- for call in message.tool_calls or [] %}
    {%- if call.id|length != 9 %}
      {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
    {%- endif %}
  {%- endfor %}
{%- endfor %}
"""
"""The conditions of the chat template of Mistral Nemo, which llama.cpp and vLLM run for each request."""


def mistral(request: Json) -> str | None:
    messages = [message for message in request["messages"] if message["role"] != "system"]
    if not messages or messages[0]["role"] != "user":
        return "Expected the first message to be of role user"
    for before, after in pairwise(message["role"] for message in messages):
        if after == "user" and before in ("tool", "user"):
            return f"Unexpected role 'user' after role '{before}'"
        if after == before == "assistant":
            return "Unexpected role 'assistant' after role 'assistant'"
    if messages[-1]["role"] not in ("user", "tool"):
        return "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
    for message in messages:
        calls = message.get("tool_calls") or []
        if message["role"] == "assistant" and not calls and not (message.get("content") or "").strip():
            return "Assistant message must have either content or tool_calls, but not none."
        for call in [
            *(call["id"] for call in calls),
            *([message["tool_call_id"]] if "tool_call_id" in message else []),
        ]:
            if not _NINE.fullmatch(call):
                return f"Tool call id was {call} but must be a-z, A-Z, 0-9, with a length of 9."
    return None


def mistral_template(request: Json) -> str | None:
    """A server that runs Mistral's chat template, such as llama.cpp with `--jinja`."""

    def refuse(text: str) -> None:
        raise TemplateError(text)

    environment = ImmutableSandboxedEnvironment()
    environment.globals["raise_exception"] = refuse
    try:
        environment.from_string(MISTRAL_NEMO).render(messages=request["messages"])
    except TemplateError as error:
        return str(error)
    return None


def openai(request: Json) -> str | None:
    """OpenAI's API, as far as `modelprotocol.fault_of` does not define it."""
    for place, message in enumerate(request["messages"]):
        if message["role"] == "assistant" and not message.get("tool_calls") and not message.get("content"):
            return f"messages[{place}]: an assistant message is empty"
        for call in message.get("tool_calls") or []:
            name = call["function"]["name"]
            if not _PLAIN.fullmatch(name):
                return (
                    f"Invalid 'messages[{place}].tool_calls[0].function.name': string does not match pattern: {name!r}"
                )
            if not 0 < len(call["id"]) <= 40:
                return f"Invalid 'messages[{place}].tool_calls[0].id': string too long: {call['id']!r}"
    return _twice("user", [message["role"] for message in request["messages"]])


def anthropic(request: Json) -> str | None:
    messages = request["messages"]
    if messages[0]["role"] != "user":
        return 'messages: first message must use the "user" role'
    asked: list[str] = []
    for place, message in enumerate(messages):
        blocks = _blocks(message["content"])
        if not blocks:
            return f"messages.{place}: all messages must have non-empty content"
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(asked):
            return (
                f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {asked}"
            )
        if [block["type"] == "tool_result" for block in blocks] != sorted(
            (block["type"] == "tool_result" for block in blocks), reverse=True
        ):
            return f"messages.{place}: tool_result blocks must come first"
        asked = []
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                return f"messages.{place}: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use":
                asked.append(block["id"])
                if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
                    return f"messages.{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                if not _PLAIN.fullmatch(block["name"]):
                    return f"messages.{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
    if messages[-1]["role"] != "user":
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    return _alternating([message["role"] for message in messages])


def gemini(request: Json) -> str | None:
    contents = request["contents"]
    if contents[0]["role"] != "user":
        return "Please ensure that multiturn requests begin with a user turn"
    asked: list[str] = []
    for content in contents:
        parts = content["parts"]
        if not parts or any("text" in part and not part["text"] for part in parts):
            return "Unable to submit request because it must have a text parameter"
        answered = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if answered != asked:
            return (
                "Please ensure that the number of function response parts is equal to that of the function call turn."
            )
        asked = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if any(not _GEMINI_NAME.fullmatch(name) for name in asked):
            return f"Invalid function name. Must start with a letter or an underscore: {asked}"
    # a turn of words may follow one of results: the library sends them apart
    roles = ["results" if "functionResponse" in content["parts"][0] else content["role"] for content in contents]
    return _alternating(roles)


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _twice(role: str, roles: list[str]) -> str | None:
    return f"two messages of role {role} in a row" if (role, role) in pairwise(roles) else None


def _alternating(roles: list[str]) -> str | None:
    return next((fault for role in set(roles) if (fault := _twice(role, roles))), None)
