"""How a workflow conversation goes from round to round: opened, a round counted, the next speaker, the end.

The router of such a conversation is its rules (`speakers.fold`), so nothing here asks a model. Whatever counts a round
is in the append that holds the round's last words; if that ends the workflow, its end is in it too.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from tenex.core import records as r
from tenex.core.agent_phases import tools as agent_tools
from tenex.core.config import Agent, Policy, Role
from tenex.core.delivery.outgoing import notify
from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.functions.verdicts import answer
from tenex.core.graph import TransitionGraph
from tenex.core.ids import PublicKey, Slug
from tenex.core.inbox.decide import report_elsewhere
from tenex.core.inbox.message import Message
from tenex.core.kind import can_begin
from tenex.core.people import permissions
from tenex.core.people.permissions import Decision
from tenex.core.signals import MessageReceived
from tenex.core.text.amounts import count
from tenex.core.transaction import Transaction
from tenex.core.work.routes import Finish, Handoff
from tenex.core.work.turns import STOPPED, close_calls, finish_run
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers import variables
from tenex.workflows.speakers.conditions import ToolCalled, UnreadablePartError
from tenex.workflows.speakers.config import (
    ACKS_WITHIN,
    MAX_SILENCE,
    PERSON,
    REPLY_WITHIN,
    TTL,
    TURN_WITHIN,
    Workflow,
    rules_of,
)
from tenex.workflows.speakers.end_words import end_words
from tenex.workflows.speakers.fold import FINISHED, Folded, begin, fold
from tenex.workflows.speakers.rounds import FINISH, HANDOFF, OWN, Called, Envelope, Refused
from tenex.workflows.speakers.state import WorkflowSession, session_of
from tenex.workflows.speakers.transitions import When, named_tools, parts, speaker_of

from . import calls

CLOSED = "closed"
"""The reason where someone closes it by a command."""


def open_session(transaction: Transaction, workflow: Workflow, signal: MessageReceived) -> None:
    """Open a workflow in a conversation that has just begun: who is there has acknowledged in the same append."""
    try:
        fields = opening(transaction.policy, workflow, signal.message.author)
        if given := variables.lines_of(signal.message.text):
            graph = rules_of(transaction.policy).compile_graph(workflow.graph_data, workflow.participants)
            values = variables.read(given, variables.kinds_of(graph, workflow.context_vars))
            fields["context"] = {**fields["context"], **values}
    except UsageError as fault:
        notify(transaction, f"The workflow {workflow.slug} cannot begin: {fault} Write a new note.", error="workflow")
        return
    except ConfigurationError as fault:
        notify(
            transaction, f"The workflow {workflow.slug} cannot be opened: {' '.join(fault.faults)}", error="workflow"
        )
        return
    transaction.add(w.WorkflowOpened, **fields)
    acknowledge(transaction)


def opening(policy: Policy, workflow: Workflow, person: PublicKey) -> dict[str, Any]:
    """The fields of the record that opens a workflow.

    Raises:
        ConfigurationError: with every fault of it.
    """
    creator = PERSON if PERSON in workflow.participants else ""
    graph = rules_of(policy).compile_graph(workflow.graph_data, workflow.participants)
    state = begin(graph, workflow.participants, creator, workflow.context_vars, workflow.graph_data)
    return {
        "workflow": workflow.slug,
        "name": workflow.name,
        "pubkey": workflow.pubkey,
        "graph": state.graph_data,
        "participants": tuple(map(Slug, state.participant_order)),
        "creator": Slug(state.creator_id),
        "person": person if creator else PublicKey(""),
        "initial": Slug(str(state.expected_next_speaker)),
        "context": state.context_vars,
        "expectations": dict(workflow.expectations),
        "view": workflow.view,
        "routing_tools": _routing_tools(policy, graph, workflow),
    }


def _routing_tools(policy: Policy, graph: TransitionGraph, workflow: Workflow) -> dict[str, tuple[Slug, ...]]:
    """The tools that only a rule names, each with those after whom the rule can fire."""
    agents = tuple(slug for slug in workflow.participants if slug != PERSON)
    found: dict[str, tuple[Slug, ...]] = {}
    theirs = {name for slug in agents if slug in policy.roster for name in _own(policy.roster[slug])}
    for tool in sorted(named_tools(graph)):
        if tool in policy.tools or tool in theirs or tool in OWN:
            continue
        conditions = [edge.when.condition for edge in graph.edges if isinstance(edge.when, When)]
        after = [
            speaker_of(one)
            for one in conditions
            if any(isinstance(part, ToolCalled) and part.tool_name == tool for part in parts(one))
        ]
        found[tool] = agents if None in after else tuple(slug for slug in agents if slug in after)
    return found


def _own(agent: Agent) -> Iterator[str]:
    """What only that agent may call: its methods, its sub-agents, the calls about itself."""
    yield from agent.methods
    if agent.program is not None:
        yield from agent.program.links
        yield from agent_tools.every(agent.program)


def set_variables(transaction: Transaction, session: WorkflowSession, text: str) -> None:
    """Set variables from a user's `name=value`; without any, list them."""
    if session.is_closed:
        notify(transaction, over(session))
        return
    speakers = session.speakers
    workflow = rules_of(transaction.policy).workflows.get(session.slug)
    begins_with = workflow.context_vars if workflow is not None else {}
    try:
        graph = rules_of(transaction.policy).compile_graph(speakers.graph_data, speakers.participant_order)
        known = variables.kinds_of(graph, begins_with, speakers.context_vars)
        if not text:
            notify(transaction, variables.described(known, speakers.context_vars))
            return
        values = variables.read(text, known)
    except (ConfigurationError, UsageError) as fault:
        notify(transaction, str(fault))
        return
    if len(json.dumps({**speakers.context_vars, **values})) > calls.LARGEST:
        notify(transaction, f"All variables together may have {calls.LARGEST} characters as JSON.")
        return
    transaction.add(w.ContextSet, by=PERSON, set_=values)
    notify(transaction, variables.confirmation(values))


