"""What each record does to the calls that wait for a person, and to what was allowed."""

from typing import Final

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .state import Approvals, AskedCall, Permission, Request

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
    )
    return replace(approvals, open={**approvals.open, record.seq: request})


@APPROVALS.on(r.MessageSent)
def _sent(approvals: Approvals, record: r.MessageSent, _: State) -> Approvals:
    if record.run is None or record.call is None or not approvals.open:
        return approvals
    for request in approvals.open.values():
        if request.run == record.run and request.find(record.call) is not None:
            shown = replace(request, events=tuple(event.id for event in record.events))
            return replace(approvals, open={**approvals.open, request.seq: shown})
    return approvals


@APPROVALS.on(r.ApprovalAnswered)
def _answered(approvals: Approvals, record: r.ApprovalAnswered, _: State) -> Approvals:
    request = approvals.open.get(record.request)
    approvals = approvals.closed(record.request, record.outcome, record.name)
    if request is None or not record.remember:
        return approvals
    return approvals.permitted(tuple(_permission(asked, record) for asked in request.calls))


def _permission(asked: AskedCall, record: r.ApprovalAnswered) -> Permission:
    return Permission(
        number=record.seq,
        tool=asked.tool,
        prefixes=asked.prefixes,
        digest=asked.digest if asked.is_exact else "",
        line=asked.line,
        name=record.name,
        until=record.until,
    )


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
    due = {seq: replace(one, expires_at=max(one.expires_at, least)) for seq, one in approvals.open.items()}
    return replace(approvals, open=due) if due else approvals


@APPROVALS.on(r.ClockAdjusted)
def _clock_set(approvals: Approvals, record: r.ClockAdjusted, _: State) -> Approvals:
    moved = {
        seq: replace(one, at=Millis(one.at + record.by), expires_at=Millis(one.expires_at + record.by))
        for seq, one in approvals.open.items()
    }
    permissions = tuple(
        replace(one, until=Millis(one.until + record.by)) if one.until else one for one in approvals.permissions
    )
    return replace(approvals, open=moved, permissions=permissions)
