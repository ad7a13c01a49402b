"""Which errors of a node may pass by themselves: those are tried again, all others are for good."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tenex.core.errors import StepFailed

Classify = Callable[[Exception], bool | None]
"""Whether an error may pass; None leaves it to `may_pass`."""

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP's words for: not now."""


LONGEST_PAUSE: Final = 3600
"""Seconds: whoever asks for more, by mistake or in malice, is asked again before."""


def may_pass(error: BaseException) -> bool:
    """Whether the same again may succeed: an error that says so, a network's, a server's that is busy or fails.

    Of a group all must.
    """
    if isinstance(error, StepFailed):
        return error.may_pass
    if isinstance(error, BaseExceptionGroup):
        return all(map(may_pass, error.exceptions))
    said = getattr(error, "retryable", None)
    if isinstance(said, bool):
        return said
    if isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError | BlockingIOError | InterruptedError):
        return True
    if any(kind.__name__ == "TransportError" and kind.__module__.startswith("httpx") for kind in type(error).__mro__):
        return True
    return _status(error) in _BUSY


def retry_after(error: BaseException) -> int | None:
    """The ms somebody asked us to wait, an hour at most, where the error says so in seconds."""
    said = getattr(error, "retry_after", None)
    return int(min(said, LONGEST_PAUSE) * 1000) if isinstance(said, int | float) and said >= 0 else None


def _status(error: BaseException) -> Any:
    response: Any = getattr(error, "response", None)
    found: Any = getattr(error, "status_code", None) or getattr(error, "status", None)
    found = found or getattr(response, "status_code", None)
    return found if isinstance(found, int) else None
