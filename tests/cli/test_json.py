"""`--json`: which commands take it, and that their standard output then is one JSON document."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.root_command import command_table, load_command
from tenex.main import FEATURES
from tests.kits.commands import Tenex

from .journals import ONE, worked, write_conversations

TALKING = {"demo", "run", "chat", "relay", "web", "graph run", "workflows run", "mcp serve", "acp"}
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
    found = dict(pair for name in command_table(FEATURES) for pair in leaves(load_command(name, FEATURES), name))
    assert {name for name, command in found.items() if not any("--json" in p.opts for p in command.params)} == TALKING
    assert all(any("--data" in p.opts for p in command.params) for command in found.values())


@pytest.mark.parametrize("group", ["agents: add, add critic, lessons list", "graph: check, add, add mission"])
def test_standard_output_is_one_document(data: Path, tenex: Tenex, group: str) -> None:
    name, _, commands = group.partition(": ")
    for command in commands.split(", "):
        json.loads(tenex(f"{name} {command} --json").out)


def test_what_was_found_wrong_is_in_the_document_and_the_error_on_stderr(data: Path, tenex: Tenex) -> None:
    assert json.loads(tenex("config check --json").out)["ok"] is True
    assert json.loads(tenex("status --json", code=1).out)["state"] == "stopped"
    (data / "tenex.toml").write_text("[people]\nopne = true\n")
    out, err = tenex("config check --json", code=3)
    report = json.loads(out)
    assert report["ok"] is False
    assert "people.opne" in report["faults"][0]
    assert "people.opne" in err


def test_the_folder_and_the_export_of_a_conversation_are_reported(data: Path, tenex: Tenex) -> None:
    assert json.loads(tenex("conversations path --json").out) == {"path": str(data / "conversations")}
    folder = {"id": ONE, "path": str(data / "conversations" / ONE)}
    assert json.loads(tenex("conversations path 1 --json").out) == folder
    out = data / "one.export"
    printed = json.loads(tenex(f"conversations export 1 --out {out} --json").out)
    assert printed == {"id": ONE, "file": str(out), "bytes": out.stat().st_size}
    tenex("conversations export 1 --json", code=2)
