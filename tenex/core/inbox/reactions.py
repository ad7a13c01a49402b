"""What a person says by a reaction (NIP-25) alone, beside the answers to requests for permission (`core/approvals`).

    🛑 ✋             to a message of the work under way: stops it, as `/stop`
    1️⃣ 2️⃣ ... 🔟      to a question of an agent with choices: that one
    👍 👎 (and alike) to a question for a yes or no: of an agent, whether a plan is approved, gates skipped

A reaction is read as the reply that it means, so who may give it, and when, is decided where replies are. One of
somebody who may not decides nothing, and they are informed of that, once for each question. Every other picture is
thanks.
"""

import re
from typing import Final

from tenex.core.answers.pictures import NO, STOP, YES, number_in, plain_picture
from tenex.core.answers.yes_no import is_clear_no, is_clear_yes
from tenex.core.ids import PublicKey
from tenex.core.kind import kind_of_conversation
from tenex.core.people.permissions import Decision, may_decide
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.work.run import ASK, Call, CallState, choices_of

from .decide import asked_person
from .uncounted import report_uncounted

CLOCKS_DIFFER: Final = 60
"""Seconds by which a person's clock may differ from ours."""
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_ASKS_YES_OR_NO: Final = re.compile(
    r"(?:am|are|can|could|did|do|does|had|has|have|is|may|might|must|shall|should|was|were|will|would)\b", re.IGNORECASE
)
_OR: Final = re.compile(r"\bor\b", re.IGNORECASE)


def may_stop(state: State, signal: MessageReceived) -> bool:
    """Whether a reaction is a stop sign while something runs, and not to a request for permission."""
    is_running = state.work.turn is not None or state.router.question is not None or state.has_open_kind
    is_sign = plain_picture(signal.message.text) in STOP
    return is_sign and is_running and state.approvals.asked_by(signal.message.reply_to or "") is None


def means_stop(transaction: Transaction, signal: MessageReceived) -> bool:
    """Whether the author of a stop sign may stop the work, and means it: not that of an earlier cycle or moment."""
    state = transaction.state
    written = signal.message
    messages = (*state.memory.recent, *state.cycle.messages)
    cycles = [message.cycle for message in messages if written.reply_to in (message.event_id, message.sent_as)]
    began = min((message.at for message in state.cycle.messages), default=0)
    is_dated = written.created_at + CLOCKS_DIFFER >= began // 1000
    is_of_now = written.reply_to is None or max(cycles, default=state.cycle.number) >= state.cycle.number
    return _may(transaction, signal, Decision.COMMAND) and is_dated and is_of_now


def may_reply(state: State, signal: MessageReceived) -> bool:
    """Whether a reaction is to a question that a reply can answer: of an agent, or for the decision of a user."""
    event = signal.message.reply_to
    return event in state.work.asks or any(event in kind.question_events for kind in state.kinds.values())


def reply_by(transaction: Transaction, signal: MessageReceived) -> str:
    """The reply that such a reaction means; "" for none, and where its author may not give it, who is informed."""
    picture = plain_picture(signal.message.text)
    asked = transaction.state.work.asks.get(signal.message.reply_to or "")
    if asked is None:
        text = _yes_or_no(picture)
        why = kind_of_conversation(transaction.state).why_uncounted(transaction, signal)
    else:
        run = transaction.state.work.runs.get(asked[0])
        call = run.find(asked[1]) if run is not None else None
        if run is None or call is None or call.state is not CallState.PARKED or call.request.tool != ASK:
            return ""
        text = _answer(call, picture)
        of = call.asked_of or transaction.state.on_behalf_of
        is_theirs = _may(transaction, signal, Decision.ANSWER, of)
        who = asked_person(transaction, call)
        why = "" if is_theirs else f"{run.name} asked {who}, so your reaction is no answer."
    if text and why:
        report_uncounted(transaction, signal, why)
        return ""
    return text


def _answer(call: Call, picture: str) -> str:
    """The choice that a picture means, or a yes or no where the question asks for that."""
    choices = choices_of(call.request)
    number = number_in(picture)
    if number:
        return choices[number - 1] if number <= len(choices) else ""
    said = _yes_or_no(picture)
    if not said:
        return ""
    if choices:
        is_meant = is_clear_yes if is_clear_yes(said) else is_clear_no
        fitting = [choice for choice in choices if is_meant(choice)]
        return fitting[0] if len(fitting) == 1 and len(choices) == 2 else ""
    question = call.request.arguments.get("question")
    return said if isinstance(question, str) and asks_yes_or_no(question) else ""


def asks_yes_or_no(question: str) -> bool:
    """Whether the last sentence of a text is answered by yes or no, as far as its first word shows."""
    last = _SENTENCES.split(question.strip())[-1]
    return last.endswith("?") and _ASKS_YES_OR_NO.match(last) is not None and _OR.search(last) is None


def _yes_or_no(picture: str) -> str:
    if picture in YES:
        return "👍"
    return "👎" if picture in NO else ""


def _may(transaction: Transaction, signal: MessageReceived, decision: Decision, asked: PublicKey | None = None) -> bool:
    return may_decide(
        decision,
        transaction.state,
        transaction.policy.gates,
        author=signal.message.author,
        role=signal.role,
        asked=asked,
    )
