"""Translates the errors of the model library into two, each with a message the operator can act on.

`ModelUnavailable` is temporary, or the operator can fix it: the work is paused and resumes by itself. `ModelRefused`
would be the same after a retry.
"""

import re
from typing import Final

from pydantic_ai import exceptions as library

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import NO_USAGE, Usage

from .answer_limits import exceeded
from .overflow import body_of, overflow
from .rate_limit import LONGEST_PAUSE

_CODE = re.compile(r"[A-Za-z][\w.\-]{0,59}")
"""The shape of an error code: short, without spaces."""

_POLICY = re.compile(
    r"content[_ ]?(policy|filter|management)|polic(y|ies)[_ ]violation|moderation|safety|data_inspection_failed"
)
"""How vendors name a request their filters stopped, in a code or a message."""

_ORDER = re.compile(r"roles must alternate|unexpected role|with a length of 9|with length 9")
"""How Mistral's API and the templates of its models reject a history in another order or with other ids."""

_RESET = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
"""A duration as OpenAI's `x-ratelimit-reset-*` headers write it: `1s`, `6m0s`, `120ms`."""

_LIMITS: Final = ("requests", "tokens")


def translate(error: Exception, name: str, usage: Usage = NO_USAGE) -> ModelUnavailable | ModelRefused:
    """Translate an error; `name` is the model's full name, `usage` is known to be billed."""
    provider = name.partition(":")[0]
    too_large = exceeded(error)
    if too_large is not None:
        remedy = f"choose another model, or look at models.providers.{provider}"
        return ModelRefused(f"the server of {name} sent {too_large}: {remedy}", usage)
    match error:
        case library.ContentFilterError():
            return ModelRefused(f"{name} did not answer: the provider's content filter stopped it", usage)
        case library.ModelAPIError() if overflow(error) is not None:
            return ModelRefused(
                f"what was sent is too long for {name}: lower models.context_tokens or models.max_output_tokens, or "
                "choose a model with a larger window",
                usage,
            )
        case library.ModelRequestRejectedError() if is_policy(error):
            return ModelRefused(f"{name} will not answer this: the provider's content policy forbids it", usage)
    return ModelUnavailable(f"{name} {_why(error, provider)}", retry_after(error), usage)


def _why(error: Exception, provider: str) -> str:
    phase = error.phase if isinstance(error, library.ModelConnectionError) else None
    if phase in ("connect", "pool"):
        return f"cannot be reached: is its server up, is models.providers.{provider}.base_url right"
    if isinstance(error, library.UserError):
        return "cannot be asked in this way: choose another model"
    if not isinstance(error, library.ModelAPIError):
        return f"gave an answer that cannot be read ({type(error).__name__})"
    sentence = next((words for kinds, words in _SENTENCES if isinstance(error, kinds)), _UNREADABLE)
    if isinstance(error, library.ModelHTTPError) and error.status_code in (400, 422, 500):
        message = _text(error, "message").lower()
        sentence = next((words for pattern, words in _SETTINGS if pattern.search(message)), sentence)
    return sentence.format(code=_code(error), setting=f"models.providers.{provider}")


_UNREADABLE: Final = "gave an answer that cannot be read: is {setting}.base_url the address of a model server"

_SENTENCES: Final[tuple[tuple[type[library.ModelAPIError], str], ...]] = (
    (library.ModelQuotaExceededError, "has no credit or quota left: top up the account, or choose another model"),
    (library.ModelRateLimitError, "asks to slow down"),
    (
        library.ModelAuthenticationError,
        "does not accept the key{code}: fix {setting}.api_key_env or {setting}.api_key_file",
    ),
    (library.ModelNotFoundError, "is not there{code}: look at the model's name, and at {setting}.base_url"),
    (library.ModelRequestRejectedError, "rejects the request{code}: choose another model, or look at {setting}"),
    (library.ModelUnavailableError, "is overloaded{code}"),
    (library.ModelServerError, "fails at the moment{code}"),
    (library.ModelTimeoutError, "gave no answer in time"),
    (library.ModelRequestTimeout, "gave no answer in time"),
    (library.ModelConnectionError, "broke off the connection"),
    (library.ModelHTTPError, "failed{code}"),
)
"""The first match wins; each follows the model's name and names the operator's remedy."""


_SETTINGS: Final = (
    (
        re.compile(r"max_(completion_|output_)?tokens|maxoutputtokens|(output|completion) tokens"),
        "does not take the length of answers that is asked for{code}: lower or remove models.max_output_tokens",
    ),
    (
        re.compile(r"not support[^.]{0,200}tool|tool[^.]{0,200}not support|enable-auto-tool-choice|--jinja"),
        "cannot call tools{code}: choose another model, or turn tool calls on at its server",
    ),
    (re.compile(r"\bstream(ing)?\b"), "does not take a request for a stream{code}: set models.stream = false"),
)
"""Which setting a refused request is about, by the server's message."""


def rejects_form(error: BaseException | None) -> bool:
    """Whether a server, or the library for it, does not take the form a structured answer was asked for in."""
    if not isinstance(error, library.ModelRequestRejectedError):
        return isinstance(error, library.UserError)
    other = library.ModelAuthenticationError | library.ModelNotFoundError | library.ModelContextWindowExceededError
    return not isinstance(error, other) and not is_policy(error)


def rejects_order(error: BaseException | None) -> bool:
    """Whether a server, or the chat template it runs, wants messages and ids of calls as Mistral does."""
    return isinstance(error, library.ModelAPIError) and bool(_ORDER.search(_text(error, "message").lower()))


def is_policy(error: library.ModelAPIError) -> bool:
    """Whether a rejected request names the provider's content rules."""
    texts = (error.provider_error_code, error.provider_error_type, _text(error, "message"))
    return any(_POLICY.search(text.lower()) for text in texts if text)


def retry_after(error: Exception) -> float | None:
    """Seconds that the server asked to wait, at most an hour; None if it did not."""
    if not isinstance(error, library.ModelAPIError):
        return None
    after = error.retry_after
    if after is None and isinstance(error, library.ModelHTTPError) and error.status_code == 429:
        after = _reset(error.headers or {})
    return None if after is None else min(after, LONGEST_PAUSE)


def _reset(headers: "dict[str, str]") -> float | None:
    """Until the limits that are used up are reset, as `x-ratelimit-*` headers report."""
    waits: list[float] = []
    for limit in _LIMITS:
        found = _RESET.fullmatch(headers.get(f"x-ratelimit-reset-{limit}", ""))
        if found and any(found.groups()) and headers.get(f"x-ratelimit-remaining-{limit}") == "0":
            hours, minutes, seconds, millis = (float(part or 0) for part in found.groups())
            waits.append(hours * 3600 + minutes * 60 + seconds + millis / 1000)
    return max(waits, default=None)


def _code(error: library.ModelAPIError) -> str:
    """Status and code in brackets, as far as they are known."""
    status = error.status_code if isinstance(error, library.ModelHTTPError) else None
    code = error.provider_error_code or error.provider_error_type
    parts = [str(status)] if status else []
    parts += [word for word in (code, _text(error, "param")) if word and _CODE.fullmatch(word)]
    return f" ({', '.join(parts)})" if parts else ""


def _text(error: library.ModelAPIError, name: str) -> str:
    """A text in an error's body; empty where there is none."""
    value = body_of(error).get(name)
    return value if isinstance(value, str) else ""
