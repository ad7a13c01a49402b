"""Parameters of a request that a server refuses: left out or renamed, once, and remembered for the model.

Servers that speak OpenAI's protocol take different parts of it, and each says what it refuses in words of its own. So
the rule is the same for all: a refusal that names an optional parameter which was sent is about that parameter. A
refusal that names nothing of the kind, or only a value, is an error for the operator. Two more things that servers
refuse are in the messages: a system prompt of its own, and an answer without text.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from openai import NOT_GIVEN, Omit
from pydantic_ai import exceptions as library

from tenex.log import get_logger

REFUSALS: Final = (400, 404, 422, 501)
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
    r"|only .{0,80}(?:allowed|supported|accepted)|(?:cannot|can't) be used|extraneous|cannot find field"
)
_UNNAMED: Final = re.compile(r"no endpoints found that can handle the requested parameters")
"""OpenRouter's words where no server behind it takes all that was sent; it does not say which part."""
_SYSTEM: Final = re.compile(
    r"\b(?:system|developer)['\"` ]{1,2}(?:role|instruction|message|prompt)s?\b"
    r"|\brole\b[^.]{0,80}['\"`](?:system|developer)['\"`]|only user(?:,| and) (?:assistant|model)"
)
_NO_TEXT: Final = re.compile(
    r"\bcontent\b(?![ _](?:policy|filter|management)).{0,100}\b(?:null|none|string|required|missing)\b"
    r"|\b(?:null|none|required|missing)\b.{0,100}\bcontent\b"
)
"""An answer of the model that is only calls has no text, which some servers want to be an empty one."""
_OF_VALUE: Final = re.compile(
    r"too (?:large|high|big|many|long)|at most|maximum|must be (?:less|at least|between|positive)|exceeds?\b"
    r"|greater than|less than or equal|out of range"
)
"""A refusal of how much is asked for, which the operator has set."""

_SENT: Final = "_tenex_sent_request"
"""Where an exception of the library holds the `SentRequest`."""

_log = get_logger(__name__)


def refusal_words(error: library.ModelHTTPError) -> str:
    """All that an error says, in lower case: its code, its message, and the places that a validation names."""
    body = error.body if isinstance(error.body, str) else json.dumps(error.body, ensure_ascii=False, default=str)
    body = re.sub(r'"\w+": null,?', "", body)  # a field that says nothing
    return f"{error.provider_error_code or ''} {body}"[:WORDS].lower()


class Parameters:
    """What of the parameters of one model is sent otherwise than the library sends it."""

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}
        """The other name of a parameter, or "" where it is left out."""
        self.learnt = 0
        """How often something was learnt. A request that was sent before says nothing new about the server."""
        self._system_as_user = False
        """Whether the system prompt is sent at the beginning of the first message of a user."""
        self._text_as_empty = False
        """Whether messages without a text are sent with an empty one."""

    def as_permitted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a request without what was refused, or under its other name."""
        sent = {name: value for name, value in fields.items() if value is not NOT_GIVEN and not isinstance(value, Omit)}
        for name, other in self._changed.items():
            if name in sent:
                value = sent.pop(name)
                if other:
                    sent.setdefault(other, value)
        if self._text_as_empty:
            sent["messages"] = [{**message, "content": message.get("content") or ""} for message in sent["messages"]]
        if self._system_as_user:
            sent["messages"] = _without_system(sent["messages"])
        return sent

    def refused(self, words: str, sent: Collection[str]) -> str:
        """Note what a refusal in these words is about; its name, or "" where nothing can be sent otherwise.

        `sent` are the names of the fields of that request: others are under way at the same time.
        """
        if name := self._named(words, sent):
            return name
        optional = [name for name in OPTIONAL if name in sent]
        if optional and _UNNAMED.search(words):
            self._changed.update(dict.fromkeys(optional, ""))
            _log.info("model.parameter_refused", parameter=", ".join(optional))
            return optional[0]
        if not self._system_as_user and _SYSTEM.search(words):
            self._system_as_user = True
            _log.info("model.parameter_refused", parameter="system", sent_as="user")
            return "system"
        if not self._text_as_empty and _NO_TEXT.search(words):
            self._text_as_empty = True
            _log.info("model.parameter_refused", parameter="content", sent_as="an empty text")
            return "content"
        return ""

    def _named(self, words: str, sent: Collection[str]) -> str:
        """Note the parameter that a refusal names, and that was sent."""
        if not _REFUSED.search(words):
            return ""
        places = {
            name: re.search(rf"(?<![\w.]){name.replace('_', '_?')}\b", words) for name in OPTIONAL if name in sent
        }
        named = {name: place.start() for name, place in places.items() if place is not None}
        if not named:
            return ""
        name = min(named, key=lambda name: named[name])  # the remedy is named after what is wrong
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


def _without_system(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with the system prompt at the beginning of the first of a user."""
    system = [str(message["content"]) for message in messages if message["role"] in ("system", "developer")]
    rest = [message for message in messages if message["role"] not in ("system", "developer")]
    place = next((at for at, message in enumerate(rest) if message["role"] == "user"), None)
    if place is None or not isinstance(rest[place]["content"], str):
        return [{"role": "user", "content": "\n\n".join(system)}, *rest] if system else rest
    rest[place] = {**rest[place], "content": "\n\n".join([*system, rest[place]["content"]])}
    return rest


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What is known of a request when its refusal is looked at."""

    names: frozenset[str]
    """Of its fields."""
    learnt: int
    """`Parameters.learnt` when it was sent."""


def sent_request(error: BaseException) -> SentRequest | None:
    """The request that an error, or the one that it was raised from, is about."""
    cause: BaseException | None = error
    while cause is not None:
        found = cause.__dict__.get(_SENT)
        if isinstance(found, SentRequest):
            return found
        cause = cause.__cause__ or cause.__context__
    return None


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
        sent = self._parameters.as_permitted(fields)
        learnt = self._parameters.learnt
        try:
            return await self._adapted.chat.completions.create(**sent)
        except Exception as error:
            error.__dict__[_SENT] = SentRequest(names=frozenset(sent), learnt=learnt)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapted, name)
