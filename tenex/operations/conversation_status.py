"""The state of a conversation for an operator: what runs, what waits for what, and since when."""

from collections.abc import Iterator
from typing import Any, Final

from tenex.core.conversation import Conversation
from tenex.core.costs import run_agent
from tenex.core.ids import Millis
from tenex.core.pending import pending
from tenex.core.state.mission import Mission
from tenex.core.state.run import Call, CallState, Retry, Run
from tenex.store.view_json import iso, usage_json

from .transcript import shorten

TITLE_CHARACTERS: Final = 80
QUESTION_CHARACTERS: Final = 300
"""Of a question to a user: enough to recognise it."""


def is_idle(conversation: Conversation) -> bool:
    """Whether nothing happens before a user writes, or a model can be reached again."""
    is_held = any(run.is_held for run in conversation.work.runs.values())
    return conversation.cycle.status in ("waiting", "ended") or conversation.work.is_parked or is_held


def conversation_status(conversation: Conversation, now: Millis) -> dict[str, Any]:
    """One conversation; `kind` is held, limited (by a limit of the day), parked, or its status.

    Times are ISO 8601 in UTC, ages in seconds.
    """
    c = conversation
    runs = [_run(run, c, now) for run in c.work.runs.values()]
    router = _router(c, now)
    mission = _mission(c.mission) if c.mission is not None else None
    states = {part["state"] for part in (*runs, *filter(None, (router, mission)))}
    kind = next((kind for kind in ("held", "limited") if kind in states), "")
    kind = kind or ("parked" if c.work.is_parked and router is None else c.cycle.status)
    shown: dict[str, Any] = {
        "id": c.id,
        "kind": kind,
        "title": shorten(c.identity.title, TITLE_CHARACTERS),
        "status": c.cycle.status,
        "phase": c.cycle.phase if c.has_phases else None,
        "place": c.place,
        "cycle": c.cycle.number,
        "updatedAt": iso(c.identity.updated_at),
        "undelivered": sum(len(row.open) for row in c.delivery.outbox.values()),
    }
    if c.identity.imported:
        shown["imported"] = True
    if c.cycle.status == "waiting":
        shown["waitingFor"] = c.cycle.waiting_for or "you"
    if c.work.turn is not None:
        shown["turn"] = {"id": c.work.turn.turn_id, "phase": c.work.turn.phase, **_since(c.work.turn.timestamp, now)}
    if c.workflow is not None and c.workflow.is_closed:
        shown["workflow"] = {"name": c.workflow.name, "closeReason": c.workflow.close_reason}
    elif c.workflow is not None and c.workflow.expected is not None:
        shown["workflow"] = {"name": c.workflow.name, "speaker": c.workflow.expected}
    if mission is not None:
        shown["mission"] = mission
    if router is not None:
        shown["router"] = router
    if runs:
        shown["runs"] = runs
    return shown


def status_with_usage(conversation: Conversation, now: Millis) -> dict[str, Any]:
    """`conversation_status`, and what its models have taken so far; the cost is None where no price is known."""
    return {**conversation_status(conversation, now), "usage": usage_json(conversation.totals.usage)}


def is_settled(conversation: Conversation) -> bool:
    """Whether nothing is in flight, no turn waits for an answer, and every message was delivered."""
    return conversation.cycle.status in ("waiting", "ended") and not pending(conversation)


def undelivered(conversation: Conversation) -> Iterator[str]:
    """The relay of each undelivered event, once for each event."""
    for row in conversation.delivery.outbox.values():
        for _, relay in row.open:
            yield relay


def _since(at: Millis, now: Millis) -> dict[str, Any]:
    return {"since": iso(at), "seconds": max(0, now - at) // 1000}


def _run(run: Run, conversation: Conversation, now: Millis) -> dict[str, Any]:
    """A run: `state` is model, tools, parked, calling (sub-agents), retrying, held or limited."""
    began = conversation.work.turn.timestamp if conversation.work.turn is not None else conversation.identity.updated_at
    shown: dict[str, Any] = {"agent": run.agent, "phase": run.phase, "steps": run.steps}
    if run.parent is not None:
        shown["calledBy"] = run_agent(run.parent)
    if run.is_parked:
        questions = [_question(call) for call in run.open_calls if call.state is CallState.PARKED]
        shown |= {"state": "parked", "questions": questions, **_since(run.parked_at or began, now)}
    elif run.is_waiting:
        callees = [called.agent for called in conversation.work.called_by(run.id)]
        shown |= {"state": "calling", "sub_agents": callees, **_since(run.parked_at or began, now)}
    elif run.retry is not None:
        shown |= _retry(run.retry, now)
    elif run.wants is not None:
        shown |= {"state": "model", **_since(began, now), "closesAt": iso(run.close_at)}
    else:
        tools = [call.request.tool for call in run.open_calls if call.state is CallState.PERMITTED]
        shown |= {"state": "tools", "tools": tools, **_since(began, now), "closesAt": iso(run.close_at)}
    if run.model:
        shown["model"] = run.model
    return shown


def _mission(mission: Mission) -> dict[str, Any]:
    """A mission: `state` is running, retrying, held (until somebody acts), paused, or its outcome."""
    wait = mission.wait
    waiting = "held" if wait is not None and wait.needs_operator else "retrying" if wait else ""
    state = "paused" if mission.is_paused else waiting or mission.outcome or "running"
    reason = mission.message or mission.paused or (wait.message if wait is not None else "")
    return {
        "workflow": mission.workflow,
        "node": mission.node,
        "state": state,
        "steps": [step.id for step in mission.open_steps],
        **({"why": shorten(reason, QUESTION_CHARACTERS)} if reason else {}),
    }


def _router(conversation: Conversation, now: Millis) -> dict[str, Any] | None:
    question = conversation.phases.question
    if question is None:
        return None
    shown: dict[str, Any] = {"attempt": question.attempt}
    if question.retry is None:
        return {**shown, "state": "model"}
    return shown | _retry(question.retry, now)


def _retry(retry: Retry, now: Millis) -> dict[str, Any]:
    return {
        "state": "limited" if retry.limit else "held" if retry.on_hold else "retrying",
        "failures": retry.attempt,
        "why": retry.message,
        **({} if retry.needs_operator else {"nextTry": iso(retry.due)}),
        **_since(retry.since, now),
    }


def _question(call: Call) -> str:
    return shorten(str(call.request.arguments.get("question", "")), QUESTION_CHARACTERS)
