"""What goes on at this moment: the agents at work, what they write, and nothing that steers the terminal."""

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tenex.cli.activity import EXPIRES, KEPT, MOST, WRITING_STYLE, Activities, ActivityView, DaemonWatch, activity_lines
from tenex.cli.console import Screen
from tenex.core.ids import PublicKey

EXECUTOR, PLANNER = PublicKey("e" * 64), PublicKey("f" * 64)


def test_an_agent_starts_writes_and_stops() -> None:
    """One line each, in the order in which they began; who has ended is gone."""
    lives = Activities()
    lives.start(EXECUTOR, "Executor", "Executor is typing", 0)
    lives.start(PLANNER, "Planner", "Planner uses read_file", 1)
    lives.write(EXECUTOR, "Executor", "Once", 2)
    lives.write(EXECUTOR, "Executor", " upon", 3)
    assert activity_lines(lives.current(4), 80) == ["  Executor … Once upon", "  Planner uses read_file"]
    assert activity_lines(lives.current(4), 80, only_text=True) == ["  Executor … Once upon"]
    lives.stop(EXECUTOR)
    lives.stop(EXECUTOR)
    assert activity_lines(lives.current(4), 80) == ["  Planner uses read_file"]


def test_something_else_begins_and_the_text_before_it_is_over() -> None:
    """A repeated indicator changes nothing."""
    lives = Activities()
    lives.start(EXECUTOR, "Executor", "Executor is typing", 0)
    lives.write(EXECUTOR, "Executor", "Let me look.", 1)
    lives.start(EXECUTOR, "Executor", "Executor is typing", 20)
    assert activity_lines(lives.current(20), 80) == ["  Executor … Let me look."]
    lives.start(EXECUTOR, "Executor", "Executor uses read_file", 21)
    assert activity_lines(lives.current(21), 80) == ["  Executor uses read_file"]


def test_an_agent_without_an_indicator_for_a_minute_is_gone() -> None:
    """A daemon may be killed in the middle of a word."""
    lives = Activities()
    lives.write(EXECUTOR, "Executor", "Once", 0)
    assert lives.current(EXPIRES)
    assert not lives.current(EXPIRES + 1)


def test_strangers_cannot_fill_the_screen_or_the_memory() -> None:
    """Any key may send indicators in a thread: lines and texts are bounded."""
    lives = Activities()
    for number in range(3 * MOST):
        lives.write(PublicKey(f"{number:064x}"), "Noise", "x" * 100_000, 0)
    shown = lives.current(1)
    assert len(shown) == MOST
    assert all(len(live.text) == KEPT for live in shown)


@given(st.text(), st.text(min_size=1), st.text(), st.integers(12, 200), st.booleans())
def test_a_line_is_a_line_and_fits(name: str, text: str, doing: str, width: int, only_text: bool) -> None:
    """Whatever it holds: wide characters, line breaks, controls."""
    for line in activity_lines([ActivityView(name, doing, text, 0)], width, only_text=only_text):
        assert cell_len(line) < width
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line


@pytest.mark.parametrize(("text", "shown"), [("one two three four", "two three four"), ("x" * 40, "x" * 16)])
def test_the_end_is_shown_from_the_beginning_of_a_word(text: str, shown: str) -> None:
    """The end is what is being written now."""
    assert activity_lines([ActivityView("E", "", text, 0)], 23) == [f"  E … {shown}"]


def report(kind: str, text: str, **more: Any) -> dict[str, Any]:
    base = {"conversation": "c", "agent": "executor", "readable_name": "thinking", "emoji": "🧠", "color": "dim cyan"}
    return {**base, "state": "thinking", "kind": kind, "text": text, **more}


@pytest.fixture
def screen() -> tuple[DaemonWatch, io.StringIO]:
    file = io.StringIO()
    return DaemonWatch(Path("none"), Screen(file, terminal=True), lambda: "c"), file


def test_a_thought_is_seen_as_it_is_written_and_stays_once_it_is_whole(screen: tuple[DaemonWatch, io.StringIO]) -> None:
    watch, file = screen
    watch.on_report(report("piece", "First "))
    watch.on_report(report("piece", "things first"))
    assert watch.lines(80) == [("italic fg:ansicyan", "  executor 🧠 thinking … First things first")]
    assert file.getvalue() == ""
    watch.on_report(report("closed", "First things first"))
    assert watch.lines(80) == []
    assert "🧠 Thinking" in file.getvalue()
    assert "\x1b[2;36m" in file.getvalue(), "dim cyan, the colour of the state"
    watch.on_report(report("piece", "new"))
    assert watch.lines(80)[0][1].endswith("… new"), "a segment starts again"


def test_a_segment_that_broke_off_is_removed(screen: tuple[DaemonWatch, io.StringIO]) -> None:
    watch, file = screen
    watch.on_report(report("piece", "half a tho"))
    watch.on_report(report("broken", ""))
    assert watch.lines(80) == []
    assert file.getvalue() == ""


def test_others_conversations_are_not_shown_and_nothing_steers_the_terminal(
    screen: tuple[DaemonWatch, io.StringIO],
) -> None:
    watch, file = screen
    watch.on_report(report("closed", "secret", conversation="other"))
    assert file.getvalue() == ""
    watch.on_report(report("piece", "x\x1b[2J", color="no such colour"))
    assert watch.lines(80) == [(WRITING_STYLE, "  executor 🧠 thinking … x\\x1b[2J")]
    watch.on_report(report("closed", "x\x1b[2J", color="no such colour"))
    watch.on_report(report("refused", "There is no tool"))
    assert "\x1b[2J" not in file.getvalue()
    assert "asked again" in file.getvalue()
