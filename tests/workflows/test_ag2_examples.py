"""Every Python example of AG2's page on workflows runs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from tenex.workflows.speakers import (
    AgentTarget,
    Always,
    ContextEquals,
    Envelope,
    FromSpeaker,
    Handoff,
    RevertToInitiatorTarget,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionDecision,
    TransitionGraph,
    TransitionTarget,
    WorkflowState,
    register_condition,
    register_target,
)
from tenex.workflows.speakers.rounds import Called

from .sessions import talk

ROUND_ROBIN = TransitionGraph.round_robin(participants=["alice", "bob", "carol"], max_turns=6)
SEQUENCE = TransitionGraph.sequence(["alice", "bob", "carol"])
CUSTOM = TransitionGraph(
    initial_speaker="triage",
    transitions=[
        Transition(when=ToolCalled("escalate_to_security"), then=AgentTarget("security")),
        Transition(when=FromSpeaker("security"), then=RevertToInitiatorTarget()),
    ],
    default_target=TerminateTarget(reason="triage_complete"),
    max_turns=20,
)
READING = Transition(when=ContextEquals(key="route", value="security"), then=AgentTarget("security"))
FLAG = TransitionGraph(
    initial_speaker="intake",
    transitions=[
        Transition(when=FromSpeaker("intake"), then=AgentTarget("triage")),
        Transition(when=ContextEquals("urgent", value=True), then=AgentTarget("oncall")),
        Transition(when=FromSpeaker("triage"), then=AgentTarget("reviewer")),
        Transition(when=FromSpeaker("oncall"), then=TerminateTarget("paged")),
        Transition(when=FromSpeaker("reviewer"), then=TerminateTarget("reviewed")),
    ],
    default_target=TerminateTarget("fall_through"),
    max_turns=10,
)
BRANCHES = TransitionGraph(
    initial_speaker="triage",
    transitions=[
        Transition(when=ContextEquals("domain", value="security"), then=AgentTarget("security")),
        Transition(when=ContextEquals("domain", value="legal"), then=AgentTarget("legal")),
        Transition(when=ContextEquals("domain", value="billing"), then=AgentTarget("billing")),
        Transition(when=FromSpeaker("triage"), then=AgentTarget("generic")),
    ],
    default_target=TerminateTarget("done"),
)
COMBINED = [
    Transition(when=ContextEquals("escalate", value=True), then=AgentTarget("security")),
    Transition(when=FromSpeaker("alice"), then=AgentTarget("reviewer")),
]
NOT_STUCK = [
    Transition(when=FromSpeaker("security"), then=TerminateTarget("security_done")),
    Transition(when=ContextEquals("route", value="security"), then=AgentTarget("security")),
    Transition(when=FromSpeaker("triage"), then=AgentTarget("legal")),
]
READS = TransitionGraph("alice", [READING], TerminateTarget("over"), max_turns=2)
ORDERED = TransitionGraph("alice", COMBINED, TerminateTarget("done"), 2)
ESCALATES = ("escalate_to_security",)
HANDS_OVER = (Called("escalate_to_security", Handoff(target="bob", reason="knows it")),)


@pytest.mark.parametrize(
    ("graph", "calls", "context", "spoken", "reason"),
    [
        (ROUND_ROBIN, (), {}, "alice bob carol alice bob carol", "max_turns"),
        (SEQUENCE, (), {}, "alice bob carol", "sequence_complete"),
        (CUSTOM, ESCALATES, {}, "triage security triage", "triage_complete"),
        (CUSTOM, (), {}, "triage", "triage_complete"),
        (CUSTOM, HANDS_OVER, {}, "triage bob", "triage_complete"),
        (READS, (), {"route": "security"}, "alice security", "max_turns"),
        (READS, (), {}, "alice", "over"),
        (FLAG, (), {}, "intake triage reviewer", "reviewed"),
        (BRANCHES, (), {}, "triage generic", "done"),
        (ORDERED, (), {"escalate": True}, "alice security", "max_turns"),
        (ORDERED, (), {}, "alice reviewer", "done"),
        (
            TransitionGraph("triage", NOT_STUCK, TerminateTarget("done")),
            (),
            {"route": "security"},
            "triage security",
            "security_done",
        ),
    ],
)
def test_an_example_speaks_in_order_and_ends_for_its_reason(
    graph: TransitionGraph, calls: tuple[str | Called, ...], context: dict[str, Any], spoken: str, reason: str
) -> None:
    assert talk(graph, calls, creator=graph.initial_speaker, context=context) == (spoken.split(), reason)


@pytest.mark.parametrize("domain", ["security", "legal", "billing"])
def test_one_branch_per_value(domain: str) -> None:
    spoken, reason = talk(BRANCHES, context={"domain": domain})
    assert spoken[:2] == ["triage", domain]
    assert reason == "", "the page's rules go on for ever: the variable keeps its value"
    assert len(BRANCHES.validate().warnings) == 3


def test_the_pages_own_example_of_a_flag_falls_into_the_trap_it_warns_of_and_validate_reports_it() -> None:
    """The rule of the flag is before the one that should end it: the page claims "paged", it is `max_turns`."""
    assert talk(FLAG, context={"urgent": True}) == (["intake", "triage", *["oncall"] * 8], "max_turns")
    assert FLAG.validate().ok
    (warning,) = FLAG.validate().warnings
    assert warning.startswith("transitions[1] can select oncall for ever: while urgent is True, it fires again")
    rules = list(FLAG.transitions)
    fixed = TransitionGraph("intake", [rules[3], *rules[:3], rules[4]], TerminateTarget("fall_through"), 10)
    assert talk(fixed, context={"urgent": True}) == (["intake", "triage", "oncall"], "paged")
    assert fixed.validate().warnings == ()


def test_the_trap_is_avoided_by_a_deleted_variable_too() -> None:
    stuck = TransitionGraph("triage", NOT_STUCK[1:], TerminateTarget("done"))
    assert talk(stuck, context={"route": "security"})[1] == ""
    ended = talk(stuck, context={"route": "security"}, changes={1: {"route": None}})
    assert ended == (["triage", "security"], "done")


@pytest.mark.usefixtures("fresh_default")
def test_a_condition_and_a_target_of_ones_own_route_and_are_written_down() -> None:
    @dataclass(slots=True)
    class ContextThreshold:
        key: str
        threshold: float
        name: ClassVar[str] = "context_threshold"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            value = state.context_vars.get(self.key, 0)
            return isinstance(value, int | float) and value >= self.threshold

    register_condition(ContextThreshold)

    @dataclass(slots=True)
    class HighestRankedReviewer(TransitionTarget):
        name: ClassVar[str] = "highest_ranked_reviewer"
        role_priority: list[str] = field(default_factory=list)

        def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
            return TransitionDecision(next((r for r in self.role_priority if r in state.participant_order), None))

    register_target(HighestRankedReviewer)
    ranked = Transition(when=Always(), then=HighestRankedReviewer(role_priority=["security", "bob"]))
    graph = TransitionGraph(
        "alice", [Transition(ContextThreshold("tries", 3), TerminateTarget("tired")), ranked], max_turns=2
    )
    assert talk(graph, context={"tries": 3}) == (["alice"], "tired")
    assert talk(graph) == (["alice", "bob"], "max_turns")
    assert TransitionGraph.loads(graph.dumps()) == graph
    assert graph.to_dict()["transitions"][1]["then"] == {
        "name": "highest_ranked_reviewer",
        "args": {"role_priority": ["security", "bob"]},
    }
    no_one = TransitionGraph("alice", [Transition(Always(), HighestRankedReviewer(["security"]))])
    assert talk(no_one) == (["alice"], "workflow_terminated")
