"""Every Python example of AG2's page on workflows runs."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tenex.workflows.speakers import (
    AgentTarget,
    Always,
    Called,
    ContextEquals,
    Envelope,
    Folded,
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
    change_context,
    fold,
    register_condition,
    register_target,
)

from .sessions import talk


def agent(name: str) -> SimpleNamespace:
    """Someone with an `agent_id`, as the page's examples have them."""
    return SimpleNamespace(agent_id=name)


alice, bob, carol, generic, legal, billing = (
    agent(n) for n in ("alice", "bob", "carol", "generic", "legal", "billing")
)
triage, security, reviewer, intake, oncall = (agent(n) for n in ("triage", "security", "reviewer", "intake", "oncall"))
sec = security

# ---- convenience factories, custom graphs ---------------------------------------------------------------------------


def round_robin() -> TransitionGraph:
    return TransitionGraph.round_robin(participants=[alice.agent_id, bob.agent_id, carol.agent_id], max_turns=6)


def sequence() -> TransitionGraph:
    return TransitionGraph.sequence([alice.agent_id, bob.agent_id, carol.agent_id])


def custom() -> TransitionGraph:
    return TransitionGraph(
        initial_speaker=triage.agent_id,
        transitions=[
            Transition(when=ToolCalled("escalate_to_security"), then=AgentTarget(security.agent_id)),
            Transition(when=FromSpeaker(security.agent_id), then=RevertToInitiatorTarget()),
        ],
        default_target=TerminateTarget(reason="triage_complete"),
        max_turns=20,
    )


def test_a_round_robin_cycles_through_all_for_its_turns() -> None:
    compiled, state = round_robin().begin(["alice", "bob", "carol"])
    spoken = []
    while state.expected_next_speaker is not None:
        spoken.append(state.expected_next_speaker)
        done = fold(compiled, state, Envelope(spoken[-1], "text"))
        assert isinstance(done, Folded)
        state = done.state
    assert spoken == ["alice", "bob", "carol"] * 2
    assert state.pending_close_reason == "max_turns"


def test_a_sequence_is_a_pipeline() -> None:
    assert talk(sequence()) == (["alice", "bob", "carol"], "sequence_complete")
    assert sequence().validate(["alice", "bob", "carol"]).ok


def test_a_tool_escalates_and_security_reverts_to_the_initiator() -> None:
    assert talk(custom(), ("escalate_to_security",), creator="triage") == (
        ["triage", "security", "triage"],
        "triage_complete",
    )
    assert talk(custom()) == (["triage"], "triage_complete")


def test_a_handoff_shadows_the_rule_of_its_own_tool() -> None:
    spoken, _ = talk(custom(), (Called("escalate_to_security", Handoff(target="bob", reason="knows it")),))
    assert spoken == ["triage", "bob"]


# ---- transitions driven by context ----------------------------------------------------------------------------------


def reading_context() -> Transition:
    return Transition(when=ContextEquals(key="route", value="security"), then=AgentTarget(security.agent_id))


def flag() -> TransitionGraph:
    return TransitionGraph(
        initial_speaker=intake.agent_id,
        transitions=[
            Transition(when=FromSpeaker(intake.agent_id), then=AgentTarget(triage.agent_id)),
            Transition(when=ContextEquals("urgent", value=True), then=AgentTarget(oncall.agent_id)),
            Transition(when=FromSpeaker(triage.agent_id), then=AgentTarget(reviewer.agent_id)),
            Transition(when=FromSpeaker(oncall.agent_id), then=TerminateTarget("paged")),
            Transition(when=FromSpeaker(reviewer.agent_id), then=TerminateTarget("reviewed")),
        ],
        default_target=TerminateTarget("fall_through"),
        max_turns=10,
    )


def branches() -> TransitionGraph:
    return TransitionGraph(
        initial_speaker=triage.agent_id,
        transitions=[
            Transition(when=ContextEquals("domain", value="security"), then=AgentTarget(sec.agent_id)),
            Transition(when=ContextEquals("domain", value="legal"), then=AgentTarget(legal.agent_id)),
            Transition(when=ContextEquals("domain", value="billing"), then=AgentTarget(billing.agent_id)),
            Transition(when=FromSpeaker(triage.agent_id), then=AgentTarget(generic.agent_id)),
        ],
        default_target=TerminateTarget("done"),
    )


def combined() -> list[Transition]:
    return [
        Transition(when=ContextEquals("escalate", value=True), then=AgentTarget(security.agent_id)),
        Transition(when=FromSpeaker(alice.agent_id), then=AgentTarget(reviewer.agent_id)),
    ]


def not_stuck() -> list[Transition]:
    return [
        Transition(when=FromSpeaker(security.agent_id), then=TerminateTarget("security_done")),
        Transition(when=ContextEquals("route", value="security"), then=AgentTarget(security.agent_id)),
        Transition(when=FromSpeaker(triage.agent_id), then=AgentTarget(legal.agent_id)),
    ]


def test_a_variable_routes_and_a_missing_one_does_not() -> None:
    graph = TransitionGraph("alice", [reading_context()], TerminateTarget("over"), max_turns=2)
    assert talk(graph, context={"route": "security"}) == (["alice", "security"], "max_turns")
    assert talk(graph) == (["alice"], "over")


def test_a_flag_reroutes_the_next_turn() -> None:
    assert talk(flag()) == (["intake", "triage", "reviewer"], "reviewed")
    spoken, _ = talk(flag(), context={"urgent": True})
    assert spoken[:3] == ["intake", "triage", "oncall"]


