"""What follows from what we just heard.

`decide` is pure: the same conversation, signal, rules and time give the same records. It never raises on strange
input; it refuses by recording a refusal. A signal whose key is no longer wanted gives no record, so a result that
arrives twice, or too late, changes nothing; `unwanted_cost` says what a late one cost.
"""

from typing import assert_never

from tenex.core import records as r
from tenex.core.config import Policy, Replay
from tenex.core.conversation import Conversation
from tenex.core.effects import Key, Work
from tenex.core.ids import Millis, RunId
from tenex.core.messages import ModelStep
from tenex.core.pending import pending
from tenex.core.ports import PublishOutcome
from tenex.core.records import Record
from tenex.core.routing import Rejected
from tenex.core.signals import (
    AgentStateProvided,
    ClockJumped,
    ContinueRequested,
    DayLimitReached,
    MessageReceived,
    MissionRequested,
    ModelAnswered,
    ModelFailed,
    NodeFailed,
    NodeInterrupted,
    NodeReturned,
    Opened,
    PauseRequested,
    Published,
    RollBack,
    RouteAnswered,
    Signal,
    StepFinished,
    StepRequested,
    TimerFired,
    ToolCallInterrupted,
    ToolReturned,
)
from tenex.core.state.run import Call, Run

from . import daily_limits, mission, routing, runs, timeouts
from .agent_phases import renew, stand
from .messages import spoke
from .outgoing import say
from .rollback import roll_back
from .transaction import Transaction
from .turns import close_calls

OUTBOX_EXPIRY = Millis(3 * 24 * 3_600_000)
"""How long other relays are tried once one has answered: one dead relay keeps nothing open."""


def decide(  # noqa: C901 one case a signal: flat, and complete
    conversation: Conversation, signal: Signal, rules: Policy, now: Millis
) -> list[Record]:
    """The records that follow from a signal, in order: one append, kept or lost as a whole."""
    draft = Transaction(conversation, rules, now)
    match signal:
        case Opened() | ClockJumped():
            _process_noticed(draft, signal)
        case MessageReceived():
            spoke(draft, signal)
        case RouteAnswered(key=key, step=step):
            if _asks(draft, key):
                routing.answered(draft, step)
        case ModelAnswered(key=key, step=step):
            _model_answered(draft, key, step)
        case ModelFailed():
            _model_failed(draft, signal)
        case ToolCallInterrupted(run=name, usage=usage, model=model):
            draft.add(r.ModelCallCancelled, run=name, usage=usage, model=model)
        case DayLimitReached(key=key):
            run = _waiting_for_model(draft, key)
            if run is not None or _asks(draft, key) or mission.runs(draft, key):
                daily_limits.hold(draft, run, signal)
        case ToolReturned(key=key, result=result):
            found = _running(draft, key)
            if found is not None:
                runs.returned(draft, *found, result)
        case TimerFired(key=key):
            _timer(draft, key)
        case Published(key=key, outcome=outcome):
            _published(draft, key, outcome)
        case RollBack():
            roll_back(draft, signal, conversation.history)
        case AgentStateProvided(agent=agent, standing=standing):
            draft.add(r.AgentStateSet, agent=agent, state=standing)
        case (
            MissionRequested()
            | StepRequested()
            | StepFinished()
            | NodeReturned()
            | NodeFailed()
            | NodeInterrupted()
            | PauseRequested()
            | ContinueRequested()
        ):
            mission.heard(draft, signal)
        case _:
            assert_never(signal)
    runs.end_loops(draft)
    renew(draft)
    return draft.records


def unwanted_cost(conversation: Conversation, signal: Signal) -> ToolCallInterrupted | None:
    """What a model's answer cost that came too late: the signal to decide on in its place; None for any other signal.

    The state does not tell a late answer from a second copy of one, so the caller must deliver each answer only once.
    """
    run: RunId | None = None
    match signal:
        case RouteAnswered(key=key, step=step):
            usage, model = step.usage, step.model
        case ModelAnswered(key=key, step=step, run=run):
            usage, model = step.usage, step.model
        case ModelFailed(key=key, run=run, usage=usage, model=model):
            pass
        case _:
            return None
    if key in pending(conversation) or not (usage.tokens or usage.cost_usd):
        return None
    return ToolCallInterrupted(run=run, usage=usage, model=model)


