"""What follows from a signal.

`decide` is pure if `seal` is: the same conversation, signal, policy and time give the same records. It never raises on
strange input; it refuses by recording a refusal. A signal whose key is no longer wanted gives no record, so a result
that arrives twice, or too late, changes nothing; `unwanted_cost` is what a late one cost.

Undecided verdicts. Operators write functions in Python, which a decision may depend on and may not call, because they
may be slow, may raise, and may answer otherwise the next time. A decision asks for a verdict by the function's name and
a digest of its arguments. Without one on record it ends in `Unanswered`, and this happens:

1. The transaction is dropped, and the signal itself is recorded (`EvaluationRequested`). It is undecided; a restart
   keeps it.
2. `pending` wants the functions of the first undecided signal evaluated. The effect repeats the decision with the
   verdicts it has so far (`next_question`) and calls the function that is missing, until none is.
3. `Evaluated` brings the verdicts. They and what follows from the signal are one append (`FunctionsEvaluated`). If the
   state has changed so that another function is asked, only the verdicts are recorded, and step 2 goes on.

Each decision asks again: verdicts that were recorded for others are hidden from it. While a signal is undecided, its
task does not start again, and its second copy is dropped. Messages and deletions wait behind it, so that their order is
kept; all other signals are decided at once. (ADR 30.)
"""

from collections.abc import Sequence
from typing import Final

from tenex.core import records as r
from tenex.core.agent_phases.decide import ask_what_is_offered, rerender_prompts, sync_agent_state
from tenex.core.approvals import answers as approvals
from tenex.core.approvals.decide import remind
from tenex.core.config import Policy, Replay
from tenex.core.conversation import Conversation
from tenex.core.delivery.buttons import as_answered, settle_buttons
from tenex.core.delivery.costs import report_costs
from tenex.core.delivery.decide import expired, published, quiet_hours_over
from tenex.core.effects import Check, Inspect, Key, ModelCall, Route, Show, ToolCall, Undo, Work
from tenex.core.functions.undecided import DeferrableSignal, EvaluationRequested, FunctionsEvaluated
from tenex.core.functions.verdicts import FunctionQuestion, Unanswered, Verdict
from tenex.core.ids import Millis, RunId
from tenex.core.inbox import show
from tenex.core.inbox.claims import on_deletion, on_message
from tenex.core.inbox.commands import report_undo
from tenex.core.inbox.decide import on_left
from tenex.core.kind import all_kinds, kind_of_conversation
from tenex.core.pending import pending
from tenex.core.rollback.decide import roll_back
from tenex.core.signals import (
    AgentStateProvided,
    ApprovalDecided,
    ClockJumped,
    ConversationLeft,
    DayLimitReached,
    Evaluated,
    FilesChanged,
    KindSignal,
    MessageDeleted,
    MessageReceived,
    ModelAnswered,
    ModelCallInterrupted,
    ModelFailed,
    Opened,
    Published,
    RollBack,
    RouteAnswered,
    ShowReturned,
    Signal,
    TimerFired,
    ToolReturned,
    UndoReturned,
)
from tenex.core.transaction import Seal, Transaction, unsealed
from tenex.core.values import replace
from tenex.core.work import holds, runs
from tenex.core.work.run import Call, Run
from tenex.core.work.turns import close_calls

INTERRUPTED: Final = 20
"""Pieces of work that a restart names: a turn has a few at once."""


def decide(
    conversation: Conversation, signal: Signal, policy: Policy, now: Millis, seal: Seal = unsealed
) -> Transaction:
    """What follows from a signal: records in order, one append, kept or lost as a whole, and the state after them.

    With `seal` the records and the state have what the core leaves open: events of messages, prompts of runs.
    """
    transaction = Transaction(conversation, policy, now, seal)
    if isinstance(signal, Evaluated):
        if signal.key not in pending(conversation):
            return transaction
        try:
            return _decide_first_undecided(transaction, signal.verdicts)
        except Unanswered:
            transaction = Transaction(conversation, policy, now, seal)
            transaction.add(FunctionsEvaluated, request=signal.key.seq, verdicts=signal.verdicts, is_decided=False)
            return transaction

    if conversation.work.undecided and getattr(signal, "key", None) in conversation.work.undecided_keys - {None}:
        return transaction

    # messages are decided in their order, and a deletion after the message it may be of
    if conversation.work.undecided and isinstance(signal, MessageReceived | MessageDeleted | ConversationLeft):
        return _defer(transaction, signal)

    transaction.hide_verdicts()
    try:
        return _consequences(transaction, signal)
    except Unanswered:
        if not isinstance(signal, DeferrableSignal):
            raise
        return _defer(Transaction(conversation, policy, now, seal), signal)


