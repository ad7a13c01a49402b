"""Translates the errors of the model library into two, each with a message the operator can act on.

`ModelUnavailable` is temporary, or the operator can fix it: the work is paused and resumes by itself. `ModelRefused`
would be the same after a retry.
"""

import re
import time
from typing import Final, Literal

from pydantic_ai import exceptions as library

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import in_a_line
from tenex.core.messages import NO_USAGE, Usage

from .answer_limits import exceeded, is_page, is_whole
from .config import ProviderConfig
from .network import PROXY_LOGIN, connection_fault
from .overflow import MESSAGE, body_of, overflow
from .rate_limit import LONGEST_PAUSE

_CODE = re.compile(r"[A-Za-z][\w.\-]{0,59}")
"""The shape of an error code: short, without spaces."""

_POLICY = re.compile(
    r"content[_ ]?(policy|filter|management)|polic(y|ies)[_ ]violation|moderation|safety|data_inspection_failed"
)
"""How vendors name a request their filters stopped, in a code or a message."""

_ORDER = re.compile(r"roles must alternate|unexpected role|with a length of 9|with length 9")
"""How Mistral's API and the templates of its models reject a history in another order or with other ids."""

_CALL_UNREAD: Final = re.compile(
    r"tool_use_failed|output_parse_failed|failed to (?:parse|call) (?:input|tool|a function|function)"
    r"|error parsing tool call|invalid tool call|malformed_function_call|could not parse tool call"
)
"""How servers say that they could not read what their own model wrote."""

_RESET = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
"""A duration as OpenAI's `x-ratelimit-reset-*` headers write it: `1s`, `6m0s`, `120ms`."""

_LIMITS: Final = ("requests", "tokens")

_PART_OF_WAIT = re.compile(r"(\d{1,6}(?:\.\d{1,9})?) ?(milliseconds?|ms|minutes?|min|m|hours?|h|seconds?|secs?|s)")
_WAIT = re.compile(
    r"(?:(?:try again|retry|reset)(?: (?:in|after))? (?:about )?|retrydelay['\"]{0,2}: ?['\"]?)"
    r"((?:\d{1,6}(?:\.\d{1,9})? ?(?:milliseconds?|ms|minutes?|min|m|hours?|h|seconds?|secs?|s)[ ,]{0,2}){1,4})"
)


def translate(
    error: Exception, name: str, usage: Usage = NO_USAGE, config: ProviderConfig | None = None
) -> ModelUnavailable | ModelRefused:
    """Translate an error; `name` is the model's full name, `usage` is known to be billed, `config` its provider's."""
    provider = name.partition(":")[0]
    if is_page(error):
        sentence = (
            f"{name} answered with a web page: correct models.providers.{provider}.base_url; it often ends in /v1"
        )
        return ModelUnavailable(sentence, usage=usage)
    said = _said(error, config)
    too_large = exceeded(error)
    if too_large is not None:
        remedy = f"choose another model, or look at models.providers.{provider}"
        return ModelRefused(f"the server of {name} sent {too_large}: {remedy}", usage)
    if is_whole(error):
        return ModelUnavailable(
            f"{name} answers whole where a stream was asked for: set models.stream = false", usage=usage
        )
    match error:
        case library.ContentFilterError():
            return ModelRefused(f"{name} did not answer: the provider's content filter stopped it{said}", usage)
        case library.ModelAPIError() if overflow(error) is not None:
            return ModelRefused(
                f"what was sent is too long for {name}: lower models.context_tokens or models.max_output_tokens, or "
                f"choose a model with a larger window{said}",
                usage,
            )
        case library.ModelHTTPError() if _CALL_UNREAD.search(
            f"{error.provider_error_code} {_text(error, 'message').lower()}"
        ):
            return ModelRefused(
                f"{name} made a call that its own server could not read: make it again, alone{said}", usage
            )
        case library.ModelRequestRejectedError() if is_policy(error):
            return ModelRefused(f"{name} will not answer this: the provider's content policy forbids it{said}", usage)
    needs_operator = _is_about_key(error)
    sentence = f"{name} {_why(error, provider, _key_of(provider, config))}{said}"
    scope: Literal["", "provider", "model"] = (
        "" if not needs_operator else "model" if _status(error) == 403 else "provider"
    )
    return ModelUnavailable(sentence, retry_after(error), usage, needs_operator=needs_operator, refused_key=scope)


