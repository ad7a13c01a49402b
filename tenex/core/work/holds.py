"""Work that is limited because a limit of a day is reached: how it is recorded, reported and tried again.

What a day has cost is known outside the conversation; whether a call may begin arrives as a signal.
"""

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.kind import all_kinds, kind_of_conversation
from tenex.core.signals import DayLimitReached
from tenex.core.state import State
from tenex.core.transaction import Transaction

from .run import Retry, Run, Wait


def hold(transaction: Transaction, run: Run | None, reached: DayLimitReached) -> None:
    """Have a run, or the router (None), wait until the day is over."""
    transaction.add(
        r.RetryScheduled,
        run=run.id if run is not None else None,
        attempt=transaction.state.failed_tries(run),
        due=reached.until,
        message=reached.sentence,
        on_hold=True,
        limit=reached.limit,
    )
    report(transaction, reached)


def report(transaction: Transaction, reached: DayLimitReached) -> None:
    """Notify users that a daily limit is reached, once a day for each limit."""
    if transaction.state.totals.limit_reported != (reached.limit, reached.until):
        transaction.add(r.LimitReached, limit=reached.limit, sentence=reached.sentence, until=reached.until)
        notify(transaction, reached.sentence, error="limit")


def on_hold(state: State) -> str:
    """Why work waits for the end of the day; empty where none does."""
    return next((wait.message for wait in _waits(state) if wait.limit), "")


def refusal(state: State) -> str:
    """Why `/continue` changes nothing; empty where something else may go on, or nothing waits."""
    waits = _waits(state)
    if not waits or not all(wait.limit for wait in waits):
        return ""
    return f"`/continue` does not lift the limit of a day. {waits[0].message}"


def _waits(state: State) -> list[Wait]:
    """Everything that waits to be tried again."""
    waits: list[Wait] = [run.retry for run in state.work.runs.values() if run.retry is not None]
    if state.router.question is not None and state.router.question.retry is not None:
        waits.append(state.router.question.retry)
    for kind in all_kinds():
        waits.extend(kind.waits(state))
    return waits


def try_again(transaction: Transaction) -> None:
    """Retry what is held or limited: it may be another day, or the settings others."""
    state = transaction.state
    for run in state.work.runs.values():
        if _may_have_changed(run.retry):
            transaction.add(r.RetryDue, run=run.id)
    if state.router.question is not None and _may_have_changed(state.router.question.retry):
        transaction.add(r.RetryDue, run=None)
    kind_of_conversation(state).retry_on_hold(transaction)


def _may_have_changed(retry: Retry | None) -> bool:
    return retry is not None and (bool(retry.limit) or retry.needs_operator)
