"""Sessions as data: random graphs and rounds, and what our fold makes of them, in the form `ag2_driver` answers in."""

import json
from typing import Any

from hypothesis import strategies as st

from tenex.core.errors import ConfigurationError
from tenex.core.workflow.rounds import Called, Envelope, Finish, Handoff, Refused
from tenex.core.workflow.speakers import Folded, change_context, fold, may_speak
from tenex.workflows.speakers import (
    AgentTarget,
    Always,
    ContextEquals,
    FromSpeaker,
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

Case = dict[str, Any]

NAMES = ("ann", "bob", "cem", "dor")
STRANGER = "ghost"
TOOLS = ("look", "route", "done")
KEYS = ("k", "m")
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 2.5, "", "x", [1], {"n": None})

values = st.sampled_from(VALUES)
tools = st.sampled_from(TOOLS)


def speakers() -> st.SearchStrategy[str]:
    """Names of participants; now and then of someone who takes no part."""
    return st.sampled_from((*NAMES, *NAMES, STRANGER))


def conditions() -> st.SearchStrategy[TransitionCondition]:
    """Any condition that AG2 has, too."""
    return st.one_of(
        st.builds(FromSpeaker, speakers()),
        st.builds(ToolCalled, tools),
        st.builds(ContextEquals, st.sampled_from(KEYS), values),
        st.just(Always()),
    )


def targets() -> st.SearchStrategy[TransitionTarget]:
    return st.one_of(
        st.builds(AgentTarget, speakers()),
        st.just(RoundRobinTarget()),
        st.just(StayTarget()),
        st.just(RevertToInitiatorTarget()),
        st.builds(TerminateTarget, st.sampled_from(("", "enough"))),
    )


def graphs() -> st.SearchStrategy[TransitionGraph]:
    return st.builds(
        TransitionGraph,
        st.sampled_from(NAMES),
        st.lists(st.builds(Transition, conditions(), targets(), st.integers(-2, 2)), max_size=6),
        targets(),
        st.none() | st.integers(1, 3),
    )


def calls() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda tool, handoff, finish: {"tool": tool, "handoff": handoff, "finish": finish},
        tools,
        st.none() | st.none() | st.builds(lambda name: {"target": name, "reason": "because"}, speakers()),
        st.none()
        | st.none()
        | st.none()
        | st.builds(lambda r: {"summary": "s", "reason": r}, st.sampled_from(("", "ok"))),
    )


def changes() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda by, set_, delete: {"by": by, "set": set_, "delete": delete},
        speakers(),
        st.dictionaries(st.sampled_from(KEYS), values, max_size=2),
        st.lists(st.sampled_from(KEYS), max_size=2),
    )


def rounds() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda speaker, plain, made, changed, text: {
            "speaker": speaker,
            "plain": plain and not made,
            "calls": made,
            "changes": changed,
            "text": text,
        },
        st.sampled_from((None,) * 9 + (*NAMES, STRANGER)),
        st.booleans(),
        st.lists(calls(), max_size=3),
        st.lists(changes(), max_size=2),
        st.sampled_from(("hello",) * 7 + ("",)),
    )


_GRAPHS = graphs()
_CONTEXT = st.dictionaries(st.sampled_from(KEYS), values, max_size=2)
_PLAYED = st.lists(rounds(), min_size=1, max_size=8)


@st.composite
def sessions(draw: st.DrawFn) -> Case:
    """A graph, who takes part, and what they do; the one who is named takes part, but for the stranger."""
    participants = draw(st.permutations(NAMES))[: draw(st.integers(2, 4))]
    made = case(draw(_GRAPHS), participants, draw(_PLAYED), draw(st.sampled_from(participants)), draw(_CONTEXT))
    text = json.dumps(made)
    for number, name in enumerate(sorted(set(NAMES) - set(participants))):
        text = text.replace(f'"{name}"', f'"{participants[number]}"')
    renamed: Case = json.loads(text)
    return renamed


def case(
    graph: TransitionGraph,
    participants: list[str],
    played: list[dict[str, Any]],
    creator: str = "",
    context: dict[str, Any] | None = None,
) -> Case:
    return {
        "graph": graph.to_dict(),
        "participants": participants,
        "creator": creator or participants[0],
        "context": context or {},
        "rounds": played,
    }


def round_of(
    *called: str | Called,
    speaker: str | None = None,
    text: str = "hello",
    set_: dict[str, Any] | None = None,
    delete: tuple[str, ...] = (),
    by: str = NAMES[0],
) -> dict[str, Any]:
    """A round for `case`, by hand."""
    made = [Called(call) if isinstance(call, str) else call for call in called]
    return {
        "speaker": speaker,
        "text": text,
        "changes": [{"by": by, "set": set_ or {}, "delete": list(delete)}] if set_ or delete else [],
        "calls": [
            {
                "tool": call.tool,
                "handoff": {"target": call.result.target, "reason": ""} if isinstance(call.result, Handoff) else None,
                "finish": {"summary": "", "reason": call.result.reason} if isinstance(call.result, Finish) else None,
            }
            for call in made
        ],
    }


def envelope_of(given: dict[str, Any], speaker: str, name: str) -> Envelope:
    made = []
    for call in given["calls"]:
        result: Handoff | Finish | None = Handoff(**call["handoff"]) if call["handoff"] else None
        made.append(Called(call["tool"], Finish(**call["finish"]) if call["finish"] else result))
    return Envelope(speaker, given["text"], tuple(made), name)


def play(case: Case) -> dict[str, Any]:
    """What our fold makes of a session, in the form of `ag2_driver`."""
    written = TransitionGraph.loads(case["graph"])
    try:
        graph, state = written.begin(case["participants"], case["creator"], case["context"])
    except ConfigurationError as fault:
        return {"error": str(fault)}
    steps = []
    for number, given in enumerate(case["rounds"]):
        for change in given["changes"]:
            changed = change_context(state, change["by"], change["set"], change["delete"])
            state = state if isinstance(changed, Refused) else changed
        speaker = given["speaker"] or state.expected_next_speaker or ""
        folded = fold(graph, state, envelope_of(given, speaker, f"e{number}"))
        step: dict[str, Any] = {"refused": isinstance(folded, Refused), "silent": False, "closed": None}
        if isinstance(folded, Folded):
            state = folded.state
            if folded.decision.next_speaker is None:
                step["closed"] = folded.decision.close_reason
        steps.append(
            {
                **step,
                "next": state.expected_next_speaker,
                "turns": state.turn_count,
                "context": dict(state.context_vars),
                "may": [name for name in case["participants"] if may_speak(state, name) is None],
            }
        )
        if step["closed"] is not None:
            break
    return {"written": written.to_dict(), "steps": steps}


def talk(
    graph: TransitionGraph,
    *rounds: tuple[str | Called, ...],
    creator: str = "",
    context: dict[str, object] | None = None,
) -> tuple[list[str], str]:
    """Let agents speak, each round calling these tools; returns who spoke, and the reason of the end or ""."""
    named = dict.fromkeys([*graph.compile().nodes, "alice", "bob", "carol"])
    compiled, state = graph.begin([*named], creator, context)
    spoken = []
    for calls in [*rounds, *[()] * 30][:30]:
        if state.expected_next_speaker is None:
            break
        spoken.append(state.expected_next_speaker)
        made = tuple(Called(call) if isinstance(call, str) else call for call in calls)
        done = fold(compiled, state, Envelope(spoken[-1], "text", made))
        assert isinstance(done, Folded), done
        state = done.state
    return spoken, state.pending_close_reason
