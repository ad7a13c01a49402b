"""The seven phases: the table of the design, typed out once more."""

from itertools import pairwise, product

import pytest

from tenex.core.config import Agent, AgentKind
from tenex.core.decide.permissions import may_use
from tenex.core.graph import END
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase, way
from tenex.operations.transcript import ICONS
from tenex.workflows.phases.waivers import RISK
from tests.fakes.scenario import TOOLS, agent

TABLE = {
    "chat": {"execute", "plan", "brainstorm"},
    "brainstorm": {"chat", "plan", "execute"},
    "plan": {"execute"},
    "execute": {"verification", "chat"},
    "verification": {"chores", "execute", "chat"},
    "chores": {"reflection"},
    "reflection": {"chat"},
}


def test_the_table_permits_exactly_its_edges() -> None:
    assert {str(phase) for phase in Phase} == set(TABLE) == set(PHASE_TRANSITIONS.nodes)
    assert PHASE_TRANSITIONS.initial is Phase.CHAT
    assert PHASE_TRANSITIONS.faults() == ()
    assert {phase: set(targets) for phase, targets in PHASE_TRANSITIONS.items()} == TABLE
    assert all(PHASE_TRANSITIONS.permits(phase, END) for phase in TABLE), "the gates, not the table, decide about END"
    assert len(PHASE_TRANSITIONS) == len(Phase)
    with pytest.raises(KeyError, match="shipping"):
        PHASE_TRANSITIONS["shipping"]


def test_every_phase_has_its_icon_and_every_gate_its_risk() -> None:
    assert set(ICONS) == set(Phase)
    assert set(RISK) == set(QUALITY_PHASES)


@pytest.mark.parametrize(("source", "target"), [*product(Phase, Phase)])
def test_there_is_a_permitted_way_from_each_phase_to_each(source: Phase, target: Phase) -> None:
    found = way(source, target)
    assert all(there in TABLE[here] for here, there in pairwise((source, *found)))
    assert (found[-1:] or (source,)) == (target,)
    assert len({source, *found}) == 1 + len(found), "no phase twice"


def test_the_way_is_a_shortest_one() -> None:
    assert len(way(Phase.PLAN, Phase.BRAINSTORM)) == len(way(Phase.CHORES, Phase.PLAN)) == 3


@pytest.mark.parametrize(
    ("word", "phase"),
    [(" EXECUTE ", Phase.EXECUTE), *((word, None) for word in ("", "executed", "END", "chat,plan", "\0", "\ud800"))],
)
def test_a_phase_is_read_in_any_case(word: str, phase: Phase | None) -> None:
    assert Phase.parse(word) is phase


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
def test_each_agent_uses_what_its_phase_its_kind_and_its_definition_permit(phase: Phase) -> None:
    def used(who: Agent) -> set[str]:
        return {name for name, tool in TOOLS.items() if may_use(tool, phase, who)}

    assert used(agent("executor")) == USES[phase]
    assert used(agent("security", AgentKind.EXPERT)) == USES[phase] - {"write_file", "send", "check"}
    assert used(agent("orchestrator", AgentKind.ORCHESTRATOR)) == set()
    assert used(agent("reader", tools=("read_file",))) == USES[phase] & {"read_file", "complete", "ask", "learn"}
