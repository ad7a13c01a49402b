"""What each record does to where a cycle is on its way through the phases."""

from typing import Final

from tenex.core import records as r
from tenex.core.ids import Millis, PublicKey
from tenex.core.phases import Phase
from tenex.core.state.conversation import State, worked_on
from tenex.core.state.cycle import Cycle
from tenex.core.state.phases import EARLIER_PLANS, Phases
from tenex.core.state.questions import DecisionQuestion
from tenex.core.values import replace

from .cycle import carried, is_all_put_back, leaves_phase, with_settled
from .table import Reducers

PHASES: Final = Reducers[Phases]("phases")


# ---- cycles and transitions ------------------------------------------------------------------------------------------


@PHASES.on(r.CycleStarted)
def _cycle_started(phases: Phases, record: r.CycleStarted, before: State) -> Phases:
    """What goes on in a new cycle; all else is of the old one."""
    is_shown_later = phases.unannounced is not None and phases.unannounced.to is record.phase
    return Phases(
        wrote_since_entry=bool(carried(before, record)),
        last_transition=None if leaves_phase(before, record) else phases.last_transition,
        unannounced=phases.unannounced if is_shown_later else None,
        worked_on=phases.worked_on,
        asked_at_rest=phases.asked_at_rest,
    )


@PHASES.on(r.PhaseTransition)
def _moved(phases: Phases, record: r.PhaseTransition, _: State) -> Phases:
    return replace(phases, wrote_since_entry=False, last_transition=record, unannounced=record)


@PHASES.on(r.HandedOff)
def _handed_off(phases: Phases, record: r.HandedOff, _: State) -> Phases:
    return replace(phases, last_transition=record)


@PHASES.on(r.MessageRecorded)
def _wrote(phases: Phases, record: r.MessageRecorded, before: State) -> Phases:
    cycle = before.cycle
    is_at_rest = cycle.status == "waiting" and cycle.waiting_for != "waiver" and cycle.phase is Phase.EXECUTE
    return replace(
        phases,
        asked_at_rest=record.seq if is_at_rest else phases.asked_at_rest,
        wrote_since_entry=True,
        waiver_declined=frozenset(),
    )


@PHASES.on(r.MessageSent)
def _sent(phases: Phases, record: r.MessageSent, before: State) -> Phases:
    if record.is_published and record.phase is before.cycle.phase and phases.unannounced is not None:
        phases = replace(phases, unannounced=None)
    if not record.asks:
        return phases
    events = tuple(event.id for event in record.events)
    if record.asks == "waiver":
        return replace(phases, waiver_question=DecisionQuestion(events=events, at=record.at))
    # each agent of a turn presents a part of the plan
    parts = phases.plan_question.events if phases.plan_question is not None else ()
    return replace(phases, plan_question=DecisionQuestion(events=(*parts, *events), at=record.at))


@PHASES.on(r.ClockAdjusted)
def _clock_set(phases: Phases, record: r.ClockAdjusted, _: State) -> Phases:
    by = record.by
    transition = phases.last_transition
    if transition is not None:
        transition = replace(transition, at=Millis(transition.at + by))
    return replace(
        phases,
        last_transition=transition,
        waiver_question=phases.waiver_question and phases.waiver_question.shifted(by),
        plan_question=phases.plan_question and phases.plan_question.shifted(by),
    )


# ---- the router's question -------------------------------------------------------------------------------------------


@PHASES.on(r.Stopped, r.WaiverDeclined)
def _not_asked(phases: Phases, _record: r.Record, _: State) -> Phases:
    return phases.without_waiver_question()


@PHASES.on(r.RouteRequested)
def _route_requested(phases: Phases, _record: r.RouteRequested, _: State) -> Phases:
    """The router is asked; work goes on, so a later yes is an answer to something else than gates."""
    return phases.without_waiver_question()