def _said(error: Exception, config: ProviderConfig | None) -> str:
    """The beginning of what the server says itself, quoted, without the key; "" where it says nothing to a reader."""
    if not isinstance(error, library.ModelAPIError) or _is_blocked(error):
        return ""
    words = in_a_line(_text(error, "message"), 10 * SAID_CHARACTERS)
    if config is not None and config.api_key:
        words = words.replace(config.api_key, "[key]")
    words = in_a_line(words, SAID_CHARACTERS).replace('"', "'")
    return f'. The server says: "{words}"' if words else ""


SAID_CHARACTERS: Final = 150
"""Of a server's own sentence, which people read after ours."""


def _key_of(provider: str, config: ProviderConfig | None) -> str:
    """Where the key was read that a server refuses, as a remedy."""
    if config is None or not config.api_key:
        return f"none was sent; set models.providers.{provider}.api_key_env or models.providers.{provider}.api_key_file"
    if config.key_source.startswith("$"):
        return f"it is in {config.key_source}; correct it there and restart"
    if config.key_source:
        return f"it is in {config.key_source}; correct it there"
    return f"correct models.providers.{provider}.api_key_env or models.providers.{provider}.api_key_file"


def _why(error: Exception, provider: str, key: str) -> str:
    phase = error.phase if isinstance(error, library.ModelConnectionError) else None
    by_network = connection_fault(error) if isinstance(error, library.ModelConnectionError) else None
    if by_network is not None:
        return by_network
    if phase in ("connect", "pool"):
        return f"cannot be reached: is its server up, is models.providers.{provider}.base_url right"
    if isinstance(error, library.UserError):
        return "cannot be asked in this way: choose another model"
    if _is_about_key(error):
        sentence = _NO_KEY if _status(error) in (400, 401) else _STATUSES[403]
    elif isinstance(error, library.ModelAPIError) and _is_blocked(error):
        return f"is behind a web page that refuses the request: look at the network, and at models.providers.{provider}"
    elif isinstance(error, library.ModelAPIError):
        unknown = _FAILED_WITHIN if error.body else _UNREADABLE
        sentence = next((words for kinds, words in _SENTENCES if isinstance(error, kinds)), unknown)
    else:
        sentence = _UNREADABLE
    if _status(error) in _STATUSES and sentence in (_FAILED, _UNREADABLE, _REJECTED, _NO_KEY):
        sentence = _STATUSES[_status(error)]
    if isinstance(error, library.ModelHTTPError) and error.status_code in _EXPLAINED:
        message = _text(error, "message").lower()
        sentence = next((words for pattern, words in _SETTINGS if pattern.search(message)), sentence)
    return sentence.format(code=_code(error), setting=f"models.providers.{provider}", key=key)


def _is_about_key(error: Exception) -> bool:
    """Whether a server refuses the key: by its status, or in words with another status, as Gemini does."""
    if not isinstance(error, library.ModelAPIError) or isinstance(error, library.ModelQuotaExceededError):
        return False
    words = f"{error.provider_error_code} {_text(error, 'message')}".lower()
    if _status(error) == 400:
        return bool(_KEY.search(words))
    is_refused = isinstance(error, library.ModelAuthenticationError) or _status(error) in (401, 403)
    is_other = any(pattern.search(words) for pattern in (_CREDIT, _COUNTRY)) or _is_blocked(error)
    return is_refused and not is_other


def _is_blocked(error: library.ModelAPIError) -> bool:
    """Whether a page for people refuses a request, as a proxy or a firewall before the server does."""
    return _status(error) == 403 and _text(error, "message").lstrip().lower().startswith(("<!doctype", "<html"))


def _status(error: Exception) -> int:
    return error.status_code if isinstance(error, library.ModelHTTPError) else 0


def is_of_account(error: Exception) -> bool:
    """Whether a limit is one of the account, for all its models, and not of one model."""
    return isinstance(error, library.ModelQuotaExceededError)


