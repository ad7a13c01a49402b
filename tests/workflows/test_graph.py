"""`TransitionGraph`: written down and read again it is the same; the usual shapes go as they are meant to."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.errors import ConfigurationError
from tenex.core.work.routes import Handoff
from tenex.workflows.speakers import (
    AgentTarget,
    Always,
    ContextEquals,
    TerminateTarget,
    Transition,
    TransitionGraph,
)
from tenex.workflows.speakers.checks import Findings
from tenex.workflows.speakers.rounds import Called

from .sessions import graphs, talk

TEXT = st.text(min_size=1)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WILD = st.builds(
    TransitionGraph,
    TEXT,
    st.lists(
        st.builds(Transition, st.builds(ContextEquals, st.text(), PLAIN), st.builds(AgentTarget, TEXT), st.integers()),
        max_size=3,
    ),
    st.builds(TerminateTarget, st.text()),
    st.none() | st.integers(1, 2**40),
)


@settings(max_examples=150)
@given(st.one_of(graphs, WILD))
def test_a_graph_written_down_and_read_again_is_the_same(graph: TransitionGraph) -> None:
    data = graph.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert TransitionGraph.from_dict(data) == graph
    again = TransitionGraph.loads(graph.dumps())
    assert again == graph
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(data, sort_keys=True), (
        "no 1 becomes a 1.0 or a True"
    )


def test_what_is_left_out_has_ag2s_defaults() -> None:
    assert TransitionGraph.loads('{"initial_speaker": "a"}') == TransitionGraph("a", [], TerminateTarget("after_work"))
    rule = {"when": {"name": "always"}, "then": {"name": "stay", "args": None}}
    read = TransitionGraph.from_dict({"initial_speaker": "a", "transitions": [rule], "default_target": None})
    assert read.transitions[0].priority == 0


def test_a_graph_does_not_change() -> None:
    rules = [Transition(Always(), TerminateTarget())]
    graph = TransitionGraph("a", rules)
    rules.clear()
    assert len(graph.transitions) == 1


def faults(data: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as refused:
        TransitionGraph.loads(data)
    return refused.value.faults


def test_reading_names_every_fault_and_its_place() -> None:
    data = {
        "initial_speaker": "",
        "transitions": [
            {"when": {"name": "from_speakr", "args": {"agent_id": "a"}}, "then": {"name": "agent", "args": {}}},
            {"when": {"name": "all_of", "args": {"conditions": [{"name": "always"}, {"nme": 1}]}}, "then": None},
            {"when": {"name": "from_speaker", "args": {"agent_id": 5}}, "then": {"name": "stay"}, "priority": "1"},
            {"when": {"name": "always", "agent_id": "a"}, "then": {"name": "stay", "args": []}, "if": 1},
            "rule",
        ],
        "default_target": {"name": "all_of"},
        "max_turns": True,
        "max_turn": 5,
    }
    expected = [
        "initial_speaker must be the name of who speaks first.",
        "max_turns is True; it must be a whole number",
        "transitions[0].when: there is no condition 'from_speakr'; known are all_of, always,",
        "transitions[0].then: agent cannot be made of these args: it takes agent_id, and has ",
        "transitions[1].when.args.conditions[1] must be a condition",
        "transitions[1].then must be a target",
        "transitions[2].priority is '1'",
        "transitions[2].when.agent_id is 5; it must be str.",
        "transitions[3].then.args must be an object.",
        "transitions[4] must be an object with the keys when, then, priority.",
        "default_target: there is no target 'all_of'",
    ]
    for sentence, beginning in zip(faults(data), expected, strict=True):
        assert sentence.startswith(beginning)


def nested(depth: int) -> dict[str, Any]:
    part: dict[str, Any] = {"name": "always"}
    for _ in range(depth):
        part = {"name": "not", "args": {"condition": part}}
    return {"initial_speaker": "a", "transitions": [{"when": part, "then": {"name": "stay"}}]}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("[1", "This is no JSON: Expecting ',' delimiter (line 1, column 3)."),
        ("[" * 100_000, "This JSON is nested too deeply"),
        ("1" * 5_000, "This JSON is nested too deeply or holds too long a number."),
        ("[]", "A graph must be an object with the keys initial_speaker,"),
        ('{"initial_speaker": "a", "transitions": {}}', "transitions must be a list of rules."),
        ('{"initial_speaker": "a", "default_target": 5}', "default_target must be a target"),
        (nested(500), "nested more than 32 levels deep"),
    ],
)
def test_what_is_no_graph_is_refused(data: Any, expected: str) -> None:
    assert expected in faults(data)[0]


# ---- usual shapes ---------------------------------------------------------------------------------------------------


def test_a_star_asks_one_at_a_time_and_ends_when_it_asks_no_one() -> None:
    star = TransitionGraph.star("boss", ["code-reader", "tester"])
    assert star.validate(["boss", "code-reader", "tester"]).faults == ()
    spoken, reason = talk(star, ("ask_code_reader",), ("ask_tester",), ("ask_tester",), ())
    assert (spoken, reason) == (["boss", "code-reader", "boss", "tester", "boss"], "star_complete")
    named = TransitionGraph.star("boss", {"consult": "tester"}, max_turns=2)
    assert talk(named, ("consult",)) == (["boss", "tester"], "max_turns")


def test_a_feedback_loop_goes_round_until_it_is_approved() -> None:
    loop = TransitionGraph.feedback_loop("writer", "critic")
    assert loop.validate(["writer", "critic"]) == Findings()
    assert talk(loop) == (["writer", "critic"] * 5, "max_turns")
    assert talk(loop, changes={3: {"approved": True}}) == (["writer", "critic"] * 2, "approved")


def test_a_triage_routes_to_one_specialist_and_ends() -> None:
    triage = TransitionGraph.triage("office", {"law": "lawyer", "money": "banker"}, otherwise="clerk")
    assert triage.validate(["office", "lawyer", "banker", "clerk"]) == Findings()
    assert talk(triage, context={"route": "money"}) == (["office", "banker"], "triage_complete")
    assert talk(triage) == (["office", "clerk"], "triage_complete")
    bare = TransitionGraph.triage("office", {"law": "lawyer"}, key="domain")
    assert talk(bare, context={"domain": "law"}) == (["office", "lawyer"], "triage_complete")
    assert talk(bare) == (["office"], "no_route")
    assert talk(bare, (Called("pass_on", Handoff("carol")),)) == (["office", "carol"], "triage_complete")


@pytest.mark.parametrize(
    "data", [{"sequence": []}, {"sequence": "abc"}, {"round_robin": []}, {"star": {"center": "a", "spokes": []}}]
)
def test_a_shape_without_anybody_is_refused(data: dict[str, Any]) -> None:
    assert "needs " in faults(data)[0]
    assert " as a list" in faults(data)[0]
