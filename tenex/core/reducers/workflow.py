"""What each fact of a workflow does to the state."""

from collections.abc import Callable
from typing import Any

from tenex.core import records as r
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tenex.core.state.workflow import WorkflowSession, opened

Reducer = Callable[[State, Any], None]


def with_workflow(fold: Reducer, change: Callable[[WorkflowSession, Any], WorkflowSession]) -> Reducer:
    """A fold that changes the session too, where there is one."""

    def reduce_both(c: State, record: Any) -> None:
        fold(c, record)
        _changing(change)(c, record)

    return reduce_both


def counting_call(fold: Reducer) -> Reducer:
    """A fold of a record that lets a call through: it counts for the round, if the round's own speaker made it."""

    def reduce_both(c: State, record: Any) -> None:
        fold(c, record)
        made_by = c.runs.get(getattr(record, "parent", None) or record.run)
        if c.workflow is not None and record.call is not None and made_by is not None and made_by.parent is None:
            c.workflow = c.workflow.let_through(record.call)

    return reduce_both


def routed(fold: Reducer) -> Reducer:
    """A fold of a call's result: what it asks for is the round's, if the round's own speaker made the call."""

    def reduce_both(c: State, record: r.ToolCallCompleted) -> None:
        fold(c, record)
        if c.workflow is not None and record.route is not None:
            c.workflow = c.workflow.routed(record.call, record.route)

    return reduce_both


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