_KEY: Final = re.compile(
    r"api[ _]key (?:is )?(?:not valid|invalid|expired)|(?:invalid|expired|incorrect)[ _]api[ _]?key"
)
_CREDIT: Final = re.compile(
    r"(?:\bno\b|\bany\b|insufficient|not enough|out of)[^.]{0,30}(?:credit|balance|quota|funds)"
    r"|balance[^.]{0,20}(?:too low|insufficient)|余额不足|欠费"
)
_COUNTRY: Final = re.compile(r"country|\bregion\b|territory")
_EXPLAINED: Final = (400, 403, 404, 422, 429, 500, 501, 503)
"""Statuses whose message may name what to change."""

_NO_KEY: Final = "does not accept the key{code}: {key}"
_NO_CREDIT: Final = "has no credit or quota left: top up the account, or choose another model"
_UNREADABLE: Final = (
    "gave no answer that can be read: look at {setting}.base_url and kind, and at the log of its server"
)
_FAILED_WITHIN: Final = "reports an error in its answer{code}: if it lasts, look at the log of its server"
_REJECTED: Final = "rejects the request{code}: choose another model, or look at {setting}"
_FAILED: Final = "refuses what it was sent{code}: choose another model, or look at {setting}"

_SENTENCES: Final[tuple[tuple[type[library.ModelAPIError], str], ...]] = (
    (library.ModelQuotaExceededError, _NO_CREDIT),
    (library.ModelRateLimitError, "asks to slow down"),
    (library.ModelAuthenticationError, _NO_KEY),
    (library.ModelNotFoundError, "is unknown to its server{code}: correct the model's name, or {setting}.base_url"),
    (library.ModelRequestRejectedError, _REJECTED),
    (library.ModelUnavailableError, "is overloaded{code}: if it lasts, choose another model"),
    (library.ModelServerError, "fails{code}: if it lasts, look at the log of its server, or choose another model"),
    (library.ModelTimeoutError, "gave no answer in time: is its server busy, or models.timeout too short"),
    (library.ModelRequestTimeout, "gave no answer in time: is its server busy, or models.timeout too short"),
    (library.ModelConnectionError, "broke off the connection: look at the log of its server, and at the network"),
    (library.ModelHTTPError, _FAILED),
)
"""The first match wins; each follows the model's name and names the operator's remedy."""

_STATUSES: Final[dict[int, str]] = {
    402: "wants to be paid{code}: top up the account, or choose another model",
    403: "is not permitted to this key{code}: {key}",
    407: f"is behind a proxy that wants a login{{code}}: {PROXY_LOGIN}",
    408: "gave no answer in time{code}: is its server busy, or models.timeout too short",
    410: "has been retired{code}: choose another model",
    405: "takes no requests at this address{code}: is {setting}.base_url right, and its kind",
    451: "is not available in your country{code}: choose another model",
}
"""Where the library knows no more than the status."""


_SETTINGS: Final = (
    (_CREDIT, _NO_CREDIT),
    (_COUNTRY, "is not available in your country{code}: choose another model"),
    (re.compile(r"loading model|model is (?:currently )?loading"), "is being loaded by its server{code}: wait"),
    (
        re.compile(r"more (?:\w+ )?memory|out of memory"),
        "does not fit into the memory of its server{code}: choose a smaller model, or a shorter window there",
    ),
    (re.compile(r"no models? (?:is )?loaded|load a model"), "is not loaded by its server{code}: load it there"),
    (re.compile(r"not a chat model"), "is no model for chats{code}: choose another model"),
    (
        re.compile(r"not a valid model|(?:invalid|unknown) model\b"),
        "is unknown to its server{code}: correct the model's name",
    ),
    (
        re.compile(r"v1/responses|responses api"),
        'answers by the Responses protocol only{code}: set {setting}.kind = "openai-responses"',
    ),
    (
        re.compile(r"max_(completion_|output_)?tokens|maxoutputtokens|(output|completion) tokens"),
        "does not take the length of answers that is asked for{code}: lower or remove models.max_output_tokens",
    ),
    (
        re.compile(
            r"not support[^.]{0,200}\btool|\btools?\b[^.]{0,200}not support|support tool use|function calling is not"
            r"|enable-auto-tool-choice|--jinja"
        ),
        "cannot call tools{code}: choose another model, or turn tool calls on at its server",
    ),
    (
        re.compile(r"no endpoints found[^.]{0,40}(data policy|privacy|guardrail)"),
        "is served by no one whom your account permits{code}: change the privacy settings of the account",
    ),
    (
        re.compile(r"no endpoints found"),
        "is served by no one who takes what is sent{code}: choose another model, or correct the model's name",
    ),
    (
        re.compile(r"try pulling it|model [^ ]{1,200} not found"),
        "is not installed on its server{code}: install it there, or correct the model's name",
    ),
    (re.compile(r"\bstream(ing)?\b"), "does not take a request for a stream{code}: set models.stream = false"),
)
"""Which setting a refused request is about, by the server's message."""


