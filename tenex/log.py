"""Loggers of the program's modules: where nothing configures logging, they print nothing.

The daemon and the commands configure structlog (`telemetry/logs.py`). A program that imports tenex may do so too, and
gets the events. Otherwise they are lines of the standard library's loggers `tenex.*`, without user text and secrets.
A traceback is text in each case: a renderer that is given the exception itself may print local variables.
"""

import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tenex.core.text.foreign import HIDDEN, redact

TEXT_LIMIT: Final = 200
"""Characters of a user's text, enough to recognise a message by."""

_SECRET_NAMES: Final = frozenset(
    {"secret", "nsec", "key", "secret_key", "private_key", "api_key", "password", "passphrase", "authorization"}
)

logging.getLogger("tenex").addHandler(logging.NullHandler())  # else Python prints warnings that no handler takes


class Logger:
    """Logs events with fields by what is configured when they are logged."""

    def __init__(self, name: str, fields: Mapping[str, Any] | None = None) -> None:
        self._name = name
        self._fields = dict(fields or {})

    def bind(self, **fields: Any) -> "Logger":
        """The same logger, with fields for all its events."""
        return Logger(self._name, {**self._fields, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Log what only developers look for."""
        self._log("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log what is as it should be."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what may need attention."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what failed."""
        self._log("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log what failed, with the traceback of the current exception."""
        self._log("error", event, {"exc_info": True, **fields})

    def _log(self, method: str, event: str, fields: Mapping[str, Any]) -> None:
        given = {**self._fields, **fields}
        error = given.pop("exc_info", None)
        if error:
            given["exception"] = traceback_of(error)
        getattr(self._bound(), method)(event, **given)

    def _bound(self) -> Any:
        if structlog.is_configured():
            return structlog.get_logger(self._name)
        library = logging.getLogger(self._name)
        return structlog.wrap_logger(library, processors=_UNCONFIGURED, wrapper_class=structlog.stdlib.BoundLogger)


def get_logger(name: str) -> Logger:
    """The logger of a module, by the module's name."""
    return Logger(name)


def traceback_of(error: object) -> str:
    """The traceback of an exception, or of the current one, as Python prints it: without local variables."""
    found = error if isinstance(error, BaseException) else sys.exception()
    return "".join(traceback.format_exception(found)).rstrip() if found is not None else ""


def shorten_text(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Remove a user's text (the key `text`) above DEBUG, and cut it at DEBUG."""
    if "text" in event:
        if event.get("level") != "debug":
            del event["text"]
        else:
            text = str(event["text"])
            event["text"] = text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…"
    return event


def redact_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace secrets in an event, found by key and by pattern, at any depth."""
    return {name: _redacted(name, value) for name, value in event.items()}


def _redacted(name: object, value: Any) -> Any:
    if isinstance(name, str) and name.lower() in _SECRET_NAMES and value is not None:
        return HIDDEN
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(key, inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted(None, inner) for inner in value]
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return redact(str(value))


def _as_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """An event as one line, and the lines of its traceback."""
    name = event.pop("event")
    error = event.pop("exception", "")
    event.pop("level", None)  # the record has it
    line = " ".join([str(name), *(f"{key}={value!r}" for key, value in event.items())])
    return f"{line}\n{error}" if error else line


_UNCONFIGURED: Final[list[Processor]] = [
    structlog.stdlib.filter_by_level,
    structlog.stdlib.add_log_level,
    shorten_text,
    redact_secrets,
    _as_line,
]
