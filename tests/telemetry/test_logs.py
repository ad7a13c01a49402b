"""Logs: what a line looks like, what never gets into one, and that a stuck terminal stops nothing."""

import io
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from tenex.log import get_logger
from tenex.telemetry import Format, Level, configure, logs, redact

SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"


class Written(io.StringIO):
    """What was logged."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@contextmanager
def logging_to(level: Level = "info", format: Format = "json") -> Iterator[Written]:  # noqa: A002
    """Log to a text in memory, which is complete afterwards."""
    stream = Written()
    running = configure(level, format, stream)
    try:
        yield stream
    finally:
        running.close()


log = get_logger("tenex.x")


def fail(fault: Exception) -> None:
    raise fault


def test_a_line_is_one_json_object_with_time_level_event_and_bound_context() -> None:
    with logging_to() as written, structlog.contextvars.bound_contextvars(turn="turn-7"):
        get_logger("tenex.runtime").bind(conversation="abc").info("turn.closed", n=3)
        logging.getLogger("tenex.b").info("two")
    first, second = written.lines
    assert list(first)[:3] == ["timestamp", "level", "event"]
    assert (first["level"], first["event"], first["conversation"], first["n"]) == ("info", "turn.closed", "abc", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", first["timestamp"])
    assert first["turn"] == second["turn"] == "turn-7"


def test_a_persons_text_is_cut_at_debug_and_dropped_above() -> None:
    with logging_to("debug") as written:
        for method, length in ((log.debug, 200), (log.debug, 5000), (log.info, 9), (log.warning, 9), (log.error, 9)):
            method("message.received", text="x" * length, id="e1")
    assert [line.get("text") for line in written.lines] == ["x" * 200, "x" * 200 + "…", None, None, None]
    assert {line["id"] for line in written.lines} == {"e1"}


@pytest.mark.parametrize("format_", ["json", "console"])
def test_secrets_are_redacted_by_name_and_by_look_however_deep(format_: Format) -> None:
    """A traceback holds no local variables: they may be keys and words."""
    held = "another-secret"
    with logging_to("debug", format_) as written:
        log.info("a", secret="one-secret", nsec="two-secret", key=b"three-secret", Key="four-secret")
        log.info("b", deep={"list": [{"api_key": "five-secret"}, f"see {SECRET}"]}, other=f"nostr:{SECRET.upper()}")
        log.info("c", thing=ValueError(SECRET), kept=["plain", 7, None, True])
        log.info(SECRET)
        logging.getLogger("tenex.y").warning("std %s", SECRET)
        try:
            fail(RuntimeError(f"{SECRET} {len(held)}"))
        except RuntimeError:
            log.exception("e")
            logging.getLogger("asyncio").exception("f")
    text = written.getvalue()
    assert "-secret" not in text
    assert SECRET[:12].lower() not in text.lower()
    assert text.count("RuntimeError: [redacted] 14") == 2
    assert format_ == "console" or written.lines[2]["kept"] == ["plain", 7, None, True]


@pytest.mark.parametrize(("level", "own"), [("debug", ["debug", "info", "error"]), ("warning", ["error"])])
def test_own_loggers_log_from_the_level_up_and_libraries_from_warning_up(level: Level, own: list[str]) -> None:
    with logging_to(level) as written:
        for logger in (logging.getLogger("tenex.x"), log, logging.getLogger("websockets.client")):
            for method in ("debug", "info", "error"):
                getattr(logger, method)(method)
    assert [line["event"] for line in written.lines] == [*own, *own, "error"]


def test_auto_is_console_on_a_terminal_and_json_elsewhere() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        running = configure("info", "auto", terminal)
        log.info("turn.closed", n=1)
        running.close()
        shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "turn.closed" in shown
    assert not shown.startswith("{")
    with logging_to("info", "auto") as written:
        log.info("turn.closed")
    assert written.lines[0]["event"] == "turn.closed"


def test_a_value_that_cannot_be_printed_breaks_no_work() -> None:
    with logging_to() as written:
        log.info("tool.queued", counts={("shell", "git"): 1})
        log.info("turn.closed", n=1)
    first, second = written.lines
    assert (first["level"], first["event"], first["logger"]) == ("info", "tool.queued", "tenex.x")
    assert first["unprintable"] == "TypeError"
    assert second["event"] == "turn.closed"


def test_a_strangers_words_cannot_steer_the_terminal() -> None:
    with logging_to("info", "console") as written:
        log.info("relay.notice", reason="\x1b[2Jhi\rthere\u202egnorw", one="\x9b31m")
    assert not re.search(r"[\x1b\r\x9b\u202e]", written.getvalue())
    assert written.getvalue().count("\n") == 1


class StuckTerminal(Written):
    """Blocks until it is released, like a terminal after Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.free, self.written = threading.Event(), threading.Event(), threading.Semaphore(0)

    def write(self, text: str) -> int:
        self.entered.set()
        self.free.wait(30)
        self.written.release()
        return super().write(text)


def test_a_stuck_terminal_blocks_nothing_and_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LINES", 3)
    stream = StuckTerminal()
    running = configure("info", "json", stream)
    log.info("written.slowly")
    assert stream.entered.wait(10)  # the writer now holds one line and waits
    for number in range(10):
        log.info("waits", number=number)
    assert running.dropped == 7
    stream.free.set()
    assert all(stream.written.acquire(timeout=10) for _ in range(4))
    log.info("after")
    running.close()
    events = [line["event"] for line in stream.lines]
    assert events == ["written.slowly", "waits", "waits", "waits", "log.dropped lines=7", "after"]


def test_closing_does_not_wait_for_ever_for_a_stuck_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LINES", 1)
    monkeypatch.setattr(logs, "CLOSE_TIMEOUT", 0.05)
    stream = StuckTerminal()
    running = configure("info", "json", stream)
    log.info("one")
    assert stream.entered.wait(10)
    log.info("two")
    running.close()
    assert stream.getvalue() == ""
    stream.free.set()


def test_closing_writes_what_waits_to_stderr_puts_everything_back_and_may_be_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = list(logging.getLogger().handlers)
    running = configure("info", "json")
    for number in range(500):
        log.info("n", number=number)
    running.close()
    running.close()
    out, written = capsys.readouterr()
    assert out == ""
    assert [json.loads(line)["number"] for line in written.splitlines()] == list(range(500))
    assert logging.getLogger().handlers == before
    assert not structlog.is_configured()


def test_only_what_looks_like_a_secret_is_redacted() -> None:
    """The command line prints errors with the same precaution."""
    unchanged = "npub1abcdefgh and nsec alone"
    assert redact(unchanged) == unchanged
    assert redact(f"x{SECRET}y sk-abcdefghijklmnopqr5t") == "x[redacted] [redacted]"


def test_a_text_of_nothing_but_beginnings_of_keys_is_read_in_time_that_grows_with_it() -> None:
    def seconds(repeats: int) -> float:
        text = "hf_gsk_" * repeats
        before = time.process_time()
        assert redact(text) == text
        return time.process_time() - before

    few = min(seconds(2_000) for _ in range(3))
    many = min(seconds(20_000) for _ in range(3))
    assert many < 40 * few  # ten times the text; a search to the end from each would take a hundred times as long
