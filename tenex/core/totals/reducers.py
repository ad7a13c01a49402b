"""What each record adds to the sums of a conversation."""

from collections.abc import Mapping
from typing import Final

from tenex.core import records as r
from tenex.core.cycle.reducers import leaves_phase
from tenex.core.ids import Millis
from tenex.core.messages import NO_USAGE
from tenex.core.phases import Phase
from tenex.core.reducers import Reducers
from tenex.core.state import State
from tenex.core.values import replace

from .costs import COSTS, DAY, cost_of
from .state import SPENDING_DAYS, PhaseMetrics, Totals

TOTALS: Final = Reducers[Totals]("totals")


# ---- time ------------------------------------------------------------------------------------------------------------


def passed(state: State, record: r.Record) -> int:
    """The ms since the last record, whatever the clock was set to; none before the first that has a time."""
    if not state.identity.updated_at:
        return 0
    set_by = record.by if isinstance(record, r.ClockAdjusted) else 0
    return max(0, record.at - state.identity.updated_at - set_by)


def is_work(state: State, record: r.Record) -> bool:
    """Whether an agent or the router worked until this record.

    Not while a user is waited for, nor an operator, a provider that is down or another day; a process that is away does
    not work either, nor one that was lost.
    """
    is_away = isinstance(record, r.ProcessRestarted | r.JournalRebuilt | r.ConversationImported)
    if state.cycle.status != "active" or is_away:
        return False
    runs = state.work.runs
    if runs:
        return not all(run.is_waiting or (run.retry is not None and run.retry.on_hold) for run in runs.values())
    question = state.router.question
    return question is None or question.retry is None or not question.retry.on_hold


def with_work(state: State, record: r.Record) -> Totals:
    """The totals with the time that ends with a record, if that was work."""
    duration = passed(state, record)
    if not duration or not is_work(state, record):
        return state.totals
    return replace(state.totals, working=state.totals.working + duration)


def phase_metrics(state: State) -> Mapping[Phase, PhaseMetrics]:
    """The metrics of all phases; the visit to the current phase counts, up to the newest record."""
    return state.totals.with_visit(state.cycle.phase, state.identity.updated_at)


@TOTALS.on(r.ConversationStarted)
def _started(totals: Totals, record: r.ConversationStarted, _: State) -> Totals:
    return replace(totals, phase_started_at=record.at)


@TOTALS.on(r.CycleStarted)
def _cycle_started(totals: Totals, record: r.CycleStarted, before: State) -> Totals:
    return totals.phase_left(before.cycle.phase, record.at) if leaves_phase(before, record) else totals


@TOTALS.on(r.PhaseTransition)
def _moved(totals: Totals, record: r.PhaseTransition, before: State) -> Totals:
    return totals.phase_left(before.cycle.phase, record.at)


@TOTALS.on(r.ClockAdjusted)
def _clock_set(totals: Totals, record: r.ClockAdjusted, _: State) -> Totals:
    return replace(totals, phase_started_at=Millis(totals.phase_started_at + record.by))


# ---- counts and costs ------------------------------------------------------------------------------------------------


@TOTALS.on(r.TurnOpened)
def _turn_opened(totals: Totals, _record: r.TurnOpened, _: State) -> Totals:
    return replace(totals, turn_count=totals.turn_count + 1)


@TOTALS.on(r.Continued)
def _continued(totals: Totals, _record: r.Continued, _: State) -> Totals:
    return replace(totals, granted=totals.usage)


@TOTALS.on(r.LimitReached)
def _limit_reached(totals: Totals, record: r.LimitReached, _: State) -> Totals:
    return replace(totals, limit_reported=(record.limit, record.until)) if record.until else totals


def spent(totals: Totals, record: r.Record, before: State) -> Totals:
    """Add what a record cost."""
    usage = cost_of(record)
    if usage.calls:
        phase = before.cycle.phase
        past = totals.metrics.get(phase, PhaseMetrics())
        metrics = {**totals.metrics, phase: replace(past, usage=past.usage + usage)}
        totals = replace(totals, usage=totals.usage + usage, metrics=metrics)
    if usage.tokens or usage.cost_usd:
        day = record.at // DAY
        person = before.on_behalf_of
        people = totals.spending.get(day, {})
        people = {**people, person: people.get(person, NO_USAGE) + usage}
        other_days = [item for item in totals.spending.items() if item[0] != day]
        totals = replace(totals, spending=dict([*other_days, (day, people)][-SPENDING_DAYS:]))
    return totals


for _kind in COSTS:
    TOTALS.add(_kind, spent)
