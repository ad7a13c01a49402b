"""What each record does to a mission, and to a workflow of speakers."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.ids import CallId, RunId
from tenex.core.state.conversation import State
from tenex.core.state.mission import Mission
from tenex.core.state.workflow import WorkflowSession, opened
from tenex.core.workflow_config import TTL

from .table import Reducers
from .work import runs_after_answer

MISSION: Final = Reducers[Mission | None]("mission")
REFUSED: Final = Reducers[str]("refused")
WORKFLOW: Final = Reducers[WorkflowSession | None]("workflow")


# ---- missions --------------------------------------------------------------------------------------------------------


@MISSION.on(r.MissionOpened)
def _mission_opened(_mission: Mission | None, record: r.MissionOpened, _: State) -> Mission:
    return Mission(workflow=record.workflow, seq=record.seq, by=record.by, pubkey=record.pubkey, entry=record.state)


def _of_mission(change: Callable[[Mission, Any], Mission]) -> Callable[[Mission | None, Any, State], Mission | None]:
    """The reducer that changes the mission, where there is one."""

    def reduce_mission(mission: Mission | None, record: Any, _: State) -> Mission | None:
        return mission and change(mission, record)

    return reduce_mission


MISSION.add(r.NodeEntered, _of_mission(Mission.entered))
MISSION.add(r.StepStarted, _of_mission(Mission.permitted))
MISSION.add(r.StepCompleted, _of_mission(Mission.returned))
MISSION.add(r.NodeRetryScheduled, _of_mission(Mission.retrying))
MISSION.add(r.NodeRetryDue, _of_mission(Mission.resumed))
MISSION.add(r.NodeCompleted, _of_mission(Mission.left))
MISSION.add(r.MissionPauseRequested, _of_mission(Mission.wants_pause))
MISSION.add(r.MissionPaused, _of_mission(lambda mission, record: mission.stopped(record.reason, record.at)))
MISSION.add(r.MissionEnded, _of_mission(Mission.ended))
MISSION.add(r.ProcessRestarted, _of_mission(lambda mission, record: mission.spared(record.away)))
MISSION.add(r.ClockAdjusted, _of_mission(lambda mission, record: mission.moved(record.by)))


@REFUSED.on(r.MissionRefused)
def _refused(_refused: str, record: r.MissionRefused, _: State) -> str:
    return record.workflow


@REFUSED.on(r.MissionOpened, r.CycleStarted)
def _not_refused(_refused: str, _record: r.Record, _: State) -> str:
    return ""


# ---- workflows of speakers -------------------------------------------------------------------------------------------


@WORKFLOW.on(r.WorkflowOpened)
def _workflow_opened(_session: WorkflowSession | None, record: r.WorkflowOpened, _: State) -> WorkflowSession:
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


def _call_returned(session: WorkflowSession, record: r.ToolCallCompleted, _: State) -> WorkflowSession:
    return session if record.route is None else session.routed(record.call, record.route)


def _run_started(session: WorkflowSession, record: r.RunStarted, before: State) -> WorkflowSession:
    if record.parent is None or record.call is None:
        return session
    return _let_through(session, before, record.parent, record.call)


def _advanced(session: WorkflowSession, record: r.RoundClosed, before: State) -> WorkflowSession:
    last_turn = before.memory.last_turn
    return session.advanced(record, last_turn.turn_id if last_turn is not None else "")


def _call_started(session: WorkflowSession, record: r.ToolCallStarted, before: State) -> WorkflowSession:
    return _let_through(session, before, record.run, record.call)


def _add_all() -> None:
    add = WORKFLOW.add
    add(r.InviteAcknowledged, _of_session(lambda session, record, _: session.acknowledged(record)))
    add(r.ContextSet, _of_session(lambda session, record, _: session.changed(record)))
    add(r.ExpectationMissed, _of_session(lambda session, record, _: session.missed(record)))
    add(r.WorkflowClosed, _of_session(lambda session, record, _: session.closed(record)))
    add(r.TurnOpened, _of_session(lambda session, record, _: session.turn_opened(record.seq, record.at)))
    add(r.MessageRecorded, _of_session(lambda session, record, _: session.message_received(record.seq, record.at)))
    # its whole life is measured by the wall clock
    add(r.ProcessRestarted, _of_session(lambda session, record, _: session.moved(record.away, but=TTL)))
    add(r.ClockAdjusted, _of_session(lambda session, record, _: session.moved(record.by)))


_add_all()
WORKFLOW.add(r.RoundClosed, _of_session(_advanced))
WORKFLOW.add(r.QuestionAsked, _of_session(_asked))
WORKFLOW.add(r.QuestionAnswered, _of_session(_answered))
WORKFLOW.add(r.ToolCallStarted, _of_session(_call_started))
WORKFLOW.add(r.ToolCallCompleted, _of_session(_call_returned))
WORKFLOW.add(r.RunStarted, _of_session(_run_started))


def _turn_closed(session: WorkflowSession, _record: r.TurnClosed, before: State) -> WorkflowSession:
    return session if before.work.turn is None else session.turn_closed()


WORKFLOW.add(r.TurnClosed, _of_session(_turn_closed))
