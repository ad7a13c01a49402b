"""Questions with buttons, where the relay of a conversation has them: which answers are offered, and when they end.

The question's own message has them, in the form that the relay shows so. What was pressed is not asked of the relay: a
press is an event of the person who pressed, which is read like a reaction. So all that is done here is to end the
buttons once the question is over, whatever ended it: an answer by a press, a reaction or words, its time, `/stop`. A
relay that refuses the message with its buttons gets the question once more, as a plain message.
"""

from collections.abc import Sequence
from typing import Final

from tenex.core import records as r
from tenex.core.answers.pictures import NO_BUTTON, NUMBERS, YES_BUTTON
from tenex.core.ids import EventId, Millis
from tenex.core.port_values import Button, Buttons
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.values import replace

LONGEST: Final = Millis(29 * 24 * 3_600_000)
"""How long buttons are shown at most; the question stays open. Relays take thirty days, by their own clock."""

_YES_OR_NO: Final = (Button(picture=YES_BUTTON, label="Yes"), Button(picture=NO_BUTTON, label="No"))


def yes_or_no(now: Millis, expires_at: Millis | None = None) -> Buttons:
    """The buttons of a question for a yes or no, which may end at a time of its own."""
    longest = Millis(now + LONGEST)
    return Buttons(each=_YES_OR_NO, closes_at=longest if expires_at is None else min(expires_at, longest))


def numbered(choices: Sequence[str], now: Millis) -> Buttons | None:
    """A button for each choice; None where there is none, or more than pictures of numbers."""
    if not 0 < len(choices) <= len(NUMBERS):
        return None
    each = tuple(Button(picture=picture, label=choice) for picture, choice in zip(NUMBERS, choices, strict=False))
    return Buttons(each=each, closes_at=Millis(now + LONGEST))


def settle_buttons(transaction: Transaction) -> None:
    """End the buttons of questions that are over, and ask once more what a relay has refused with buttons."""
    for event, question in tuple(transaction.state.delivery.with_buttons.items()):
        is_refused = _is_refused(transaction.state, question.message)
        is_open = _is_open(transaction.state, event)
        if is_open and not is_refused:
            continue
        transaction.add(
            r.ButtonsClosed,
            message=question.message,
            event=event,
            speaker=question.speaker,
            is_refused=is_refused,
        )
        if is_open:
            transaction.add(
                r.MessageSent,
                speaker=question.speaker,
                name=question.name,
                text=question.text,
                purpose="question",
                phase=question.phase,
                run=question.run,
                call=question.call,
                tags=question.tags,
                asks="waiver" if question.asks == "waiver" else "",
                notifies=question.notifies,
                silent=question.silent,
            )


def as_answered(state: State, signal: MessageReceived) -> MessageReceived | None:
    """An answer to what a relay has shown of a question, if that begins with all of the question's own text.

    Else its author may have read another question: a reaction is ignored (None), and a text replies to what they saw.
    """
    message = signal.message
    if message.shown_in is None:
        return signal
    question = state.delivery.with_buttons.get(message.reply_to) if message.reply_to is not None else None
    if question is not None and message.shown_as.startswith(question.content):
        return signal
    return None if message.is_reaction else replace(signal, message=replace(message, reply_to=message.shown_in))


def _is_refused(state: State, message: int) -> bool:
    """Whether every relay of a message has answered, and none has accepted it."""
    delivery = state.delivery
    refusals = [refusal for refusal in delivery.refusals if refusal.message == message]
    return message not in delivery.outbox and bool(refusals) and not any(one.is_delivered for one in refusals)


def _is_open(state: State, event: EventId) -> bool:
    """Whether the question that an event asks still waits for its answer."""
    approvals = state.approvals
    if approvals.asked_by(event) is not None:
        return True
    if approvals.settled_by(event) is not None:
        return False
    return event in state.work.asks or any(event in kind.question_events for kind in state.kinds.values())
