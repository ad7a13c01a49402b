"""`tenex graph show` draws the table the program runs by."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.cli import demo
from tenex.cli.main import main
from tenex.configuration.workflows import load_workflows
from tenex.core.ids import Slug
from tenex.core.phases import PHASE_TRANSITIONS
from tenex.settings import load, resolve_paths


def test_the_diagram_holds_every_transition_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show"]) == 0
    first, start, *rest = capsys.readouterr().out.splitlines()
    assert (first, start.strip()) == ("stateDiagram-v2", "[*] --> chat")
    assert [tuple(line.split(" --> ")) for line in map(str.strip, rest)] == [
        (edge.source, edge.target) for edge in PHASE_TRANSITIONS.edges
    ]


def test_json_holds_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["initial"] == "chat"
    assert len(found["nodes"]) == 7
    assert {"from": "plan", "to": "execute"} in found["edges"]
    assert {"from": "plan", "to": "chat"} not in found["edges"]
    assert len(found["edges"]) == len(PHASE_TRANSITIONS.edges)


WORKFLOW = """
initial_speaker = "planner"
max_turns = 2
[[transitions]]
when = { name = "from_speaker", args = { agent_id = "planner" } }
then = { name = "agent", args = { agent_id = "executor" } }
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one workflow."""
    folder = tmp_path / "config" / "workflows"
    folder.mkdir(parents=True)
    (folder / "pair.toml").write_text(WORKFLOW)
    return tmp_path


def test_a_workflow_is_drawn_by_its_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show", "pair", "--data", str(data)]) == 0
    assert "planner --> executor" in capsys.readouterr().out
    assert main(["graph", "show", "pair", "--json", "--data", str(data)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["participants"] == ["planner", "executor"]
    assert found["expectations"]["turn_within"] == {"warn": 120.0, "close": 600.0}


def test_check_names_every_workflow_and_every_fault(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "check", "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith("pair  planner, executor")
    (data / "config" / "workflows" / "bad.toml").write_text(WORKFLOW.replace("executor", "ghost"))
    (data / "config" / "workflows" / "worse.toml").write_text("[")
    assert main(["graph", "check", "--data", str(data)]) == 3
    stderr = capsys.readouterr().err
    assert "ghost takes part, and is no agent here" in stderr
    assert "worse.toml" in stderr


def test_an_unknown_workflow_is_a_usage_error(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "show", "unknown", "--data", str(data)]) == 2
    stderr = capsys.readouterr().err
    folder = data / "config" / "workflows"
    assert f"There is no workflow 'unknown' in {folder}. Known: pair. `tenex --data {data} workflows add`" in " ".join(
        stderr.split()
    )
    (folder / "pair.toml").unlink()
    assert main(["graph", "show", "unknown", "--data", str(data)]) == 2
    stderr = capsys.readouterr().err
    assert f"There is no workflow 'unknown' in {folder}. `tenex" in " ".join(stderr.split())


def test_config_check_and_doctor_name_the_same_faults(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--data", str(data)]) == 3  # unknown may talk yet
    assert "pair" not in capsys.readouterr().err
    (data / "config" / "workflows" / "bad.toml").write_text(WORKFLOW.replace("executor", "ghost"))
    assert main(["config", "check", "--data", str(data)]) == 3
    assert "ghost takes part, and is no agent here" in capsys.readouterr().err
    assert main(["doctor", "--data", str(data)]) != 0
    assert "ghost takes part, and is no agent here" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What `graph run` would hold: each message with the overrides of the settings."""
    held: list[tuple[Any, Any]] = []
    monkeypatch.setattr(demo, "hold", lambda _ctx, message, **more: held.append((message, more["overrides"])))
    return held


