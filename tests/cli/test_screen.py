"""What is drawn: nobody's text steers the terminal, and nobody's absence ends the work."""

import io

import pytest

from tenex.cli.console import Screen
from tenex.cli.input_line import LONG_PASTE, _Pastes
from tenex.operations.transcript import Line


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_left_costs_nothing_but_the_words() -> None:
    screen = Screen(Gone(), terminal=False)
    screen.show(Line("agent", "Executor", "done"))
    assert screen._is_closed
    screen.message("and nothing is raised")
    screen.show(Line("phase", "chat → execute"))


@pytest.mark.parametrize("terminal", [True, False])
def test_control_characters_of_others_are_made_visible(terminal: bool) -> None:
    file = io.StringIO()
    screen = Screen(file, terminal=terminal)
    screen.show(Line("agent", "Exe\x1b]0;title\x07cutor", "done\x1b[2J"))
    screen.message("title \x1b]0;x\x07")
    assert "\x1b]0;" not in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


def test_a_phase_line_without_a_reason_ends_where_its_words_end() -> None:
    file = io.StringIO()
    Screen(file, terminal=False).show(Line("phase", "chat → execute"))
    assert file.getvalue() == "== chat → execute\n"


def test_a_clock_set_to_nonsense_costs_no_word() -> None:
    file = io.StringIO()
    Screen(file, terminal=False).show(Line("agent", "Executor", "done", 10**17))
    assert file.getvalue().split() == ["Executor", f"{10**17}", "done"]


def test_a_long_paste_is_a_mark_in_the_line_and_whole_in_what_is_sent() -> None:
    pastes, text = _Pastes(), "word " * LONG_PASTE
    mark = pastes.mark(text)
    assert len(mark) < 60
    assert pastes.expand(f"look: {mark}!") == f"look: {text}!"
    assert pastes.expand(mark) == mark, "a mark that somebody types is only words"


@pytest.mark.parametrize("width", ["24", "60", "100"])
def test_a_terminal_shows_every_word_however_narrow_it_is(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    words = [f"word{number}" for number in range(60)]
    file = Terminal()
    screen = Screen(file)
    assert screen.is_terminal
    screen.show(Line("agent", "Executor", " ".join(words)))
    screen.show(Line("notice", "tenex", " ".join(words)))
    drawn = file.getvalue()
    assert all(drawn.count(word) >= 2 for word in words)


class Terminal(io.StringIO):
    """Says of itself that it is one."""

    def isatty(self) -> bool:
        return True
