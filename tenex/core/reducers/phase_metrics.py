"""Visits to each phase and the time spent in them."""

from collections.abc import Mapping
from dataclasses import replace

from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.state.conversation import PhaseMetrics, State


def leave_phase(c: State, at: Millis) -> None:
    """Count the visit that ends now, and start timing the next one."""
    c.metrics = _with_visit(c, at)
    c.phase_started_at = at


def phase_metrics(c: State) -> Mapping[Phase, PhaseMetrics]:
    """The metrics of all phases; the visit to the current phase counts, up to the newest record."""
    return _with_visit(c, c.updated_at)


def _with_visit(c: State, until: Millis) -> Mapping[Phase, PhaseMetrics]:
    past = c.metrics.get(c.phase, PhaseMetrics())
    duration = past.duration + max(0, until - c.phase_started_at)
    return {**c.metrics, c.phase: replace(past, visits=past.visits + 1, duration=duration)}
