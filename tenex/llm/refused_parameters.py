"""Parameters of a request that a server refuses: left out or renamed, once, and remembered for the model.

Servers that speak OpenAI's protocol take different parts of it, and each says what it refuses in words of its own. So
the rule is the same for all: a refusal that names an optional parameter which was sent is about that parameter. A
refusal that names nothing of the kind, or only a value, is an error for the operator.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from openai import NOT_GIVEN, Omit
from pydantic_ai import exceptions as library

from tenex.log import get_logger

REFUSALS: Final = (400, 404, 422)
"""Statuses; OpenRouter says 404 where no server behind it takes a parameter."""

WORDS: Final = 8_000
"""Characters of a refusal that are looked at."""

OTHER_NAMES: Final[Mapping[str, str]] = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""What is sent under its other name before it is left out."""

OPTIONAL: Final = (
    "max_completion_tokens",
    "max_tokens",
    "stream_options",
    "parallel_tool_calls",
    "tool_choice",
    "temperature",
    "top_p",
    "seed",
    "stop",
    "user",
    "store",
    "verbosity",
    "service_tier",
    "reasoning_effort",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
"""Parameters without which an answer is still an answer. `response_format` is no such: another form is asked for."""

_REFUSED: Final = re.compile(
    r"unsupported|not (?:be )?support|n[o']t support|no endpoints found that support|unrecogni[sz]ed|not recogni[sz]ed"
    r"|unknown|unexpected|extra|forbidden|invalid|deprecated|incompatible|disallowed|does not exist|remove"
    r"|not (?:permitted|allowed|accepted|available|compatible|valid|implemented|enabled)|(?:may|must) not"
    r"|only .{0,80}(?:allowed|supported|accepted)|(?:cannot|can't) be used"
)
_OF_VALUE: Final = re.compile(
    r"too (?:large|high|big|many|long)|at most|maximum|must be (?:less|at least|between|positive)|exceeds?\b"
    r"|greater than|less than or equal|out of range"
)
"""A refusal of how much is asked for, which the operator has set."""

_log = get_logger(__name__)


def refusal_words(error: library.ModelHTTPError) -> str:
    """All that an error says, in lower case: its code, its message, and the places that a validation names."""
    body = error.body if isinstance(error.body, str) else json.dumps(error.body, ensure_ascii=False, default=str)
    return f"{error.provider_error_code or ''} {body}"[:WORDS].lower()


class Parameters:
    """What of the parameters of one model is sent otherwise than the library sends it."""

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}
        """The other name of a parameter, or "" where it is left out."""
        self._sent: frozenset[str] = frozenset()

    def as_permitted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a request without what was refused, or under its other name."""
        sent = {name: value for name, value in fields.items() if value is not NOT_GIVEN and not isinstance(value, Omit)}
        for name, other in self._changed.items():
            if name in sent:
                value = sent.pop(name)
                if other:
                    sent.setdefault(other, value)
        self._sent = frozenset(sent)
        return sent

    def refused(self, words: str) -> str:
        """Note the parameter that a refusal in these words is about; its name, or "" where no such one was sent."""
        if not _REFUSED.search(words):
            return ""
        named = [name for name in OPTIONAL if name in self._sent and re.search(rf"(?<![\w.]){name}\b", words)]
        if not named:
            return ""
        name = min(named, key=words.index)  # the remedy is named after what is wrong
        if (
            name in OTHER_NAMES
            and _OF_VALUE.search(words)
            and not re.search(r"unsupported (parameter|argument)", words)
        ):
            return ""
        original = next((known for known, other in self._changed.items() if other == name), name)
        other = OTHER_NAMES.get(name, "") if original == name else ""
        self._changed[original] = other
        _log.info("model.parameter_refused", parameter=name, **({"sent_as": other} if other else {}))
        return name


class AdaptedClient:
    """A client of OpenAI's library whose requests have the parameters that their server takes."""

    def __init__(self, client: Any, parameters: Parameters) -> None:
        self._adapted = client
        self._parameters = parameters

    @property
    def chat(self) -> "AdaptedClient":
        """As `AsyncOpenAI.chat`."""
        return self

    @property
    def completions(self) -> "AdaptedClient":
        """As `AsyncOpenAI.chat.completions`."""
        return self

    async def create(self, **fields: Any) -> Any:
        """As `AsyncOpenAI.chat.completions.create`."""
        return await self._adapted.chat.completions.create(**self._parameters.as_permitted(fields))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapted, name)
