"""What a speaker of a workflow can ask for by calls: the tools, how a call is decided, and the round they make up.

    handoff, finish                    who speaks next, or that no one does; it counts when the round closes
    set_context, delete_context        variables, at once
    any tool a rule names              where there is no such tool otherwise: it does nothing but count for the rule

They are decided here and never carried out, so none of them can have an unknown outcome.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tenex.core.config import Policy
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.messages import CallRequest, CallResult, ModelStep, ToolSpec
from tenex.core.ports import ToolResult
from tenex.core.state import State
from tenex.core.text import names
from tenex.core.transaction import Transaction
from tenex.core.work.routes import Finish, Handoff
from tenex.core.work.run import Call, Run
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.config import rules_of
from tenex.workflows.speakers.fold import asked_for, change_context, refuses
from tenex.workflows.speakers.rounds import DELETE, FINISH, HANDOFF, OWN, SET, Called, Envelope, Refused
from tenex.workflows.speakers.state import WorkflowSession, session_of
from tenex.workflows.speakers.transitions import named_tools

LARGEST: Final = 64_000
"""Characters of all variables together, as JSON: they are in every prompt and every checkpoint."""
REASON: Final = 2_000
"""Characters of a reason: it is reported to users and to the next speaker."""


def has_calls(session: WorkflowSession, policy: Policy) -> bool:
    """Whether a workflow is one whose speakers may make calls about it."""
    workflow = rules_of(policy).workflows.get(session.slug)
    return workflow is None or workflow.has_calls


def specs(session: WorkflowSession | None, agent: Slug) -> tuple[ToolSpec, ...]:
    """The tools an agent is offered besides its own, in a stable order; none outside a workflow."""
    if session is None or agent not in session.speakers.participant_order:
        return ()
    others = [name for name in session.speakers.participant_order if name != agent]
    own = (
        _spec(
            HANDOFF,
            "Names who speaks after you, in place of the workflow's rules. It counts when your turn ends; "
            "then say what they need to know.",
            {"target": {"type": "string", "enum": others}, "reason": _text("Why, in a sentence.")},
            "target",
        ),
        _spec(
            FINISH,
            "Ends the workflow with your turn. Use it only when the whole is done, or cannot be done.",
            {"summary": _text("What came of it."), "reason": _text("Why it ends, in a word or a few.")},
            "summary",
        ),
        _spec(
            SET,
            "Sets a variable of the workflow, at once; its rules and everybody who takes part see it.",
            {"key": _text("Its name."), "value": {"description": "Any JSON value."}},
            "key",
            "value",
        ),
        _spec(DELETE, "Removes a variable of the workflow, at once.", {"key": _text("Its name.")}, "key"),
    )
    routing = (
        _spec(
            name,
            "Says where the workflow goes from here: one of its rules looks for this call. It does nothing else.",
            {"reason": _text("Why, in a sentence.")},
        )
        for name, speakers in sorted(session.routing_tools.items())
        if agent in speakers
    )
    return (*own, *routing)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _spec(name: str, description: str, properties: Mapping[str, Any], *required: str) -> ToolSpec:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return ToolSpec(name=name, description=description, parameters={**schema, "additionalProperties": False})


def decided(transaction: Transaction, run: Run, call: Call) -> bool:
    """Decide a call that is about the workflow, with its result; False for any other."""
    session = session_of(transaction.state)
    request = call.request
    if session is None or not has_calls(session, transaction.policy) or not _is_ours(session, run, request.tool):
        return False
    if session.is_closed:
        transaction.refuse(run, call, "The workflow has ended; nothing changes in it any more.")
        return True
    sentence = request.fault or _decide(transaction, session, run, call)
    if sentence:
        transaction.refuse(run, call, sentence)
    return True


def _is_ours(session: WorkflowSession, run: Run, tool: str) -> bool:
    return takes_part(session, run) and (tool in OWN or run.agent in session.routing_tools.get(tool, ()))


def takes_part(session: WorkflowSession, run: Run) -> bool:
    """Whether a run is a speaker's own, not a sub-agent's."""
    return run.parent is None and run.agent in session.speakers.participant_order


def _decide(transaction: Transaction, session: WorkflowSession, run: Run, call: Call) -> str | None:
    """Why the call is refused; None if it was carried out."""
    given = call.request.arguments
    if call.request.tool not in (SET, DELETE) and (first := _first(transaction, session, run)):
        return f"`{first}` was called first in this turn and decides what follows; this call changes nothing."
    match call.request.tool:
        case "handoff":
            handoff = _handoff(session, transaction.policy, given)
            if isinstance(handoff, str):
                return handoff
            transaction.add_result(
                run, call, ok=True, content=f"{handoff.target} speaks after you. End your turn with what they need."
            )
        case "finish":
            if not isinstance(given.get("summary", ""), str) or not isinstance(given.get("reason", ""), str):
                return "`summary` and `reason` of `finish` must be texts."
            transaction.add_result(
                run, call, ok=True, content="The workflow ends with your turn. Say what is left to say."
            )
        case "set_context" | "delete_context":
            return _change(transaction, session, run, call)
        case _:
            transaction.add_result(run, call, ok=True, content="It counts when your turn ends.")
    return None


def _first(transaction: Transaction, session: WorkflowSession, run: Run) -> str:
    """The call of this round that has decided already what follows; "" if none has."""
    speakers = session.speakers
    try:
        tools = named_tools(rules_of(transaction.policy).compile_graph(speakers.graph_data, speakers.participant_order))
    except ConfigurationError:  # reported when the round closes
        tools = frozenset(session.routing_tools)
    asked, _ = asked_for(speakers, round_of(transaction.state, transaction.policy, run, ""), tools)
    match asked:
        case Handoff():
            return HANDOFF
        case Finish():
            return FINISH
        case _:
            return asked


def _change(transaction: Transaction, session: WorkflowSession, run: Run, call: Call) -> str | None:
    key = call.request.arguments.get("key")
    if not isinstance(key, str) or not key.strip():
        return f"`key` of `{call.request.tool}` must be the name of a variable."
    if call.request.tool == SET and "value" not in call.request.arguments:
        return "`set_context` needs `value`, any JSON value; to remove a variable, call `delete_context`."
    set_ = {key: call.request.arguments["value"]} if call.request.tool == SET else {}
    if sentence := _set(transaction, session, run, set_, () if set_ else (key,)):
        return sentence
    transaction.add_result(run, call, ok=True, content=f"{key} is {'set' if set_ else 'gone'}.")
    return None


def _set(
    transaction: Transaction, session: WorkflowSession, run: Run, set_: Mapping[str, Any], delete: tuple[str, ...]
) -> str:
    """Record a change of variables; why it cannot be, "" if it can."""
    if not set_ and not delete:
        return ""
    after = change_context(session.speakers, run.agent, set_, delete)
    if isinstance(after, Refused):
        return after.sentence
    if set_ and len(json.dumps(after.context_vars)) > LARGEST:
        most = f"all variables together may have {LARGEST} characters as JSON"
        return f"{', '.join(set_)} is not set: {most}. Keep long texts in files."
    transaction.add(w.ContextSet, by=run.agent, set_=set_, delete=delete)
    return ""


def checked_result(transaction: Transaction, session: WorkflowSession, run: Run, result: ToolResult) -> ToolResult:
    """The result of a speaker's call with what it may ask for; variables that it changes are recorded.

    What cannot be is dropped, and the model reads why.
    """
    faults: list[str] = []
    route = result.route
    if isinstance(route, Handoff):
        found = _handoff(session, transaction.policy, {"target": route.target, "reason": route.reason})
        route, sentence = (found, "") if isinstance(found, Handoff) else (None, found)
        faults += [sentence] if sentence else []
    if sentence := _set(transaction, session, run, result.context, result.removed):
        faults.append(sentence)
    content = "\n".join([result.content, *faults])
    return replace(result, content=content, route=route, context={}, removed=())


def _handoff(session: WorkflowSession, policy: Policy, given: Mapping[str, Any]) -> Handoff | str:
    """The handoff that is asked for, or why it is none; a name is read leniently (`names.find`)."""
    target = given.get("target")
    reason = given.get("reason", "")
    if not isinstance(target, str) or not isinstance(reason, str):
        return "`handoff` needs `target`, the name of somebody who takes part; `reason` must be a text."
    by_name = {name: policy.roster.get(Slug(name)) for name in session.speakers.participant_order}
    found = Handoff(names.find(target, by_name) or target, reason[:REASON])
    return refuses(session.speakers, found) or found


def round_of(state: State, policy: Policy, run: Run, text: str, *, completed: bool = False) -> Envelope:
    """A run that is about to end as the round of its speaker: its calls in the order in which its model made them.

    A call counts that was let through, or was decided in the core and not refused; `complete` where it ends the run.
    """
    session = session_of(state)
    if session is None:
        return Envelope(run.agent, text)
    results = {entry.id: entry for entry in run.entries if isinstance(entry, CallResult)}
    results |= {call.request.id: call.result for call in run.calls if call.result is not None}
    calls: list[Called] = []
    for step in run.entries:
        for call in step.calls if isinstance(step, ModelStep) else ():
            result = results.get(call.id)
            if call.id in session.called:
                calls.append(Called(call.tool, session.routes.get(call.id)))
            elif result is not None and result.ok:  # decided in the core, about the workflow or the agent itself
                ours = _is_ours(session, run, call.tool)
                calls.append(_called(session, policy, call) if ours else Called(call.tool))
    if completed:
        calls.append(Called("complete"))
    turn = state.work.turn or state.memory.last_turn
    return Envelope(run.agent, text, tuple(calls), str(turn.turn_id) if turn else "")


def _called(session: WorkflowSession, policy: Policy, call: CallRequest) -> Called:
    tool = call.tool
    given = call.arguments
    if tool == HANDOFF:
        handoff = _handoff(session, policy, given)
        return Called(tool, handoff if isinstance(handoff, Handoff) else None)
    if tool == FINISH:
        finish = Finish(str(given.get("summary", "")), str(given.get("reason", "")).strip()[:REASON] or "finished")
        return Called(tool, finish)
    return Called(tool)


def text_of(envelope: Envelope) -> str:
    """The text of a speaker who made only calls; "" for none."""
    finish = envelope.finish
    handoff = envelope.handoff
    if finish is not None and (finish.summary or finish.reason):
        return finish.summary or finish.reason
    return handoff.reason or f"I hand over to {handoff.target}." if handoff is not None else ""
