"""`--json`: which commands take it, and that their standard output then is one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.main import COMMANDS, load_command

from .conftest import Tenex
from .journals import ONE, worked, write_conversations

TALKING = {"demo", "run", "chat", "relay", "graph run", "workflows run"}
"""Those that hold a conversation or serve until they are stopped."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    prepare(data, None, [])
    write_conversations(data, {ONE: worked(ONE)})
    return data


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by what is typed."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from leaves(below, f"{name} {word}")


def test_every_command_that_prints_facts_takes_it() -> None:
    found = dict(pair for name in COMMANDS for pair in leaves(load_command(name), name))
    assert {name for name, command in found.items() if not any("--json" in p.opts for p in command.params)} == TALKING
    assert all(any("--data" in p.opts for p in command.params) for command in found.values())


@pytest.mark.parametrize(
    "line",
    [
        "config check",
        "agents add",
        "agents add critic",
        "agents lessons list",
        "graph check",
        "graph add",
        "graph add mission",
        "conversations search xylophone",
        "conversations path",
        "conversations path 1",
        "conversations verify",
        "init",
    ],
)
def test_standard_output_is_one_document(data: Path, tenex: Tenex, line: str) -> None:
    json.loads(tenex(f"{line} --json").out)


def test_what_was_found_wrong_is_in_the_document_and_the_error_on_stderr(data: Path, tenex: Tenex) -> None:
    assert json.loads(tenex("status --json", code=1).out)["state"] == "stopped"
    (data / "tenex.toml").write_text("[people]\nopne = true\n")
    out, err = tenex("config check --json", code=3)
    report = json.loads(out)
    assert report["ok"] is False
    assert "people.opne" in report["faults"][0]
    assert "people.opne" in err


def test_a_command_that_fails_prints_no_document(data: Path, tenex: Tenex) -> None:
    out, err = tenex(f"conversations show ffff --data {data} --json", code=2)
    assert out == ""
    assert err == "tenex: No conversation begins with ffff. `tenex conversations list` shows them.\n"


def test_an_export_to_a_file_reports_what_was_written(data: Path, tenex: Tenex) -> None:
    out = data / "one.export"
    printed = json.loads(tenex(f"conversations export 1 --out {out} --json").out)
    assert printed == {"id": ONE, "file": str(out), "bytes": out.stat().st_size}
    tenex("conversations export 1 --json", code=2)
