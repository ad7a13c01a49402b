"""Chat completions of servers that speak OpenAI's protocol: read as servers really answer, not only as it is specified.

Usage may lack its total, hold nulls, or come with every chunk of a stream as the sum so far. Thoughts in tags are left
in the text: `thoughts` separates them, because the library knows a tag only where it is a chunk of its own.
"""

import json
import re
from functools import cache
from typing import Any, Final, cast

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel
from pydantic_ai import exceptions as library
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.usage import RequestUsage

from .refused_parameters import REFUSALS, AdaptedClient, Parameters, refusal_words, sent_request

MOST: Final = 2**53
"""Tokens: what JSON numbers hold exactly; a larger count is a server's mistake."""

_CACHED: Final = {
    "cached_tokens": ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"),
    "cache_write_tokens": ("cache_creation_input_tokens",),
}
"""OpenAI's names of the tokens that a cache held and stored, and those of DeepSeek, Moonshot and LiteLLM."""

_PROFILE: Final = OpenAIModelProfile(
    thinking_tags=("<tenex-thought>", "</tenex:thought>"),
    openai_supports_strict_tool_definition=False,
)
"""Tags that no model writes, so that the library never splits a text; no `strict` with tools, which some refuse."""


class CompatibleStream(OpenAIStreamedResponse):
    """A stream whose newest usage counts for all of it."""

    def _map_usage(self, response: ChatCompletionChunk) -> RequestUsage:
        response.usage = readable_usage(response.usage)
        return super()._map_usage(response)

    def _add_usage(self, usage: RequestUsage, *, reported: bool, cumulative: bool = False) -> None:  # noqa: ARG002
        if reported and usage.input_tokens + usage.output_tokens:
            super()._add_usage(usage, reported=True, cumulative=True)


class CompatibleChatModel(OpenAIChatModel):
    """A model of any server that speaks the protocol, asked as its server permits: `learn` takes that from errors."""

    _parameters: Parameters | None = None
    _profile_learnt: OpenAIModelProfile = OpenAIModelProfile()

    @property
    def profile(self) -> OpenAIModelProfile:
        """The library's profile of the model with what was learnt; texts are not searched for thoughts."""
        return cast("OpenAIModelProfile", merge_profile(super().profile, _PROFILE, self._profile_learnt))

    @property
    def client(self) -> Any:
        """The library's client, which leaves out what the server has refused."""
        if self._parameters is None:
            self._parameters = Parameters()
        return AdaptedClient(super().client, self._parameters)

    def learn(self, error: BaseException | None) -> str:
        """Take from an error what the server does not take; the name of what is sent otherwise from now on, or ""."""
        if not isinstance(error, library.ModelHTTPError) or error.status_code not in REFUSALS:
            return ""
        sent = sent_request(error)
        if self._parameters is None or sent is None:
            return ""
        if sent.learnt < self._parameters.learnt:
            return "what was learnt since it was sent"
        words = refusal_words(error)
        thoughts = _thoughts_refused(words)
        if thoughts is not None and self._profile_learnt != thoughts:
            self._profile_learnt = thoughts
            found = "thoughts"
        else:
            found = self._parameters.refused(words, sent.names)
        self._parameters.learnt += bool(found)
        return found

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return CompatibleStream

    def _validate_completion(self, response: ChatCompletion) -> Any:
        response.usage = readable_usage(response.usage)
        return super()._validate_completion(readable_completion(response))


def _thoughts_refused(words: str) -> OpenAIModelProfile | None:
    """How thoughts have to be sent back after this refusal; None where it is about something else."""
    if not re.search(r"\breasoning(_content)?\b", words) or re.search(r"\breasoning[_.]effort\b", words):
        return None
    if re.search(r"missing|must be (passed|provided|sent|included)|is required|requires|passed back", words):
        return OpenAIModelProfile(
            thinking_enabled_by_default=True,
            openai_chat_thinking_field="reasoning_content",
            openai_chat_send_back_thinking_parts="field",
            openai_chat_thinking_requires_field_on_tool_calls=True,
        )
    return OpenAIModelProfile(openai_chat_send_back_thinking_parts=False)


@cache
def compatible(kind: type[OpenAIChatModel]) -> type[OpenAIChatModel]:
    """A class of the library for one vendor, read as leniently and asked as adaptably."""
    return type(f"Compatible{kind.__name__}", (CompatibleChatModel, kind), {})


def readable_completion(response: ChatCompletion) -> ChatCompletion:
    """A completion with what its form demands and servers leave out: ids, kinds, roles, arguments as a text.

    Raises:
        UnexpectedModelBehavior: it has no choice.
    """
    given = response.model_dump(warnings=False)
    if not given.get("choices"):
        raise library.UnexpectedModelBehavior("a completion without a choice")
    for choice in given["choices"]:
        choice["index"] = choice.get("index") or 0
        choice["finish_reason"] = choice.get("finish_reason") or "stop"
        message = choice["message"] = {"content": None, **(choice.get("message") or {}), "role": "assistant"}
        for place, call in enumerate(message.get("tool_calls") or []):
            call |= {"type": "function", "id": call.get("id") or f"{given.get('id') or 'call'}-{place}"}
            function = call.get("function") or {}
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
            call["function"] = {"name": str(function.get("name") or ""), "arguments": text}
    head = {"id": given.get("id") or "", "created": given.get("created") or 0, "model": given.get("model") or ""}
    return ChatCompletion.model_construct(**{**given, **head, "object": "chat.completion"})


def readable_usage(usage: CompletionUsage | None) -> CompletionUsage | None:
    """A usage with its counts as numbers; what is missing is 0, or what the total leaves for it."""
    if not isinstance(usage, BaseModel):
        return None
    given = usage.model_dump(warnings=False)
    written = _count(given.get("completion_tokens"))
    total = _count(given.get("total_tokens"))
    sent = _count(given.get("prompt_tokens")) or max(0, total - written)
    for name in ("prompt_tokens_details", "completion_tokens_details"):
        details = given.get(name)
        given[name] = {key: _count(value) for key, value in details.items()} if isinstance(details, dict) else {}
    for name, others in _CACHED.items():
        given["prompt_tokens_details"][name] = max(
            _count(given["prompt_tokens_details"].get(name)), *(_count(given.get(other)) for other in others)
        )
    counts = {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}
    return CompletionUsage.model_validate({**given, **counts})


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < MOST else 0
