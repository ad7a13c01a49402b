"""What each record does to where a cycle is on its way through the phases, and what its own do to the rest."""

from collections.abc import Callable
from typing import Any, Final

from tenex.core import records as r
from tenex.core.answers.yes_no import ANSWER_WORDS
from tenex.core.cycle.reducers import CYCLE, carried, is_all_put_back, leaves_phase, settled_by
from tenex.core.cycle.state import Cycle
from tenex.core.history.reducers import HISTORY, noted, where_kept
from tenex.core.history.state import History
from tenex.core.ids import Millis, PublicKey
from tenex.core.inbox.message import Settlement
from tenex.core.memory.reducers import MEMORY, QUOTE, decided
from tenex.core.memory.state import Memory, UserDecision
from tenex.core.memory.window import in_a_line
from tenex.core.people.decider import Decider, person
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.reducers import Reducer, Reducers
from tenex.core.router.reducers import ROUTER
from tenex.core.router.state import Router
from tenex.core.state import State
from tenex.core.values import replace

from . import checks
from . import records as p
from .questions import DecisionQuestion
from .state import EARLIER_PLANS, NAME, Phases, phases_of

PHASES: Final = Reducers[Phases | None](NAME)


def _on(*records: type[r.Record]) -> Callable[[Reducer[Phases, Any]], Reducer[Phases, Any]]:
    """Register the function below, for conversations that go through the phases."""

    def register(reduce: Reducer[Phases, Any]) -> Reducer[Phases, Any]:
        def reduce_part(part: Phases | None, record: Any, before: State) -> Phases | None:
            return reduce(part or _NEW, record, before) if before.has_phases else part

        PHASES.on(*records)(reduce_part)
        return reduce

    return register


_NEW: Final = Phases()

CHANGING: Final = (Phase.EXECUTE, Phase.CHORES)
"""The phases whose turns may change the workspace."""

RESULTS_KEPT: Final = 40
"""Results of checks in a cycle: those of ten checks on the newest trees, and before the work."""


# ---- cycles and transitions ------------------------------------------------------------------------------------------


@_on(r.CycleStarted)
def _cycle_started(phases: Phases, record: r.CycleStarted, before: State) -> Phases:
    """What goes on in a new cycle; all else is of the old one."""
    is_shown_later = phases.unannounced is not None and phases.unannounced.to is record.phase
    return Phases(
        wrote_since_entry=bool(carried(before, record)),
        last_transition=None if leaves_phase(before, record) else phases.last_transition,
        unannounced=phases.unannounced if is_shown_later else None,
        left_before=phases.left_before if is_shown_later else (),
        worked_on=phases.worked_on,
        asked_at_rest=phases.asked_at_rest,
        passed_before=tuple(
            result for result in phases.check_results if result.is_success and result.tree == phases.tree
        ),
    )


@_on(r.PhaseTransition)
def _moved(phases: Phases, record: r.PhaseTransition, _: State) -> Phases:
    phases = replace(
        phases,
        wrote_since_entry=False,
        last_transition=record,
        unannounced=record,
        left_before=phases.unannounced_phases,
    )
    return phases if record.gate is None else replace(phases, gates_met=phases.gates_met | {record.gate})


@_on(r.HandedOff)
def _handed_off(phases: Phases, record: r.HandedOff, _: State) -> Phases:
    return replace(phases, last_transition=record)


@_on(r.MessageRecorded)
def _wrote(phases: Phases, record: r.MessageRecorded, before: State) -> Phases:
    if record.is_correction:
        return phases
    cycle = before.cycle
    is_at_rest = cycle.status == "waiting" and cycle.waiting_for != "waiver" and cycle.phase is Phase.EXECUTE
    return replace(
        phases,
        asked_at_rest=record.seq if is_at_rest else phases.asked_at_rest,
        wrote_since_entry=True,
        waiver_declined=frozenset(),
        refused_tree="",
    )


@_on(r.MessageSent)
def _sent(phases: Phases, record: r.MessageSent, before: State) -> Phases:
    if record.is_published and record.phase is before.cycle.phase and phases.unannounced is not None:
        phases = replace(phases, unannounced=None, left_before=())
    if not record.asks:
        return phases
    events = tuple(event.id for event in record.events)
    if record.asks == "waiver":
        return replace(phases, waiver_question=DecisionQuestion(events=events, at=record.at))
    # each agent of a turn presents a part of the plan
    parts = phases.plan_question.events if phases.plan_question is not None else ()
    return replace(phases, plan_question=DecisionQuestion(events=(*parts, *events), at=record.at))


