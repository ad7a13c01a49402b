"""What follows from what we just heard.

`decide` is pure: the same conversation, signal, rules and time give the same records. It never raises on strange
input; it refuses by recording a refusal. A signal whose key is no longer wanted gives no record, so a result that
arrives twice, or too late, changes nothing; `unwanted_cost` says what a late one cost. (DESIGN section 2.)

Never: await, read a clock, or look at anything but its arguments.
"""

from typing import assert_never

from . import day_limits, deadlines, nodes, router, working
from . import records as r
from .conversation import Conversation
from .draft import Draft
from .effects import Key, Work
from .ids import Millis, RunId
from .pending import pending
from .people import spoke
from .ports import PublishOutcome
from .records import Record
from .roster import Replay, Rules
from .routing import Rejected
from .runs import Call, Run
from .signals import (
    CallCutOff,
    ClockMoved,
    ContinueAsked,
    DayLimitReached,
    MissionAsked,
    ModelAnswered,
    ModelFailed,
    NodeCutOff,
    NodeFailed,
    NodeReturned,
    Opened,
    PauseAsked,
    PersonSpoke,
    Published,
    RollBack,
    RouteAnswered,
    Signal,
    StandingGiven,
    StepAsked,
    StepDone,
    TimerFired,
    ToolReturned,
)  # fmt: skip
from .speaking import say
from .standings import renew, stand
from .steps import ModelStep
from .turns import close_calls
from .undoing import roll_back

OUTBOX_EXPIRY = Millis(3 * 24 * 3_600_000)
"""How long other relays are tried once one has answered: one dead relay keeps nothing open."""


def decide(  # noqa: C901 one case a signal: flat, and complete
    conversation: Conversation, signal: Signal, rules: Rules, now: Millis
) -> list[Record]:
    """The records that follow from a signal, in order: one append, kept or lost as a whole."""
    draft = Draft(conversation, rules, now)
    match signal:
        case Opened() | ClockMoved():
            _process_noticed(draft, signal)
        case PersonSpoke():
            spoke(draft, signal)
        case RouteAnswered(key=key, step=step):
            if _asks(draft, key):
                router.answered(draft, step)
        case ModelAnswered(key=key, step=step):
            _model_answered(draft, key, step)
        case ModelFailed():
            _model_failed(draft, signal)
        case CallCutOff(run=name, usage=usage, model=model):
            draft.add(r.CallCancelled, run=name, usage=usage, model=model)
        case DayLimitReached(key=key):
            run = _waiting_for_model(draft, key)
            if run is not None or _asks(draft, key) or nodes.runs(draft, key):
                day_limits.hold(draft, run, signal)
        case ToolReturned(key=key, result=result):
            found = _running(draft, key)
            if found is not None:
                working.returned(draft, *found, result)
        case TimerFired(key=key):
            _timer(draft, key)
        case Published(key=key, outcome=outcome):
            _published(draft, key, outcome)
        case RollBack():
            roll_back(draft, signal, conversation.history)
        case StandingGiven(agent=agent, standing=standing):
            draft.add(r.AgentPlaced, agent=agent, standing=standing)
        case (
            MissionAsked() | StepAsked() | StepDone() | NodeReturned() | NodeFailed() | NodeCutOff() | PauseAsked()
            | ContinueAsked()
        ):  # fmt: skip
            nodes.heard(draft, signal)
        case _:
            assert_never(signal)
    working.end_loops(draft)
    renew(draft)
    return draft.records


def unwanted_cost(conversation: Conversation, signal: Signal) -> CallCutOff | None:
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
    return CallCutOff(run=run, usage=usage, model=model)


def _process_noticed(draft: Draft, signal: Opened | ClockMoved) -> None:
    """Note what matters to work that is owed; where nothing is, no time is waited for."""
    if not pending(draft.state):
        return
    if isinstance(signal, ClockMoved):
        draft.add(r.ClockSet, by=signal.by)
    else:
        _opened(draft)
    day_limits.try_again(draft)


