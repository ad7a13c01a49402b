"""The claim on messages of the two questions that only a user decides: to skip gates, and to approve a plan."""

from typing import Final

from tenex.core.inbox.claim import Claim, Recorded
from tenex.core.inbox.claims import open_questions
from tenex.core.people.permissions import Decision, may_decide
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.workflows.phases.state import phases_of

from . import approvals, gates, waivers


def _may_decide(state: State, recorded: Recorded) -> bool:
    del recorded
    return bool(phases_of(state).waiver_asked) or gates.unapproved_plan(state) is not None


def _decide(transaction: Transaction, recorded: Recorded) -> bool:
    signal = recorded.signal
    wrote = recorded.wrote
    # a plan is no question in journals that do not name the message which presented it
    is_only = open_questions(transaction.state) <= 1
    if waivers.answered(transaction, signal, wrote, is_only=is_only):
        return True
    return approvals.answered(transaction, signal, wrote, is_only=is_only)


def why_uncounted(transaction: Transaction, signal: MessageReceived) -> str:
    """Why the author of an answer may not decide the question that it replies to; "" where they may."""
    state = transaction.state
    phases = phases_of(state)
    waiver = phases.waiver_question
    is_waiver = waiver is not None and signal.message.reply_to in waiver.events
    may = may_decide(
        Decision.WAIVER if is_waiver else Decision.APPROVAL,
        state,
        transaction.policy.gates,
        author=signal.message.author,
        role=signal.role,
        asked=phases.waiver_asked_of if is_waiver else None,
    )
    if may:
        return ""
    if is_waiver:
        return "Only an owner, or who was asked, can allow that." if phases.waiver_asked_of else _OWNERS
    return "Only an owner can decide that, or the member who began this conversation."


def _asks(state: State) -> int:
    phases = phases_of(state)
    asks_for_plan = phases.plan_question is not None and not gates.is_plan_approved(state)
    return bool(phases.waiver_asked) + asks_for_plan


_OWNERS: Final = "Only an owner can allow that."

DECISION: Final = Claim(name="decision", reads=frozenset({"record"}), wants=_may_decide, take=_decide, asks=_asks)
