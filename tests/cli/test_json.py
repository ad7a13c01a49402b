"""`--json`: which commands take it, and that their standard output then is one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.main import COMMANDS, load_command, main
from tests.store.test_stats import lived

from .journals import ONE as NAME
from .journals import renamed, write_conversations

TALKING = {"demo", "run", "chat", "relay", "graph run", "workflows run"}
"""Those that hold a conversation or serve until they are stopped."""


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by what is typed."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from leaves(below, f"{name} {word}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    prepare(data, None, [])
    write_conversations(data, {NAME: renamed(NAME, lived(0).journal)})
    return data


def test_every_command_that_prints_facts_takes_it() -> None:
    found = dict(pair for name in COMMANDS for pair in leaves(load_command(name), name))
    without = {name for name, command in found.items() if not any("--json" in p.opts for p in command.params)}
    assert without == TALKING


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("status", 1),
        ("config check", 0),
        ("config show", 0),
        ("config path", 0),
        ("agents list", 0),
        ("agents show executor", 0),
        ("agents add", 0),
        ("agents add critic", 0),
        ("agents add --like critic", 0),
        ("graph show", 0),
        ("graph check", 0),
        ("graph add", 0),
        ("graph add mission", 0),
        ("conversations list", 0),
        ("conversations list --status quarantined", 0),
        ("conversations search xylophone", 0),
        ("conversations show 1", 0),
        ("conversations path", 0),
        ("conversations path 1", 0),
        ("conversations verify", 0),
        ("conversations replay 1", 0),
        ("conversations stats", 0),
        ("conversations stats 1", 0),
        ("init", 0),
    ],
)
def test_standard_output_is_one_document(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, code: int
) -> None:
    monkeypatch.setenv("TENEX_DATA", str(data))
    capsys.readouterr()
    assert main([*words.split(), "--json"]) == code
    json.loads(capsys.readouterr().out)


def test_what_was_found_wrong_is_in_the_document_and_the_error_on_stderr(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "tenex.toml").write_text("[people]\nopne = true\n")
    capsys.readouterr()
    assert main(["config", "check", "--data", str(data), "--json"]) == 3
    out, stderr = capsys.readouterr()
    report = json.loads(out)
    assert report["ok"] is False
    assert "people.opne" in report["faults"][0]
    assert "people.opne" in stderr


def test_a_command_that_comes_to_nothing_prints_no_document(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["conversations", "show", "ffff", "--data", str(data), "--json"]) == 2
    out, stderr = capsys.readouterr()
    assert out == ""
    assert stderr == f"tenex: No conversation begins with ffff. `tenex --data {data} conversations list` shows them.\n"


def test_an_export_to_a_file_reports_what_was_written(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = data / "one.export"
    capsys.readouterr()
    assert main(["conversations", "export", "1", "--out", str(out), "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": NAME, "file": str(out), "bytes": out.stat().st_size}
    assert main(["conversations", "export", "1", "--data", str(data), "--json"]) == 2
