"""What each record does to a workflow of speakers, and what its own do to the rest of the conversation."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.ids import CallId, RunId
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.work.reducers import runs_after_answer, runs_after_approval

from . import records as w
from .config import NAME, TTL
from .state import WorkflowSession, opened

SPEAKERS: Final = Reducers[WorkflowSession | None](NAME)


@SPEAKERS.on(w.WorkflowOpened)
def _workflow_opened(_session: WorkflowSession | None, record: w.WorkflowOpened, _: State) -> WorkflowSession:
    return opened(record)


def _of_session(
    change: Callable[[WorkflowSession, Any, State], WorkflowSession],
) -> Callable[[WorkflowSession | None, Any, State], WorkflowSession | None]:
    """The reducer that changes the session, where there is one."""

    def reduce_session(session: WorkflowSession | None, record: Any, before: State) -> WorkflowSession | None:
        return session and change(session, record, before)

    return reduce_session


def _let_through(session: WorkflowSession, state: State, run: RunId | None, call: CallId) -> WorkflowSession:
    """A call was let through: it counts for the round, if the round's own speaker made it."""
    made_by = state.work.runs.get(run) if run is not None else None
    return session.let_through(call) if made_by is not None and made_by.parent is None else session


def _asked(session: WorkflowSession, record: r.QuestionAsked, before: State) -> WorkflowSession:
    return _let_through(session, before, record.run, record.call).asked(record.seq, record.at)


def _answered(session: WorkflowSession, record: r.QuestionAnswered, before: State) -> WorkflowSession:
    is_parked = any(run.has_parked for run in runs_after_answer(before.work, record).values())
    return session.answered(record.seq, record.at, is_parked=is_parked)


def _approval_requested(session: WorkflowSession, record: r.ApprovalRequested, _: State) -> WorkflowSession:
    return session.asked(record.seq, record.at)


def _approval_answered(session: WorkflowSession, record: r.ApprovalAnswered, before: State) -> WorkflowSession:
    is_parked = any(run.has_parked for run in runs_after_approval(before.work, record, before).values())
    return session.answered(record.seq, record.at, is_parked=is_parked)


def _call_returned(session: WorkflowSession, record: r.ToolCallCompleted, _: State) -> WorkflowSession:
    return session if record.route is None else session.routed(record.call, record.route)


def _run_started(session: WorkflowSession, record: r.RunStarted, before: State) -> WorkflowSession:
    if record.parent is None or record.call is None:
        return session
    return _let_through(session, before, record.parent, record.call)


def _advanced(session: WorkflowSession, record: w.RoundClosed, before: State) -> WorkflowSession:
    last_turn = before.memory.last_turn
    return session.advanced(record, last_turn.turn_id if last_turn is not None else "")


def _call_started(session: WorkflowSession, record: r.ToolCallStarted, before: State) -> WorkflowSession:
    return _let_through(session, before, record.run, record.call)


def _add_all() -> None:
    add = SPEAKERS.add
    add(w.InviteAcknowledged, _of_session(lambda session, record, _: session.acknowledged(record)))
    add(w.ContextSet, _of_session(lambda session, record, _: session.changed(record)))
    add(w.ExpectationMissed, _of_session(lambda session, record, _: session.missed(record)))
    add(w.WorkflowClosed, _of_session(lambda session, record, _: session.closed(record)))
    add(r.TurnOpened, _of_session(lambda session, record, _: session.turn_opened(record.seq, record.at)))
    add(r.MessageRecorded, _of_session(lambda session, record, _: session.message_received(record.seq, record.at)))
    # its whole life is measured by the wall clock
    add(r.ProcessRestarted, _of_session(lambda session, record, _: session.moved(record.away, but=TTL)))
    add(r.ClockAdjusted, _of_session(lambda session, record, _: session.moved(record.by)))


_add_all()
SPEAKERS.add(w.RoundClosed, _of_session(_advanced))
SPEAKERS.add(r.QuestionAsked, _of_session(_asked))
SPEAKERS.add(r.QuestionAnswered, _of_session(_answered))
SPEAKERS.add(r.ApprovalRequested, _of_session(_approval_requested))
SPEAKERS.add(r.ApprovalAnswered, _of_session(_approval_answered))
SPEAKERS.add(r.ToolCallStarted, _of_session(_call_started))
SPEAKERS.add(r.ToolCallCompleted, _of_session(_call_returned))
SPEAKERS.add(r.RunStarted, _of_session(_run_started))


def _turn_closed(session: WorkflowSession, _record: r.TurnClosed, before: State) -> WorkflowSession:
    return session if before.work.turn is None else session.turn_closed()


SPEAKERS.add(r.TurnClosed, _of_session(_turn_closed))