@_on(r.ClockAdjusted)
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


@_on(r.Stopped, p.WaiverDeclined)
def _not_asked(phases: Phases, _record: r.Record, _: State) -> Phases:
    return phases.without_waiver_question()


@_on(r.RouteRequested)
def _route_requested(phases: Phases, _record: r.RouteRequested, _: State) -> Phases:
    """The router is asked; work goes on, so a later yes is an answer to something else than gates."""
    return phases.without_waiver_question()


@_on(r.Routed)
def _routed(phases: Phases, record: r.Routed, before: State) -> Phases:
    phases = replace(phases, is_question=record.is_question)
    if record.settled is not None:
        return phases  # it names each message that it settles; older journals do not
    by = record.decided_by
    is_by_router = before.router.question is not None and by is not None and by.kind == "router"
    is_verifying = before.cycle.phase is Phase.VERIFICATION
    cycle = before.cycle.settled(settled_by(before, record))
    if is_by_router and is_verifying and _has_granted_waiver(phases, cycle):
        # it could choose any work: the wish to waive, which began this, holds none that it left for the next cycle
        worked = before.memory.answered if phases.worked_on is None else phases.worked_on
        return replace(phases, worked_on=max(worked, before.router.asked))
    return phases


def _has_granted_waiver(phases: Phases, cycle: Cycle) -> bool:
    """Whether a user has said yes to the router's question, and nothing else with it, or was not asked for it."""
    answers = {message.event_id for message in cycle.messages if message.is_settled}
    return any(waiver.unasked or (not waiver.untried and waiver.message_id in answers) for waiver in phases.waivers)


# ---- waivers and plans -----------------------------------------------------------------------------------------------


@_on(p.WaiverRequested)
def _waiver_requested(phases: Phases, record: p.WaiverRequested, _: State) -> Phases:
    return replace(
        phases,
        waiver_asked=record.phases,
        waiver_asked_of=record.of,
        waiver_untried=record.untried,
        untried_asked=phases.untried_asked or bool(record.untried),
    )


@_on(p.Waived)
def _waived(phases: Phases, record: p.Waived, _: State) -> Phases:
    return replace(
        phases,
        waivers=(*phases.waivers, record),
        waiver_asked=(),
        waiver_asked_of=PublicKey(""),
        waiver_question=None,
        waiver_untried="",
    )


@_on(p.PlanApproved)
def _plan_approved(phases: Phases, record: p.PlanApproved, _: State) -> Phases:
    return replace(phases, approved_turn=record.turn_id)


# ---- turns and gates -------------------------------------------------------------------------------------------------


@_on(r.TurnOpened)
def _turn_opened(phases: Phases, record: r.TurnOpened, _: State) -> Phases:
    plans = phases.earlier_plans
    if phases.plan_question is not None:
        plans = (*plans, *phases.plan_question.events)[-EARLIER_PLANS:]
    phases = replace(phases.without_waiver_question(), plan_question=None, earlier_plans=plans)
    opens_gates = record.phase is Phase.EXECUTE and not record.gates_by_effect
    return phases.with_open_gates() if opens_gates else phases


@_on(r.ToolCallCompleted)
def _call_returned(phases: Phases, record: r.ToolCallCompleted, before: State) -> Phases:
    turn = before.work.turn
    run = before.work.runs.get(record.run)
    if turn is None or run is None:
        return phases
    if not record.ok and record.exit_status is None:
        phases = phases.with_failed_call(run.agent)
    if not (before.cycle.changed_by(record.touched, record.unchanged) or record.has_outside_effect):
        return phases
    if turn.phase in CHANGING:
        phases = replace(phases, inspection=None, inspect_from=0, untried_asked=False)
    if turn.phase is not Phase.EXECUTE:
        return phases
    if not (phases.changed_outside or record.has_outside_effect):
        left = (before.cycle.touched | frozenset(record.touched)).difference(record.unchanged)
        return phases.with_open_gates() if left else phases.without_changes()
    return replace(phases.with_open_gates(), changed_outside=True)


@_on(r.ToolCallRejected)
def _call_refused(phases: Phases, record: r.ToolCallRejected, before: State) -> Phases:
    run = before.work.runs.get(record.run)
    return phases if run is None else phases.with_failed_call(run.agent)


