"""The time a conversation stays in a phase, added up when it leaves.

Never: decide that it leaves.
"""

from dataclasses import replace

from .ids import Millis
from .state import PhaseMetrics, State


def leave_phase(c: State, at: Millis) -> None:
    """Count the stay that ends now; the next one begins."""
    past = c.metrics.get(c.phase, PhaseMetrics())
    done = replace(past, visits=past.visits + 1, duration=past.duration + max(0, at - c.phase_started_at))
    c.metrics = {**c.metrics, c.phase: done}
    c.phase_started_at = at