@PHASES.on(r.Routed)
def _routed(phases: Phases, record: r.Routed, before: State) -> Phases:
    by = record.decided_by
    is_by_router = before.router.question is not None and by is not None and by.kind == "router"
    is_verifying = before.cycle.phase is Phase.VERIFICATION
    if is_by_router and is_verifying and _has_granted_waiver(phases, with_settled(before, record)):
        # it could choose any work: the wish to waive, which began this, holds none that it left for the next cycle
        worked = before.memory.answered if phases.worked_on is None else phases.worked_on
        return replace(phases, worked_on=max(worked, before.router.asked))
    return phases


def _has_granted_waiver(phases: Phases, cycle: Cycle) -> bool:
    """Whether a user has said yes to the router's question, and nothing else with it."""
    answers = {message.event_id for message in cycle.messages if message.is_answer}
    return any(not waiver.untried and waiver.message_id in answers for waiver in phases.waivers)


# ---- waivers and plans -----------------------------------------------------------------------------------------------


@PHASES.on(r.WaiverRequested)
def _waiver_requested(phases: Phases, record: r.WaiverRequested, _: State) -> Phases:
    return replace(
        phases,
        waiver_asked=record.phases,
        waiver_asked_of=record.of,
        waiver_untried=record.untried,
        untried_asked=phases.untried_asked or bool(record.untried),
    )


@PHASES.on(r.Waived)
def _waived(phases: Phases, record: r.Waived, _: State) -> Phases:
    return replace(
        phases,
        waivers=(*phases.waivers, record),
        waiver_asked=(),
        waiver_asked_of=PublicKey(""),
        waiver_question=None,
        waiver_untried="",
    )


@PHASES.on(r.PlanApproved)
def _plan_approved(phases: Phases, record: r.PlanApproved, _: State) -> Phases:
    return replace(phases, approved_turn=record.turn_id)


# ---- turns and gates -------------------------------------------------------------------------------------------------


@PHASES.on(r.TurnOpened)
def _turn_opened(phases: Phases, record: r.TurnOpened, before: State) -> Phases:
    plans = phases.earlier_plans
    if phases.plan_question is not None:
        plans = (*plans, *phases.plan_question.events)[-EARLIER_PLANS:]
    phases = replace(phases.without_waiver_question(), plan_question=None, earlier_plans=plans)
    opens_gates = before.has_phases and record.phase is Phase.EXECUTE and not record.gates_by_effect
    return phases.with_open_gates() if opens_gates else phases


@PHASES.on(r.ToolCallCompleted)
def _call_returned(phases: Phases, record: r.ToolCallCompleted, before: State) -> Phases:
    turn = before.work.turn
    if turn is None or record.run not in before.work.runs or not before.has_phases:
        return phases
    if turn.phase is not Phase.EXECUTE or not (record.touched or record.has_outside_effect):
        return phases
    changed_outside = phases.changed_outside or record.has_outside_effect
    return replace(phases.with_open_gates(), changed_outside=changed_outside)


@PHASES.on(r.RunEnded)
def _run_ended(phases: Phases, record: r.RunEnded, before: State) -> Phases:
    run, turn = before.work.runs.get(record.run), before.work.turn
    if run is None or turn is None or run.parent is not None:
        return phases
    phases = replace(phases, worked_on=worked_on(before, run.shown))
    return replace(phases, reflected=phases.reflected | {run.agent}) if turn.phase is Phase.REFLECTION else phases


@PHASES.on(r.TurnClosed)
def _turn_closed(phases: Phases, record: r.TurnClosed, before: State) -> Phases:
    if before.work.turn is None or record.gate is None:
        return phases
    return replace(phases, gates_met=phases.gates_met | {record.gate})


@PHASES.on(r.FilesUndone)
def _files_undone(phases: Phases, record: r.FilesUndone, before: State) -> Phases:
    """Without changes no gate is open."""
    left = before.cycle.touched - frozenset(record.files)
    if not is_all_put_back(before, record) or left or phases.changed_outside or before.cycle.status == "ended":
        return phases
    return replace(phases, executed=False, gates_met=frozenset())