def _process_noticed(draft: Transaction, signal: Opened | ClockJumped) -> None:
    """Note what matters to work that is owed; where nothing is, no time is waited for."""
    if not pending(draft.state):
        return
    if isinstance(signal, ClockJumped):
        draft.add(r.ClockAdjusted, by=signal.by)
    else:
        _opened(draft)
    daily_limits.try_again(draft)


def _opened(draft: Transaction) -> None:
    """End the calls that may not run twice; everything else simply is still pending."""
    away = draft.now - draft.state.updated_at
    if away < 0:
        draft.add(r.ClockAdjusted, by=away)
    draft.add(r.ProcessRestarted, away=max(0, away))
    for run in list(draft.state.runs.values()):
        stand(draft, run)
        before = draft.state.next_seq
        close_calls(draft, run, runs.UNKNOWN, only=Replay.ONCE)
        if draft.state.next_seq != before:
            runs.settle(draft, run)
    runs.judge_again(draft)
    mission.opened(draft)


def _asks(draft: Transaction, key: Key) -> bool:
    question = draft.state.question
    return question is not None and question.retry is None and key == (Work.ROUTE, question.seq, "")


def _waiting_for_model(draft: Transaction, key: Key) -> Run | None:
    return next((run for run in draft.state.runs.values() if key == (Work.MODEL, run.wants, "")), None)


def _running(draft: Transaction, key: Key) -> tuple[Run, Call] | None:
    for run in draft.state.runs.values():
        for call in run.open_calls:
            if call.seq and key == (Work.TOOL, call.seq, ""):
                return run, call
    return None


def _model_answered(draft: Transaction, key: Key, step: ModelStep) -> None:
    run = _waiting_for_model(draft, key)
    if run is not None:
        runs.stepped(draft, run, step)


def _model_failed(draft: Transaction, signal: ModelFailed) -> None:
    if signal.key.work is Work.ROUTE:
        if not _asks(draft, signal.key):
            return
        if signal.retryable:
            runs.model_failed(draft, None, signal)
        else:
            nothing = ModelStep(text="", usage=signal.usage, model=signal.model)
            refused = Rejected(
                sentence=f"The answer was of no use: {signal.message[:300]}",
                plain=f"gave no usable answer ({signal.message[:200]})",
            )
            routing.reject(draft, nothing, refused)
        return
    run = _waiting_for_model(draft, signal.key)
    if run is not None:
        runs.model_failed(draft, run, signal)


def _timer(draft: Transaction, key: Key) -> None:
    state = draft.state
    if key not in pending(state):
        return
    if key.part == "announce" and state.unannounced is not None:
        say(draft, f"Now in {state.phase}: {state.unannounced.reason}", "announcement")
    elif state.workflow is not None and key.part in state.workflow.watches:
        timeouts.missed(draft, state.workflow, key.part)
    elif key.part == "expire":
        draft.add(r.OutboxExpired, message=key.seq)
    elif key.part == "route":
        draft.add(r.RetryDue, run=None)
    elif key.part == "route-warn":
        routing.delayed(draft)
    elif not mission.timer(draft, key):
        run = next((run for run in state.runs.values() if key in _timers_of(run)), None)
        if run is None:
            return
        if key.part == "warn":
            runs.warn(draft, run)
        elif key.part == "close":
            runs.give_up(draft, run)
        else:
            draft.add(r.RetryDue, run=run.id)


def _timers_of(run: Run) -> tuple[Key, ...]:
    retry = (Key(Work.TIMER, run.retry.seq, "retry"),) if run.retry else ()
    return (Key(Work.TIMER, run.armed, "warn"), Key(Work.TIMER, run.armed, "close"), *retry)


def _published(draft: Transaction, key: Key, outcome: PublishOutcome) -> None:
    row = draft.state.outbox.get(key.seq)
    part, _, relay = key.part.partition(" ")
    if row is None or not part.isdecimal() or (int(part), relay) not in row.open:
        return
    expires = Millis(draft.now + OUTBOX_EXPIRY) if outcome.accepted or row.others else Millis(0)
    draft.add(
        r.Delivered,
        message=key.seq,
        part=int(part),
        relay=relay,
        accepted=outcome.accepted,
        detail=outcome.detail[:200],
        expires_at=expires,
        refused=None if outcome.accepted else row.events[int(part)].id,
    )
