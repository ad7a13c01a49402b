"""Which tool may be used by whom and where."""

import pytest

from tenex.core.config import AgentKind
from tenex.core.decide.permissions import may_use, refusal
from tenex.core.phases import Phase
from tests.fakes.scenario import TOOLS, agent, rules

USES = {
    Phase.CHAT: {"complete", "ask"},
    Phase.BRAINSTORM: {"complete", "ask", "read_file"},
    Phase.PLAN: {"complete", "ask", "read_file"},
    Phase.EXECUTE: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.VERIFICATION: {"complete", "ask", "read_file", "check"},
    Phase.CHORES: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.REFLECTION: {"complete", "learn"},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_worker_uses_what_its_phase_permits(phase: Phase, tool: str) -> None:
    permitted = tool in USES[phase]
    assert may_use(TOOLS[tool], phase, agent("executor")) is permitted
    assert (refusal(tool, phase, agent("executor"), rules()) is None) is permitted


@pytest.mark.parametrize("phase", Phase)
def test_an_expert_changes_and_runs_nothing_in_any_phase(phase: Phase) -> None:
    expert = agent("security", AgentKind.EXPERT)
    used = {name for name, tool in TOOLS.items() if may_use(tool, phase, expert)}
    assert used == USES[phase] - {"write_file", "send", "check"}


@pytest.mark.parametrize("phase", Phase)
def test_the_orchestrator_uses_no_tool_at_all(phase: Phase) -> None:
    assert not any(may_use(tool, phase, agent("orchestrator", AgentKind.ORCHESTRATOR)) for tool in TOOLS.values())


def test_a_tool_its_definition_does_not_name_is_not_its_own() -> None:
    reader = agent("reader", tools=("read_file",))
    used = {name for name, tool in TOOLS.items() if may_use(tool, Phase.EXECUTE, reader)}
    assert used == {"read_file", "complete", "ask"}


def test_a_refusal_states_what_may_be_used_instead() -> None:
    sentence = refusal("write_file", Phase.PLAN, agent("planner"), rules())
    assert sentence == (
        "The tool write_file may not be used by planner in the plan phase; nothing was done. "
        "You may use: ask, complete, read_file."
    )
    unknown = refusal("teleport", Phase.CHAT, agent("planner"), rules())
    assert unknown == "There is no tool teleport. You may use: ask, complete."
