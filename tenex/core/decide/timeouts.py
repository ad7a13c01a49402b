"""What happens when something that a workflow expects has not come in time."""

from tenex.core import records as r
from tenex.core.state.workflow import WorkflowSession
from tenex.core.workflow_config import ACKS_WITHIN, MAX_SILENCE, REPLY_WITHIN, TTL, TURN_WITHIN

from .outgoing import say
from .transaction import Transaction
from .turns import STOPPED, close_calls, end_run
from .workflow import close


def missed(draft: Transaction, session: WorkflowSession, watch: str) -> None:
    """Tell people, or end the round and the workflow; `watch` is `<expectation>.<action>`, one the session has."""
    name, _, action = watch.partition(".")
    within = session.expectations[name]
    draft.add(r.ExpectationMissed, expectation=name, action="warn" if action == "warn" else "close")
    late = _late(session, name, (within.warn if action == "warn" else within.close) / 60_000)
    if action == "warn":
        left = f" It ends in {(within.close - within.warn) / 60_000:g} min." if within.close > within.warn else ""
        say(draft, f"{late}{left}")
        return
    for run in draft.state.own_runs:
        close_calls(draft, run, STOPPED)
        outcome: r.Outcome = "timed_out" if name == TURN_WITHIN else "stopped"
        end_run(draft, draft.state.runs[run.id], outcome, error=late, announce=name == TURN_WITHIN)
    close(draft, name, late)  # where the round that was just closed has not


def _late(session: WorkflowSession, name: str, minutes: float) -> str:
    match name:
        case _ if name == TURN_WITHIN:
            return f"{session.expected} has not answered within {minutes:g} min."
        case _ if name == REPLY_WITHIN:
            return f"A person's answer is awaited for {minutes:g} min."
        case _ if name == ACKS_WITHIN:
            return f"Not everybody was there within {minutes:g} min."
        case _ if name == MAX_SILENCE:
            return f"Nobody has said anything for {minutes:g} min."
        case _ if name == TTL:
            return f"The time of the workflow is up: {minutes:g} min."
        case _:
            return f"{name} was not met within {minutes:g} min."
