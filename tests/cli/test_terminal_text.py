"""No text of a model or another person steers the terminal of whoever reads it, and programs get it whole."""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tenex.cli.console import Screen
from tenex.core.ids import ConversationId
from tenex.core.records import ConversationStarted, MessageRecorded
from tenex.operations.transcript import Line
from tests.store.test_stats import lived

from .conftest import Done
from .test_conversations_stats import keep, renamed

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
    keep(tmp_path, {NAME: [(replace(began, title=f"title {STEERING}"), *others), *rest]})
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
