"""Random graphs of speakers, and agents that speak along one."""

from hypothesis import strategies as st

from tenex.workflows.speakers import (
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
    Transition,
    TransitionCondition,
    TransitionGraph,
    TransitionTarget,
)
from tenex.workflows.speakers.fold import Folded, change_context, fold
from tenex.workflows.speakers.rounds import Called, Envelope, WorkflowState

NAMES = ("ann", "bob", "cem", "dor")
STRANGER = "ghost"

values = st.sampled_from((None, True, False, 0, 1, 2.5, "", "x", [1], {"n": None}))
keys = st.sampled_from(("k", "m"))
speakers = st.sampled_from((*NAMES, *NAMES, STRANGER))
conditions: st.SearchStrategy[TransitionCondition] = st.recursive(
    st.one_of(
        st.builds(FromSpeaker, speakers),
        st.builds(ToolCalled, st.sampled_from(("look", "route", "done"))),
        st.builds(ContextEquals, keys, values),
        st.builds(ContextIn, keys, st.lists(values, max_size=3)),
        st.builds(ContextThreshold, keys, st.sampled_from((-1, 0, 1, 2.5, 3))),
        st.just(Always()),
    ),
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3)),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)
targets: st.SearchStrategy[TransitionTarget] = st.one_of(
    st.builds(AgentTarget, speakers),
    st.sampled_from((RoundRobinTarget(), StayTarget(), RevertToInitiatorTarget())),
    st.builds(TerminateTarget, st.sampled_from(("", "enough"))),
)
graphs = st.builds(
    TransitionGraph,
    st.sampled_from(NAMES),
    st.lists(st.builds(Transition, conditions, targets, st.integers(-2, 2)), max_size=6),
    targets,
    st.none() | st.integers(1, 3),
)


def talk(
    graph: TransitionGraph,
    *rounds: tuple[str | Called, ...],
    creator: str = "",
    context: dict[str, object] | None = None,
    changes: dict[int, dict[str, object]] | None = None,
) -> tuple[list[str], str]:
    """Let agents speak, each round calling these tools; returns who spoke, and the reason of the end or "".

    In a round of `changes`, counted from 0, its speaker sets these variables, and deletes those that are None.
    """
    named = dict.fromkeys([*graph.compile().nodes, "alice", "bob", "carol"])
    compiled, state = graph.begin([*named], creator, context)
    spoken: list[str] = []
    for number, calls in enumerate([*rounds, *[()] * 30][:30]):
        if state.expected_next_speaker is None:
            break
        spoken.append(state.expected_next_speaker)
        given = (changes or {}).get(number, {})
        set_ = {name: value for name, value in given.items() if value is not None}
        changed = change_context(state, spoken[-1], set_, given.keys() - set_.keys())
        made = tuple(Called(call) if isinstance(call, str) else call for call in calls)
        assert isinstance(changed, WorkflowState)
        done = fold(compiled, changed, Envelope(spoken[-1], "text", made))
        assert isinstance(done, Folded), done
        state = done.state
    return spoken, state.pending_close_reason
