"""Logs: what a line looks like, what never gets into one, and that a stuck terminal stops nothing."""

import io
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest
import structlog

from tenex.core.text import printable
from tenex.telemetry import Format, Level, Telemetry, configure, logs, redact

SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Telemetry, io.StringIO]]]:
    """Start logging to a text in memory; whatever the test forgets is closed."""
    running: list[Telemetry] = []

    def begin(level: Level = "info", format: Format = "json") -> tuple[Telemetry, io.StringIO]:  # noqa: A002
        stream = io.StringIO()
        running.append(configure(level, format, stream))
        return running[-1], stream

    yield begin
    for one in running:
        one.close()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail(fault: Exception) -> None:
    raise fault


Start = Callable[..., tuple[Telemetry, io.StringIO]]


def test_a_line_is_one_json_object_with_time_level_and_event_first(start: Start) -> None:
    running, stream = start()
    structlog.get_logger("tenex.runtime").bind(conversation="abc").info("turn.closed", turn="turn-1", n=3)
    running.close()
    (found,) = lines(stream)
    assert list(found)[:3] == ["timestamp", "level", "event"]
    assert (found["level"], found["event"], found["conversation"], found["n"]) == ("info", "turn.closed", "abc", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", found["timestamp"])


def test_bound_context_is_in_every_line(start: Start) -> None:
    running, stream = start()
    with structlog.contextvars.bound_contextvars(turn="turn-7"):
        structlog.get_logger("tenex.a").info("one")
        logging.getLogger("tenex.b").info("two")
    running.close()
    assert [line["turn"] for line in lines(stream)] == ["turn-7", "turn-7"]


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_a_persons_text_is_dropped_above_debug(start: Start, level: str) -> None:
    running, stream = start("debug")
    getattr(structlog.get_logger("tenex.x"), level)("message.received", text="my private words", id="e1")
    running.close()
    (found,) = lines(stream)
    assert "text" not in found
    assert found["id"] == "e1"
    assert "private" not in stream.getvalue()


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, "x" * 200 + "…"), (5000, "x" * 200 + "…")])
def test_a_persons_text_is_cut_at_debug(start: Start, length: int, shown: str) -> None:
    running, stream = start("debug")
    structlog.get_logger("tenex.x").debug("message.received", text="x" * length)
    running.close()
    assert lines(stream)[0]["text"] == shown


@pytest.mark.parametrize("format_", ["json", "console"])
def test_secrets_are_redacted_by_name_and_by_look_however_deep(start: Start, format_: Format) -> None:
    running, stream = start("debug", format_)
    log = structlog.get_logger("tenex.x")
    log.info("a", secret="one-secret", nsec="two-secret", key=b"three-secret", Key="four-secret")
    log.info("b", deep={"list": [{"api_key": "five-secret"}, f"see {SECRET}"]}, other=f"nostr:{SECRET.upper()}")
    log.info("c", thing=ValueError(SECRET), kept=["plain", 7, None, True])
    log.info(SECRET)
    logging.getLogger("tenex.y").warning("std %s", SECRET)
    try:
        fail(RuntimeError(SECRET))
    except RuntimeError:
        log.exception("e")
        logging.getLogger("asyncio").exception("f")
    running.close()
    written = stream.getvalue()
    assert "-secret" not in written
    assert SECRET[:12].lower() not in written.lower()
    assert written.count("RuntimeError: [redacted]") == 2
    if format_ == "json":
        assert lines(stream)[2]["kept"] == ["plain", 7, None, True]


