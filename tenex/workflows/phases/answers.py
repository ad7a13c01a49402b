"""What counts as a user's answer to the two questions that only a user decides: to skip gates, to approve a plan.

What follows from a yes cannot be taken back, so three things must hold. Its words say nothing but yes. It replies to
the question itself; to the thread as a whole only where nothing else is asked, since there it could be meant for any
question. And it was written after the question, by a clock that can be right: what a relay delivers late, or what is
dated for later, answers another question. Whether its author may decide is in `core/permissions.py`. The author
of a yes that does not count reads why.
"""

from typing import Final

from tenex.core.signals import InboundMessage
from tenex.core.transaction import Transaction
from tenex.core.work.run import CallState
from tenex.workflows.phases.questions import DecisionQuestion
from tenex.workflows.phases.state import phases_of

from . import gates

CLOCKS_DIFFER: Final = 60
"""Seconds by which a user's clock may differ from ours: as far as our own messages are dated ahead."""


def meanings_of_yes(transaction: Transaction) -> int:
    """How many questions a user could mean by a yes that names none."""
    state = transaction.state
    asked_by_agents = sum(call.state is CallState.PARKED for run in state.work.runs.values() for call in run.open_calls)
    has_waiver = bool(phases_of(state).waiver_asked)
    has_plan = gates.waiting_plan(state, transaction.policy) is not None
    return asked_by_agents + has_waiver + has_plan + len(state.approvals.open)


def why_no_answer(
    transaction: Transaction, message: InboundMessage, question: DecisionQuestion | None, *, is_only: bool
) -> str:
    """Why a message is no answer to a question, as part of a sentence; "" if it is one.

    `is_only` is whether nothing else is asked. A question that an older journal does not name has no events.
    """
    state = transaction.state
    replies_to_thread = message.reply_to in (None, state.id, state.identity.address.get("root"))
    events = question.events if question is not None else ()
    if message.reply_to not in events and not (replies_to_thread and is_only):
        return "several questions are open" if replies_to_thread else "it replies to another message"
    return why_misdated(transaction, message, question.at if question is not None else 0)


def why_misdated(transaction: Transaction, message: InboundMessage, asked_at: int) -> str:
    """Why the date of a message is not one of an answer to what was asked then (ms), as part of a sentence."""
    if message.created_at + CLOCKS_DIFFER < asked_at // 1000:
        return "it is dated before my question"
    if message.created_at > transaction.now // 1000 + CLOCKS_DIFFER:
        return "it is dated in the future"
    return ""
