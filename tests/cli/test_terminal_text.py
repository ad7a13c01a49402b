"""No text of a model or another user steers a terminal, and programs get it whole."""

import io
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tenex.cli.console import Screen
from tenex.cli.input_line import LONG_PASTE, _Pastes
from tenex.core.ids import ConversationId
from tenex.core.records import ConversationStarted, MessageRecorded
from tenex.operations.transcript import Line
from tests.store.test_stats import lived

from .conftest import Done
from .journals import renamed, write_conversations

NAME = ConversationId("1" * 64)
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\x7f\x08\u202egnp.exe\u2066\u200f\u2028\r"
PLAIN = re.compile(r"[\n\t\x20-\x7e\xa0-\u200d\u2010-\u2027\u2030-\u2065\u206a-\uffff\U00010000-\U0010ffff]*")
"""What may be printed."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A conversation, an agent and notes in the workspace, each with what steers a terminal."""
    first, *rest = renamed(NAME, lived(0).journal)
    began, *others = first
    assert isinstance(began, ConversationStarted)
    others = [replace(one, text=f"{STEERING}{one.text}") if isinstance(one, MessageRecorded) else one for one in others]
    write_conversations(tmp_path, {NAME: [(replace(began, title=f"title {STEERING}"), *others), *rest]})
    (tmp_path / "tenex.toml").write_text(f"[project]\nabout = {json.dumps(STEERING)}\n")
    (tmp_path / "agents").mkdir()
    head = f"---\nname: Spy\nrole: {json.dumps('spies ' + STEERING)}\nkind: expert\nuse_when: never\n---\n"
    (tmp_path / "agents/spy.md").write_text(f"{head}You spy. {STEERING}\n", newline="")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/AGENTS.md").write_text(f"Notes. {STEERING}\n", newline="")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "conversations show 1111",
        "conversations show 1111 --json",
        "conversations list",
        "conversations list --json",
        "conversations search title",
        "conversations search title --json",
        "conversations stats --json",
        "conversations replay 1111 --json",
        "conversations replay 1111 --each",
        "agents list",
        "agents list --json",
        "agents show spy",
        "agents show spy --json",
        "agents show spy --prompt",
        "agents show spy --prompt --json",
        "agents show spy --prompt --conversation 1111",
        "config check",
        "config show",
        "doctor --json",
    ],
)
def test_nothing_that_is_printed_steers_a_terminal(data: Path, tenex: Callable[..., Done], command: str) -> None:
    done = tenex(*command.split(), "--data", data)
    assert done.stdout + done.stderr
    assert PLAIN.fullmatch(done.stdout), ascii(done.stdout)
    assert PLAIN.fullmatch(done.stderr), ascii(done.stderr)
    if "--json" in command:
        json.loads(done.stdout)


def test_json_holds_every_character(data: Path, tenex: Callable[..., Done]) -> None:
    shown = json.loads(tenex("conversations", "show", "1111", "--json", "--data", data).stdout)
    assert any(STEERING in message["text"] for message in shown["messages"])
    prompt = json.loads(tenex("agents", "show", "spy", "--prompt", "--json", "--data", data).stdout)
    assert f"You spy. {STEERING.rstrip()}" in prompt["system"]
    settings = tomllib.loads(tenex("config", "show", "--data", data).stdout)
    assert settings["project"]["about"] == STEERING


@pytest.mark.parametrize("text", ["[/nothing] [bold]x[/bold]", "[link=file:///etc/passwd]here[/link]"])
def test_brackets_in_the_reason_of_a_phase_are_text(text: str) -> None:
    out = StringIO()
    Screen(out, terminal=False).show(Line(tone="phase", head="plan", text=text))
    assert text in out.getvalue()


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_left_ends_the_output_only() -> None:
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
    """Claims to be a terminal."""

    def isatty(self) -> bool:
        return True
