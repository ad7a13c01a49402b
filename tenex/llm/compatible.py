"""Chat completions of servers that speak OpenAI's protocol: read as servers really answer, not only as it is specified.

Usage may lack its total, hold nulls, or come with every chunk of a stream as the sum so far. Thoughts in tags are left
in the text: `thoughts` separates them, because the library knows a tag only where it is a chunk of its own.
"""

from functools import cached_property
from typing import Any, Final, cast

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.usage import RequestUsage

MOST: Final = 2**53
"""Tokens: what JSON numbers hold exactly; a larger count is a server's mistake."""

_CACHED: Final = {
    "cached_tokens": ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"),
    "cache_write_tokens": ("cache_creation_input_tokens",),
}
"""OpenAI's names of the tokens that a cache held and stored, and those of DeepSeek, Moonshot and LiteLLM."""

_NO_TAGS: Final = ModelProfile(thinking_tags=("<tenex-thought>", "</tenex:thought>"))
"""Tags that no model writes, so that the library never splits a text."""


class CompatibleStream(OpenAIStreamedResponse):
    """A stream whose newest usage counts for all of it."""

    def _map_usage(self, response: ChatCompletionChunk) -> RequestUsage:
        response.usage = readable_usage(response.usage)
        return super()._map_usage(response)

    def _add_usage(self, usage: RequestUsage, *, reported: bool, cumulative: bool = False) -> None:  # noqa: ARG002
        if reported and usage.input_tokens + usage.output_tokens:
            super()._add_usage(usage, reported=True, cumulative=True)


class CompatibleChatModel(OpenAIChatModel):
    """A model of any server that speaks the protocol."""

    @cached_property
    def profile(self) -> OpenAIModelProfile:
        """The library's profile of the model; texts are not searched for thoughts."""
        return cast("OpenAIModelProfile", merge_profile(super().profile, _NO_TAGS))

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return CompatibleStream

    def _validate_completion(self, response: ChatCompletion) -> Any:
        response.usage = readable_usage(response.usage)
        return super()._validate_completion(response)


class CompatibleOllamaModel(CompatibleChatModel, OllamaModel):
    """A model of Ollama."""


def readable_usage(usage: CompletionUsage | None) -> CompletionUsage | None:
    """A usage with its counts as numbers; what is missing is 0, or what the total leaves for it."""
    if not isinstance(usage, BaseModel):
        return None
    given = usage.model_dump(warnings=False)
    written, total = _count(given.get("completion_tokens")), _count(given.get("total_tokens"))
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
