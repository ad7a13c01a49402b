"""A workflow of speakers: how it begins, who may speak, and the fold of a closed round into its state.

What decides who speaks next, the strongest first:

1. Of the round's tool calls, in the order in which the model emitted them, the first that asks for something: a
   `Finish` ends the workflow, a `Handoff` names the next speaker, a tool that a rule names becomes the routing tool.
   Within one call, `Finish` and `Handoff` come before the name of the tool.
2. The rules: lower priority first, then in the order of the list; the first that fires.
3. The default target.

Where `max_turns` rounds are done, what would go on ends; an end of its own keeps its reason. Never is anyone to speak
who does not take part: a handoff to a stranger is refused and counts as no handoff; a rule that names one, or that
fails, ends the workflow.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.functions.verdicts import Ask, call_now
from tenex.core.graph import END, Choice, TransitionGraph
from tenex.core.text.json_values import faults_of_value, plain
from tenex.core.work.routes import Finish, Handoff
from tenex.workflows.speakers.conditions import UnreadablePartError
from tenex.workflows.speakers.rounds import (
    RULE_FAILED,
    UNKNOWN_SPEAKER,
    Envelope,
    Refused,
    TransitionDecision,
    WorkflowState,
)
from tenex.workflows.speakers.transitions import TERMINATED, RoundFacts, named_tools

FINISHED = "finished"
"""The reason of an end by a `Finish` that gives none."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a round; `sentences` list what it asked for in vain, or which rule is to be fixed."""

    state: WorkflowState
    decision: TransitionDecision
    sentences: tuple[str, ...] = ()
    asked: Finish | Handoff | str = ""
    """What the round's calls asked for: also the name of a tool that a rule looks for; "" for nothing."""


def begin(
    graph: TransitionGraph,
    participants: Sequence[str],
    creator_id: str = "",
    context_vars: Mapping[str, Any] | None = None,
    graph_data: Mapping[str, Any] | None = None,
) -> WorkflowState:
    """The state in which the initial speaker is to speak.

    The creator takes part, as the first where not listed; without one, the first participant is the creator. `graph`
    is compiled for these participants. Raises ConfigurationError with every fault.
    """
    order = tuple(participants) if not creator_id or creator_id in participants else (creator_id, *participants)
    context = {} if context_vars is None else context_vars
    faults = [*faults_of_participants(order), *faults_of_value(context, "context_vars")]
    if graph.initial not in order:
        faults.append(f"The initial speaker {graph.initial} does not take part; those who do: {', '.join(order)}.")
    strangers = [name for name in order if name not in graph.nodes]
    if strangers:
        faults.append(f"The graph was compiled without {', '.join(strangers)}; compile it for all who take part.")
    if faults:
        raise ConfigurationError(faults)
    return WorkflowState(
        participant_order=order,
        expected_next_speaker=graph.initial,
        creator_id=creator_id or order[0],
        graph_data=graph_data or {},
        context_vars=plain(context),
    )


def faults_of_participants(participants: Sequence[str]) -> Iterator[str]:
    """What is wrong with those who are to take part, each as a sentence."""
    if len(set(participants)) < 2:
        there = ", ".join(participants) or "none"
        yield f"A workflow needs two participants or more; there is {there}. List in `participants` whom no rule names."
    yield from (
        f"The participant {name} is listed twice."
        for name in dict.fromkeys(participants)
        if participants.count(name) > 1
    )
    if END in participants or "" in participants:
        yield f"{END} and the empty name are reserved; no one who takes part can be called so."


def may_speak(state: WorkflowState, sender_id: str) -> str | None:
    """None if the round is theirs, else a sentence on whose it is; after the end it is no one's."""
    if state.expected_next_speaker is None:
        return f"The workflow has ended ({state.pending_close_reason or TERMINATED}); no one may speak in it any more."
    if sender_id != state.expected_next_speaker:
        return f"It is {state.expected_next_speaker} who is to speak now, not {sender_id}."
    return None