def test_to_run_a_file_reads_that_file_and_nothing_beside_it(
    data: Path, tmp_path_factory: pytest.TempPathFactory, ran: list[tuple[Any, Any]]
) -> None:
    elsewhere = tmp_path_factory.mktemp("project")
    (elsewhere / "duo.toml").write_text(WORKFLOW)
    (elsewhere / "pyproject.toml").write_text("[project]\n")
    (elsewhere / "setup.py").write_text("raise SystemExit('it was run')")
    assert main(["graph", "run", str(elsewhere / "duo.toml"), "--data", str(data)]) == 0
    ((message, overrides),) = ran
    assert message == "@duo Begin."
    settings = load(None, data, overrides=overrides, env={})
    found = load_workflows(settings, resolve_paths(settings), [Slug("planner"), Slug("executor")])
    assert [one.slug for one in found.found] == ["pair", "duo"], "the configured ones are still there"


@pytest.mark.parametrize("name", ["pair", "@pair", "config/workflows/pair.toml"])
def test_to_run_what_is_configured_here_changes_no_setting(
    name: str, data: Path, ran: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    assert main(["graph", "run", name, "--data", str(data), "--message", "Go"]) == 0
    assert ran == [("@pair Go", {})]


def test_check_refuses_a_name_that_the_daemon_would_refuse(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("executor", "project"):
        path = data / "config" / "workflows" / f"{name}.toml"
        path.write_text(WORKFLOW)
        assert main(["graph", "check", "--data", str(data)]) == 3
        assert f"{name} is the name of somebody else here" in capsys.readouterr().err
        path.unlink()


REVIEWER = '''
from tenex.workflows.agents import BaseAgent
from tenex.output_states import FencedFreeformStateMachine, AgentState, ToolCallState


class Doubts(AgentState):
    def __init__(self):
        super().__init__("doubts", "doubts", ("<doubts>", "</doubts>"), "red", "?")

    @property
    def state_machine(self):
        return FencedFreeformStateMachine(char_min=2, char_max=99)

    @property
    def state_prompt(self):
        return "Name what you doubt."


class Reviewer(BaseAgent):
    """Reviews."""

    __system_message__ = "You review."
    output = {"plan": [Doubts, "thinking"], "act": [ToolCallState], "min": 1}
'''


def test_the_output_states_of_an_agent_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one written in Python, whose states are classes; its own phases would be drawn before them."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reviewer.py").write_text(REVIEWER)
    assert main(["graph", "show", "reviewer", "--data", str(tmp_path)]) == 0
    drawn = capsys.readouterr().out
    assert "plan --> doubts : fewer than 3 plans" in drawn
    assert "take_action --> tool_call" in drawn
    assert main(["graph", "show", "reviewer", "--json", "--data", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["output"]["nodes"] == ["plan", "doubts", "thinking", "take_action", "tool_call", "done"]


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ('"states"', "`output` cannot be read; write `output = True` or a dict"),
        ('{"plan": [3], "max": -1}', "`output.max`, `output.plan` cannot be read"),
        ('{"plans": []}', "`output.plans` cannot be read"),
        ('{"plan": [ToolCallState]}', "`tool_call` takes an action and is not allowed in `plan`"),
        ('{"act": [int]}', "`int` is no subclass of AgentState"),
    ],
)
def test_output_states_that_cannot_be_used_are_refused(
    output: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "reviewer.py").write_text(REVIEWER[: REVIEWER.index("output =")] + f"output = {output}\n")
    assert main(["config", "check", "--data", str(tmp_path)]) == 3
    assert fault in capsys.readouterr().err


def test_a_file_is_checked_with_what_it_uses_beside_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data / "config" / "workflows"
    (folder / "conditions.py").write_text(
        "from typing import ClassVar\nfrom tenex.workflows.speakers import register_condition\n\n\n"
        "@register_condition\n"
        "class Late:\n    name: ClassVar[str] = 'late_of_test_graph'\n    def evaluate(self, state, envelope):\n"
        "        return True\n"
    )
    text = WORKFLOW + '[[transitions]]\nwhen = { name = "late_of_test_graph" }\nthen = { name = "stay" }\n'
    (folder / "late.toml").write_text(text)
    assert main(["graph", "check", str(folder / "late.toml"), "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith("late  ")
    assert main(["graph", "check", "--data", str(data)]) == 0
    assert "conditions.py  defines no workflow; it is loaded for what it registers" in capsys.readouterr().out
