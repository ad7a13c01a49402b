"""Rules as edges: from whom they lead, what they are called in a diagram, which names they mention."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tenex.core.graph import END
from tenex.core.workflow.conditions import (
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    FromSpeaker,
    Not,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
    TransitionTarget,
)
from tenex.core.workflow.rounds import Envelope, TransitionDecision, WorkflowState
from tenex.core.workflow.transitions import Then, Transition, compiled, named_agents, named_tools, speaker_of

OVER = TerminateTarget("over")


@dataclass(frozen=True)
class Anybody:
    """A target of someone's own."""

    name: ClassVar[str] = "anybody"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        return TransitionDecision(None)


@pytest.mark.parametrize(
    ("condition", "speaker"),
    [
        (Always(), None),
        (FromSpeaker("a"), "a"),
        (AllOf([ToolCalled("t"), AllOf([FromSpeaker("b"), Always()])]), "b"),
        (AnyOf([FromSpeaker("a"), FromSpeaker("a")]), None),
        (Not(FromSpeaker("a")), None),
    ],
)
def test_an_edge_leads_from_the_one_speaker_after_whom_it_can_fire(
    condition: TransitionCondition, speaker: str | None
) -> None:
    assert speaker_of(condition) == speaker
    graph = compiled("a", [Transition(condition, OVER, 3)], OVER, 4, ("a", "b"))
    assert (graph.edges[0].source, graph.edges[0].priority, graph.max_turns) == (speaker, 3, 4)


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (StayTarget(), ("a",)),
        (TerminateTarget(), (END,)),
        (RoundRobinTarget(), ("a", "b")),
        (RevertToInitiatorTarget(), ("a", "b")),
        (Anybody(), ("a", "b", END)),
    ],
)
def test_a_target_states_whom_it_may_reach(target: TransitionTarget, reached: Iterable[str]) -> None:
    assert tuple(Then(target).reaches("a", ("a", "b"))) == reached


def test_the_names_that_rules_mention() -> None:
    rules = [
        Transition(AnyOf([FromSpeaker("b"), Not(ToolCalled("inner"))]), AgentTarget("c")),
        Transition(ToolCalled("outer"), RoundRobinTarget()),
    ]
    assert list(named_agents("a", rules, AgentTarget("d"))) == ["a", "b", "c", "d"]
    assert named_tools(compiled("a", rules, OVER, None)) == {"inner", "outer"}


def test_the_diagram_of_rules() -> None:
    rules = [
        Transition(ToolCalled("route"), AgentTarget("b")),
        Transition(FromSpeaker("b"), RoundRobinTarget()),
        Transition(AllOf([FromSpeaker("b"), ContextEquals("ok", value=True)]), TerminateTarget("fine")),
    ]
    assert compiled("a", rules, OVER, None, ("a", "b")).mermaid() == (
        "stateDiagram-v2\n"
        '    state "round_robin" as s2\n'
        "    [*] --> a\n"
        "    any --> b : tool_called route\n"
        "    b --> s2\n"
        "    b --> [*] : all_of (from_speaker b), (context_equals ok True) (fine)\n"
        "    any --> [*] : otherwise (over)\n"
    )