def acknowledge(transaction: Transaction) -> None:
    """Take note of those who are there: agents of the roster, and the user, who has written."""
    session = session_of(transaction.state)
    for slug in session.missing if session is not None else ():
        if slug == PERSON or slug in transaction.policy.roster:
            transaction.add(w.InviteAcknowledged, participant=slug)


def on_message(transaction: Transaction, wrote: r.MessageRecorded, role: Role) -> None:
    """Count a user's message as their round if it is theirs; else it is kept until the current round has closed."""
    session = session_of(transaction.state)
    if session is None:
        return
    if session.is_closed:
        notify(transaction, over(session))
        transaction.add(r.Ended, reason=end_words(session.close_reason))
        return
    for slug in wrote.addressed:
        if slug != session.slug and can_begin(transaction, slug):
            report_elsewhere(transaction, slug)
    if (
        transaction.state.work.turn is None
        and session.expected == PERSON
        and _is_theirs(transaction, session, wrote.author, role)
    ):
        count_round(transaction, _round_of_person(session, wrote))


def over(session: WorkflowSession) -> str:
    """The answer to a message after the end."""
    again = f"To run it again, mention @{session.slug} in a new thread."
    return f"The workflow {session.name} has ended: {end_words(session.close_reason)}. {again}"


def _is_theirs(transaction: Transaction, session: WorkflowSession, author: PublicKey, role: Role | None) -> bool:
    """Whether someone may take the user's part: it is asked of who opened the workflow."""
    return permissions.may_decide(
        Decision.ANSWER, transaction.state, transaction.policy.gates, author=author, role=role, asked=session.person
    )


def _round_of_person(session: WorkflowSession, wrote: r.MessageRecorded) -> Envelope:
    others = [slug for slug in wrote.addressed if slug in session.agents]
    named = (Called(HANDOFF, Handoff(others[0], f"named by {wrote.name}")),) if others else ()
    return Envelope(PERSON, wrote.text, named, wrote.event_id)


def count_round(transaction: Transaction, envelope: Envelope, outcome: r.Outcome = "finished") -> None:
    """Count a round that has closed, and end the workflow where that follows. One that was stopped does not count."""
    session = session_of(transaction.state)
    if session is None or session.is_closed or outcome == "stopped":
        return
    graph = _graph_of(transaction, session)
    if graph is None:
        return
    try:
        folded = fold(graph, session.speakers, envelope, partial(answer, transaction.state.work.verdicts))
    except UnreadablePartError as fault:
        _hold(transaction, f"The rules of {session.name} cannot be read any more: {' '.join(fault.faults)}")
        return
    if isinstance(folded, Refused):  # going back can leave a round to someone else's turn
        return
    _record(transaction, envelope, folded, outcome)
    for sentence in folded.sentences:
        notify(transaction, sentence)
    finish = folded.asked if isinstance(folded.asked, Finish) else None
    if outcome == "timed_out":
        minutes = session.expectations[TURN_WITHIN].close / 60_000 if TURN_WITHIN in session.expectations else 0
        close(transaction, TURN_WITHIN, f"{envelope.sender_id} gave no answer within {minutes:g} min.")
    elif folded.decision.next_speaker is None:
        close(transaction, folded.decision.close_reason or FINISHED, summary=finish.summary if finish else "")


def _graph_of(transaction: Transaction, session: WorkflowSession) -> TransitionGraph | None:
    """The rules of a workflow; None where they cannot be read, and then it is on record that this is waited for."""
    try:
        return rules_of(transaction.policy).compile_graph(
            session.speakers.graph_data, session.speakers.participant_order
        )
    except ConfigurationError as fault:
        _hold(transaction, f"The rules of {session.name} cannot be read any more: {' '.join(fault.faults)}")
        return None


