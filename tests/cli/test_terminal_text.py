"""No text of a model or another user steers a terminal, and programs get it whole."""

import io
import json
import re
import tomllib
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.cli.shared.console import Screen
from tenex.cli.shared.input_line import LONG_PASTE, _Pastes
from tenex.core.identity.records import ConversationStarted
from tenex.core.inbox.records import MessageRecorded
from tenex.operations.transcript import Line
from tests.kits.commands import Tenex

from .journals import ONE, changed, worked, write_conversations

STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\x7f\x08\u202egnp.exe\u2066\u200f\u2028\r"
PLAIN = re.compile(r"[\n\t\x20-\x7e\xa0-\u200d\u2010-\u2027\u2030-\u2065\u206a-\uffff\U00010000-\U0010ffff]*")
"""What may be printed."""


@pytest.fixture
def data(data: Path) -> Path:
    """A conversation, an agent and notes in the workspace, each with what steers a terminal."""
    titled = changed(worked(ONE), ConversationStarted, title=f"title {STEERING}")
    write_conversations(data, {ONE: changed(titled, MessageRecorded, text=f"{STEERING} hello")})
    (data / "tenex.toml").write_text(f"[project]\nabout = {json.dumps(STEERING)}\n")
    (data / "agents").mkdir()
    head = f"---\nname: Spy\nrole: {json.dumps('spies ' + STEERING)}\nkind: expert\nuse_when: never\n---\n"
    (data / "agents/spy.md").write_text(f"{head}You spy. {STEERING}\n", newline="")
    (data / "workspace").mkdir()
    (data / "workspace/AGENTS.md").write_text(f"Notes. {STEERING}\n", newline="")
    return data


@pytest.mark.parametrize(
    ("line", "code"),
    [
        *((f"conversations {words}", 0) for words in ("show 1111", "list", "search title", "replay 1111 --each")),
        *((f"agents {words}", 0) for words in ("list", "show spy", "show spy --prompt --conversation 1111")),
        *((f"conversations {words} --json", 0) for words in ("show 1111", "stats")),
        ("agents show spy --prompt --json", 0),
        ("config check", 3),
        ("config show", 0),
        ("doctor --json", 3),
    ],
)
@pytest.mark.usefixtures("data")
def test_nothing_that_is_printed_steers_a_terminal(tenex: Tenex, line: str, code: int) -> None:
    out, err = tenex(line, code=code)
    assert out + err
    assert PLAIN.fullmatch(out), ascii(out)
    assert PLAIN.fullmatch(err), ascii(err)
    if "--json" in line:
        json.loads(out)


@pytest.mark.usefixtures("data")
def test_json_holds_every_character(tenex: Tenex) -> None:
    shown = json.loads(tenex("conversations show 1111 --json").out)
    assert any(STEERING in message["text"] for message in shown["messages"])
    prompt = json.loads(tenex("agents show spy --prompt --json").out)
    assert f"You spy. {STEERING.rstrip()}" in prompt["system"]
    assert tomllib.loads(tenex("config show").out)["project"]["about"] == STEERING


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (Line("phase", "plan", "[/nothing] [bold]x[/bold]"), "== plan  [/nothing] [bold]x[/bold]\n"),
        (Line("phase", "chat → execute"), "== chat → execute\n"),
        (Line("agent", "Executor", "done", 10**17), f"Executor  {10**17}\n  done\n"),  # a clock set to nonsense
        (Line("agent", "Exe\x1b]0;x\x07cutor", "done\x1b[2J"), "Exe\\x1b]0;x\\x07cutor\n  done\\x1b[2J\n"),
    ],
)
def test_a_line_elsewhere_than_on_a_terminal_is_plain_text(line: Line, shown: str) -> None:
    file = io.StringIO()
    Screen(file, terminal=False).show(line)
    assert file.getvalue() == shown
    file = io.StringIO()
    screen = Screen(file, terminal=True)
    screen.show(line)
    screen.message("title \x1b]0;x\x07")
    assert "\x1b]0;" not in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_left_ends_the_output_only() -> None:
    screen = Screen(Gone(), terminal=False)
    screen.show(Line("agent", "Executor", "done"))
    assert screen._is_closed
    screen.message("and nothing is raised")


def test_a_long_paste_is_a_mark_in_the_line_and_whole_in_what_is_sent() -> None:
    pastes, text = _Pastes(), "word " * LONG_PASTE
    mark = pastes.mark(text)
    assert len(mark) < 60
    assert pastes.expand(f"look: {mark}!") == f"look: {text}!"
    assert pastes.expand(mark) == mark  # a mark that somebody types is only words


class Terminal(io.StringIO):
    """Claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", ["24", "60", "100"])
def test_a_terminal_shows_every_word_however_narrow_it_is(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    words = [f"word{number}" for number in range(60)]
    screen = Screen(file := Terminal())
    assert screen.is_terminal
    for tone in ("agent", "notice"):
        screen.show(Line(tone, "tenex", " ".join(words)))
    assert all(file.getvalue().count(word) >= 2 for word in words)


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("init", 0),
        ("config check", 3),
        ("doctor", 3),
        ("status", 1),
        ("status --data a-folder-that-is-not-there", 1),
        ("relay --port many", 2),
        ("conversations rebuild", 2),
    ],
)
def test_no_word_of_a_message_is_broken(
    line: str, code: int, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tenex: Tenex
) -> None:
    """In a terminal lines end between words, also in commands that are wider; elsewhere they stay whole."""
    monkeypatch.setenv("TENEX_DATA", str(tmp_path / "empty"))
    (tmp_path / "empty").mkdir()
    whole = " ".join(tenex(line, code=code))
    monkeypatch.setenv("TENEX_DATA", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("COLUMNS", str(width))
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert main(line.split()) == code
    shown = out.getvalue() + err.getvalue()
    assert not [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1]
    if line == "doctor":  # what it finds on a busy machine changes
        return
    changing = re.compile(r"npub1\w+|\d[\d.,]*")  # new keys, times and free space
    expected = changing.sub("0", whole.replace("/empty", "/other")).split()
    assert sorted(changing.sub("0", shown).split()) == sorted(expected)
