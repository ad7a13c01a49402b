"""What counts as a user's answer to the two questions that only a user decides: to skip gates, to approve a plan.

What follows from a yes cannot be taken back, so two things must hold. Its words say nothing but yes (`yes_no`). It
replies to the question itself; to the thread as a whole only where nothing else is asked, since it could be meant for
any question, and only if it was written after it: what a relay delivers late, or what is dated for later, answers
another question. Words that may turn a no round are asked about again. Whether its author may decide is in
`core/people/permissions.py`. The author of a yes that does not count reads why.
"""

from tenex.core.answers.yes_no import why_misdated
from tenex.core.signals import InboundMessage
from tenex.core.transaction import Transaction
from tenex.workflows.phases.questions import DecisionQuestion


def why_no_answer(
    transaction: Transaction,
    message: InboundMessage,
    question: DecisionQuestion | None,
    *,
    is_only: bool,
    asked_at: int = 0,
) -> str:
    """Why a message is no answer to a question, as part of a sentence; "" if it is one.

    `is_only` is whether nothing else is asked; `asked_at` (ms) is for a question that an older journal does not name.
    """
    state = transaction.state
    is_reply = question is not None and message.reply_to in question.events
    is_to_thread = message.reply_to in (None, state.id, state.identity.address.get("root"))
    if not is_reply and not is_to_thread:
        return "it replies to another message"
    if not is_reply and not is_only:
        return "several questions are open"
    asked_at = question.at if question is not None else asked_at
    return why_misdated(message.created_at, asked_at, transaction.now, is_reply=is_reply)
