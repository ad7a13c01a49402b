"""The fold of rounds: who is next, why it ends, and that no one who takes no part is ever to speak."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.graph import TransitionGraph
from tenex.core.workflow.conditions import (
    AgentTarget,
    Always,
    ContextEquals,
    FromSpeaker,
    RevertToInitiatorTarget,
    RoundRobinTarget,
    TerminateTarget,
    ToolCalled,
    TransitionTarget,
)
from tenex.core.workflow.rounds import Called, Envelope, Finish, Handoff, Refused, TransitionDecision, WorkflowState
from tenex.core.workflow.speakers import Folded, begin, change_context, fold, may_speak
from tenex.core.workflow.transitions import Transition, compiled

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


# ---- who may speak --------------------------------------------------------------------------------------------------


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
        raise KeyError("secret")

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        return self.result  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("rule", "reason", "sentence"),
    [
        (Transition(Broken(), OVER), "rule_failed", "The condition Broken failed with KeyError; fix its code."),
        (Transition(Always(), Broken()), "rule_failed", "The target Broken failed with AttributeError; fix its code."),
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


# ---- context --------------------------------------------------------------------------------------------------------


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


# ---- the beginning --------------------------------------------------------------------------------------------------


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
