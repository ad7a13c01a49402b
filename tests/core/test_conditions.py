"""Conditions see the state and the round, nothing else; a missing variable fires nothing, and never raises."""

import json
import math
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.errors import ConfigurationError
from tenex.core.workflow.conditions import (
    AgentTarget,
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    FromSpeaker,
    Not,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    TransitionCondition,
)
from tenex.core.workflow.rounds import (
    Called,
    Envelope,
    Finish,
    Handoff,
    TransitionDecision,
    WorkflowState,
    faults_of_value,
    plain,
)
from tenex.core.workflow.transitions import Transition, compiled, named_agents, named_tools, speaker_of

STATE = WorkflowState(
    ("a", "b", "c"), "b", last_speaker_id="a", creator_id="c", context_vars={"one": 1, "text": "x", "yes": True}
)
ROUND = Envelope("a", "hello", (Called("look"), Called("route")))
SILENT = Envelope("a")


FIRES: list[TransitionCondition] = [
    Always(),
    FromSpeaker("a"),
    ContextEquals("one", 1),
    ContextEquals("one", value=True),
    ContextEquals("none"),
    ContextIn("text", ["y", "x"]),
    ContextIn("none", ["y", None]),
    ContextThreshold("one", 1),
    ContextThreshold("none", 0),
    AllOf([FromSpeaker("a"), ContextEquals("one", 1)]),
    AnyOf([FromSpeaker("b"), ContextEquals("one", 1)]),
]


SILENT_RULES: list[TransitionCondition] = [
    FromSpeaker("b"),
    ContextEquals("one", 2),
    ContextEquals("none", 1),
    ContextIn("text", ["y"]),
    ContextIn("none", ["y"]),
    ContextThreshold("one", 1.5),
    ContextThreshold("text", 0),
    AllOf([FromSpeaker("a"), ContextEquals("one", 2)]),
    AnyOf([FromSpeaker("b"), ContextEquals("one", 2)]),
]


def test_conditions() -> None:
    for fires, conditions in ((True, FIRES), (False, SILENT_RULES)):
        for condition in conditions:
            assert condition.evaluate(STATE, ROUND) is fires, condition
            assert Not(condition).evaluate(STATE, ROUND) is not fires


def test_a_tool_counts_if_it_routes_or_while_that_is_open_if_it_is_the_first() -> None:
    first = Envelope("a", calls=(Called("route"),))
    routes = Envelope("a", calls=ROUND.calls, routing_tool="route")
    other = Envelope("a", calls=ROUND.calls, routing_tool="")
    assert [ToolCalled("route").evaluate(STATE, one) for one in (first, routes)] == [True, True]
    assert [ToolCalled("route").evaluate(STATE, one) for one in (ROUND, other, SILENT)] == [False] * 3


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


OVER = TerminateTarget("over")


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


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_what_json_holds_has_no_faults_and_comes_back(value: Any) -> None:
    assert list(faults_of_value(value, "v")) == []
    assert json.loads(json.dumps(plain(value), ensure_ascii=False).encode()) == value


class Colour(StrEnum):
    RED = "red"


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": {1, 2}}, "v.a is a set; only values that JSON can hold are allowed."),
        ([0, object()], "v[1] is a object; only values that JSON can hold are allowed."),
        ({"a": b"x"}, "v.a is a bytes; only values that JSON can hold are allowed."),
        (math.nan, "v is nan, which JSON has no word for."),
        (-math.inf, "v is -inf, which JSON has no word for."),
        ({1: 2}, "v has a key that is no string but int."),
        ("\ud800", "v holds half of a surrogate pair, which is no text."),
        ({"\udfff": 1}, "a key of v holds half of a surrogate pair, which is no text."),
        (1 << 5000, "v is a number of more than 4096 bits, which other programs cannot read."),
        (endless(), "is nested more than 32 levels deep."),
    ],
)
def test_what_json_cannot_hold_is_named(value: Any, sentence: str) -> None:
    found = list(faults_of_value(value, "v"))
    assert len(found) == 1
    assert found[0].endswith(sentence)


def test_a_plain_value_shares_nothing_with_the_one_it_was_made_of() -> None:
    value = {"list": [1, {"deep": (2, 3)}]}
    copied = plain(value)
    assert copied == {"list": [1, {"deep": [2, 3]}]}
    value["list"].append(4)
    assert copied == {"list": [1, {"deep": [2, 3]}]}
    assert list(faults_of_value(Colour.RED, "v")) == []


def test_a_round_shows_what_it_called_and_asked_for() -> None:
    handoff, finish = Handoff("b"), Finish("all done")
    calls = (Called("look"), Called("pass_on", handoff), Called("end", finish), Called("again", Handoff("c")))
    made = Envelope("a", "hello", calls)
    assert made.tools == ("look", "pass_on", "end", "again")
    assert (made.handoff, made.finish, made.tool) == (handoff, finish, "look")
    assert (Envelope("a").handoff, Envelope("a").finish, Envelope("a").tool) == (None, None, None)
