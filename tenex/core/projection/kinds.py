"""What only one kind of conversation has to show: each gives its share, and the phases have fields of their own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenex.core.ids import Millis
from tenex.core.kind import all_kinds
from tenex.core.kind_format import KindShare
from tenex.core.phases import Phase
from tenex.core.state import State, Waiver
from tenex.core.totals.reducers import phase_metrics
from tenex.core.totals.state import PhaseMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesShare:
    """What the phases add. A conversation without them has no phase, and no gate is ever open."""

    phase: Phase | None
    started_at: Millis
    previous: Phase | None
    open_gates: tuple[Phase, ...]
    waivers: tuple[Waiver, ...]
    metrics: Mapping[Phase, PhaseMetrics]
    """Of all phases; the visit to the current one counts, up to the newest record."""

    @property
    def waived(self) -> frozenset[Phase]:
        """The gates that a user gave up in the open cycle."""
        return frozenset(phase for waiver in self.waivers for phase in waiver.phases)


def phase_of(state: State) -> Phase | None:
    """The phase; None in a conversation without phases."""
    return state.cycle.phase if state.has_phases else None


def of_phases(state: State) -> PhasesShare:
    """The phase, its gates, and what each phase has taken."""
    return PhasesShare(
        phase=phase_of(state),
        started_at=state.totals.phase_started_at,
        previous=state.cycle.previous_phase,
        open_gates=state.unmet_gates,
        waivers=next((kind.waivers for kind in state.kinds.values() if kind.waivers), ()),
        metrics=phase_metrics(state),
    )


def kind_shares(state: State) -> tuple[KindShare, ...]:
    """What the kinds add, in the order of their registration."""
    shares = (kind.share(state) for kind in all_kinds())
    return tuple(share for share in shares if share is not None)


def kind_conditions(state: State) -> Iterator[str]:
    """What work does that belongs to a kind and not to a run: where it is `held` or `limited`, the conversation is."""
    for kind in all_kinds():
        yield from kind.conditions(state)
