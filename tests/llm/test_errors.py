"""The library's errors that no server on loopback can provoke: every one becomes one of ours, with a sentence."""

from typing import Any

import pytest
from pydantic_ai import exceptions as library

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.messages import Usage
from tenex.llm.config import ProviderConfig
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
def test_every_error_of_a_server_has_a_sentence_of_ours_and_quotes_its_own(kind: type[Exception]) -> None:
    """Those a later version of the library adds too; whatever else it raises is held, and is no server's word."""
    ours = translate(made(kind), NAME, USAGE)
    assert str(ours).startswith(NAME) or f"for {NAME}" in str(ours)
    assert "{" not in str(ours)
    assert str(ours).partition("PRIVATE")[1] == ("PRIVATE" if 'The server says: "PRIVATE"' in str(ours) else "")
    assert not issubclass(kind, library.ModelHTTPError) or 'The server says: "PRIVATE"' in str(ours)
    assert ours.usage == USAGE
    assert isinstance(ours, ModelUnavailable) or issubclass(kind, library.ModelAPIError)


def test_only_a_plain_error_code_is_reported() -> None:
    plain = ("unsupported_value", "model.too-old")
    for code in (*plain, "Ada wrote this", "x" * 80, "<b>"):
        error = library.ModelHTTPError(400, "m", body={"error": {"param": code}}, provider_error_code=code)
        assert (code in str(translate(error, NAME))) is (code in plain)


def test_what_a_server_says_is_quoted_in_a_line_and_cut_without_a_key() -> None:
    said = 'Rate limit "reached"\n\nfor KEY-1 ' + "x" * 500
    error = library.ModelHTTPError(418, "m", body={"error": {"message": said}})
    sentence = str(translate(error, NAME, config=ProviderConfig(name="cloud", api_key="KEY-1")))
    assert "The server says: \"Rate limit 'reached' for [key] xxx" in sentence
    assert len(sentence.partition("The server says: ")[2]) <= 152
    page = library.ModelHTTPError(403, "m", body="<html>Blocked</html>")
    assert "The server says" not in str(translate(page, NAME))


REFUSED = (
    library.ContentFilterError("PRIVATE"),
    library.ModelContextWindowExceededError("m", "PRIVATE"),
    Rejected("m", "x", body={"error": {"message": "Content Policy violation"}}),
    Rejected("m", "x", provider_error_code="data_inspection_failed"),
    Rejected("m", "x", body="the safety system rejected it"),
)
OF_FORM = (
    Rejected("m", "x", body={"error": {"message": "bad tools"}}),
    library.UserError("Native structured output is not supported"),
)
OTHERS = (library.ModelAuthenticationError, library.ModelNotFoundError, library.ModelServerError)


@pytest.mark.parametrize("error", [*REFUSED, *OF_FORM, *(kind("m", "x") for kind in OTHERS), OSError()])
def test_what_is_refused_what_is_held_and_what_another_form_may_help_against(error: Exception) -> None:
    assert isinstance(translate(error, NAME), ModelRefused) is (error in REFUSED)
    assert rejects_form(error) is (error in OF_FORM)


def wait(**headers: str) -> float | None:
    """What is read of headers, whose names have `_` for `-`."""
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return retry_after(library.ModelHTTPError(429, "m", headers=named))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "90"}, 90),
        ({"retry_after_ms": "45000"}, 45),
        ({"Retry_After": "999999"}, 3600),
        ({"Retry_After": "Wed, 01 Jan 2200 00:00:00 GMT"}, 3600),
        ({"Retry_After": "soon"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_from_what_vendors_send(headers: Any, seconds: float | None) -> None:
    assert wait(**headers) == seconds
    assert retry_after(OSError()) is None


def test_without_a_wait_the_reset_of_a_limit_that_is_used_up_counts() -> None:
    for written, seconds in (("6m0s", 360), ("120ms", 0.12), ("1h", 3600), ("2s120ms", 2.12), ("soon", None)):
        reset = {"x_ratelimit_reset_requests": written}
        expected = None if seconds is None else pytest.approx(seconds)
        assert wait(**reset, x_ratelimit_remaining_requests="0") == expected
        assert wait(**reset, x_ratelimit_remaining_requests="3") is None
        assert wait(**reset, x_ratelimit_remaining_requests="0", retry_after="7") == 7
    assert wait(x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="120ms") == pytest.approx(0.12)
