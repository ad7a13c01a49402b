"""What each record does to the calls that wait for a person, and to what was allowed."""

from typing import Final

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .state import Approvals, GivenAnswer, Permission, Request

APPROVALS: Final = Reducers[Approvals]("approvals")

LEAST_AFTER_RESTART: Final = 10_000
"""ms that a request stays open at least when a process begins: an answer may wait on a relay."""


@APPROVALS.on(r.ApprovalRequested)
def _requested(approvals: Approvals, record: r.ApprovalRequested, before: State) -> Approvals:
    run = before.work.runs.get(record.run)
    if run is None:
        return approvals
    request = Request(
        seq=record.seq,
        at=record.at,
        run=run.id,
        agent=run.agent,
        name=run.name,
        calls=record.calls,
        expires_at=record.expires_at,
        needs_word=record.needs_word,
        remind_at=record.remind_at,
    )
    return replace(approvals, open={**approvals.open, record.seq: request})


@APPROVALS.on(r.MessageSent)
def _sent(approvals: Approvals, record: r.MessageSent, _: State) -> Approvals:
    if record.run is None or record.call is None or not approvals.open:
        return approvals
    for request in approvals.open.values():
        if request.run == record.run and request.find(record.call) is not None:
            shown = replace(
                request,
                events=(*request.events, *(event.id for event in record.events)),
                remind_at=request.remind_at if record.at < request.remind_at else Millis(0),
            )
            return replace(approvals, open={**approvals.open, request.seq: shown})
    return approvals


@APPROVALS.on(r.ApprovalAnswered)
def _answered(approvals: Approvals, record: r.ApprovalAnswered, _: State) -> Approvals:
    request = approvals.open.get(record.request)
    if request is None:
        return approvals
    answer = GivenAnswer(
        seq=record.seq,
        calls=record.calls,
        outcome=record.outcome,
        by=record.by,
        name=record.name,
        event=record.event_id or "",
    )
    approvals = approvals.answered(request.seq, answer)
    if not record.remember:
        return approvals
    permissions = (
        Permission.of(
            asked, number=record.seq, name=record.name, until=record.until, is_for_server=record.is_for_server
        )
        for asked in request.of(record.calls)
    )
    return approvals.permitted(tuple(permissions))


@APPROVALS.on(r.ApprovalWithdrawn)
def _withdrawn(approvals: Approvals, record: r.ApprovalWithdrawn, _: State) -> Approvals:
    return approvals.withdrawn(record.event_id, record.by)


@APPROVALS.on(r.PermissionsRevoked)
def _revoked(approvals: Approvals, record: r.PermissionsRevoked, _: State) -> Approvals:
    left = tuple(permission for permission in approvals.permissions if permission.number not in record.numbers)
    return replace(approvals, permissions=left)


@APPROVALS.on(r.RunEnded)
def _run_ended(approvals: Approvals, record: r.RunEnded, _: State) -> Approvals:
    for request in tuple(approvals.open.values()):
        if request.run == record.run:
            approvals = approvals.closed(request.seq, "over")
    return approvals


@APPROVALS.on(r.ProcessRestarted)
def _restarted(approvals: Approvals, record: r.ProcessRestarted, _: State) -> Approvals:
    least = Millis(record.at + LEAST_AFTER_RESTART)
    due = {
        seq: replace(one, expires_at=least, remind_at=Millis(0)) if one.expires_at < least else one
        for seq, one in approvals.open.items()
    }
    return replace(approvals, open=due) if due else approvals


@APPROVALS.on(r.ClockAdjusted)
def _clock_set(approvals: Approvals, record: r.ClockAdjusted, _: State) -> Approvals:
    moved = {
        seq: replace(
            one,
            at=Millis(one.at + record.by),
            expires_at=Millis(one.expires_at + record.by),
            remind_at=Millis(one.remind_at + record.by) if one.remind_at else one.remind_at,
        )
        for seq, one in approvals.open.items()
    }
    permissions = tuple(
        replace(one, until=Millis(one.until + record.by)) if one.until else one for one in approvals.permissions
    )
    return replace(approvals, open=moved, permissions=permissions)