def _defer(transaction: Transaction, signal: DeferrableSignal) -> Transaction:
    waiting = [undecided.signal for undecided in transaction.state.work.undecided]
    if isinstance(signal, Opened):
        if not any(isinstance(other, Opened) for other in waiting):
            away = transaction.now - transaction.state.identity.updated_at
            transaction.add(EvaluationRequested, signal=Opened(away=away))
    elif not isinstance(signal, MessageReceived | MessageDeleted | ConversationLeft) or signal not in waiting:
        transaction.add(EvaluationRequested, signal=signal)
    return transaction


def next_question(
    conversation: Conversation, verdicts: Sequence[Verdict], policy: Policy, now: Millis
) -> FunctionQuestion | None:
    """The function that the first undecided signal depends on besides those that have answered; None for no more."""
    try:
        _decide_first_undecided(Transaction(conversation, policy, now), tuple(verdicts))
    except Unanswered as missing:
        return missing.question
    return None


def _decide_first_undecided(transaction: Transaction, verdicts: tuple[Verdict, ...]) -> Transaction:
    first = transaction.state.work.undecided[0]
    transaction.hide_verdicts()
    transaction.add(FunctionsEvaluated, request=first.seq, verdicts=verdicts)
    signal = unwanted_cost(transaction.state, first.signal) or first.signal
    return _consequences(transaction, signal)


def _consequences(transaction: Transaction, signal: Signal) -> Transaction:  # noqa: C901 one case a signal: flat, and complete
    match signal:
        case Opened() | ClockJumped():
            _on_restart_or_clock_jump(transaction, signal)
        case MessageReceived():
            answered = as_answered(transaction.state, _by_first_ids(transaction.state, signal))
            if answered is not None:
                on_message(transaction, answered)
        case MessageDeleted():
            on_deletion(transaction, signal)
        case ConversationLeft():
            on_left(transaction, signal)
        case ModelAnswered(key=key, step=step, files=files):
            asking = _waiting_for_model(transaction, key)
            if asking is not None:
                runs.stepped(transaction, asking.id, step, files)
        case ModelFailed(key=key) if key.work is Work.MODEL:
            asking = _waiting_for_model(transaction, key)
            if asking is not None:
                runs.model_failed(transaction, asking.id, signal)
        case ModelCallInterrupted(run=name, usage=usage, model=model):
            # without a record the append of its first ones failed, and they were not decided again
            if transaction.state.next_seq > 1:
                transaction.add(r.ModelCallCancelled, run=name, usage=usage, model=model)
        case DayLimitReached(key=key) if key.work is Work.MODEL:
            asking = _waiting_for_model(transaction, key)
            if asking is not None:
                runs.day_limit_reached(transaction, asking, signal)
        case ToolReturned(key=key, result=result):
            running = _running(transaction, key)
            if running is not None:
                run, call = running
                runs.returned(transaction, run.id, call, result)
        case FilesChanged(key=key, files=files):
            running = _running(transaction, key)
            if running is not None:
                run, call = running
                runs.outdated(transaction, run.id, call, files)
        case TimerFired(key=key):
            _timer(transaction, key)
        case UndoReturned(key=key, outcome=undone):
            if key in pending(transaction.state):
                report_undo(transaction, undone)
        case ShowReturned(key=key, outcome=shown):
            if key in pending(transaction.state):
                show.report(transaction, key.seq, shown)
        case Published(key=key, outcome=outcome):
            published(transaction, key, outcome)
        case RollBack():
            roll_back(transaction, signal)
        case ApprovalDecided():
            approvals.decided_by_operator(transaction, signal)
        case AgentStateProvided(agent=agent, agent_state=agent_state):
            transaction.add(r.AgentStateSet, agent=agent, state=agent_state)
        case _:
            any(kind.on_signal(transaction, signal) for kind in all_kinds())

    runs.end_loops(transaction)
    rerender_prompts(transaction)
    ask_what_is_offered(transaction)
    settle_buttons(transaction)
    report_costs(transaction)
    return transaction


def _by_first_ids(state: Conversation, signal: MessageReceived) -> MessageReceived:
    """The message with each event of ours by the id that rules know: relays may have it with a new date, and its id."""
    message = signal.message
    delivery = state.delivery
    if delivery.first_ids.keys().isdisjoint((message.reply_to, *message.quotes)):
        return signal
    quotes = tuple(delivery.first_ids.get(event, event) for event in message.quotes)
    return replace(signal, message=replace(message, reply_to=delivery.first_id(message.reply_to), quotes=quotes))


def unwanted_cost(conversation: Conversation, signal: Signal) -> Signal | None:
    """Replace a late answer of a model, or of the work of a kind, by the signal of its cost; None for any other signal.

    The state does not distinguish late answers from second copies, so the caller must deliver each answer only once.
    """
    match signal:
        case KindSignal():
            return signal.if_late(conversation)
        case RouteAnswered(key=key) | ModelAnswered(key=key) | ModelFailed(key=key) if key not in pending(conversation):
            return cost_of_call(signal)
    return None


