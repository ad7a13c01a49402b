"""What goes on at this moment: the agents at work, what they write, and nothing that steers the terminal."""

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tenex.cli.shared.activity import (
    EXPIRES,
    KEPT,
    MOST,
    WRITING_STYLE,
    Activities,
    ActivityView,
    DaemonWatch,
    RequestMeter,
    activity_lines,
)
from tenex.cli.shared.console import Screen
from tenex.core.ids import PublicKey


def shown(views: list[ActivityView], width: int, *, only_text: bool = False) -> list[str]:
    return [line for _, line in activity_lines(views, width, only_text=only_text)]


EXECUTOR, PLANNER = PublicKey("e" * 64), PublicKey("f" * 64)


def test_agents_start_write_and_stop_and_a_repeated_indicator_changes_nothing() -> None:
    lives = Activities()
    lives.start(EXECUTOR, "Executor", "Executor is typing", 0)
    lives.start(PLANNER, "Planner", "Planner uses read_file", 1)
    lives.write(EXECUTOR, "Executor", "Once", 2)
    lives.write(EXECUTOR, "Executor", " upon", 3)
    lives.start(EXECUTOR, "Executor", "Executor is typing", 20)
    assert shown(lives.current(20), 80) == ["  Executor … Once upon", "  Planner uses read_file"]
    assert shown(lives.current(20), 80, only_text=True) == ["  Executor … Once upon"]
    lives.start(EXECUTOR, "Executor", "Executor uses shell", 21)
    assert shown(lives.current(21), 80) == ["  Executor uses shell", "  Planner uses read_file"]
    lives.stop(EXECUTOR)
    lives.stop(EXECUTOR)
    assert shown(lives.current(21), 80) == ["  Planner uses read_file"]
    assert lives.current(1 + EXPIRES)
    assert not lives.current(1 + EXPIRES + 1)


def test_strangers_cannot_fill_the_screen_or_the_memory() -> None:
    lives = Activities()
    for number in range(3 * MOST):
        lives.write(PublicKey(f"{number:064x}"), "Noise", "x" * 100_000, 0)
    assert [len(live.text) for live in lives.current(1)] == [KEPT] * MOST


@given(st.text(), st.text(min_size=1), st.text(), st.integers(12, 200), st.booleans())
def test_a_line_is_a_line_and_fits(name: str, text: str, doing: str, width: int, only_text: bool) -> None:
    for line in shown([ActivityView(name, doing, text, 0)], width, only_text=only_text):
        assert cell_len(line) < width
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line


@pytest.mark.parametrize(("text", "end"), [("one two three four", "two three four"), ("x" * 40, "x" * 16)])
def test_the_end_is_shown_from_the_beginning_of_a_word(text: str, end: str) -> None:
    assert shown([ActivityView("E", "", text, 0)], 23) == [f"  E … {end}"]


def report(kind: str, text: str, **more: Any) -> dict[str, Any]:
    base = {"conversation": "c", "agent": "executor", "readable_name": "thinking", "emoji": "🧠", "color": "dim cyan"}
    return {**base, "state": "thinking", "kind": kind, "text": text, **more}


def test_a_thought_is_seen_as_it_is_written_and_stays_once_it_is_whole() -> None:
    file = io.StringIO()
    watch = DaemonWatch(Path("none"), Screen(file, terminal=True), lambda: "c", lambda *_: None, lambda: None)
    watch.on_report(report("piece", "First "))
    watch.on_report(report("piece", "things first"))
    line = "  executor 🧠 thinking … First things first"
    assert activity_lines(watch.writing.values(), 80) == [("italic fg:ansicyan", line)]
    watch.on_report(report("broken", ""))
    watch.on_report(report("closed", "secret", conversation="other"))
    assert (watch.writing, file.getvalue()) == ({}, "")
    watch.on_report(report("closed", "First things first"))
    assert "🧠 Thinking" in file.getvalue()
    assert "\x1b[2;36m" in file.getvalue()  # dim cyan, the colour of the state
    watch.on_report(report("piece", "new\x1b[2J", color="no such colour"))
    assert activity_lines(watch.writing.values(), 80) == [(WRITING_STYLE, "  executor 🧠 thinking … new\\x1b[2J")]
    watch.on_report(report("closed", "x\x1b[2J", color="no such colour"))
    watch.on_report(report("refused", "There is no tool"))
    assert "\x1b[2J" not in file.getvalue()
    assert "asked again" in file.getvalue()


def usage(tokens: int, cost: float | None) -> dict[str, Any]:
    return {"calls": 1, "inputTokens": tokens, "outputTokens": 10, "costUsd": cost}


def test_what_a_request_took_is_the_difference_between_its_ends() -> None:
    meter = RequestMeter()
    meter.update({"status": "waiting", "usage": usage(100, None)}, 5.0)
    assert meter.text == ""
    meter.update({"status": "active", "router": {}, "usage": usage(100, None)}, 10.0)
    meter.update({"status": "active", "usage": usage(200, None)}, 15.0)
    meter.update({"status": "active", "turn": {}, "usage": usage(300, 0.01)}, 20.0)
    assert meter.text == ""
    meter.update({"status": "waiting", "usage": usage(1_100, 0.02)}, 75.0)
    assert meter.text == "last: 1 min 5 s, 1,000 tokens, $0.0200"
    meter.update({"status": "active", "turn": {}, "usage": usage(1_100, 0.02)}, 100.0)
    assert meter.text.startswith("last: 1 min")
    meter.update({"status": "ended", "usage": usage(1_100, 0.02)}, 102.0)
    assert meter.text == "last: 2 s"
    RequestMeter().update({"status": "active"}, 0.0)
