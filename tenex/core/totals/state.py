"""What has been spent and counted since the conversation began. A rollback keeps it: money is spent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenex.core.ids import Millis, PublicKey
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.phases import Phase
from tenex.core.values import replace

SPENDING_DAYS = 2
"""Today, and the day before for a clock that is set back a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMetrics:
    """What a phase has taken so far: finished stays, ms, model calls and what they cost."""

    visits: int = 0
    duration: int = 0
    usage: Usage = NO_USAGE
    working: int = 0
    """ms of `duration` without those in which a user was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums of the whole conversation. No rule reads them but the limits of a day and of a conversation."""

    turn_count: int = 0
    working: int = 0
    """ms in which an agent or the router worked: not those in which a user, an operator or a day was waited for."""
    usage: Usage = NO_USAGE
    granted: Usage = NO_USAGE
    """The sum of `usage` when a user last let the conversation go on: its own limits count from there."""
    spending: Mapping[int, Mapping[PublicKey, Usage]] = field(default_factory=dict)
    """What the newest `SPENDING_DAYS` days have cost, by day since 1970 (UTC) and by `State.on_behalf_of`."""
    limit_reported: tuple[str, Millis] = ("", Millis(0))
    """The last limit of a day that users were informed of, and when that day ends."""
    metrics: Mapping[Phase, PhaseMetrics] = field(default_factory=dict)
    """Of the visits to each phase that are over, and of all its usage."""
    phase_started_at: Millis = Millis(0)
    worked_before_phase: int = 0
    """`working` when the phase was entered."""

    def phase_left(self, phase: Phase, at: Millis) -> "Totals":
        """The visit to a phase is over; that to the next one is timed from now on."""
        return replace(
            self,
            metrics=self.with_visit(phase, at),
            phase_started_at=at,
            worked_before_phase=self.working,
        )

    def with_visit(self, phase: Phase, until: Millis) -> Mapping[Phase, PhaseMetrics]:
        """The metrics of all phases, where the visit to the current one ends at that time."""
        past = self.metrics.get(phase, PhaseMetrics())
        visited = replace(
            past,
            visits=past.visits + 1,
            duration=past.duration + max(0, until - self.phase_started_at),
            working=past.working + self.working - self.worked_before_phase,
        )
        return {**self.metrics, phase: visited}
