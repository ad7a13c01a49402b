"""Logs on stderr: events with fields, readable on a terminal, one JSON object per line elsewhere.

Lines are formatted where they are logged and written by a separate thread, so a stopped terminal blocks nothing. When
the queue is full new lines are dropped and counted.
"""

import logging
import queue
import re
import sys
from collections.abc import Mapping
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tenex.core.text import printable

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]

TEXT_LIMIT: Final = 200
"""Characters of a user's text, enough to recognise a message by."""

QUEUE_LINES: Final = 10_000
"""Lines queued for a slow terminal: some megabytes, minutes of a busy daemon."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds that `close` waits for the last lines; a stopped terminal never takes them."""

_SECRET_NAMES: Final = frozenset(
    {"secret", "nsec", "key", "secret_key", "private_key", "api_key", "password", "passphrase", "authorization"}
)
_SECRET_TEXT: Final = re.compile(r"(?:nsec1|ncryptsec1)[a-z0-9]{6,}|\bsk-[A-Za-z0-9_-]{16,}", re.IGNORECASE)
_HIDDEN: Final = "[redacted]"


class Telemetry:
    """The configured logging; closing writes queued lines and restores the defaults."""

    def __init__(self, handler: "_Handler", listener: "_Listener") -> None:
        self._handler = handler
        self._listener = listener
        self._is_open = True

    @property
    def dropped(self) -> int:
        """Lines dropped so far."""
        return self._handler.dropped

    def close(self) -> None:
        """Write queued lines for at most `CLOSE_TIMEOUT` seconds; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            root = logging.getLogger()
            root.removeHandler(self._handler)
            root.setLevel(logging.WARNING)
            logging.getLogger("tenex").setLevel(logging.NOTSET)
            self._listener.stop()
            structlog.reset_defaults()


def configure(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> Telemetry:  # noqa: A002
    """Start logging for the whole process.

    Loggers below `tenex` log from `level` up, those of libraries from WARNING up. The caller closes the result.

    Args:
        level: the least important level that is written.
        format: `auto` is `console` where the stream is a terminal, else `json`.
        stream: where the lines go; None means stderr.
    """
    out = sys.stderr if stream is None else stream
    is_console = format == "console" or (format == "auto" and out.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if is_console else "iso", utc=not is_console),
        structlog.processors.format_exc_info,  # as text, without the local variables a prettier one would print
        shorten_text,
        redact_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # a cached logger outlives `close`, and tests that capture logs never see it
    )
    lines: queue.Queue[Any] = queue.Queue(maxsize=QUEUE_LINES)
    handler = _Handler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_console(out.isatty()) if is_console else _json()),
            ],
        )
    )
    writer = logging.StreamHandler(out)
    writer.setFormatter(logging.Formatter("%(message)s"))
    listener = _Listener(lines, writer)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    logging.getLogger("tenex").setLevel(number)
    listener.start()
    return Telemetry(handler, listener)


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


def redact(text: str) -> str:
    """Replace what looks like a secret in a text."""
    return _SECRET_TEXT.sub(_HIDDEN, text)


def _redacted(name: object, value: Any) -> Any:
    if isinstance(name, str) and name.lower() in _SECRET_NAMES and value is not None:
        return _HIDDEN
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(key, inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted(None, inner) for inner in value]
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return redact(str(value))


def _console(is_terminal: bool) -> list[Processor]:
    return [
        _visible,
        structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=structlog.dev.plain_traceback),
    ]


def _json() -> list[Processor]:
    return [_in_order, structlog.processors.JSONRenderer(ensure_ascii=False)]


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put timestamp, level and event first."""
    first = {name: event[name] for name in ("timestamp", "level", "event") if name in event}
    return {**first, **{name: value for name, value in event.items() if name not in first}}


def _visible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


class _Handler(QueueHandler):
    """Formats in the logger's thread and never blocks on a full queue."""

    def __init__(self, lines: "queue.Queue[Any]") -> None:
        super().__init__(lines)
        self.dropped = 0
        self._unreported = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a line, or count it if the queue is full and log the number once there is room."""
        try:
            if self._unreported:
                lost = f"log.dropped lines={self._unreported}"
                note = logging.LogRecord("tenex.telemetry", logging.WARNING, "", 0, lost, None, None)
                self.queue.put_nowait(self.prepare(note))
                self._unreported = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1
            self._unreported += 1


class _Listener(QueueListener):
    """Writes the lines; stopping takes bounded time."""

    def __init__(self, lines: "queue.Queue[Any]", writer: logging.Handler) -> None:
        super().__init__(lines, writer)
        self._lines = lines

    def enqueue_sentinel(self) -> None:
        """Ask the thread to end after the queued lines."""
        try:
            self._lines.put(None, timeout=CLOSE_TIMEOUT)
        except queue.Full:
            return

    def stop(self) -> None:
        """End the thread; one that is blocked by the stream is a daemon and ends with the process."""
        thread = self._thread
        if thread is not None:
            self._thread = None
            self.enqueue_sentinel()
            thread.join(CLOSE_TIMEOUT)
