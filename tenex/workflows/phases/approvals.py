"""The approval of a plan by a user, where `gates.plan_approval` wants it: `/approve`, `/reject REASON`, or an answer.

The message that presents the plan asks for it. A clear yes of a user who may decide approves; anything else they write
goes to those who made the plan. Others talk like anyone, and decide nothing.
"""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.answers.yes_no import Unclear, is_clear_yes, read_answer, why_misdated
from tenex.core.delivery.outgoing import notify
from tenex.core.inbox.decide import record_message
from tenex.core.people.permissions import Decision, asked_by_agents, may_decide
from tenex.core.phases import Phase
from tenex.core.signals import MessageReceived
from tenex.core.transaction import Transaction
from tenex.core.work.run import Run
from tenex.core.work.turn import OrchestratorTurn
from tenex.core.work.turns import advance
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of

from . import answers, decide, gates

_QUESTION = (
    "Reply “yes” or 👍, or send `/approve`, to approve this plan. Any other answer, or `/reject REASON`, changes it."
)
_WHO = " Only an owner can approve it, or the member who began this conversation."


def question(transaction: Transaction, run: Run) -> str:
    """How a user approves the plan that a run presents; "" where no user has to."""
    state = transaction.state
    if run.phase is not Phase.PLAN or transaction.policy.gates.plan_approval != "person":
        return ""
    asked = asked_by_agents(state)
    role = next((message.role for message in reversed(state.cycle.messages) if message.author == asked), None)
    is_theirs = may_decide(Decision.APPROVAL, state, transaction.policy.gates, author=asked, role=role)
    return _QUESTION if is_theirs else f"{_QUESTION}{_WHO}"


def answered(transaction: Transaction, signal: MessageReceived, wrote: r.MessageRecorded, *, is_only: bool) -> bool:
    """Take a message as the approval or the correction of the plan that waits for one; whether it was either.

    `is_only` is whether nothing else was asked when it came.
    """
    state = transaction.state
    plan = gates.waiting_plan(state, transaction.policy)
    message = signal.message
    permitted = may_decide(Decision.APPROVAL, state, transaction.policy.gates, author=message.author, role=signal.role)
    if plan is None or not permitted or signal.is_plain:
        return False
    is_yes = is_clear_yes(message.text)
    if not is_yes and signal.addressed:
        return False
    if is_yes:
        asked = phases_of(state).plan_question
        why = answers.why_no_answer(transaction, message, asked, is_only=is_only, asked_at=_asked_at(plan))
        refused = f"Your “yes” approves nothing: {why}." if why else ""
    elif read_answer(message.text) is Unclear.NO_AND_WORDS:
        refused = f"I cannot tell whether “{message.text.strip()}” approves the plan, so nothing is decided."
    else:
        decide.correct_plan(transaction, signal.name, signal.message.author)
        return True
    if not refused:
        _approve(transaction, signal, plan, wrote.seq)
        return True
    notify(transaction, f"{refused} To approve the plan, send `/approve`; to change it, `/reject REASON`.")
    if state.router.question is None:
        transaction.add(r.Waiting, reason="user")
    return True


def approve(transaction: Transaction, signal: MessageReceived, argument: str) -> None:
    """Execute `/approve`."""
    state = transaction.state
    plan = gates.waiting_plan(state, transaction.policy)
    if argument:
        notify(
            transaction, "Nothing is approved: `/approve` takes nothing after it. To change the plan: `/reject REASON`."
        )
    elif plan is None:
        notify(transaction, _why_nothing_waits(transaction))
    elif why := _why_not_this_plan(transaction, signal, plan):
        notify(transaction, f"Nothing is approved: {why}. Read the plan, then send `/approve` again.")
    else:
        _approve(transaction, signal, plan)


def reject(transaction: Transaction, signal: MessageReceived, reason: str) -> None:
    """Execute `/reject REASON`: the reason is a message to those who made the plan."""
    if gates.waiting_plan(transaction.state, transaction.policy) is None:
        notify(transaction, _why_nothing_waits(transaction))
    elif not reason:
        notify(transaction, "Write what the plan lacks: `/reject REASON`.")
    else:
        record_message(transaction, replace(signal, message=replace(signal.message, text=reason), addressed=()))
        decide.correct_plan(transaction, signal.name, signal.message.author)


def _approve(transaction: Transaction, signal: MessageReceived, plan: OrchestratorTurn, message: int = 0) -> None:
    transaction.add(
        p.PlanApproved,
        turn_id=plan.turn_id,
        author=signal.message.author,
        name=signal.name,
        message_id=signal.message.event_id,
        message=message,
    )
    if transaction.state.router.question is not None:  # the router was asked before it could know
        decide.want_router(transaction, 1)
    else:
        advance(transaction)


def _why_not_this_plan(transaction: Transaction, signal: MessageReceived, plan: OrchestratorTurn) -> str:
    """Why `/approve` is not for the plan that waits, as part of a sentence; "" if it is."""
    message = signal.message
    phases = phases_of(transaction.state)
    if message.reply_to in phases.earlier_plans:
        return "it replies to an earlier plan"
    asked = phases.plan_question
    is_reply = asked is not None and message.reply_to in asked.events
    asked_at = asked.at if asked is not None else _asked_at(plan)
    return why_misdated(message.created_at, asked_at, transaction.now, is_reply=is_reply)


def _asked_at(plan: OrchestratorTurn) -> int:
    """When a plan was presented whose question an older journal does not name."""
    return max(done.at for done in plan.completions)


def _why_nothing_waits(transaction: Transaction) -> str:
    state = transaction.state
    if state.cycle.phase is Phase.PLAN and state.work.turn is not None:
        return "The plan is still being made. Decide when you have read it."
    if gates.is_plan_approved(state):
        return "The plan is approved already."
    return "No plan waits for your approval."