def _record(transaction: Transaction, envelope: Envelope, folded: Folded, outcome: r.Outcome) -> None:
    asked = folded.asked
    own = HANDOFF if isinstance(asked, Handoff) else FINISH
    transaction.add(
        w.RoundClosed,
        speaker=Slug(envelope.sender_id),
        turn_count=folded.state.turn_count,
        next=Slug(folded.decision.next_speaker or ""),
        outcome=outcome,
        close_reason=folded.decision.close_reason,
        tool=asked if isinstance(asked, str) else own,
        handoff=asked.target if isinstance(asked, Handoff) else "",
        reason="" if isinstance(asked, str) else asked.reason,
        sentences=folded.sentences,
    )


def next_speaker(transaction: Transaction) -> Slug | None:
    """The agent whose round begins now; None where no one's does, and then it is on record what is waited for."""
    state = transaction.state
    session = session_of(transaction.state)
    if (
        session is None
        or session.is_closed
        or state.work.turn is not None
        or state.cycle.status in ("waiting", "ended")
    ):
        return None
    acknowledge(transaction)
    session = session_of(transaction.state) or session
    if session.missing:
        missing = ", ".join(session.missing)
        _hold(transaction, f"{missing} should take part and cannot be reached: no agent here has that name.")
        return None
    expected = session.expected
    if expected is None:  # someone went back to between the last round and the end
        close(transaction, session.speakers.pending_close_reason or FINISHED)
        return None
    if expected == PERSON:
        if unread := _unread(transaction):
            is_theirs = _is_theirs(transaction, session, unread[-1].author, unread[-1].role)
            turn = "It is your turn: write to go on." if is_theirs else "It is the turn of the user who started this."
            notify(transaction, f"{turn} What was written meanwhile is kept for the next speaker.")
        transaction.add(r.Waiting, reason="user")
        return None
    if expected not in transaction.policy.roster:
        _hold(transaction, f"{expected} is to speak, and is no agent here any more.")
        return None
    return expected if _graph_of(transaction, session) is not None else None  # else its round could not be counted


def _unread(transaction: Transaction) -> Sequence[Message]:
    """What users wrote since the last speaker began: in no round of theirs, and no one has been shown it."""
    session = session_of(transaction.state)
    if session is None or session.speakers.last_speaker_id in (None, PERSON):
        return ()
    return [message for message in transaction.state.unanswered if not message.is_settled]


def _hold(transaction: Transaction, sentence: str) -> None:
    notify(transaction, f"{sentence} Once that is fixed, `/continue` goes on; `/new` ends it.", error="workflow")
    transaction.add(r.Waiting, reason="fallback")


def close(transaction: Transaction, reason: str, why: str = "", *, by: str = "", summary: str = "") -> None:
    """End a workflow with its last message, which bears the reason; nothing may run any more."""
    session = session_of(transaction.state)
    if session is None or session.is_closed:
        return
    lines = [part for part in (summary, why, f"The workflow {session.name} has ended: {end_words(reason)}.") if part]
    if _unread(transaction) and not by:
        speaker = session.speakers.last_speaker_id
        lines.append(f"No one has read what was written since {speaker} began; write it again where it still matters.")
    notify(transaction, "\n".join(lines), tags=(("close-reason", reason),))
    transaction.add(w.WorkflowClosed, reason=reason, by=by, summary=summary)
    transaction.add(r.Ended, reason=end_words(reason))


def status_line(session: WorkflowSession) -> str:
    """Where a workflow is, in a line."""
    bound = session.speakers.graph_data.get("max_turns")
    of = f" of at most {bound}" if bound else ""
    if session.is_closed:
        rounds = count(session.speakers.turn_count, "round")
        return f"Workflow {session.name}: ended after {rounds}: {end_words(session.close_reason)}"
    return f"Workflow {session.name}: round {session.speakers.turn_count + 1}{of}, {session.expected}'s turn"


# ---- what has not come in time ---------------------------------------------------------------------------------------

_LATE: Final = {
    TURN_WITHIN: "{expected} has not answered within {minutes}.",
    REPLY_WITHIN: "A person's answer is awaited for {minutes}.",
    ACKS_WITHIN: "Not everybody was there within {minutes}.",
    MAX_SILENCE: "No one has written for {minutes}.",
    TTL: "The time of the workflow is up: {minutes}.",
}


def missed(transaction: Transaction, session: WorkflowSession, watch: str) -> None:
    """Tell users, or end the round and the workflow; `watch` is `<expectation>.<action>`, one the session has."""
    name, _, action = watch.partition(".")
    within = session.expectations[name]
    transaction.add(w.ExpectationMissed, expectation=name, action="warn" if action == "warn" else "close")
    minutes = (within.warn if action == "warn" else within.close) / 60_000
    late = _LATE[name].format(expected=session.expected, minutes=f"{minutes:g} min")
    if action == "warn":
        left = f" It ends in {(within.close - within.warn) / 60_000:g} min." if within.close > within.warn else ""
        notify(transaction, f"{late}{left}")
        return
    for run in transaction.state.work.own_runs:
        close_calls(transaction, run, STOPPED)
        outcome: r.Outcome = "timed_out" if name == TURN_WITHIN else "stopped"
        finish_run(transaction, transaction.state.work.runs[run.id], outcome, error=late, announce=name == TURN_WITHIN)
    close(transaction, name, late)  # where the round that was just closed has not