def test_the_pages_own_example_of_a_flag_falls_into_the_trap_it_warns_of_and_validate_reports_it() -> None:
    """The rule of the flag is before the one that should end it: the page claims "paged", it is `max_turns`."""
    spoken, reason = talk(flag(), context={"urgent": True})
    assert (spoken[2:], reason) == (["oncall"] * 8, "max_turns")
    assert flag().validate().ok
    (warning,) = flag().validate().warnings
    assert warning.startswith("transitions[1] can select oncall for ever: while urgent is True, it fires again")
    rules = list(flag().transitions)
    fixed = TransitionGraph("intake", [rules[3], *rules[:3], rules[4]], TerminateTarget("fall_through"), 10)
    assert talk(fixed, context={"urgent": True}) == (["intake", "triage", "oncall"], "paged")
    assert fixed.validate().warnings == ()


@pytest.mark.parametrize("domain", ["security", "legal", "billing"])
def test_one_branch_per_value(domain: str) -> None:
    spoken, reason = talk(branches(), context={"domain": domain})
    assert spoken[:2] == ["triage", domain]
    assert reason == "", "the page's rules go on for ever: the variable keeps its value"
    assert talk(branches()) == (["triage", "generic"], "done")
    assert len(branches().validate().warnings) == 3


def test_order_is_a_conjunction() -> None:
    graph = TransitionGraph("alice", combined(), TerminateTarget("done"), 2)
    assert talk(graph, context={"escalate": True})[0] == ["alice", "security"]
    assert talk(graph)[0] == ["alice", "reviewer"]
    assert "transitions[0] can select security for ever" in graph.validate().warnings[0]


def test_the_trap_is_avoided_by_an_earlier_rule_or_by_a_deleted_variable() -> None:
    graph = TransitionGraph("triage", not_stuck(), TerminateTarget("done"))
    assert talk(graph, context={"route": "security"}) == (["triage", "security"], "security_done")
    assert graph.validate().warnings == ()
    stuck = TransitionGraph("triage", not_stuck()[1:], TerminateTarget("done"))
    compiled, state = stuck.begin(["triage", "security", "legal"], context_vars={"route": "security"})
    for speaker in ("triage", "security", "security"):
        done = fold(compiled, state, Envelope(speaker))
        assert isinstance(done, Folded)
        state = done.state
    cleared = change_context(state, "security", delete=["route"])
    assert isinstance(cleared, WorkflowState)
    done = fold(compiled, cleared, Envelope("security"))
    assert isinstance(done, Folded)
    assert done.decision == TransitionDecision(None, "done")


# ---- conditions and targets of one's own ----------------------------------------------------------------------------


def own_condition() -> type:
    @dataclass(slots=True)
    class ContextThreshold:
        """Fires when ``state.context_vars[key] >= threshold``."""

        key: str
        threshold: float
        name: ClassVar[str] = "context_threshold"

        def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
            value = state.context_vars.get(self.key, 0)
            return isinstance(value, int | float) and value >= self.threshold

    return register_condition(ContextThreshold)


def own_target() -> type:
    @dataclass(slots=True)
    class HighestRankedReviewer(TransitionTarget):
        name: ClassVar[str] = "highest_ranked_reviewer"
        role_priority: list[str] = field(default_factory=list)

        def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
            return TransitionDecision(next((r for r in self.role_priority if r in state.participant_order), None))

    return register_target(HighestRankedReviewer)


@pytest.mark.usefixtures("fresh_default")
def test_a_condition_of_ones_own_routes_and_is_written_down() -> None:
    threshold = own_condition()
    graph = TransitionGraph(
        "alice", [Transition(threshold("tries", 3), TerminateTarget("tired"))], AgentTarget("alice")
    )
    assert talk(graph, context={"tries": 3}) == (["alice"], "tired")
    assert TransitionGraph.loads(graph.dumps()) == graph
    assert type(TransitionGraph.loads(graph.to_dict()).transitions[0].when) is threshold
    assert graph.validate(["alice", "bob"]).ok


@pytest.mark.usefixtures("fresh_default")
def test_a_target_of_ones_own_routes_and_is_written_down() -> None:
    reviewer_by_rank = own_target()
    rule = Transition(when=Always(), then=reviewer_by_rank(role_priority=["security", "bob"]))
    graph = TransitionGraph("alice", [rule], max_turns=2)
    assert talk(graph) == (["alice", "bob"], "max_turns")
    assert graph.to_dict()["transitions"][0]["then"] == {
        "name": "highest_ranked_reviewer",
        "args": {"role_priority": ["security", "bob"]},
    }
    assert TransitionGraph.loads(graph.dumps()) == graph
    no_one = TransitionGraph("alice", [Transition(Always(), reviewer_by_rank(["security"]))])
    assert talk(no_one) == (["alice"], "workflow_terminated")


# ---- opening a session ----------------------------------------------------------------------------------------------


def opening() -> WorkflowState:
    graph = TransitionGraph.round_robin(participants=[alice.agent_id, bob.agent_id, carol.agent_id], max_turns=6)
    _, state = graph.begin(creator_id=alice.agent_id, participants=[bob.agent_id, carol.agent_id])
    return state


def test_the_creator_takes_part_and_the_graph_is_in_the_state() -> None:
    state = opening()
    assert state.participant_order == ("alice", "bob", "carol")
    assert (state.creator_id, state.expected_next_speaker, state.turn_count) == ("alice", "alice", 0)
    assert TransitionGraph.loads(state.graph_data) == round_robin()
