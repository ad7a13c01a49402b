"""`tenex workflows`: draws and checks what the program runs by."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.cli import demo
from tenex.configuration.workflows import load_workflows
from tenex.core.ids import Slug
from tenex.core.phases import PHASE_TRANSITIONS
from tenex.settings import load, resolve_paths
from tests.kits.commands import Tenex

WORKFLOW = """
initial_speaker = "planner"
max_turns = 2
[[transitions]]
when = { name = "from_speaker", args = { agent_id = "planner" } }
then = { name = "agent", args = { agent_id = "executor" } }
"""
GHOST = WORKFLOW.replace("executor", "ghost")
Held = list[tuple[Any, Any]]


@pytest.fixture
def folder(data: Path) -> Path:
    """The folder of workflows, with one."""
    folder = data / "config" / "workflows"
    folder.mkdir(parents=True)
    (folder / "pair.toml").write_text(WORKFLOW)
    return folder


def test_the_phases_are_drawn_with_every_transition_and_no_other(tenex: Tenex) -> None:
    first, start, *rest = tenex("graph show").out.splitlines()
    assert (first, start.strip()) == ("stateDiagram-v2", "[*] --> chat")
    edges = [(edge.source, edge.target) for edge in PHASE_TRANSITIONS.edges]
    assert [tuple(line.split(" --> ")) for line in map(str.strip, rest)] == edges
    found = json.loads(tenex("graph show --json").out)
    assert (found["initial"], len(found["nodes"])) == ("chat", 7)
    assert [(edge["from"], edge["to"]) for edge in found["edges"]] == edges


def test_a_workflow_is_drawn_by_its_name(folder: Path, tenex: Tenex) -> None:
    assert "planner --> executor" in tenex("graph show pair").out
    found = json.loads(tenex("graph show pair --json").out)
    assert found["participants"] == ["planner", "executor"]
    assert found["expectations"]["turn_within"] == {"warn": 120.0, "close": 600.0}
    unknown = f"There is no workflow 'unknown' in {folder}."
    assert f"{unknown} Known: pair. `tenex workflows add`" in tenex("graph show unknown", code=2).err
    (folder / "pair.toml").unlink()
    assert f"{unknown} `tenex workflows add`" in tenex("graph show unknown", code=2).err


def test_check_names_every_workflow_and_every_fault_as_config_check_and_doctor_do(folder: Path, tenex: Tenex) -> None:
    assert tenex("graph check").out.startswith("pair  planner, executor")
    assert "pair" not in tenex("config check", code=3).err  # but that no one may talk yet
    for name, text in {"bad": GHOST, "worse": "[", "executor": WORKFLOW, "project": WORKFLOW}.items():
        (folder / f"{name}.toml").write_text(text)
    err = tenex("graph check", code=3).err
    assert "worse.toml" in err
    for fault in (
        "ghost takes part, and is no agent here",
        "executor is the name of somebody else here",
        "project is the name of somebody else here",
    ):
        assert fault in err
        assert fault in tenex("config check", code=3).err
        assert fault in " ".join(tenex("doctor", code=3).out.split())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """What `graph run` would hold: each message with the overrides of the settings."""
    held: Held = []
    monkeypatch.setattr(demo, "hold", lambda _, message, **more: held.append((message, more["overrides"])))
    return held


def test_to_run_a_file_reads_that_file_and_nothing_beside_it(
    folder: Path, data: Path, tmp_path: Path, held: Held, tenex: Tenex
) -> None:
    (tmp_path / "duo.toml").write_text(WORKFLOW)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "setup.py").write_text("raise SystemExit('it was run')")
    tenex(f"graph run {tmp_path / 'duo.toml'} --set a=1")
    ((message, overrides),) = held
    assert message == "@duo Begin.\n/set a=1"
    settings = load(None, data, overrides=overrides, env={})
    found = load_workflows(settings, resolve_paths(settings), [Slug("planner"), Slug("executor")])
    assert [one.slug for one in found.found] == ["pair", "duo"]


@pytest.mark.parametrize("name", ["pair", "@pair", "config/workflows/pair.toml"])
def test_to_run_what_is_configured_here_changes_no_setting(
    name: str, folder: Path, data: Path, held: Held, tenex: Tenex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    tenex(f"graph run {name} --message Go")
    assert held == [("@pair Go", {})]


def test_the_output_states_of_an_agent_are_drawn(data: Path, tenex: Tenex) -> None:
    (data / "agents").mkdir()
    head = "name: R\nrole: r\nkind: expert\nuse_when: u\noutput: {plan: [thinking], act: [tool_call], min: 1}"
    (data / "agents" / "reviewer.md").write_text(f"---\n{head}\n---\nReview.\n")
    drawn = tenex("graph show reviewer").out
    assert "plan --> thinking : fewer than 3 plans" in drawn
    assert "take_action --> tool_call" in drawn
    found = json.loads(tenex("graph show reviewer --json").out)
    assert found["output"]["nodes"] == ["plan", "thinking", "take_action", "tool_call", "done"]


def test_a_file_is_checked_with_what_it_uses_beside_it(folder: Path, tenex: Tenex) -> None:
    (folder / "conditions.py").write_text(
        "from typing import ClassVar\nfrom tenex.workflows.speakers import register_condition\n\n\n"
        "@register_condition\n"
        "class Late:\n    name: ClassVar[str] = 'late_of_test_graph'\n    def evaluate(self, state, envelope):\n"
        "        return True\n"
    )
    late = '[[transitions]]\nwhen = { name = "late_of_test_graph" }\nthen = { name = "stay" }\n'
    (folder / "late.toml").write_text(WORKFLOW + late)
    assert tenex(f"graph check {folder / 'late.toml'}").out.startswith("late  ")
    assert "conditions.py  defines no workflow; it is loaded for what it registers" in tenex("graph check").out
