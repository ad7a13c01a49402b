"""Visits to each phase, the time spent in them, and how much of it was work."""

from collections.abc import Mapping
from dataclasses import replace

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.state.conversation import PhaseMetrics, State


def passed(c: State, record: r.Record) -> int:
    """The ms since the last record, whatever the clock was set to."""
    set_by = record.by if isinstance(record, r.ClockAdjusted) else 0
    return max(0, record.at - c.updated_at - set_by)


def is_work(c: State, record: r.Record) -> bool:
    """Whether an agent or the router worked until this record.

    Not while a user is waited for, nor an operator, a provider that is down or another day; a process that is away does
    not work either, nor one that was lost.
    """
    if c.status != "active" or isinstance(record, r.ProcessRestarted | r.JournalRebuilt | r.ConversationImported):
        return False
    if c.runs:
        return not all(run.is_waiting or (run.retry is not None and run.retry.on_hold) for run in c.runs.values())
    return c.question is None or c.question.retry is None or not c.question.retry.on_hold


def count_work(c: State, record: r.Record) -> None:
    """Count the time that ends with a record, if it was work."""
    duration = passed(c, record)
    if duration and is_work(c, record):
        c.working += duration


def leave_phase(c: State, at: Millis) -> None:
    """Count the visit that ends now, and start timing the next one."""
    c.metrics = _with_visit(c, at)
    c.phase_started_at, c.worked_before_phase = at, c.working


def phase_metrics(c: State) -> Mapping[Phase, PhaseMetrics]:
    """The metrics of all phases; the visit to the current phase counts, up to the newest record."""
    return _with_visit(c, c.updated_at)


def _with_visit(c: State, until: Millis) -> Mapping[Phase, PhaseMetrics]:
    past = c.metrics.get(c.phase, PhaseMetrics())
    duration = past.duration + max(0, until - c.phase_started_at)
    working = past.working + c.working - c.worked_before_phase
    return {**c.metrics, c.phase: replace(past, visits=past.visits + 1, duration=duration, working=working)}
