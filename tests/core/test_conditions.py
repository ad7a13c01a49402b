"""Conditions see the state and the round, nothing else; a missing variable fires nothing, and never raises."""

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.workflow.conditions import (
    CONDITIONS,
    TARGETS,
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    FromSpeaker,
    Not,
    Predicate,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
)
from tenex.core.workflow.rounds import Called, Envelope, TransitionDecision, WorkflowState

STATE = WorkflowState(
    ("a", "b", "c"), "b", last_speaker_id="a", creator_id="c", context_vars={"one": 1, "text": "x", "yes": True}
)
ROUND = Envelope("a", "hello", (Called("look"), Called("route")))
SILENT = Envelope("a")


@pytest.mark.parametrize(
    ("condition", "fires"),
    [
        (Always(), True),
        (FromSpeaker("a"), True),
        (FromSpeaker("b"), False),
        (ContextEquals("one", 1), True),
        (ContextEquals("one", 2), False),
        (ContextEquals("one", value=True), True),
        (ContextEquals("none", 1), False),
        (ContextEquals("none", None), True),
        (ContextEquals("none"), True),
        (ContextIn("text", ["y", "x"]), True),
        (ContextIn("text", ["y"]), False),
        (ContextIn("text", []), False),
        (ContextIn("none", ["y"]), False),
        (ContextIn("none", ["y", None]), True),
        (ContextThreshold("one", 1), True),
        (ContextThreshold("one", 1.5), False),
        (ContextThreshold("text", 0), False),
        (ContextThreshold("none", 0.5), False),
        (ContextThreshold("none", 0), True),
        (AllOf([FromSpeaker("a"), ContextEquals("one", 1)]), True),
        (AllOf([FromSpeaker("a"), ContextEquals("one", 2)]), False),
        (AnyOf([FromSpeaker("b"), ContextEquals("one", 1)]), True),
        (AnyOf([FromSpeaker("b"), ContextEquals("one", 2)]), False),
        (Not(FromSpeaker("a")), False),
        (Not(FromSpeaker("b")), True),
        (Not(AllOf([AnyOf([Not(Always())])])), True),
    ],
)
def test_conditions(condition: TransitionCondition, fires: bool) -> None:
    assert condition.evaluate(STATE, ROUND) is fires


@pytest.mark.parametrize(
    ("envelope", "fires"),
    [
        (Envelope("a", calls=(Called("route"),)), True),
        (ROUND, False),
        (Envelope("a", calls=ROUND.calls, routing_tool="route"), True),
        (Envelope("a", calls=ROUND.calls, routing_tool=""), False),
        (SILENT, False),
    ],
)
def test_a_tool_counts_if_it_routes_or_while_that_is_open_if_it_is_the_first(envelope: Envelope, fires: bool) -> None:
    assert ToolCalled("route").evaluate(STATE, envelope) is fires


def test_conditions_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^AllOf needs at least one condition\.$"):
        AllOf([])
    with pytest.raises(ConfigurationError, match=r"^AnyOf needs at least one condition\.$"):
        AnyOf([])
    with pytest.raises(ConfigurationError, match=r"^ContextIn needs a list of values, not the text 'text'\.$"):
        ContextIn("k", "text")


def test_round_robin_goes_round_and_begins_with_the_first() -> None:
    def following(last: str) -> str | None:
        return RoundRobinTarget().resolve(WorkflowState(("a", "b", "c"), last_speaker_id=last), SILENT).next_speaker

    assert [following(name) for name in "abc"] == ["b", "c", "a"]
    assert following("somebody else") == "a"
    assert RoundRobinTarget().resolve(WorkflowState(("a", "b")), Envelope("a")).next_speaker == "b"
    assert RoundRobinTarget().resolve(WorkflowState(), SILENT) == TransitionDecision(None, "no_participants")


def test_the_other_targets() -> None:
    assert AgentTarget("b").resolve(STATE, ROUND) == TransitionDecision("b")
    assert StayTarget().resolve(STATE, Envelope("b")) == TransitionDecision("a")
    assert StayTarget().resolve(WorkflowState(("a", "b")), Envelope("b")) == TransitionDecision("b")
    assert RevertToInitiatorTarget().resolve(STATE, ROUND) == TransitionDecision("c")
    assert TerminateTarget().resolve(STATE, ROUND) == TransitionDecision(None, "after_work")
    assert TerminateTarget("enough").resolve(STATE, ROUND) == TransitionDecision(None, "enough")


def test_names_are_ag2s_and_unique() -> None:
    assert {cls.name for cls in TARGETS} == {"agent", "round_robin", "stay", "revert_to_initiator", "terminate"}
    names = [cls.name for cls in CONDITIONS]
    assert {"always", "from_speaker", "tool_called", "context_equals"} <= set(names)
    assert len(names) == len(set(names)) == 9


def test_a_predicate_is_asked_of_the_facts_themselves() -> None:
    assert Predicate(lambda agent: agent == 7).holds(7)
    assert Predicate(lambda agent: []).holds(7) is False
