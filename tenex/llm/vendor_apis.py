"""Four protocols of vendors as programs of others speak them: what a request asks for, and how an error is worded.

    openai      chat/completions, responses
    anthropic   v1/messages, v1/messages/count_tokens
    google      v1beta/models/NAME:generateContent, :streamGenerateContent, :countTokens

A request is passed on only where its cost can be measured and its effects stay with the model: what runs at the
provider (a search, code, an MCP server, an address that it fetches) would be a network for a program that has none. So
tools are allowed by their kinds, and anything else is refused by name.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tenex.core.memory.window import BYTES_PER_TOKEN, weight

from .providers import Vendor


class Api(Enum):
    """A protocol."""

    CHAT = "chat completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generateContent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request of a program, in a vendor's protocol."""

    vendor: Vendor
    api: Api
    path: str
    """Below the address of a provider."""
    model: str
    """As the vendor names it."""
    is_streamed: bool
    is_free: bool
    """Whether it only counts tokens."""
    body: Mapping[str, Any]
    tokens: int
    """Estimated, by the bytes of its texts; a picture or a file counts as a large picture."""


class Rejected(Exception):
    """A request is not passed on, or got no answer. The text is what the program is shown."""

    def __init__(self, fault: "Fault", sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.fault = fault
        self.retry_after = retry_after


class Fault(Enum):
    """Why, with the status of HTTP, OpenAI's type and code, Anthropic's type and Google's status.

    Clients repeat a request after 408, 409, 429 and 5xx, so what no repetition changes has another status.
    """

    INVALID = (400, "invalid_request_error", "invalid_request", "invalid_request_error", "INVALID_ARGUMENT")
    KEY = (401, "authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED")
    LIMIT = (402, "insufficient_quota", "insufficient_quota", "billing_error", "FAILED_PRECONDITION")
    FORBIDDEN = (403, "permission_error", "not_allowed", "permission_error", "PERMISSION_DENIED")
    UNKNOWN_MODEL = (404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND")
    UNKNOWN_PATH = (404, "invalid_request_error", "unknown_url", "not_found_error", "NOT_FOUND")
    TOO_LARGE = (413, "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT")
    BUSY = (429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED")
    UNAVAILABLE = (502, "server_error", "server_error", "api_error", "UNAVAILABLE")
    TIMEOUT = (504, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED")

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return self.value[0]


VENDORS: Final[tuple[Vendor, ...]] = ("openai", "anthropic", "google")

_OPENAI: Final = {"/chat/completions": Api.CHAT, "/responses": Api.RESPONSES}
_ANTHROPIC: Final = ("/v1/messages", "/v1/messages/count_tokens")
_GOOGLE: Final = re.compile(
    r"/(?:v1|v1beta|v1alpha)/models/([\w.@-]+):(generateContent|streamGenerateContent|countTokens)"
)

LOCAL_TOOLS: Final = {
    Api.CHAT: re.compile(r"function|custom"),
    Api.RESPONSES: re.compile(r"function|custom|local_shell|apply_patch|namespace|tool_search"),
    Api.MESSAGES: re.compile(r"custom|(?:bash|text_editor|computer|memory|tool_search_tool_\w+)_\d+"),
    Api.GENERATE: re.compile(r"functionDeclarations|function_declarations"),
}
"""Kinds of tools that the program runs itself, or that only search among its tools; all others run at the provider."""

_AT_PROVIDER: Final = {
    Api.CHAT: ("web_search_options", "plugins"),
    Api.RESPONSES: ("background", "prompt"),
    Api.MESSAGES: ("mcp_servers", "container"),
    Api.GENERATE: ("cachedContent", "cached_content"),
}
"""Parts of a request by which something runs at the provider, or was stored there."""

MOST_VALUES: Final = 2**20
"""Brackets and commas of a request, those within texts included: each may be an object of some 100 bytes in memory. The
largest windows of models hold about a fifth of them."""
PICTURE_WEIGHT: Final = 1_600 * BYTES_PER_TOKEN
"""Bytes that a picture or a file within a request counts: 1,600 tokens are a large picture of most vendors."""


def read_request(vendor: Vendor, path: str, body: bytes) -> Asked:
    """What a program asks for; takes as long as the body is large, so it is called in a thread.

    Raises:
        Rejected: the path or the body is none that is passed on.
    """
    api, model, method = _place_of(vendor, path)
    if body.count(b"{") + body.count(b"[") + body.count(b",") > MOST_VALUES:
        raise Rejected(Fault.TOO_LARGE, f"The request has more than {MOST_VALUES:,} values.")
    try:
        value = json.loads(body)
        remote = _remote(value)
        tokens = -(-_weight(value) // BYTES_PER_TOKEN)
    except (ValueError, RecursionError) as error:
        raise Rejected(Fault.INVALID, "The body of the request is no JSON object that can be read.") from error
    if not isinstance(value, dict):
        raise Rejected(Fault.INVALID, "The body of the request is no JSON object.")
    model = model or value.get("model") or ""
    if not isinstance(model, str) or not model:
        raise Rejected(Fault.INVALID, "The request names no model.")
    at_provider = next(_at_provider(api, value), None)
    if at_provider is not None:
        raise Rejected(
            Fault.FORBIDDEN,
            f'"{at_provider[:80]}" runs at the provider, outside of the sandbox. Switch it off in the settings of this '
            "program.",
        )
    if remote is not None:
        raise Rejected(
            Fault.FORBIDDEN, f"The provider would fetch {remote[:80]}. Send the file itself, in place of its address."
        )
    return Asked(
        vendor=vendor,
        api=api,
        path=path,
        model=model,
        is_streamed=method == "streamGenerateContent" or value.get("stream") is True,
        is_free=method in ("countTokens", "count_tokens"),
        body=value,
        tokens=tokens,
    )


def _place_of(vendor: Vendor, path: str) -> tuple[Api, str, str]:
    """The protocol, model and method that a path names, as far as it does."""
    if vendor == "openai" and path in _OPENAI:
        return _OPENAI[path], "", ""
    if vendor == "anthropic" and path in _ANTHROPIC:
        return Api.MESSAGES, "", path.rpartition("/")[2]
    found = _GOOGLE.fullmatch(path) if vendor == "google" else None
    if found is None:
        raise Rejected(Fault.UNKNOWN_PATH, f"{path[:80]} is not passed on: only requests to a model are.")
    return Api.GENERATE, found[1], found[2]


def _at_provider(api: Api, body: Mapping[str, Any]) -> Iterator[str]:
    """What of a request runs at the provider."""
    yield from (name for name in _AT_PROVIDER[api] if body.get(name))
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if not isinstance(tool, dict):
            yield str(tool)
            continue
        default = "custom" if api is Api.MESSAGES else "function"
        kinds = list(tool) if api is Api.GENERATE else [str(tool.get("type") or default)]
        yield from (kind for kind in kinds if not LOCAL_TOOLS[api].fullmatch(kind))


_ADDRESS_FIELDS: Final = ("image_url", "file_url", "fileUri", "file_uri")
_NOT_LOOKED_AT: Final = ("input_schema", "parameters", "functionCall", "functionResponse", "function_call")
"""Parts that the model wrote or reads: an address in them is a text."""


def _remote(value: Any) -> str | None:
    """An address that the provider would fetch; None where there is none."""
    if isinstance(value, list):
        return next((found for inner in value if (found := _remote(inner)) is not None), None)
    if not isinstance(value, dict):
        return None
    for name, inner in value.items():
        if name in _NOT_LOOKED_AT or (name == "input" and value.get("type") == "tool_use"):
            continue
        if name in _ADDRESS_FIELDS or (name == "source" and isinstance(inner, dict) and inner.get("type") == "url"):
            address = inner.get("url") if isinstance(inner, dict) else inner
            if isinstance(address, str) and not address.startswith("data:"):
                return address
        found = _remote(inner)
        if found is not None:
            return found
    return None


def _weight(value: Any, name: str = "") -> int:
    if isinstance(value, str):
        return PICTURE_WEIGHT if name == "data" or value.startswith("data:") else weight(value)
    if isinstance(value, dict):
        return sum(weight(key) + _weight(inner, key) for key, inner in value.items())
    if isinstance(value, list):
        return sum(_weight(inner) for inner in value)
    return len(str(value))


# ---- errors -------------------------------------------------------------------------------------------------------


def error_body(vendor: Vendor, fault: Fault, sentence: str) -> bytes:
    """An error in a vendor's form."""
    return json.dumps(_error(vendor, fault, sentence)).encode()


def error_event(api: Api, fault: Fault, sentence: str) -> bytes:
    """An error as the last event of a stream."""
    match api:
        case Api.MESSAGES:
            return b"event: error\ndata: %b\n\n" % error_body("anthropic", fault, sentence)
        case Api.RESPONSES:
            event = {"type": "error", "code": fault.value[2], "message": sentence, "param": None, "sequence_number": 0}
            return b"event: error\ndata: %b\n\n" % json.dumps(event).encode()
        case Api.CHAT | Api.GENERATE:
            return b"data: %b\n\n" % error_body("openai" if api is Api.CHAT else "google", fault, sentence)


def _error(vendor: Vendor, fault: Fault, sentence: str) -> dict[str, Any]:
    status, openai_type, openai_code, anthropic_type, google_status = fault.value
    match vendor:
        case "openai":
            return {"error": {"message": sentence, "type": openai_type, "param": None, "code": openai_code}}
        case "anthropic":
            return {"type": "error", "error": {"type": anthropic_type, "message": sentence}}
        case "google":
            return {"error": {"code": status, "message": sentence, "status": google_status}}


def vendor_of(name: str) -> Vendor | None:
    """The vendor of a name in a path; None where there is none."""
    return next((vendor for vendor in VENDORS if vendor == name), None)
