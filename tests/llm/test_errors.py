"""The library's errors that no server on loopback can provoke: every one becomes one of ours, with a sentence."""

from typing import Any

import pytest
from pydantic_ai import exceptions as library

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import Usage
from tenex.llm.errors import rejects_form, retry_after, translate

USAGE = Usage(input_tokens=3)
NAME = "cloud:model"
Rejected = library.ModelRequestRejectedError


def kinds(root: type[Exception]) -> list[type[Exception]]:
    return [root, *(kind for child in root.__subclasses__() for kind in kinds(child))]


def made(kind: type[Exception]) -> Exception:
    if issubclass(kind, library.ModelHTTPError):
        return kind(503, "model", body={"message": "PRIVATE"})
    if issubclass(kind, library.ModelRequestTimeout):
        return kind("model", 3.0)
    return kind("model", "PRIVATE") if issubclass(kind, library.ModelAPIError) else kind("PRIVATE")


@pytest.mark.parametrize(
    "kind", [*sorted(set(kinds(library.ModelAPIError)), key=str), RuntimeError, TypeError, library.UserError, OSError]
)
def test_every_error_of_a_server_has_a_sentence_without_its_words(kind: type[Exception]) -> None:
    """Those a later version of the library adds too; whatever else it raises is held."""
    ours = translate(made(kind), NAME, USAGE)
    assert str(ours).startswith(NAME) or f"for {NAME}" in str(ours)
    assert not [word for word in ("PRIVATE", "{") if word in str(ours)]
    assert ours.usage == USAGE
    assert isinstance(ours, ModelUnavailable) or issubclass(kind, library.ModelAPIError)


def test_only_a_plain_error_code_is_reported() -> None:
    plain = ("unsupported_value", "model.too-old")
    for code in (*plain, "Ada wrote this", "x" * 80, "<b>"):
        error = library.ModelHTTPError(400, "m", body={"error": {"param": code}}, provider_error_code=code)
        assert (code in str(translate(error, NAME))) is (code in plain)


@pytest.mark.parametrize(
    ("error", "is_refused", "is_form"),
    [
        (library.ContentFilterError("PRIVATE"), True, None),
        (library.ModelContextWindowExceededError("m", "PRIVATE"), True, False),
        (Rejected("m", "x", body={"error": {"message": "Content Policy violation"}}), True, False),
        (Rejected("m", "x", provider_error_code="data_inspection_failed"), True, False),
        (Rejected("m", "x", body="the safety system rejected it"), True, False),
        (Rejected("m", "x", body={"error": {"message": "bad tools"}}), False, True),
        (library.UserError("Native structured output is not supported"), False, True),
        (library.ModelAuthenticationError("m", "x"), False, False),
        (library.ModelNotFoundError("m", "x"), False, False),
        (library.ModelServerError("m", "x"), False, False),
        (OSError(), False, False),
    ],
)
def test_what_is_refused_what_is_held_and_what_another_form_may_help_against(
    error: Exception, is_refused: bool, is_form: bool | None
) -> None:
    assert isinstance(translate(error, NAME), ModelRefused) is is_refused
    assert is_form is None or rejects_form(error) is is_form


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "90"}, 90),
        ({"retry-after-ms": "45000"}, 45),
        ({"Retry-After": "999999"}, 3600),
        ({"Retry-After": "Wed, 01 Jan 2200 00:00:00 GMT"}, 3600),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h"}, 3600),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s120ms"}, 2.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "6m0s"}, None),
        ({"retry-after": "7", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 7),
    ],
)
def test_how_long_to_wait_is_read_from_what_vendors_send(headers: Any, seconds: float | None) -> None:
    error = library.ModelHTTPError(429, "m", headers={name.lower(): value for name, value in headers.items()})
    assert retry_after(error) == (None if seconds is None else pytest.approx(seconds))
    assert retry_after(OSError()) is None
