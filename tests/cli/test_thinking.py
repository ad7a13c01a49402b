"""What agents write for themselves, on the terminal: with emoji and colour, and only of the conversation at hand."""

import io
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.activity import WRITING_STYLE, DaemonWatch
from tenex.cli.console import Screen


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
    assert "\x1b[2;36m" in file.getvalue(), "dim cyan, as the state says"
    watch.on_report(report("piece", "new"))
    assert watch.lines(80)[0][1].endswith("… new"), "a segment starts again"


def test_what_broke_off_does_not_stand_there_for_ever(screen: tuple[DaemonWatch, io.StringIO]) -> None:
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
