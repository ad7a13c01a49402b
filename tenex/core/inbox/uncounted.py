"""Answers of people who may not decide what they answer: nothing follows, and their author is informed once.

A person who reacts with a picture may not know that others are asked. They read so in the thread, once for each
question, and so few of them a day that guests fill neither a thread nor, with many conversations, a room.
"""

from typing import Final

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.people.trust import chat_of
from tenex.core.signals import MessageReceived
from tenex.core.totals.costs import DAY
from tenex.core.transaction import Transaction

MOST_A_DAY: Final = 50
"""Notices in a conversation, and in all those of its room (outside of rooms, in all others); as many guests a day are
informed that pictures and the like are not read."""


def report_uncounted(transaction: Transaction, signal: MessageReceived, why: str) -> None:
    """Inform the author of an answer that it does not count; `why` is one short sentence."""
    state = transaction.state
    written = signal.message
    question = written.reply_to
    past = state.identity.uncounted
    is_informed = any((one.question, one.author) == (question, written.author) for one in past)
    here = sum(1 for one in past if transaction.now - one.at < DAY)
    today = max(here, transaction.policy.notices_in_a_day(chat_of(state.identity.address), transaction.now))
    if question is None or is_informed or today >= MOST_A_DAY:
        return
    transaction.add(
        r.AnswerUncounted,
        question=question,
        author=written.author,
        name=signal.name,
        event_id=written.event_id,
    )
    origin = state.delivery.command_origin or state.delivery.origin
    is_named = origin.get("author") == written.author  # the form of the thread names who is answered
    tags = () if is_named else (("p", str(written.author)),)
    notify(transaction, why, tags=tags, notifies=(written.author,))