def _opened(draft: Draft) -> None:
    """End the calls that may not run twice; everything else simply is still pending."""
    away = draft.now - draft.state.updated_at
    if away < 0:
        draft.add(r.ClockSet, by=away)
    draft.add(r.Reopened, away=max(0, away))
    for run in list(draft.state.runs.values()):
        stand(draft, run)
        before = draft.state.next_seq
        close_calls(draft, run, working.UNKNOWN, only=Replay.ONCE)
        if draft.state.next_seq != before:
            working.settle(draft, run)
    working.judge_again(draft)
    nodes.opened(draft)


def _asks(draft: Draft, key: Key) -> bool:
    question = draft.state.question
    return question is not None and question.retry is None and key == (Work.ROUTE, question.seq, "")


def _waiting_for_model(draft: Draft, key: Key) -> Run | None:
    return next((run for run in draft.state.runs.values() if key == (Work.MODEL, run.wants, "")), None)


def _running(draft: Draft, key: Key) -> tuple[Run, Call] | None:
    for run in draft.state.runs.values():
        for call in run.open_calls:
            if call.seq and key == (Work.TOOL, call.seq, ""):
                return run, call
    return None


def _model_answered(draft: Draft, key: Key, step: ModelStep) -> None:
    run = _waiting_for_model(draft, key)
    if run is not None:
        working.stepped(draft, run, step)


def _model_failed(draft: Draft, signal: ModelFailed) -> None:
    if signal.key.work is Work.ROUTE:
        if not _asks(draft, signal.key):
            return
        if signal.retryable:
            working.model_failed(draft, None, signal)
        else:
            nothing = ModelStep(text="", usage=signal.usage, model=signal.model)
            refused = Rejected(
                sentence=f"The answer was of no use: {signal.message[:300]}",
                plain=f"gave no usable answer ({signal.message[:200]})",
            )
            router.reject(draft, nothing, refused)
        return
    run = _waiting_for_model(draft, signal.key)
    if run is not None:
        working.model_failed(draft, run, signal)


def _timer(draft: Draft, key: Key) -> None:
    state = draft.state
    if key not in pending(state):
        return
    if key.part == "announce" and state.unannounced is not None:
        say(draft, f"Now in {state.phase}: {state.unannounced.reason}", "announcement")
    elif state.workflow is not None and key.part in state.workflow.watches:
        deadlines.missed(draft, state.workflow, key.part)
    elif key.part == "expire":
        draft.add(r.OutboxExpired, said=key.seq)
    elif key.part == "route":
        draft.add(r.RetryDue, run=None)
    elif key.part == "route-warn":
        router.delayed(draft)
    elif not nodes.timer(draft, key):
        run = next((run for run in state.runs.values() if key in _timers_of(run)), None)
        if run is None:
            return
        if key.part == "warn":
            working.warn(draft, run)
        elif key.part == "close":
            working.give_up(draft, run)
        else:
            draft.add(r.RetryDue, run=run.id)


def _timers_of(run: Run) -> tuple[Key, ...]:
    retry = (Key(Work.TIMER, run.retry.seq, "retry"),) if run.retry else ()
    return (Key(Work.TIMER, run.armed, "warn"), Key(Work.TIMER, run.armed, "close"), *retry)


def _published(draft: Draft, key: Key, outcome: PublishOutcome) -> None:
    row = draft.state.outbox.get(key.seq)
    part, _, relay = key.part.partition(" ")
    if row is None or not part.isdecimal() or (int(part), relay) not in row.open:
        return
    expires = Millis(draft.now + OUTBOX_EXPIRY) if outcome.accepted or row.others else Millis(0)
    draft.add(
        r.Delivered, said=key.seq, part=int(part), relay=relay, accepted=outcome.accepted, detail=outcome.detail[:200],
        expires_at=expires, refused=None if outcome.accepted else row.events[int(part)].id,
    )  # fmt: skip
