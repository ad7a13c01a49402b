"""What agents write for themselves, on the terminal: with emoji and colour, and only of the conversation at hand."""

import io
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.console import Screen
from tenex.cli.input_line import LIVE
from tenex.cli.thoughts import Thinking


def told(kind: str, text: str, **more: Any) -> dict[str, Any]:
    base = {"conversation": "c", "agent": "executor", "readable_name": "thinking", "emoji": "🧠", "color": "dim cyan"}
    return {**base, "state": "thinking", "kind": kind, "text": text, **more}


@pytest.fixture
def screen() -> tuple[Thinking, io.StringIO]:
    file = io.StringIO()
    return Thinking(Path("none"), Screen(file, terminal=True), lambda: "c"), file


def test_a_thought_is_seen_as_it_is_written_and_stays_once_it_is_whole(screen: tuple[Thinking, io.StringIO]) -> None:
    thinking, file = screen
    thinking.hear(told("piece", "First "))
    thinking.hear(told("piece", "things first"))
    assert thinking.lines(80) == [("italic fg:ansicyan", "  executor 🧠 thinking … First things first")]
    assert file.getvalue() == ""
    thinking.hear(told("closed", "First things first"))
    assert thinking.lines(80) == []
    assert "🧠 Thinking" in file.getvalue()
    assert "\x1b[2;36m" in file.getvalue(), "dim cyan, as the state says"
    thinking.hear(told("piece", "new"))
    assert thinking.lines(80)[0][1].endswith("… new"), "a segment begins anew"


def test_what_broke_off_does_not_stand_there_for_ever(screen: tuple[Thinking, io.StringIO]) -> None:
    thinking, file = screen
    thinking.hear(told("piece", "half a tho"))
    thinking.hear(told("broken", ""))
    assert thinking.lines(80) == []
    assert file.getvalue() == ""


def test_others_conversations_are_not_shown_and_nothing_steers_the_terminal(
    screen: tuple[Thinking, io.StringIO],
) -> None:
    thinking, file = screen
    thinking.hear(told("closed", "secret", conversation="other"))
    assert file.getvalue() == ""
    thinking.hear(told("piece", "x\x1b[2J", color="no such colour"))
    assert thinking.lines(80) == [(LIVE, "  executor 🧠 thinking … x\\x1b[2J")]
    thinking.hear(told("closed", "x\x1b[2J", color="no such colour"))
    thinking.hear(told("refused", "There is no tool"))
    assert "\x1b[2J" not in file.getvalue()
    assert "asked again" in file.getvalue()
