"""What a request of a program of others cost: read from the provider's answer while it passes.

Vendors report differently: Anthropic at the beginning of a stream and again at its end, OpenAI in the last event,
Google in each event as the sum so far. The newest value of each count holds. What is not reported is estimated by the
bytes of the texts, as for our own calls, also where a stream is cut.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openai.types import CompletionUsage
from pydantic_ai.usage import RequestUsage

from tenex.core.memory.window import BYTES_PER_TOKEN, weight
from tenex.core.messages import Usage

from .compatible import MOST, readable_usage
from .config import ProviderConfig
from .pricing import Bill, usage_of
from .providers import Destination
from .vendor_apis import Api

_WRITTEN: Final = (
    "text",
    "content",
    "thinking",
    "reasoning",
    "reasoning_content",
    "arguments",
    "partial_json",
    "delta",
)
"""Names of the texts that models write, in all four protocols."""


class Measure:
    """Counts what one answer reports."""

    def __init__(self, api: Api, sent: int) -> None:
        """Begin; `sent` is the estimate of the request's tokens."""
        self._api = api
        self._sent = sent
        self._reported: dict[str, Any] = {}
        self._model = ""
        self._written = 0
        """Bytes of the texts."""

    def event(self, data: bytes) -> Mapping[str, Any] | None:
        """Take the next event of a stream, or a whole answer; gives its JSON object, if it is one."""
        try:
            value = json.loads(data)
            value = value[-1] if isinstance(value, list) and value else value  # Google's streams without events
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        inner = value.get("response") or value.get("message")
        for part in (value, inner if isinstance(inner, dict) else {}):
            self._read(part)
        kind = value.get("type")
        if not isinstance(kind, str) or kind.endswith("delta") or kind == "message":  # else it repeats what has come
            self._written += sum(map(weight, _texts(value)))
        return value

    def _read(self, part: Mapping[str, Any]) -> None:
        reported = part.get("usageMetadata" if self._api is Api.GENERATE else "usage")
        if isinstance(reported, dict):
            sound = {name: count for name, count in reported.items() if _is_sound(count)}
            self._reported |= {name: count for name, count in sound.items() if count or name not in self._reported}
        model = part.get("modelVersion" if self._api is Api.GENERATE else "model")
        if isinstance(model, str) and model:
            self._model = model

    def usage(self, provider: ProviderConfig, destination: Destination, bill: Bill) -> Usage:
        """What the answer has cost so far."""
        written = -(-self._written // BYTES_PER_TOKEN)
        return usage_of(self._extracted(provider, destination), self._model, bill, self._sent, written)

    def _extracted(self, provider: ProviderConfig, destination: Destination) -> RequestUsage:
        reported = self._reported
        if self._api is Api.CHAT and reported:
            readable = readable_usage(CompletionUsage.model_construct(**reported))
            reported = readable.model_dump(exclude_none=True) if readable is not None else {}
        if not reported:
            return RequestUsage()
        flavor = {Api.CHAT: "chat", Api.RESPONSES: "responses"}.get(self._api, "default")
        name = "usageMetadata" if self._api is Api.GENERATE else "usage"
        model = "modelVersion" if self._api is Api.GENERATE else "model"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # counts that cannot be read are estimated
            return RequestUsage.extract(
                {name: reported, model: self._model},
                provider=provider.protocol,
                provider_url=destination.address,
                provider_fallback=destination.vendor,
                api_flavor=flavor,
            )


def _is_sound(count: object) -> bool:
    """Whether a reported count, or a group of counts, can be one."""
    if isinstance(count, int | float):
        return 0 <= count < MOST
    return isinstance(count, dict | list)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """What a model wrote, in an event."""
    if depth > 12:  # all four protocols have it higher
        return
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner, depth + 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield from [inner] if name in _WRITTEN else []
            else:
                yield from _texts(inner, depth + 1)