def test_tracebacks_hold_no_local_variables(start: Start) -> None:
    """A prettier traceback prints what the variables held, and with it keys and words."""
    for format_ in ("json", "console"):
        running, stream = start("info", format_)
        held = "quite-private"
        try:
            fail(ValueError(len(held)))
        except ValueError:
            structlog.get_logger("tenex.x").exception("failed")
        running.close()
        assert "ValueError: 13" in stream.getvalue()
        assert held not in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", ["debug", "info", "error", "debug", "info", "error"]), ("warning", ["error", "error"])],
)
def test_own_loggers_log_from_the_level_up_and_libraries_from_warning_up(
    start: Start, level: Level, expected: list[str]
) -> None:
    running, stream = start(level)
    for logger in (
        logging.getLogger("tenex.x"),
        structlog.get_logger("tenex.z"),
        logging.getLogger("websockets.client"),
    ):
        logger.debug("debug")
        logger.info("info")
        logger.error("error")
    running.close()
    assert [line["event"] for line in lines(stream)] == [*expected, "error"]


def test_auto_is_console_on_a_terminal_and_json_elsewhere() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        running = configure("info", "auto", terminal)
        structlog.get_logger("tenex.x").info("turn.closed", n=1)
        running.close()
        shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert "turn.closed" in shown
    assert not shown.startswith("{")
    text = io.StringIO()
    running = configure("info", "auto", text)
    structlog.get_logger("tenex.x").info("turn.closed")
    running.close()
    assert json.loads(text.getvalue())["event"] == "turn.closed"


def test_a_strangers_words_cannot_steer_the_terminal(start: Start) -> None:
    running, stream = start("info", "console")
    structlog.get_logger("tenex.x").info("relay.notice", reason="\x1b[2Jhi\rthere\u202egnorw", one="\x9b31m")
    running.close()
    assert not re.search(r"[\x1b\r\x9b\u202e]", stream.getvalue())
    assert stream.getvalue().count("\n") == 1


class StuckTerminal(io.StringIO):
    """Blocks until it is released, like a terminal after Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.free = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.free.wait(30)
        return super().write(text)


def test_a_stuck_terminal_blocks_nothing_and_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LINES", 3)
    stream = StuckTerminal()
    running = configure("info", "json", stream)
    log = structlog.get_logger("tenex.x")
    log.info("written.slowly")
    assert stream.entered.wait(10)  # the writer now holds one line and waits
    for number in range(10):
        log.info("waits", number=number)
    assert running.dropped == 7
    stream.free.set()
    running._listener._lines.join()
    log.info("after")
    running.close()
    events = [line["event"] for line in lines(stream)]
    assert events == ["written.slowly", "waits", "waits", "waits", "log.dropped lines=7", "after"]


def test_closing_does_not_wait_for_ever_for_a_stuck_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_LINES", 1)
    monkeypatch.setattr(logs, "CLOSE_TIMEOUT", 0.05)
    stream = StuckTerminal()
    running = configure("info", "json", stream)
    structlog.get_logger("tenex.x").info("one")
    assert stream.entered.wait(10)
    structlog.get_logger("tenex.x").info("two")
    running.close()
    assert stream.getvalue() == ""
    stream.free.set()


def test_closing_writes_what_waits_puts_everything_back_and_may_be_repeated(start: Start) -> None:
    before = list(logging.getLogger().handlers)
    running, stream = start()
    for number in range(500):
        structlog.get_logger("tenex.x").info("n", number=number)
    running.close()
    running.close()
    assert [line["number"] for line in lines(stream)] == list(range(500))
    assert logging.getLogger().handlers == before
    assert not structlog.is_configured()


def test_the_stream_is_stderr_unless_another_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    running = configure("info", "json")
    structlog.get_logger("tenex.x").info("to.stderr")
    running.close()
    out, stderr = capsys.readouterr()
    assert out == ""
    assert "to.stderr" in stderr


def test_helpers_for_other_speakers() -> None:
    """The command line prints errors with the same two precautions."""
    unchanged: TextIO | str = "npub1abcdefgh and nsec alone"
    assert redact(str(unchanged)) == unchanged
    assert redact(f"x{SECRET}y sk-abcdefghijklmnopqrst") == "x[redacted] [redacted]"
    assert printable("a\tb\nc\x07") == "a\tb\nc\\x07"