def cost_of_call(signal: Signal) -> ModelCallInterrupted | None:
    """The signal of what a model call cost, in place of its answer; None if it cost nothing or is no such call."""
    run: RunId | None = None
    match signal:
        case RouteAnswered(step=step):
            usage = step.usage
            model = step.model
        case ModelAnswered(step=step, run=run):
            usage = step.usage
            model = step.model
        case ModelFailed(run=run, usage=usage, model=model):
            pass
        case _:
            return None
    return ModelCallInterrupted(run=run, usage=usage, model=model) if usage.tokens or usage.cost_usd else None


def _on_restart_or_clock_jump(transaction: Transaction, signal: Opened | ClockJumped) -> None:
    """Record the time that pending work has missed; without pending work only an answer must be dated after a time."""
    if not pending(transaction.state):
        _date_questions(transaction, signal)
        return
    if isinstance(signal, ClockJumped):
        transaction.add(r.ClockAdjusted, by=signal.by)
    else:
        _on_restart(transaction, signal)
    holds.try_again(transaction)


def _date_questions(transaction: Transaction, signal: Opened | ClockJumped) -> None:
    """Record that the clock was set, where a user is asked to decide: their answer is dated by the new one."""
    state = transaction.state
    if not any(kind.asks_user for kind in state.kinds.values()):
        return
    by = signal.by if isinstance(signal, ClockJumped) else min(0, _away(transaction, signal))
    if by:
        transaction.add(r.ClockAdjusted, by=by)


def _away(transaction: Transaction, signal: Opened) -> int:
    return transaction.now - transaction.state.identity.updated_at if signal.away is None else signal.away


def _under_way(state: Conversation) -> tuple[str, ...]:
    """What an ended process has not brought to its end; a message that was on its way is sent again."""
    works: list[str] = []
    for effect in pending(state).values():
        match effect:
            case Route():
                works.append("the router's decision")
            case ModelCall(run=run):
                works.append(f"a model call of {state.work.runs[run].agent}")
            case ToolCall(request=request, context=context, replay=replay):
                lost = "; its result is unknown" if replay is Replay.ONCE else ""
                works.append(f"{request.tool} of {context.agent}{lost}")
            case Inspect():
                works.append("the look at what differs")
            case Check(name=name):
                works.append(f"the check {name}")
            case Undo():
                works.append("the undo of files")
            case Show():
                works.append("a file for a user")
    return tuple(works[:INTERRUPTED])


def _on_restart(transaction: Transaction, signal: Opened) -> None:
    """End the calls that may not run twice; everything else simply is still pending."""
    away = _away(transaction, signal)
    if away < 0:
        transaction.add(r.ClockAdjusted, by=away)
    transaction.add(r.ProcessRestarted, away=max(0, away), interrupted=_under_way(transaction.state))

    for run in list(transaction.state.work.runs.values()):
        sync_agent_state(transaction, run)
        before = transaction.state.next_seq
        close_calls(transaction, run, runs.UNKNOWN, only=Replay.ONCE)
        if transaction.state.next_seq != before:
            runs.after_result(transaction, run.id)

    runs.recheck_queued_calls(transaction)
    kind_of_conversation(transaction.state).on_opened(transaction)


def _waiting_for_model(transaction: Transaction, key: Key) -> Run | None:
    return next((run for run in transaction.state.work.runs.values() if key == (Work.MODEL, run.wants, "")), None)


def _running(transaction: Transaction, key: Key) -> tuple[Run, Call] | None:
    """The call that an effect carries out, with its run; None where the effect is no longer wanted."""
    for run in transaction.state.work.runs.values():
        for call in run.open_calls:
            if call.seq and key == (Work.TOOL, call.seq, ""):
                return run, call
    return None


def _timer(transaction: Transaction, key: Key) -> None:
    if key not in pending(transaction.state):
        return
    if key.part in ("expire", "lost"):
        expired(transaction, key.seq)
        return
    if key.part == "approval":
        approvals.expire(transaction, key.seq)
        return
    if key.part == "approval-reminder":
        remind(transaction, key.seq)
        return
    if key.part.partition(" ")[0] == "quiet":
        quiet_hours_over(transaction, key.seq)
        return

    run = next((run for run in transaction.state.work.runs.values() if key in _timers_of(run)), None)
    if run is None:
        any(kind.on_timer(transaction, key) for kind in all_kinds())
    elif key.part == "warn":
        runs.warn(transaction, run.id)
    elif key.part == "close":
        runs.time_out(transaction, run.id)
    else:
        transaction.add(r.RetryDue, run=run.id)


def _timers_of(run: Run) -> tuple[Key, ...]:
    retry = (Key(Work.TIMER, run.retry.seq, "retry"),) if run.retry else ()
    return (Key(Work.TIMER, run.armed, "warn"), Key(Work.TIMER, run.armed, "close"), *retry)