def change_context(
    state: WorkflowState, sender_id: str, set_: Mapping[str, Any] | None = None, delete: Iterable[str] = ()
) -> WorkflowState | Refused:
    """The state with variables deleted, then set: at once, by any participant at any turn; not at the end."""
    if state.expected_next_speaker is None:
        return Refused(f"The workflow has ended ({state.pending_close_reason or TERMINATED}); nothing changes in it.")
    if sender_id not in state.participant_order:
        return Refused(f"{sender_id} does not take part and cannot change variables of this workflow.")
    given = {} if set_ is None else set_
    gone = {delete} if isinstance(delete, str) else set(delete)
    if faults := [*faults_of_value(given, "set")]:
        return Refused(" ".join(faults))
    kept = {key: value for key, value in state.context_vars.items() if key not in gone}
    return replace(state, context_vars={**kept, **plain(given)})


def fold(graph: TransitionGraph, state: WorkflowState, envelope: Envelope, ask: Ask = call_now) -> Folded | Refused:
    """The state after a closed round, and who speaks next or why it ends; the order is described at the top.

    Refuses a round that is not the sender's. `graph` is compiled for the participants of the state. `ask` gives the
    verdicts of conditions and targets that are not built in; by default it calls them.

    Raises:
        UnreadablePartError: the class of one of these does not take its arguments any more.
    """
    wrong = may_speak(state, envelope.sender_id)
    if wrong:
        return Refused(wrong)
    after = replace(
        state,
        last_speaker_id=envelope.sender_id,
        last_envelope_id=envelope.envelope_id or None,
        turn_count=state.turn_count + 1,
        pending_close_reason="",
    )
    asked, refused = asked_for(after, envelope, named_tools(graph))
    choice, faults = _chosen(graph, after, envelope, asked, ask)
    sentences = (*refused, *faults)
    if not choice.is_end and choice.node not in state.participant_order:
        sentences = (*sentences, f"A rule names {choice.node}, who does not take part; fix the graph.")
        choice = Choice(END, UNKNOWN_SPEAKER)
    reason = choice.reason or TERMINATED
    decision = TransitionDecision(None, reason) if choice.is_end else TransitionDecision(choice.node)
    after = replace(after, expected_next_speaker=decision.next_speaker, pending_close_reason=decision.close_reason)
    return Folded(after, decision, sentences, asked)


def _chosen(
    graph: TransitionGraph, after: WorkflowState, envelope: Envelope, asked: Finish | Handoff | str, ask: Ask
) -> tuple[Choice, tuple[str, ...]]:
    if isinstance(asked, Finish):
        return Choice(END, str(asked.reason or FINISHED)), ()
    try:
        if isinstance(asked, Handoff):
            choice = graph.bounded(Choice(asked.target), after.turn_count)
        else:
            round_ = RoundFacts(after, replace(envelope, routing_tool=asked), ask)
            choice = graph.first_match(envelope.sender_id, round_, after.turn_count)
    except UnreadablePartError:
        raise
    except ConfigurationError as fault:
        return Choice(END, RULE_FAILED), tuple(fault.faults)
    return choice or Choice(END, TERMINATED), ()


def asked_for(
    state: WorkflowState, envelope: Envelope, tools: frozenset[str]
) -> tuple[Finish | Handoff | str, tuple[str, ...]]:
    """The first thing the round's calls ask for, "" for nothing; and what was refused before it."""
    sentences: tuple[str, ...] = ()
    for call in envelope.calls:
        if isinstance(call.result, Finish):
            return call.result, sentences
        if isinstance(call.result, Handoff):
            wrong = refuses(state, call.result)
            if wrong is None:
                return call.result, sentences
            sentences = (*sentences, wrong)
        if call.tool in tools:
            return call.tool, sentences
    return "", sentences


def refuses(state: WorkflowState, handoff: Handoff) -> str | None:
    """Why a handoff is refused, as a sentence for the model that asked for it; None if its target takes part."""
    if handoff.target in state.participant_order:
        return None
    others = ", ".join(state.participant_order)
    return f"The handoff to {str(handoff.target)[:80]!r} is refused: those who take part are {others}."
