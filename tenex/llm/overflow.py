"""Recognises a request that exceeds a model's window from the messages of servers, and how much smaller it must be.

The sentences are those of OpenAI, Anthropic, Gemini, vLLM, llama.cpp, llama-cpp-python, Ollama, LM Studio, Groq and
OpenRouter. A limit of tokens a minute that is smaller than the request is treated alike: waiting does not help.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import exceptions as library

MESSAGE: Final = 8_000
"""Characters of a server's message that are looked at: some repeat the whole request after what they say of it."""

_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context length exceeded"
    r"|exceeds? (the |this |your )?(model'?s? )?(available |maximum |max )?context|exceeded max context"
    r"|context window exceeds|greater than the context length|context length (of|is) only"
    r"|longer than the maximum model length|(prompt|input) (is )?too long|maximum prompt length"
    r"|exceeded model token limit|configured limit of \d+ tokens|input token count|maximum number of tokens allowed"
    r"|request too large for|reduce the length of the (messages|prompt|input)|tokens limit \d+ for this model"
    r"|range of input length|超长|输入长度超|上下文长度"
)
_IN_OTHER_WORDS: Final = re.compile(
    r"\b(?:context|prompt|input|tokens?|request body|conversation)\b[^.]{0,80}"
    r"\b(?:exceed\w*|too (?:long|large|big|many)|overflow\w*|(?:larger|greater|longer) than|limit[ _]reached"
    r"|must be <|must have less than|cannot exceed)"
    r"|\b(?:exceed\w*|too many|overflow\w*|longer than)\b[^.]{0,80}\b(?:context|tokens|prompt|input)\b"
    r"|tokens_limit_reached"
)
"""How the rest of the servers say it; read only where the status fits, since limits of a minute are said alike."""
_STATUSES: Final = (400, 413, 422, 500)
TOO_LARGE: Final = 413
"""The status that says it alone, also of a proxy before a server."""
_LIMIT: Final = re.compile(
    r"context length (?:is|of) (?:only )?(\d+)|> (\d+) maximum|\+ \d+ > (\d+)|tokens allowed \(?(\d+)"
    r"|available context size \((\d+)|context window of (\d+)|maximum model length of (\d+)"
    r"|max size: (\d+) tokens|the limit of (\d+)|must be <= (\d+)|must have less than (\d+)"
    r"|configured limit of (\d+)|model with (\d+) maximum|maximum prompt length is (\d+)|limit:? (\d+), requested"
)
_SENT: Final = re.compile(
    r"\((\d+) (?:in the messages|of text input|in your prompt)|resulted in (\d+) tokens|request has (\d+) input tokens"
    r"|passed (\d+) input tokens|requested (?:about )?(\d+) tokens|(\d+) tokens > \d+ maximum|limit: (\d+) \+ \d+ >"
    r"|input token count \(?(\d+)|request \((\d+) tokens\)|requested tokens \((\d+)\)|prompt \(length (\d+)\)"
    r"|token count of (\d+)|, requested:? (\d+)|prompt contains (\d+) tokens|keep the first (\d+) tokens"
    r"|given: (\d+)"
)
_OUTPUT: Final = re.compile(
    r"(\d+) (?:in|for) the completion|(\d+) in the output|requested (\d+) output tokens|too large: (\d+)|\+ (\d+) > \d+"
)

MARGIN: Final = 0.95
"""Of the room that is left: estimates and a server's own counting differ from one text to the next."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """A server's numbers for a request that was too long, in its tokens; 0 where it gives none."""

    limit: int = 0
    sent: int = 0
    output: int = 0
    """Tokens of the answer that count toward the limit."""

    def room(self, size: int) -> int:
        """Estimated tokens that fit, after a request of `size` estimated tokens did not; 0 where nothing can."""
        if self.limit and self.output >= self.limit:
            return 0
        if self.limit and self.sent > self.limit - self.output:
            return int(size * MARGIN * (self.limit - self.output) / self.sent)
        return min(size // 2, self.limit - self.output) if self.limit else size // 2


def overflow(error: BaseException | None) -> Overflow | None:
    """The overflow an error reports; None for other errors."""
    if not isinstance(error, library.ModelAPIError):
        return None
    body = body_of(error)
    names = f"{error.provider_error_code} {error.provider_error_type}"[:MESSAGE]
    text = f"{names} {_words(body)}".lower()
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(\d{12})\d+", r"\1", text)  # the patterns take quadratic time for a long number
    status = error.status_code if isinstance(error, library.ModelHTTPError) else 0
    is_said = _TOO_LONG.search(text) or (status in _STATUSES and _IN_OTHER_WORDS.search(text))
    is_too_long = is_said or status == TOO_LARGE
    if not isinstance(error, library.ModelContextWindowExceededError) and not is_too_long:
        return None
    return Overflow(
        _number(body.get("n_ctx")) or _first(_LIMIT, text),
        _number(body.get("n_prompt_tokens")) or _first(_SENT, text),
        _first(_OUTPUT, text),
    )


def body_of(error: library.ModelAPIError) -> Mapping[str, Any]:
    """The fields of an error's body, which servers put at the top or under `error`; the beginning of long texts.

    `message` is a text in any place that servers use: in a list, in `detail`, or, of a server behind it, in `metadata`.
    """
    body: Any = error.body
    if isinstance(body, list) and body and isinstance(body[0], Mapping):
        body = body[0]  # Gemini
    body = body if isinstance(body, Mapping) else {"message": body}
    inner = body.get("error")
    fields = {**body, **inner} if isinstance(inner, Mapping) else {"message": inner, **body} if inner else dict(body)
    stated = next((fields[name] for name in ("message", "detail", "errors", "details") if fields.get(name)), "")
    metadata = fields.get("metadata")
    behind = metadata.get("raw") if isinstance(metadata, Mapping) else None
    words = [words if isinstance(words, str) else json.dumps(words, default=str) for words in (stated, behind) if words]
    fields["message"] = " ".join(words)
    return {name: value[:MESSAGE] if isinstance(value, str) else value for name, value in fields.items()}


def _words(body: Mapping[str, Any]) -> str:
    return " ".join(value for value in body.values() if isinstance(value, str))[: 2 * MESSAGE]


def _number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _first(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(next(filter(None, found.groups()))) if found else 0