@_on(r.ApprovalAnswered)
def _approval_answered(phases: Phases, record: r.ApprovalAnswered, before: State) -> Phases:
    run = before.work.runs.get(record.run)
    is_correction = record.outcome == "no" and bool(record.reason.strip())
    return replace(phases, corrected=phases.corrected | {run.agent}) if run is not None and is_correction else phases


@_on(r.RunEnded)
def _run_ended(phases: Phases, record: r.RunEnded, before: State) -> Phases:
    run = before.work.runs.get(record.run)
    turn = before.work.turn
    if run is None or turn is None or run.parent is not None:
        return phases
    phases = replace(phases, worked_on=phases.worked_on_after(before, run.shown))
    return replace(phases, reflected=phases.reflected | {run.agent}) if turn.phase is Phase.REFLECTION else phases


@_on(r.TurnClosed)
def _turn_closed(phases: Phases, record: r.TurnClosed, before: State) -> Phases:
    turn = before.work.turn
    if turn is None:
        return phases
    if record.is_inspected:
        phases = replace(phases, inspect_from=record.seq)
    is_refused = any(done.verdict == "issues" for done in turn.completions) or bool(checks.worse(before))
    if turn.phase is Phase.VERIFICATION and is_refused:
        phases = replace(phases, refused_tree=phases.tree)
    return phases if record.gate is None else replace(phases, gates_met=phases.gates_met | {record.gate})


@_on(r.FilesUndone)
def _files_undone(phases: Phases, record: r.FilesUndone, before: State) -> Phases:
    """Without changes no gate is open; else the workspace is looked at again."""
    if before.cycle.status == "ended" or not record.files:
        return phases
    left = before.cycle.touched - frozenset(record.files)
    if is_all_put_back(before, record) and not left and not phases.changed_outside:
        return replace(phases.without_changes(), inspection=None, inspect_from=0)
    return replace(phases, inspection=None, inspect_from=record.seq if phases.is_looked_at else 0)


# ---- what the daemon has seen ----------------------------------------------------------------------------------------


@_on(p.WorkInspected)
def _inspected(phases: Phases, record: p.WorkInspected, before: State) -> Phases:
    """Where nothing differs in the end, no gate is open."""
    phases = replace(
        phases,
        inspection=record.inspection,
        inspected_at=record.seq,
        inspect_from=0,
        last_tree=record.inspection.tree,
    )
    differs = record.inspection.fault or not before.cycle.touched.isdisjoint(record.inspection.paths)
    return phases if differs or phases.changed_outside else phases.without_changes()


@_on(p.CheckEnded)
def _check_ended(phases: Phases, record: p.CheckEnded, _: State) -> Phases:
    phases = replace(phases, check_results=(*phases.check_results, record.result)[-RESULTS_KEPT:])
    if not record.is_earlier and record.result.tree != phases.tree:  # somebody has changed the workspace since
        return replace(phases, inspection=None, inspect_from=record.seq)
    return phases


# ---- what rebuilds and imports leave ---------------------------------------------------------------------------------


@_on(r.JournalRebuilt)
def _rebuilt(phases: Phases, record: r.JournalRebuilt, _: State) -> Phases:
    if record.phase is None:
        return phases
    return replace(
        phases,
        wrote_since_entry=False,
        executed=bool(record.open_gates),
        gates_met=frozenset(QUALITY_PHASES) - frozenset(record.open_gates),
    )


@_on(r.ConversationImported)
def _imported(phases: Phases, record: r.ConversationImported, _: State) -> Phases:
    return replace(phases, executed=False) if record.agent else phases


@_on(p.VerificationCounted)
def _verification_counted(phases: Phases, record: p.VerificationCounted, _: State) -> Phases:
    return replace(phases, gates_met=phases.gates_met | {record.gate})


@CYCLE.on(p.WorkInspected)
def _cycle_inspected(cycle: Cycle, record: p.WorkInspected, before: State) -> Cycle:
    """The lines that a file differs by are those of the whole cycle, whoever changed it in between."""
    seen = {file.path: (file.added, file.removed) for file in record.inspection.changed if file.path in cycle.touched}
    if seen:
        cycle = replace(cycle, lines={**cycle.lines, **seen})
    is_as_before = bool(record.inspection.tree) and record.inspection.tree == phases_of(before).last_tree
    return cycle if is_as_before else replace(cycle, route_streak=0, streak_of=())


# ---- the rest of the conversation ------------------------------------------------------------------------------------


