"""What each fact of a workflow does to the state."""

from collections.abc import Callable
from typing import Any

from tenex.core import records as r
from tenex.core.ids import CallId, RunId
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tenex.core.state.workflow import WorkflowSession, opened

Reducer = Callable[[State, Any], None]


def let_through(c: State, run: RunId | None, call: CallId) -> None:
    """A call was let through: it counts for the round, if the round's own speaker made it."""
    made_by = c.runs.get(run) if run is not None else None
    if c.workflow is not None and made_by is not None and made_by.parent is None:
        c.workflow = c.workflow.let_through(call)


def _changing(change: Callable[[WorkflowSession, Any], WorkflowSession]) -> Reducer:
    def reduce_session(c: State, record: Any) -> None:
        if c.workflow is not None:
            c.workflow = change(c.workflow, record)

    return reduce_session


def _opened(c: State, record: r.WorkflowOpened) -> None:
    c.workflow = opened(record)
    c.phase = Phase.EXECUTE  # where code forbids nothing: an agent has the tools it was given


def _advanced(c: State, record: r.RoundClosed) -> None:
    if c.workflow is not None:
        c.workflow = c.workflow.advanced(record, c.last_turn.turn_id if c.last_turn else "")


WORKFLOW_REDUCERS: dict[type[r.Record], Reducer] = {
    r.WorkflowOpened: _opened,
    r.InviteAcknowledged: _changing(WorkflowSession.acknowledged),
    r.ContextSet: _changing(WorkflowSession.changed),
    r.RoundClosed: _advanced,
    r.ExpectationMissed: _changing(WorkflowSession.missed),
    r.WorkflowClosed: _changing(WorkflowSession.closed),
}
