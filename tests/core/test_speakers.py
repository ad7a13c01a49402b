"""Rules of speakers: conditions and targets, and the fold of rounds, in which no one who takes no part ever speaks."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.errors import ConfigurationError
from tenex.core.graph import TransitionGraph
from tenex.core.text.json_values import faults_of_value, plain
from tenex.core.work.routes import Finish, Handoff
from tenex.workflows.speakers.conditions import (
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
    TransitionTarget,
)
from tenex.workflows.speakers.fold import Folded, begin, change_context, fold, may_speak
from tenex.workflows.speakers.rounds import Called, Envelope, Refused, TransitionDecision, WorkflowState
from tenex.workflows.speakers.transitions import Transition, compiled, named_agents, named_tools, speaker_of

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
    ContextEquals("none", None),
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


def test_a_round_is_also_given_in_the_form_of_ag2() -> None:
    handed = Envelope("a", "to b", (Called("look"), Called("pass", Handoff("b", "load"))), routing_tool="pass")
    ended = Envelope("a", "bye", (Called("close", Finish("all", "solved")),))
    assert handed.event_data == {
        "text": "to b",
        "body": "to b",
        "routing": {"kind": "handoff", "tool": "pass", "target": "b", "reason": "load"},
    }
    assert ended.event_data["routing"] == {"kind": "finish", "tool": "close", "reason": "solved"}
    assert SILENT.event_data == {"text": "", "body": "", "routing": {"kind": "text"}}


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


WHO = ("writer", "critic", "editor")
OVER = TerminateTarget("over")


def opened(
    rules: Sequence[Transition], default: TransitionTarget = OVER, max_turns: int | None = None, **given: Any
) -> tuple[TransitionGraph, WorkflowState]:
    graph = compiled("writer", rules, default, max_turns, WHO)
    return graph, begin(graph, WHO, **given)


def folded(graph: TransitionGraph, state: WorkflowState, *calls: Called | str, text: str = "") -> Folded:
    made = tuple(Called(call) if isinstance(call, str) else call for call in calls)
    result = fold(graph, state, Envelope(state.expected_next_speaker or "", text, made))
    assert isinstance(result, Folded), result
    return result


def after(graph: TransitionGraph, state: WorkflowState, *calls: Called | str) -> str | None:
    """Who is next, or why it ends."""
    decision = folded(graph, state, *calls).decision
    return decision.next_speaker or decision.close_reason


WRITERS = (
    Transition(ContextEquals("approved", value=True), TerminateTarget("approved"), -1),
    Transition(ToolCalled("hand_to_editor"), AgentTarget("editor")),
    Transition(FromSpeaker("writer"), AgentTarget("critic")),
    Transition(FromSpeaker("critic"), AgentTarget("writer")),
    Transition(FromSpeaker("editor"), RevertToInitiatorTarget()),
)


def test_rules_lead_a_conversation_of_speakers_to_its_end() -> None:
    graph, state = opened(WRITERS)
    spoken = list[str]()
    while (speaker := state.expected_next_speaker) is not None:
        spoken.append(speaker)
        if speaker == "editor":
            changed = change_context(state, speaker, {"approved": spoken.count("editor") == 2})
            assert isinstance(changed, WorkflowState)
            state = changed
        hands_over = speaker == "critic" and spoken.count("critic") > 1
        state = folded(graph, state, *(["look", "hand_to_editor"] if hands_over else [])).state
    assert spoken == ["writer", "critic", "writer", "critic", "editor", "writer", "critic", "editor"]
    assert (state.pending_close_reason, state.turn_count) == ("approved", 8)


ROUTES = (Transition(ToolCalled("route"), AgentTarget("critic")), Transition(ToolCalled("edit"), AgentTarget("editor")))


@pytest.mark.parametrize(
    ("calls", "outcome"),
    [
        ([], "over"),
        (["look"], "over"),
        (["look", "edit", "route"], "editor"),
        (["route", "edit"], "critic"),
        ([Called("route", Handoff("editor"))], "editor"),
        ([Called("route", Finish())], "finished"),
        ([Called("look", Finish(reason="enough"))], "enough"),
        ([Called("look", Finish(reason=""))], "finished"),
        ([Called("a", Handoff("editor")), Called("b", Finish())], "editor"),
        ([Called("a", Finish()), Called("b", Handoff("editor"))], "finished"),
        (["route", Called("a", Finish())], "critic"),
    ],
)
def test_the_first_call_that_asks_for_something_counts(calls: list[Called | str], outcome: str) -> None:
    assert after(*opened(ROUTES), *calls) == outcome


def test_rules_are_in_the_order_of_priority_then_of_the_list() -> None:
    rules = [
        Transition(Always(), AgentTarget("editor"), 5),
        Transition(FromSpeaker("writer"), AgentTarget("critic")),
        Transition(Always(), AgentTarget("writer")),
    ]
    graph, state = opened(rules)
    assert after(graph, state) == "critic"
    assert after(graph, replace(state, expected_next_speaker="critic")) == "writer"


def test_the_bound_ends_what_would_go_on_and_leaves_other_ends_their_reason() -> None:
    graph, state = opened([Transition(FromSpeaker("writer"), AgentTarget("critic"))], max_turns=1)
    assert after(graph, state) == "max_turns"
    assert after(graph, state, Called("pass_on", Handoff("editor"))) == "max_turns"
    assert after(graph, state, Called("end", Finish(reason="enough"))) == "enough"
    assert after(*opened([], max_turns=1)) == "over", "the default is asked first"
    assert after(*opened([], RoundRobinTarget(), 1)) == "max_turns"
    assert after(*opened([], RoundRobinTarget(), 2)) == "critic"


def test_1_3_h_the_state_does_not_grow_with_the_rounds_before() -> None:
    graph, state = opened([Transition(Always(), RoundRobinTarget())])
    sizes = set()
    for number in range(300):
        state = folded(graph, state, "look", text="text" * 100).state
        if state.expected_next_speaker == "writer" and number > 100:
            sizes.add(len(repr(state)))
    assert len(sizes) == 1


def test_only_the_expected_one_may_speak() -> None:
    graph, state = opened(WRITERS)
    assert may_speak(state, "writer") is None
    for other in ("critic", "ghost", ""):
        refused = fold(graph, state, Envelope(other, "me!"))
        assert refused == Refused(f"It is writer who is to speak now, not {other}.")


def test_1_3_b_after_the_end_no_one_may_speak_and_nothing_changes() -> None:
    graph, state = opened([])
    state = folded(graph, state).state
    for name in (*WHO, "ghost", ""):
        assert isinstance(fold(graph, state, Envelope(name)), Refused)
        assert may_speak(state, name) == "The workflow has ended (over); no one may speak in it any more."
        assert isinstance(change_context(state, name, {"k": 1}), Refused)


def test_1_3_d_a_handoff_to_a_stranger_is_refused_and_the_rules_decide() -> None:
    graph, state = opened([*ROUTES, Transition(FromSpeaker("writer"), AgentTarget("critic"))])
    done = folded(graph, state, Called("pass_on", Handoff("ghost")))
    assert done.decision == TransitionDecision("critic")
    assert done.sentences == ("The handoff to 'ghost' is refused: those who take part are writer, critic, editor.",)
    assert folded(graph, state, Called("edit", Handoff("ghost"))).decision.next_speaker == "editor"
    second = folded(graph, state, Called("a", Handoff("")), Called("b", Handoff("editor")))
    assert (second.decision.next_speaker, len(second.sentences)) == ("editor", 1)
    strange = Handoff(None)  # type: ignore[arg-type]
    assert folded(graph, state, Called("a", strange)).decision.next_speaker == "critic"


@dataclass(frozen=True)
class Broken:
    """A condition and a target whose author made a mistake."""

    result: Any = None
    name: ClassVar[str] = "broken"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        raise KeyError("route")

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        return self.result  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("rule", "reason", "sentence"),
    [
        (
            Transition(Broken(), OVER),
            "rule_failed",
            "The condition Broken failed with KeyError: 'route'; fix its code.",
        ),
        (
            Transition(Always(), Broken()),
            "rule_failed",
            (
                "The target Broken failed with AttributeError: 'NoneType' object has no attribute 'next_speaker'"
                "; fix its code."
            ),
        ),
        (
            Transition(Always(), Broken(TransitionDecision("ghost"))),
            "unknown_speaker",
            "A rule names ghost, who does not take part; fix the graph.",
        ),
        (
            Transition(Always(), AgentTarget("ghost")),
            "unknown_speaker",
            "A rule names ghost, who does not take part; fix the graph.",
        ),
    ],
)
def test_1_3_d_a_wrong_rule_ends_the_workflow_with_a_sentence(rule: Transition, reason: str, sentence: str) -> None:
    done = folded(*opened([rule]))
    assert done.decision == TransitionDecision(None, reason)
    assert done.state.expected_next_speaker is None
    assert done.sentences == (sentence,)


def test_changes_of_context_delete_first_and_count_in_the_round_that_makes_them() -> None:
    graph, state = opened(WRITERS, context_vars={"a": 1, "b": 2})
    changed = change_context(state, "editor", {"a": 3, "approved": True}, ["a", "b", "never"])
    assert isinstance(changed, WorkflowState)
    assert changed.context_vars == {"a": 3, "approved": True}
    assert state.context_vars == {"a": 1, "b": 2}
    assert after(graph, changed) == "approved"
    assert change_context(changed, "writer", delete="approved") == replace(changed, context_vars={"a": 3})


def test_only_participants_change_context_and_only_to_what_json_holds() -> None:
    _, state = opened(WRITERS)
    stranger = change_context(state, "ghost", {"k": 1})
    assert stranger == Refused("ghost does not take part and cannot change variables of this workflow.")
    refused = change_context(state, "writer", {"k": {1}, "m": float("nan")})
    assert isinstance(refused, Refused)
    assert "set.k is a set" in refused.sentence
    assert "set.m is nan" in refused.sentence


def test_the_creator_takes_part_as_the_first() -> None:
    graph = compiled("writer", WRITERS, OVER, None, ("boss", *WHO))
    state = begin(graph, WHO, "boss", {"k": (1, 2)}, {"initial_speaker": "writer"})
    assert state.participant_order == ("boss", *WHO)
    assert (state.creator_id, state.expected_next_speaker) == ("boss", "writer")
    assert state.context_vars == {"k": [1, 2]}
    assert state.graph_data == {"initial_speaker": "writer"}
    assert begin(graph, WHO).creator_id == "writer"


def test_what_cannot_begin_states_everything_at_once() -> None:
    graph = compiled("ghost", WRITERS, OVER, None)
    with pytest.raises(ConfigurationError) as refused:
        begin(graph, ["a", "a", "END"], context_vars={"k": object()})
    assert refused.value.faults == (
        "The participant a is listed twice.",
        "END and the empty name are reserved; no one who takes part can be called so.",
        "context_vars.k is a object; only values that JSON can hold are allowed.",
        "The initial speaker ghost does not take part; those who do: a, a, END.",
        "The graph was compiled without a, a, END; compile it for all who take part.",
    )
    with pytest.raises(ConfigurationError, match="needs two participants or more; there is a"):
        begin(compiled("a", [], OVER, None, ["a"]), ["a"])
