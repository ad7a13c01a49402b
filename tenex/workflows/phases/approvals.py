"""The approval of a plan by a user, where `gates.plan_approval` wants it: `/approve`, `/reject REASON`, or an answer.

The message that presents the plan asks for it. A clear yes of a user who may decide approves; anything else they write
goes to those who made the plan. Others talk like anyone, and decide nothing.
"""

from dataclasses import replace

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.inbox.decide import record_message
from tenex.core.permissions import Decision, asked_by_agents, may_decide
from tenex.core.phases import Phase
from tenex.core.signals import MessageReceived
from tenex.core.transaction import Transaction
from tenex.core.work.run import Run
from tenex.core.work.turn import OrchestratorTurn
from tenex.core.work.turns import advance
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of

from . import answers, decide, gates

_QUESTION = "Reply “yes” or send `/approve` to approve this plan. Any other answer, or `/reject REASON`, changes it."
_WHO = " Only an owner can approve it, or the member who began this conversation."


def question(draft: Transaction, run: Run) -> str:
    """How a user approves the plan that a run presents; "" where no user has to."""
    state = draft.state
    if run.phase is not Phase.PLAN or draft.rules.gates.plan_approval != "person":
        return ""
    asked = asked_by_agents(state)
    role = next((message.role for message in reversed(state.cycle.messages) if message.author == asked), None)
    is_theirs = may_decide(Decision.APPROVAL, state, draft.rules.gates, author=asked, role=role)
    return _QUESTION if is_theirs else f"{_QUESTION}{_WHO}"


def answered(draft: Transaction, signal: MessageReceived, wrote: r.MessageRecorded, *, is_only: bool) -> bool:
    """Take a message as the approval or the correction of the plan that waits for one; whether it was either.

    `is_only` is whether nothing else was asked when it came.
    """
    state = draft.state
    plan = gates.waiting_plan(state, draft.rules)
    message = signal.message
    permitted = may_decide(Decision.APPROVAL, state, draft.rules.gates, author=message.author, role=signal.role)
    if plan is None or not permitted:
        return False
    if not answers.is_clear_yes(message.text):
        if signal.addressed:
            return False
        decide.correct_plan(draft, signal.name, signal.message.author)
        return True
    why = answers.why_no_answer(draft, message, phases_of(state).plan_question, is_only=is_only)
    if why := why or answers.why_misdated(draft, message, _asked_at(draft, plan)):
        notify(draft, f"Your “yes” approves nothing: {why}. To approve the plan, send `/approve`.")
        if state.router.question is None:
            draft.add(r.Waiting, reason="user")
        return True
    _approve(draft, signal, plan, wrote.seq)
    return True


def approve(draft: Transaction, signal: MessageReceived, argument: str) -> None:
    """Execute `/approve`."""
    state = draft.state
    plan = gates.waiting_plan(state, draft.rules)
    if argument:
        notify(draft, "Nothing is approved: `/approve` takes nothing after it. To change the plan: `/reject REASON`.")
    elif plan is None:
        notify(draft, _why_nothing_waits(draft))
    elif why := _why_other_plan(draft, signal) or answers.why_misdated(draft, signal.message, _asked_at(draft, plan)):
        notify(draft, f"Nothing is approved: {why}. Read the plan, then send `/approve` again.")
    else:
        _approve(draft, signal, plan)


def reject(draft: Transaction, signal: MessageReceived, reason: str) -> None:
    """Execute `/reject REASON`: the reason is a message to those who made the plan."""
    if gates.waiting_plan(draft.state, draft.rules) is None:
        notify(draft, _why_nothing_waits(draft))
    elif not reason:
        notify(draft, "Write what the plan lacks: `/reject REASON`.")
    else:
        record_message(draft, replace(signal, message=replace(signal.message, text=reason), addressed=()))
        decide.correct_plan(draft, signal.name, signal.message.author)


def _approve(draft: Transaction, signal: MessageReceived, plan: OrchestratorTurn, message: int = 0) -> None:
    draft.add(
        p.PlanApproved,
        turn_id=plan.turn_id,
        author=signal.message.author,
        name=signal.name,
        message_id=signal.message.event_id,
        message=message,
    )
    if draft.state.router.question is not None:  # the router was asked before it could know
        decide.want_router(draft, 1)
    else:
        advance(draft)


def _why_other_plan(draft: Transaction, signal: MessageReceived) -> str:
    return "it replies to an earlier plan" if signal.message.reply_to in phases_of(draft.state).earlier_plans else ""


def _asked_at(draft: Transaction, plan: OrchestratorTurn) -> int:
    asked = phases_of(draft.state).plan_question
    return asked.at if asked is not None else max(done.at for done in plan.completions)


def _why_nothing_waits(draft: Transaction) -> str:
    state = draft.state
    if state.cycle.phase is Phase.PLAN and state.work.turn is not None:
        return "The plan is still being made. Decide when you have read it."
    if gates.is_plan_approved(state):
        return "The plan is approved already."
    return "No plan waits for your approval."
