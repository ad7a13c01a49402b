"""What was measured wrong with AG2's network, by the letters of the list; each passes here.

b, d and h are about what these pure functions decide; the others are about a daemon, and tested where it is.
"""

from tenex.core.workflow.rounds import Called, Envelope, Handoff, Refused, WorkflowState
from tenex.core.workflow.speakers import Folded, fold, may_speak
from tenex.workflows.speakers import (
    AgentTarget,
    Always,
    FromSpeaker,
    RoundRobinTarget,
    TerminateTarget,
    Transition,
    TransitionGraph,
)

from .sessions import STRANGER

PAIR = ["ann", "bob"]


def spoken(graph: TransitionGraph, *envelopes: Envelope) -> WorkflowState:
    compiled, state = graph.begin(PAIR)
    for envelope in envelopes:
        done = fold(compiled, state, envelope)
        assert isinstance(done, Folded)
        state = done.state
    return state


def test_1_3_b_after_the_end_no_one_may_speak_and_the_end_is_in_the_state_itself() -> None:
    """The end is no second write that a crash can lose: it is in the state that the last round folds to."""
    graph = TransitionGraph.sequence(PAIR)
    state = spoken(graph, Envelope("ann"), Envelope("bob"))
    assert (state.expected_next_speaker, state.pending_close_reason) == (None, "sequence_complete")
    for name in PAIR:
        assert may_speak(state, name) is not None
        assert isinstance(fold(graph.compile(PAIR), state, Envelope(name, "zombie")), Refused)
    bounded = TransitionGraph.round_robin(PAIR, max_turns=1)
    assert all(may_speak(spoken(bounded, Envelope("ann")), name) for name in PAIR)


def test_1_3_d_a_rule_that_names_a_stranger_is_a_warning_before_and_an_end_while_running() -> None:
    graph = TransitionGraph("ann", [Transition(Always(), AgentTarget(STRANGER))])
    found = graph.validate(PAIR)
    assert found.ok
    assert found.warnings[0].startswith(
        "transitions[0].then names 'ghost', who does not take part: there it ends with unknown_speaker."
    )
    state = spoken(graph, Envelope("ann"))
    assert (state.expected_next_speaker, state.pending_close_reason) == (None, "unknown_speaker")


def test_1_3_d_a_handoff_to_a_stranger_is_refused_with_a_sentence_and_the_workflow_goes_on() -> None:
    graph = TransitionGraph("ann", [Transition(FromSpeaker("ann"), AgentTarget("bob"))], TerminateTarget("over"))
    compiled, state = graph.begin(PAIR)
    done = fold(compiled, state, Envelope("ann", calls=(Called("pass_on", Handoff(STRANGER)),)))
    assert isinstance(done, Folded)
    assert done.decision.next_speaker == "bob"
    assert done.sentences == ("The handoff to 'ghost' is refused: those who take part are ann, bob.",)


def test_1_3_h_what_a_round_is_folded_into_does_not_grow_with_the_rounds_before() -> None:
    graph, state = TransitionGraph("ann", [Transition(Always(), RoundRobinTarget())]).begin(PAIR)
    sizes = set()
    for number in range(2_000):
        done = fold(graph, state, Envelope(PAIR[number % 2], "text" * 100, (Called("look"),), f"{number:08}"))
        assert isinstance(done, Folded)
        state = done.state
        sizes.add(len(repr(state)) - len(str(state.turn_count)))
    assert len(sizes) == 1
