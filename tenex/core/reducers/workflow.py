"""What each fact of a workflow of speakers or of a mission does to the state of its conversation."""

from collections.abc import Callable
from typing import Any, Literal

from tenex.core import records as r
from tenex.core.ids import CallId, RunId
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tenex.core.state.mission import Mission
from tenex.core.state.workflow import WorkflowSession, opened

Reducer = Callable[[State, Any], None]


def let_through(c: State, run: RunId | None, call: CallId) -> None:
    """A call was let through: it counts for the round, if the round's own speaker made it."""
    made_by = c.runs.get(run) if run is not None else None
    if c.workflow is not None and made_by is not None and made_by.parent is None:
        c.workflow = c.workflow.let_through(call)


def _changing(part: Literal["workflow", "mission"], change: Callable[[Any, Any], Any]) -> Reducer:
    """The reducer that changes this part of the state, where there is one."""

    def reduce_part(c: State, record: Any) -> None:
        if (before := getattr(c, part)) is not None:
            setattr(c, part, change(before, record))

    return reduce_part


def _opened(c: State, record: r.WorkflowOpened) -> None:
    c.workflow = opened(record)
    c.phase = Phase.EXECUTE  # where code forbids nothing: an agent has the tools it was given


def _advanced(c: State, record: r.RoundClosed) -> None:
    if c.workflow is not None:
        c.workflow = c.workflow.advanced(record, c.last_turn.turn_id if c.last_turn else "")


def _mission_opened(c: State, record: r.MissionOpened) -> None:
    c.mission = Mission(
        workflow=record.workflow, seq=record.seq, by=record.by, pubkey=record.pubkey, entry=record.state
    )
    if record.pubkey:
        c.phase = Phase.EXECUTE  # as in a workflow of speakers: none of the seven applies here
    c.status, c.waiting_for, c.question, c.refused = "active", "", None, ""


def _mission_refused(c: State, record: r.MissionRefused) -> None:
    c.refused = record.workflow


def _mission_resumed(c: State, record: r.NodeRetryDue) -> None:
    if c.mission is not None:
        c.mission = c.mission.resumed(record)
        c.status, c.waiting_for = "active", ""


WORKFLOW_REDUCERS: dict[type[r.Record], Reducer] = {
    r.WorkflowOpened: _opened,
    r.InviteAcknowledged: _changing("workflow", WorkflowSession.acknowledged),
    r.ContextSet: _changing("workflow", WorkflowSession.changed),
    r.RoundClosed: _advanced,
    r.ExpectationMissed: _changing("workflow", WorkflowSession.missed),
    r.WorkflowClosed: _changing("workflow", WorkflowSession.closed),
    r.MissionOpened: _mission_opened,
    r.MissionRefused: _mission_refused,
    r.NodeEntered: _changing("mission", Mission.entered),
    r.StepStarted: _changing("mission", Mission.permitted),
    r.StepCompleted: _changing("mission", Mission.returned),
    r.NodeRetryScheduled: _changing("mission", Mission.retrying),
    r.NodeRetryDue: _mission_resumed,
    r.NodeCompleted: _changing("mission", Mission.left),
    r.MissionPauseRequested: _changing("mission", Mission.wants_pause),
    r.MissionPaused: _changing("mission", lambda mission, record: mission.stopped(record.reason, record.at)),
    r.MissionEnded: _changing("mission", Mission.ended),
}
