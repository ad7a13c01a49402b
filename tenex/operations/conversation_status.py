"""The state of a conversation for an operator as JSON: what runs, what waits for what, and since when."""

from collections.abc import Mapping
from typing import Any, Final

import tenex.workflows  # noqa: F401 - registers the kinds of conversation, each with what it shows
from tenex.core.conversation import Conversation
from tenex.core.ids import Millis
from tenex.core.projection import Activity, RouterActivity, RunActivity, activity_of, glance_of, phase_of
from tenex.core.text.lines import shorten
from tenex.core.work.run import Retry
from tenex.store.view_json import iso, usage_json

TITLE_CHARACTERS: Final = 80
QUESTION_CHARACTERS: Final = 300
"""Of a question to a user: enough to recognise it."""


def conversation_status(conversation: Conversation, now: Millis) -> dict[str, Any]:
    """One conversation; `kind` is held, limited (by a limit of the day), parked, or its status.

    Times are ISO 8601 in UTC, ages in seconds.
    """
    glance = glance_of(conversation)
    activity = activity_of(conversation)
    shown: dict[str, Any] = {
        "id": glance.id,
        "kind": activity.condition,
        "title": shorten(glance.title, TITLE_CHARACTERS),
        "status": glance.status,
        "phase": phase_of(conversation),
        "place": glance.place,
        "cycle": glance.cycle,
        "updatedAt": iso(glance.updated_at),
        "undelivered": activity.undelivered_count,
    }
    if glance.imported:
        shown["imported"] = True
    if glance.status == "waiting":
        shown["waitingFor"] = glance.waiting_for or "you"
    turn = activity.turn
    if turn is not None:
        shown["turn"] = {"id": turn.turn_id, "phase": turn.phase, **_since(turn.timestamp, now)}
    for share in activity.shares:
        if share.status is not None:
            shown[share.name] = _share(share.status)
        if share.where:
            shown["where"] = share.where
        if share.does:
            shown["does"] = shorten(share.does, QUESTION_CHARACTERS)
    if activity.router is not None:
        shown["router"] = _router(activity.router, now)
    if activity.runs:
        shown["runs"] = [_run(run, activity, now) for run in activity.runs]
    return shown


def status_with_usage(conversation: Conversation, now: Millis) -> dict[str, Any]:
    """`conversation_status`, and what its models have taken so far; the cost is None where no price is known."""
    return {**conversation_status(conversation, now), "usage": usage_json(conversation.totals.usage)}


def _since(at: Millis, now: Millis) -> dict[str, Any]:
    return {"since": iso(at), "seconds": max(0, now - at) // 1000}


def _share(status: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(status)
    if "why" in shown:
        shown["why"] = shorten(shown["why"], QUESTION_CHARACTERS)
    return shown


def _run(run: RunActivity, activity: Activity, now: Millis) -> dict[str, Any]:
    """A run: `state` is model, tools, parked, calling (sub-agents), retrying, held or limited."""
    shown: dict[str, Any] = {"agent": run.agent, "phase": run.phase, "steps": run.steps}
    if run.caller is not None:
        shown["calledBy"] = run.caller
    shown["state"] = run.state
    match run.state:
        case "parked":
            shown["questions"] = [shorten(question, QUESTION_CHARACTERS) for question in run.questions]
        case "calling":
            shown["sub_agents"] = [called.agent for called in activity.called_by(run)]
        case "tools":
            shown["tools"] = list(run.tools)
    if run.state in ("retrying", "held", "limited") and run.retry is not None:
        shown |= _retry(run.retry)
    shown |= _since(run.since, now)
    if run.state in ("model", "tools"):
        shown["closesAt"] = iso(run.closes_at)
    if run.model:
        shown["model"] = run.model
    return shown


def _router(router: RouterActivity, now: Millis) -> dict[str, Any]:
    shown: dict[str, Any] = {"attempt": router.attempt, "state": router.state}
    if router.retry is not None:
        shown |= _retry(router.retry)
        shown |= _since(router.retry.since, now)
    return shown


def _retry(retry: Retry) -> dict[str, Any]:
    shown: dict[str, Any] = {"failures": retry.attempt, "why": retry.message}
    if not retry.needs_operator:
        shown["nextTry"] = iso(retry.due)
    return shown
