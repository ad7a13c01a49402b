"""`kill -9` of the real process while agents go through phases of their own and one works at another's call."""

from collections import Counter

import pytest

from tenex.core import records as r

from .kit import Folder, of_kind
from .moments import Moment
from .test_kill import kill_and_go_on

HEAD = """---
name: {name}
role: takes part in the work
kind: worker
use_when: something is to be built
phases: [[asking, building, stage >= 1], [building, built, stage >= 2]]
state: {{stage: {{type: integer, default: 0}}}}
tools: [read_file, check, {{write_file: {{phases: [building]}}}}]
{more}---
You take part. You are in your phase {{{{ phase }}}}.
"""

QUICK: list[tuple[Moment, int]] = [("tool done", 1), ("torn append", 7)]
"""In the work of the called agent, and in the write that hands its end back."""

SWEEP: list[tuple[Moment, int]] = [
    *((moment, at) for moment in ("append", "torn append", "appended") for at in range(1, 18)),
    *(("model", at) for at in range(1, 12)),
    *((moment, at) for moment in ("tool", "tool done") for at in range(1, 3)),
]


async def kill_household(folder: Folder, moment: Moment, at: int) -> None:
    """Let a daemon die at a moment, start another, and check what came of it."""
    agents = folder.data / "agents"
    (agents / "executor.md").write_text(HEAD.format(name="Executor", more="agents: [planner]\n"))
    (agents / "planner.md").write_text(HEAD.format(name="Planner", more=""))
    name = await kill_and_go_on(folder, moment, at, "Build it", "household")
    records = folder.records(name)
    moved = Counter((rec.agent, rec.source, rec.target) for rec in of_kind(records, r.AgentPhaseChanged))
    steps = [("executor", "asking", "building"), ("executor", "building", "built"), ("planner", "asking", "building")]
    assert moved == Counter(steps), "each step is taken once"
    called = of_kind(records, r.RunStarted, lambda record: record.parent is not None)
    assert [record.agent for record in called] == ["planner"]
    answers = of_kind(records, r.ToolCallCompleted, lambda record: record.tool == "ask_planner")
    assert [(record.ok, record.content) for record in answers] == [(True, "planner is done")]
    states = folder.state(name).agent_states
    assert {agent: agent_state.phase for agent, agent_state in states.items()} == {"executor": "built"}
    for agent in ("executor", "planner"):
        assert (folder.workspace / f"{agent}.txt").read_text() == "as it was agreed\n"


@pytest.mark.parametrize(("moment", "at"), QUICK)
async def test_a_called_agent_resumes_its_work_after_a_kill(folder: Folder, moment: Moment, at: int) -> None:
    await kill_household(folder, moment, at)


@pytest.mark.soak
@pytest.mark.parametrize(("moment", "at"), SWEEP)
async def test_they_go_on_wherever_they_were(folder: Folder, moment: Moment, at: int) -> None:
    await kill_household(folder, moment, at)