_FORM: Final = re.compile(r"response_format|json.?schema|grammar|guided|structured|requested parameters")
"""Words of errors about the form of an answer whose status says something else."""


def rejects_form(error: BaseException | None) -> bool:
    """Whether a server, or the library for it, does not take the form a structured answer was asked for in."""
    if isinstance(error, library.ModelHTTPError) and error.status_code in (404, 500, 501):
        return bool(_FORM.search(_text(error, "message").lower()))
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
    if after is None and isinstance(error, library.ModelHTTPError) and error.status_code in (429, 503, 529):
        metadata = body_of(error).get("metadata")
        within = metadata.get("headers") if isinstance(metadata, dict) else None
        headers = {**(within if isinstance(within, dict) else {}), **(error.headers or {})}
        after = _reset({str(name).lower(): str(value) for name, value in headers.items()}) or _in_words(error)
    return None if after is None else min(after, LONGEST_PAUSE)


def _reset(headers: dict[str, str]) -> float | None:
    """Until the limits that are used up are reset, as `x-ratelimit-*` headers report."""
    waits: list[float] = []
    for limit in _LIMITS:
        found = _RESET.fullmatch(headers.get(f"x-ratelimit-reset-{limit}", ""))
        if found and any(found.groups()) and headers.get(f"x-ratelimit-remaining-{limit}") == "0":
            hours, minutes, seconds, millis = (float(part or 0) for part in found.groups())
            waits.append(hours * 3600 + minutes * 60 + seconds + millis / 1000)
    for name in ("retry-after", "ratelimit-reset", "x-ratelimit-reset"):
        if not waits and _NUMBER.fullmatch(headers.get(name, "")):
            waits.append(_seconds_until(float(headers[name])))
    return max(waits, default=None)


_NUMBER: Final = re.compile(r"\d{1,13}(?:\.\d{1,9})?")


def _seconds_until(number: float) -> float:
    """Of a number that is seconds from now, or the time of a clock in seconds or milliseconds."""
    if number > 1e11:
        number /= 1000
    return max(0.0, number - time.time()) if number > 1e8 else number


def _in_words(error: library.ModelAPIError) -> float | None:
    """What the message says, as in `try again in 7.66s` (Groq), `in 1m26.4s` or `"retryDelay": "36s"` (Gemini)."""
    found = _WAIT.search(str(error.body)[:MESSAGE].lower())
    if found is None:
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    parts = _PART_OF_WAIT.findall(found[1])
    return sum(float(number) * units["ms" if unit.startswith(("ms", "mil")) else unit[:1]] for number, unit in parts)


def _code(error: Exception) -> str:
    """Status and code in brackets, as far as they are known."""
    if not isinstance(error, library.ModelAPIError):
        return ""
    status = error.status_code if isinstance(error, library.ModelHTTPError) else None
    code = error.provider_error_code or error.provider_error_type
    parts = [str(status)] if status else []
    parts += [word for word in (code, _text(error, "param")) if word and _CODE.fullmatch(word)]
    return f" ({', '.join(parts)})" if parts else ""


def _text(error: library.ModelAPIError, name: str) -> str:
    """A text in an error's body; empty where there is none."""
    value = body_of(error).get(name)
    return value if isinstance(value, str) else ""
