"""What each fact of an agent's own phases does to the state.

Never: look at a program; what it says now may not be what it said then.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from . import records as r
from .agency import Moved, Standing
from .runs import Run
from .state import State
from .systems import recalled


def changed(c: State, run: Run, values: Mapping[str, Any]) -> None:
    """Fields of an agent's state have new values."""
    before = _now(c, run)
    after = before.changed(values)
    if after != before:
        _put(c, run, after)
        c.runs = {**c.runs, run.id: replace(c.runs[run.id].progressed(), is_stale=True)}


def _now(c: State, run: Run) -> Standing:
    return c.standings.get(run.stands_as, Standing())


def _put(c: State, run: Run, standing: Standing) -> None:
    c.standings = {**c.standings, run.stands_as: standing}


def _stood(c: State, record: r.AgentStood) -> None:
    run = c.runs.get(record.run)
    if run is not None:
        _put(c, run, replace(_now(c, run), phase=record.phase, values=dict(record.values)))


def _placed(c: State, record: r.AgentPlaced) -> None:
    c.standings = {**c.standings, str(record.agent): record.standing}


def _moved(c: State, record: r.AgentMoved) -> None:
    run = c.runs.get(record.run)
    if run is None:
        return
    _put(c, run, _now(c, run).moved(Moved(source=record.source, target=record.target, at=record.at)))
    c.runs = {**c.runs, run.id: run.progressed()}
    _told(c, c.runs[run.id], record)


def _renewed(c: State, record: r.PromptRenewed) -> None:
    run = c.runs.get(record.run)
    if run is not None:
        _told(c, run, record)


def _told(c: State, run: Run, record: r.AgentMoved | r.PromptRenewed) -> None:
    system = recalled(c, record)
    if system is not None:
        c.runs = {**c.runs, run.id: replace(run, system=system, is_stale=False)}


def _failed(c: State, record: r.ConditionFailed) -> None:
    run = c.runs.get(record.run)
    if run is not None:
        failed = run.failed_edges | {(record.source, record.target)}
        c.runs = {**c.runs, run.id: replace(run, failed_edges=failed)}


AGENCY_FOLDS: dict[type[r.Record], Callable[[State, Any], None]] = {
    r.AgentStood: _stood,
    r.AgentPlaced: _placed,
    r.AgentMoved: _moved,
    r.PromptRenewed: _renewed,
    r.ConditionFailed: _failed,
}
