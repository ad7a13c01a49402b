"""What a time away and a clock that was set do to what a conversation waits for.

A deadline is a time of the wall clock. While a process lives, its timers go by the time that passes, so a clock that is
set moves none of them; the record that notes it moves what they are made of, for those that are begun later. What a
process cannot see, because none was there, is the time since the last record: it counts against no run.
"""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.state.conversation import State
from tenex.core.state.questions import DecisionQuestion
from tenex.core.state.run import Retry, Run
from tenex.core.workflow_config import TTL


def reopened(c: State, record: r.ProcessRestarted) -> None:
    """Give back the time no one was there: to runs, to a mission, and to messages a relay has not taken."""
    c.runs = {key: _spared(run, record.away) for key, run in c.runs.items()}
    c.mission = c.mission and c.mission.spared(record.away)
    c.question = c.question and c.question.moved(record.away)
    if c.workflow is not None:  # its whole life is measured by the wall clock
        c.workflow = c.workflow.moved(record.away, but=TTL)
    _grant(c, record.away)


def clock_set(c: State, record: r.ClockAdjusted) -> None:
    """Shift every time that is waited for, or counted from, to the new clock."""
    by = record.by
    c.runs = {key: _run(run, by) for key, run in c.runs.items()}
    c.mission = c.mission and c.mission.moved(by)
    if c.workflow is not None:
        c.workflow = c.workflow.moved(by)
    if c.question is not None:
        c.question = replace(c.question.moved(by), retry=_retry(c.question.retry, by))
    if c.last_transition is not None:
        c.last_transition = replace(c.last_transition, at=Millis(c.last_transition.at + by))
    c.waiver_question = _decision_question(c.waiver_question, by)
    c.plan_question = _decision_question(c.plan_question, by)
    c.phase_started_at = Millis(c.phase_started_at + by)
    _grant(c, by)


def _spared(run: Run, by: int) -> Run:
    """The run with later deadlines; what it is given for a question or a wait for a try is less by as much."""
    moved = _run(run, by)
    return replace(moved, retry=moved.retry and run.retry and replace(moved.retry, due=run.retry.due))


def _run(run: Run, by: int) -> Run:
    parked_at = None if run.parked_at is None else Millis(run.parked_at + by)
    return replace(run.moved(by), parked_at=parked_at, retry=_retry(run.retry, by))


def _retry(retry: Retry | None, by: int) -> Retry | None:
    return retry and replace(retry, due=Millis(retry.due + by), since=Millis(retry.since + by))


def _decision_question(question: DecisionQuestion | None, by: int) -> DecisionQuestion | None:
    return question and replace(question, at=Millis(question.at + by))


def _grant(c: State, by: int) -> None:
    """Have what waits for a relay expire later; a row no relay has taken yet does not expire at all."""
    c.outbox = {
        seq: replace(row, expires_at=Millis(row.expires_at + by)) if row.expires_at else row
        for seq, row in c.outbox.items()
    }
