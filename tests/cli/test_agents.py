"""`tenex agents`: who works here; looking makes no keys."""

import json
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.nostr.keys import KeyRing

MINE = """---
name: Critic
role: finds what is missing
kind: expert
use_when: a plan needs a second look
phases: [plan]
tools: [read_file]
---
You read and object.

## In plan

Name the weakest step.
"""


def run(capsys: pytest.CaptureFixture[str], data: Path, *arguments: str) -> str:
    assert main(["--data", str(data), "agents", *arguments]) == 0
    return capsys.readouterr().out


def test_list_names_the_built_in_agents_and_makes_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "agents", "list"]) == 0
    out, said = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.split() == ["SLUG", "KIND", "PHASES", "TOOLS", "NPUB"]
    assert [line.split()[0] for line in lines] == ["executor", "orchestrator", "planner", "project-manager"]
    assert "tenex init" in said
    assert list(tmp_path.iterdir()) == []


def test_json_holds_kind_phases_tools_and_the_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = KeyRing(tmp_path / "keys")
    project, executor = keys.get_or_create("project"), keys.get_or_create("executor")
    found = {row["slug"]: row for row in json.loads(run(capsys, tmp_path, "list", "--json"))}
    assert found["orchestrator"]["npub"] == project.npub
    assert found["executor"]["npub"] == executor.npub
    assert found["planner"]["npub"] is None
    assert found["executor"]["kind"] == "worker"
    assert "execute" in found["executor"]["phases"]
    assert "write_file" in found["executor"]["tools"]
    assert found["orchestrator"]["tools"] == []


def test_an_agent_of_ones_own_is_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE)
    assert "critic" in run(capsys, tmp_path, "list")
    shown = run(capsys, tmp_path, "show", "critic")
    assert "You read and object." in shown
    assert "## In plan\n\nName the weakest step." in shown
    found = json.loads(run(capsys, tmp_path, "show", "critic", "--json"))
    assert (found["name"], found["kind"], found["phases"], found["model"]) == ("Critic", "expert", ["plan"], None)


def test_an_unknown_agent_is_a_usage_error_that_names_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "agents", "show", "nobody"]) == 2
    assert "there are: executor, orchestrator, planner, project-manager" in capsys.readouterr().err


def test_a_key_others_may_read_is_told_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    KeyRing(tmp_path / "keys").get_or_create("executor")
    (tmp_path / "keys" / "executor.nsec").chmod(0o640)
    assert main(["--data", str(tmp_path), "agents", "list"]) == 3
    assert "others may read this key" in capsys.readouterr().err


def test_a_tool_nobody_knows_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE.replace("[read_file]", "[read_fiel]"))
    assert main(["--data", str(tmp_path), "agents", "list"]) == 3
    said = capsys.readouterr().err
    assert "critic.md" in said
    assert "Did you mean `read_file`?" in said