@CYCLE.on(p.WaiverDeclined, p.PlanApproved)
def _cycle_decided(cycle: Cycle, record: p.WaiverDeclined | p.PlanApproved, _: State) -> Cycle:
    return cycle.answered(record.message) if record.message else cycle


@CYCLE.on(p.WaiverRequested)
def _cycle_waiver_requested(cycle: Cycle, record: p.WaiverRequested, _: State) -> Cycle:
    return cycle.settled(record.settled)


@CYCLE.on(p.Waived)
def _cycle_waived(cycle: Cycle, record: p.Waived, before: State) -> Cycle:
    if record.unasked:
        wishes = (message for message in cycle.messages if message.event_id == record.message_id)
        return cycle.settled(Settlement(message=m.seq, kind="waiver", words=record.quote) for m in wishes)
    answer = cycle.messages[-1] if phases_of(before).waiver_asked and cycle.messages else None
    is_short = answer is not None and len(answer.text.split()) <= ANSWER_WORDS
    if answer is not None and is_short and answer.event_id == record.message_id:
        return cycle.answered(answer.seq)  # it holds no request that could be lost
    return cycle


@MEMORY.on(p.Waived)
def _memory_waived(memory: Memory, record: p.Waived, before: State) -> Memory:
    """A user gave up gates: by a command, by a yes, or by a message once nothing was left to check."""
    text = f"{record.name} gave up {', '.join(record.phases)}: “{in_a_line(record.quote, QUOTE)}”"
    is_command = all(message.event_id != record.message_id for message in before.cycle.messages[-1:])
    is_command = is_command and not record.unasked
    return decided(memory, UserDecision(seq=record.seq, text=text, is_command=is_command))


@MEMORY.on(p.PlanApproved)
def _memory_approved(memory: Memory, record: p.PlanApproved, _: State) -> Memory:
    """A user approved a plan, by a command or by a yes."""
    text = f"{record.name} approved the plan"
    return decided(memory, UserDecision(seq=record.seq, text=text, is_command=not record.message))


@MEMORY.on(r.PhaseTransition)
def _memory_moved(memory: Memory, record: r.PhaseTransition, before: State) -> Memory:
    """A plan is carried out: what a user last wrote about it approved it, where no approval is on record."""
    is_carried_out = record.from_ is Phase.PLAN and record.to is Phase.EXECUTE
    if phases_of(before).approved_turn or not is_carried_out:
        return memory
    newest = before.cycle.messages[-1] if before.cycle.messages else None
    if newest is None or not phases_of(before).wrote_since_entry:
        return memory
    text = f"{newest.name} on the plan: {in_a_line(newest.text, QUOTE)}"
    return decided(memory, UserDecision(seq=newest.seq, text=text))


@ROUTER.on(p.WaiverRequested)
def _router_waits(router: Router, record: p.WaiverRequested, _: State) -> Router:
    """Its answer was this question to a user, and no decision yet on what users want."""
    return router if record.untried else replace(router, asked=0)


def _note_waiver_asked(state: State, history: History, record: p.WaiverRequested) -> History:
    reason = f"the router wants to skip {', '.join(record.phases)}; a person has to agree"
    by = Decider(kind="router")
    if record.untried:
        reason = f"{', '.join(record.phases)} not met: {record.untried}; a person has to accept it so"
        by = Decider(kind="rule")
    history = noted(state, history, record, "waiver asked", reason, by=by)
    return replace(history, reason=reason)


def _note_waiver_declined(state: State, history: History, record: p.WaiverDeclined) -> History:
    reason = f"{', '.join(phases_of(state).waiver_asked)} not skipped: no clear yes"
    return noted(state, history, record, "waiver declined", reason, by=person(record.name))


def _note_waived(state: State, history: History, record: p.Waived) -> History:
    reason = f"{', '.join(record.phases)} skipped: “{record.quote}”"
    return noted(state, history, record, "waiver", reason, by=person(record.name, record.author))


def _note_approved(state: State, history: History, record: p.PlanApproved) -> History:
    reason = f"the plan of {record.turn_id} approved"
    return noted(state, history, record, "approval", reason, by=person(record.name, record.author))


HISTORY.add(p.WaiverRequested, where_kept(_note_waiver_asked))
HISTORY.add(p.WaiverDeclined, where_kept(_note_waiver_declined))
HISTORY.add(p.Waived, where_kept(_note_waived))
HISTORY.add(p.PlanApproved, where_kept(_note_approved))
