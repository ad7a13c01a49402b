"""What each record adds to the history that readers are shown."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tenex.core import records as r
from tenex.core.approvals.state import line_of
from tenex.core.cycle.reducers import closed_turn
from tenex.core.ids import CallId, RunId
from tenex.core.memory.window import in_a_line
from tenex.core.messages import Usage, cut
from tenex.core.people.decider import Decider, person
from tenex.core.reducers import Reducers
from tenex.core.rollback.whole import RolledBack
from tenex.core.state import State
from tenex.core.values import replace
from tenex.core.work.run import ASK, paid_by_model

from .facts import decider_of
from .state import (
    CYCLE_CHECKS,
    CYCLE_PATHS,
    PATHS,
    REASON_CHARACTERS,
    RESULT_CHARACTERS,
    CallOutcome,
    CallSummary,
    CycleSummary,
    DecisionKind,
    DecisionSummary,
    History,
    HistoryRecovered,
    RunSummary,
    cut_arguments,
)

HISTORY: Final = Reducers[History | None]("history")


# ---- decisions -------------------------------------------------------------------------------------------------------


def noted(state: State, history: History, record: r.Record, kind: DecisionKind, reason: str, **more: Any) -> History:
    """The history with a decision, whose reason is cut."""
    reason = in_a_line(reason, REASON_CHARACTERS)
    cycle = more.pop("cycle", state.cycle.number)
    return history.decided(DecisionSummary(seq=record.seq, at=record.at, cycle=cycle, kind=kind, reason=reason, **more))


def _routed(state: State, history: History, record: r.Routed) -> History:
    by = decider_of(record)
    history = noted(
        state,
        _router_paid(history, record.usage, record.model),
        record,
        "route",
        record.reason,
        by=by,
        agents=record.agents,
        phase=str(record.phase or ""),
        model=record.model,
        usage=record.usage,
    )
    return replace(history, routed=by, reason=record.reason)


def _rejected(state: State, history: History, record: r.RouteRejected) -> History:
    history = noted(
        state,
        _router_paid(history, record.usage, record.model),
        record,
        "refused",
        record.sentence,
        by=record.decided_by or Decider(kind="router", model=record.model),
        answer=in_a_line(record.answer, RESULT_CHARACTERS),
        model=record.model,
        usage=record.usage,
    )
    return replace(history, reason=record.sentence)


def _router_paid(history: History, usage: Usage, model: str) -> History:
    return replace(history, routing=paid_by_model(history.routing, model, usage))


def _paid(_: State, history: History, record: r.RetryScheduled | r.ModelCallCancelled) -> History:
    return _router_paid(history, record.usage, record.model) if record.run is None else history


def _waiting(state: State, history: History, record: r.Waiting) -> History:
    history = noted(state, history, record, "wait", f"waits for: {record.reason}. {history.reason}".strip())
    return replace(history, routed=None)


def _limit(state: State, history: History, record: r.LimitReached) -> History:
    history = noted(state, history, record, "limit", f"{record.limit}: {record.sentence}", by=Decider(kind="rule"))
    return replace(history, reason=record.sentence)


def _stopped(state: State, history: History, record: r.Stopped) -> History:
    history = noted(state, history, record, "stop", "stopped everything that ran", by=person(record.name))
    return _unless_ended(state, history, f"{record.name} stopped the work")


def _continued(state: State, history: History, record: r.Continued) -> History:
    return noted(state, history, record, "continue", "the counters of limits restart", by=person(record.name))


def _restarted(state: State, history: History, record: r.ProcessRestarted) -> History:
    if not record.interrupted:  # as in each older journal
        return history
    reason = f"the process had ended; under way: {', '.join(record.interrupted)}"
    return noted(state, history, record, "restart", reason)


def _command(state: State, history: History, record: r.CommandGiven) -> History:
    words = f"/{record.command} {record.argument}".rstrip()
    history = noted(state, history, record, "command", words, by=person(record.name, record.author))
    return _unless_ended(state, history, f"{record.name} gave /{record.command}")


def _unless_ended(state: State, history: History, reason: str) -> History:
    """The history with a new reason for its status; that for which a cycle has ended stays until the next begins."""
    return history if state.cycle.status == "ended" else replace(history, reason=reason)


def _sent(state: State, history: History, record: r.MessageSent) -> History:
    if record.purpose not in ("notice", "error", "progress", "confirmation"):
        return history
    return noted(state, history, record, "notice", f"{record.name}: {record.text}")


# ---- cycles ----------------------------------------------------------------------------------------------------------


def _cycle_started(state: State, history: History, record: r.CycleStarted) -> History:
    if history.open_cycle is not None:
        history = _closed(state, history, record, record.reason, record.decided_by)
    by = record.decided_by
    history = noted(state, history, record, "cycle", f"begins: {record.reason}", by=by, cycle=record.cycle)
    begun = CycleSummary(
        cycle=record.cycle,
        at=record.at,
        began_because=in_a_line(record.reason, REASON_CHARACTERS),
        begun_by=by,
        worked_before=state.totals.working,
        usage_before=state.totals.usage,
        first_turn=state.totals.turn_count,
    )
    return replace(history, open_cycle=begun)


def _ended(state: State, history: History, record: r.Ended) -> History:
    by = record.decided_by or history.routed
    history = noted(state, history, record, "end", record.reason, by=by)
    history = _closed(state, history, record, record.reason, by, record.checks)
    return replace(history, routed=None, reason=record.reason)


def _closed(
    state: State, history: History, record: r.Record, reason: str, by: Decider | None, checks: Sequence[str] = ()
) -> History:
    """The open cycle is over; one that a snapshot of an older program does not hold has no beginning."""
    cycle = history.open_cycle or CycleSummary(
        cycle=state.cycle.number,
        worked_before=state.totals.working,
        usage_before=state.totals.usage - state.cycle.usage,
        first_turn=state.totals.turn_count - len(state.cycle.turns),
    )
    reason = in_a_line(reason, REASON_CHARACTERS)
    seen = tuple(in_a_line(check, REASON_CHARACTERS) for check in checks[:CYCLE_CHECKS])
    cycle = replace(so_far(state, cycle), checks=seen)
    return history.ended(replace(cycle, ended_at=record.at, ended_because=reason, ended_by=by))


def so_far(state: State, cycle: CycleSummary) -> CycleSummary:
    """A cycle with what it has taken until now."""
    return replace(
        cycle,
        working=state.totals.working - cycle.worked_before,
        usage=state.totals.usage - cycle.usage_before,
        turns=state.totals.turn_count - cycle.first_turn,
        changed=tuple(sorted(state.cycle.touched)[:CYCLE_PATHS]),
        changed_count=len(state.cycle.touched),
    )


def _rolled_back(state: State, history: History, record: RolledBack) -> History:
    then = record.state
    open_cycle = history.open_cycle
    if open_cycle is not None and open_cycle.cycle != then.cycle.number:
        history = _closed(state, history, record, f"back to record {record.to}", person(record.by))
    if then.cycle.status == "ended" or (
        history.open_cycle is not None and history.open_cycle.cycle == then.cycle.number
    ):
        return replace(history, open_cycle=None if then.cycle.status == "ended" else history.open_cycle)
    cycle = next((summary for summary in reversed(history.cycles) if summary.cycle == then.cycle.number), None)
    return replace(history, open_cycle=cycle and replace(cycle, ended_at=None, ended_because="", ended_by=None))


# ---- turns -----------------------------------------------------------------------------------------------------------


def _moved(state: State, history: History, record: r.PhaseTransition) -> History:
    decided_by = record.decided_by or history.routed
    return history.moved(replace(record, decided_by=decided_by, cycle=record.cycle or state.cycle.number))


def _turn_opened(_: State, history: History, _record: r.TurnOpened) -> History:
    return replace(history, routed=None, routing={})


def _turn_closed(state: State, history: History, record: r.TurnClosed) -> History:
    turn = state.work.turn
    if turn is None:
        return history
    closed = closed_turn(state, turn, record)
    is_stopped = any(completion.outcome == "stopped" for completion in closed.completions)
    return replace(history.closed(closed), reason=history.reason if is_stopped else f"{closed.turn_id} is over")


# ---- calls and runs --------------------------------------------------------------------------------------------------


def _call(
    state: State,
    history: History,
    record: r.Record,
    run_id: RunId,
    call_id: CallId,
    tool: str,
    *,
    outcome: CallOutcome,
    result: str,
    **more: Any,
) -> History:
    run = state.work.runs.get(run_id)
    call = run.find(call_id) if run is not None else None
    began = call.began if call is not None else None
    return history.called(
        CallSummary(
            seq=record.seq,
            at=record.at,
            cycle=state.cycle.number,
            run=run_id,
            call=call_id,
            tool=tool,
            arguments=cut_arguments(call.request.arguments) if call is not None else {},
            outcome=outcome,
            result=cut(result, RESULT_CHARACTERS),
            duration=state.totals.working - began if began is not None else None,
            **more,
        )
    )


def _call_completed(state: State, history: History, record: r.ToolCallCompleted) -> History:
    return _call(
        state,
        history,
        record,
        record.run,
        record.call,
        record.tool,
        outcome="ok" if record.ok else "failed",
        result=record.content,
        exit_status=record.exit_status,
        changed=state.cycle.changed_by(record.touched, record.unchanged)[:PATHS],
        reverted=record.reverted[:PATHS],
        is_broken_off=record.is_broken_off,
    )


def _call_rejected(state: State, history: History, record: r.ToolCallRejected) -> History:
    return _call(
        state, history, record, record.run, record.call, record.tool, outcome="refused", result=record.sentence
    )


def _answered(state: State, history: History, record: r.QuestionAnswered) -> History:
    answer = f"{record.name}: {record.text}"
    run = state.work.runs.get(record.run)
    waited = record.at - run.parked_at if run is not None and run.parked_at is not None else None
    tool = run.tool_of(record.call) if run is not None else ASK
    return _call(state, history, record, record.run, record.call, tool, outcome="ok", result=answer, waited=waited)


def _approval_answered(state: State, history: History, record: r.ApprovalAnswered) -> History:
    request = state.approvals.open.get(record.request)
    if request is None:
        return history
    reason = f": {record.reason}" if record.reason else ""
    by = person(record.name, record.by) if record.name else Decider(kind="rule")
    line = line_of(request.of(record.calls))
    return noted(state, history, record, "permission", f"{record.outcome} to {line}{reason}", by=by)


def _approval_withdrawn(state: State, history: History, record: r.ApprovalWithdrawn) -> History:
    what = "the answer is deleted, in time" if record.calls else "the answer is deleted, too late"
    return noted(state, history, record, "permission", what, by=person(record.name, record.by))


def _run_ended(state: State, history: History, record: r.RunEnded) -> History:
    run = state.work.runs.get(record.run)
    if run is None or state.work.turn is None:
        return history
    summary = RunSummary(
        cycle=state.cycle.number,
        run=run.id,
        agent=run.agent,
        name=run.name,
        pubkey=run.pubkey,
        started=run.started,
        ended=record.at,
        working=run.worked(record.at),
        outcome=record.outcome,
        error=in_a_line(record.error, REASON_CHARACTERS),
        steps=run.steps,
        calls=run.call_count,
        models=paid_by_model(run.models, record.model, record.usage),
        caller=run.parent,
    )
    return history.run_ended(summary)


def _recovered(_: State, history: History, record: HistoryRecovered) -> History:
    return history.recovered(record)


_NOTES: dict[type[r.Record], Callable[[State, History, Any], History]] = {
    r.Routed: _routed,
    r.RouteRejected: _rejected,
    r.RetryScheduled: _paid,
    r.ModelCallCancelled: _paid,
    r.Waiting: _waiting,
    r.LimitReached: _limit,
    r.Stopped: _stopped,
    r.Continued: _continued,
    r.CommandGiven: _command,
    r.ProcessRestarted: _restarted,
    r.MessageSent: _sent,
    r.CycleStarted: _cycle_started,
    r.Ended: _ended,
    r.ToolCallCompleted: _call_completed,
    r.ToolCallRejected: _call_rejected,
    r.QuestionAnswered: _answered,
    r.ApprovalAnswered: _approval_answered,
    r.ApprovalWithdrawn: _approval_withdrawn,
    r.RunEnded: _run_ended,
    r.PhaseTransition: _moved,
    r.TurnOpened: _turn_opened,
    r.TurnClosed: _turn_closed,
    RolledBack: _rolled_back,
    HistoryRecovered: _recovered,
}


def where_kept(
    note: Callable[[State, History, Any], History],
) -> Callable[[History | None, Any, State], History | None]:
    """The reducer, for conversations whose history is kept."""

    def reduce_history(history: History | None, record: Any, before: State) -> History | None:
        return history and note(before, history, record)

    return reduce_history


for _kind, _note in _NOTES.items():
    HISTORY.add(_kind, where_kept(_note))
