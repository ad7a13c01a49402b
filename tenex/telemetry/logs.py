"""Logs on stderr: events with fields, readable on a terminal, one JSON object per line elsewhere.

Lines are formatted where they are logged and written by a separate thread, so a stopped terminal blocks nothing. When
the queue is full new lines are dropped and counted.
"""

import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tenex.core.text.foreign import printable
from tenex.log import redact_secrets, shorten_text

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]

QUEUE_LINES: Final = 10_000
"""Lines queued for a slow terminal: some megabytes, minutes of a busy daemon."""

CLOSE_TIMEOUT: Final = 2.0
"""Seconds that `close` waits for the last lines; a stopped terminal never takes them."""


class Telemetry(logging.Handler):
    """The configured logging: formats lines where they are logged, and writes them in a thread of its own."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.dropped = 0
        """Lines dropped so far."""
        self._unreported = 0
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(QUEUE_LINES)
        self._thread = threading.Thread(target=self._write, name="tenex-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Format and queue a line of a library."""
        try:
            self.put(self.format(record))
        except Exception:  # noqa: BLE001 as `logging` does: a value that cannot be printed breaks no work
            self.handleError(record)

    def put(self, line: str) -> None:
        """Queue a line, or count it if the queue is full and log the number once there is room."""
        try:
            if self._unreported:
                lost = f"log.dropped lines={self._unreported}"
                note = logging.LogRecord("tenex.telemetry", logging.WARNING, "", 0, lost, None, None)
                self._lines.put_nowait(self.format(note))
                self._unreported = 0
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1
            self._unreported += 1

    def close(self) -> None:
        """Write queued lines for at most twice `CLOSE_TIMEOUT` seconds and restore the defaults; may be repeated."""
        root = logging.getLogger()
        if self in root.handlers:
            root.removeHandler(self)
            root.setLevel(logging.WARNING)
            logging.getLogger("tenex").setLevel(logging.NOTSET)
            with suppress(queue.Full):
                self._lines.put(None, timeout=CLOSE_TIMEOUT)
            self._thread.join(CLOSE_TIMEOUT)  # one that is blocked by the stream is a daemon: it ends with the process
            structlog.reset_defaults()
        super().close()

    def _write(self) -> None:
        for line in iter(self._lines.get, None):
            with suppress(OSError, ValueError):  # the stream is closed
                self._stream.write(f"{line}\n")
                self._stream.flush()


class _LineLogger:
    """Takes the formatted lines of our own modules; the standard library's loggers take twice as long for the same."""

    def __init__(self, put: Callable[[str], None], name: str = "") -> None:
        self.name = name
        self.debug = put
        self.info = put
        self.warning = put
        self.error = put


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
    last: list[Processor] = [_in_order, structlog.processors.JSONRenderer(ensure_ascii=False)]
    if is_console:
        plain = structlog.dev.plain_traceback
        last = [_visible, structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)]
    own = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    telemetry = Telemetry(out, structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[own, *last]))
    structlog.configure(
        processors=[*shared, *last[:-1], _unfailing(last[-1])],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=partial(_LineLogger, telemetry.put),
        cache_logger_on_first_use=False,  # a cached logger outlives `close`, and tests that capture logs never see it
    )
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(telemetry)
    logging.getLogger("tenex").setLevel(number)
    return telemetry


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put timestamp, level and event first."""
    first = {name: event[name] for name in ("timestamp", "level", "event") if name in event}
    return {**first, **{name: value for name, value in event.items() if name not in first}}


def _unfailing(render: Processor) -> Processor:
    """The renderer; where it fails for a value, it names the event and the failure, because a line breaks no work."""

    def rendered(logger: WrappedLogger, method: str, event: EventDict) -> str:
        names = {name: event.get(name) for name in ("timestamp", "level", "event", "logger")}  # a renderer removes some
        try:
            return str(render(logger, method, event))
        except Exception as fault:  # noqa: BLE001 whatever the value raises
            return str(render(logger, method, {**names, "unprintable": type(fault).__name__}))

    return rendered


def _visible(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
