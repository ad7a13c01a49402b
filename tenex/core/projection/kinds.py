"""What only conversations of one kind have to show. Each function here is about one kind and reads nothing of another.

A share is named, and readers that do not know the kind show it under its name. The phases are the exception: their
facts have fields of their own in every form.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.records import Waived
from tenex.core.reducers.totals import phase_metrics
from tenex.core.state.conversation import State
from tenex.core.state.mission import Mission, mission_view
from tenex.core.state.totals import PhaseMetrics
from tenex.core.state.workflow import session_view


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """What a kind adds to the facts of a conversation."""

    name: str
    """Under which it is shown."""
    view: Mapping[str, Any]
    """Whole, for `conversation.json`."""
    status: Mapping[str, Any] | None
    """Where it is, for `status`; None where that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasesShare:
    """What the seven phases add. A conversation without them has no phase, and no gate is ever open."""

    phase: Phase | None
    started_at: Millis
    previous: Phase | None
    open_gates: tuple[Phase, ...]
    waivers: tuple[Waived, ...]
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
        waivers=state.phases.waivers,
        metrics=phase_metrics(state),
    )


def of_speakers(state: State) -> KindShare | None:
    """The speaker who is next, or why the workflow has ended."""
    session = state.workflow
    if session is None:
        return None
    status: dict[str, Any] | None = None
    if session.is_closed:
        status = {"name": session.name, "closeReason": session.close_reason}
    elif session.expected is not None:
        status = {"name": session.name, "speaker": session.expected}
    return KindShare(name="workflow", view=session_view(session), status=status)


def of_mission(state: State) -> KindShare | None:
    """The node that a mission is at, and what it does there."""
    mission = state.mission
    if mission is None:
        return None
    status: dict[str, Any] = {
        "workflow": mission.workflow,
        "node": mission.node,
        "state": mission_condition(mission),
        "steps": [step.id for step in mission.open_steps],
    }
    reason = mission.message or mission.paused or (mission.wait.message if mission.wait is not None else "")
    if reason:
        status["why"] = reason
    return KindShare(name="mission", view=mission_view(mission), status=status)


def mission_condition(mission: Mission) -> str:
    """What a mission does: its outcome, or paused, held (until somebody acts), limited, retrying or running."""
    if mission.outcome is not None:
        return mission.outcome
    if mission.is_paused:
        return "paused"
    if mission.wait is None:
        return "running"
    if mission.wait.needs_operator:
        return "held"
    return "limited" if mission.wait.limit else "retrying"


_SHARES: Final[tuple[Callable[[State], KindShare | None], ...]] = (of_speakers, of_mission)
"""In the order in which they are shown."""


def kind_shares(state: State) -> tuple[KindShare, ...]:
    """What the kinds add; one agent alone adds nothing."""
    return tuple(share for each in _SHARES if (share := each(state)) is not None)


def kind_conditions(state: State) -> Iterator[str]:
    """What work does that belongs to a kind and not to a run: where it is `held` or `limited`, the conversation is."""
    if state.mission is not None:
        yield mission_condition(state.mission)
