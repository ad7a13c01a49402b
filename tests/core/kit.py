"""Scripted minds and a way to bring a play to any phase, for tests that look at one rule at a time."""

from collections.abc import Callable
from typing import Any

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.effects import Effect, ModelCall, Publish, Timer, Work
from tenex.core.messages import NO_USAGE, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.state.rollback import ConversationForked, RolledBack
from tests.fakes.play import AgentMind, Play, RouterMind, says

WAITS = {"agents": ["USER"], "reason": "the person is next"}
ENDS = {"agents": ["END"], "reason": "all is done"}


def go(phase: str | None, *agents: str, **more: Any) -> dict[str, Any]:
    """A router's decision."""
    decision: dict[str, Any] = {"agents": list(agents), "reason": f"on to {phase or 'the same'}", **more}
    return {**decision, "phase": phase} if phase else decision


class Script:
    """A router that gives these answers in turn, then always the last; keeps the questions it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, question: dict[str, Any]) -> Any:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(question) if callable(answer) else answer


def plain(conversation: Conversation, call: ModelCall) -> ModelStep:
    """An agent that does its part in one step, and verifies what it finds."""
    run = conversation.runs[call.run]
    if run.phase is Phase.VERIFICATION:
        return says("", ("complete", {"response": "it works", "verdict": "verified"}))
    return says(f"{run.agent} has done its part of {run.phase}")


def mind(**steps: Any) -> AgentMind:
    """An agent whose steps in a phase are scripted, the last one repeated; `plain` in the others."""

    def answer(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.runs[call.run]
        script = steps.get(str(run.phase))
        if script is None:
            return plain(conversation, call)
        if callable(script):
            return script(conversation, call)
        return script[min(run.steps, len(script) - 1)]

    return answer


WAYS: dict[Phase, tuple[Phase, ...]] = {
    Phase.CHAT: (),
    Phase.BRAINSTORM: (Phase.BRAINSTORM,),
    Phase.PLAN: (Phase.PLAN,),
    Phase.EXECUTE: (Phase.EXECUTE,),
    Phase.VERIFICATION: (Phase.EXECUTE, Phase.VERIFICATION),
    Phase.CHORES: (Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES),
    Phase.REFLECTION: (Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION),
}


def standing(
    phase: Phase,
    router: RouterMind | None = None,
    worker: AgentMind = plain,
    *,
    config: Policy | None = None,
    text: str = "build it",
    agents: tuple[str, ...] = ("executor",),
) -> Play:
    """A play in which a turn of this phase has just closed and the router is being asked what is next."""
    way = iter(WAYS[phase])

    def lead(question: dict[str, Any]) -> Any:
        if not question["turns"]:
            return go(None, *agents)
        target = next(way)
        return go(target, *(question["still_to_reflect"] if target is Phase.REFLECTION else agents))

    play = Play(lead, plain, config=config)
    play.person(text)
    while not _stands(play, phase):
        assert play.step(), "the way to the phase is blocked"
    play.router, play.worker = router or Script(WAITS), worker
    return play


def _stands(play: Play, phase: Phase) -> bool:
    last = play.conversation.last_turn
    return play.conversation.question is not None and last is not None and last.phase is phase


def work(play: Play) -> list[Effect]:
    """What is in flight besides publishing and timers."""
    return [e for e in pending(play.conversation).values() if not isinstance(e, (Publish, Timer))]


def until(play: Play, holds: Callable[[Play], bool]) -> None:
    """Finish work until something holds."""
    while not holds(play):
        assert play.step(), "nothing is left to do, and it never came to that"


def check_sound(play: Play) -> None:
    """What holds of any conversation at any moment, however bad its minds are."""
    conversation, records = play.conversation, [record for decision in play.journal for record in decision]
    assert play.refold() == conversation, "state is nothing but a fold"
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    _check_phases(records)
    _check_reflections(records)
    assert conversation.usage == _spent(records), "usage is the sum over the records"
    in_flight = work(play)
    if conversation.status in ("waiting", "ended", "new"):
        assert not in_flight, f"{conversation.status}, but {in_flight} runs"
        assert conversation.turn is None
        assert conversation.question is None
    else:
        timers = {e.key.part for e in pending(conversation).values() if isinstance(e, Timer)}
        waits = timers & {"retry", "route", "node-retry"}
        assert in_flight or conversation.is_parked or waits, "active, but nothing moves"
    # a run waits for exactly one thing
    for run in conversation.runs.values():
        assert (run.wants is not None) + (run.retry is not None) + bool(run.open_calls) == 1


def _check_phases(records: list[r.Record]) -> None:
    here = Phase.CHAT
    for record in records:
        if isinstance(record, r.PhaseTransition):
            assert record.from_ is here, "a transition begins where the conversation stands"
            assert PHASE_TRANSITIONS.permits(record.from_, record.to), (
                f"{record.from_} -> {record.to} is not in the table"
            )
            here = record.to
        elif isinstance(record, r.CycleStarted):
            here = record.phase
        elif isinstance(record, r.WorkflowOpened):
            here = Phase.EXECUTE  # where code forbids nothing: a workflow has no phases
        elif isinstance(record, r.MissionOpened) and record.pubkey:
            here = Phase.EXECUTE
        elif isinstance(record, (RolledBack, ConversationForked)):
            here = record.state.phase  # a jump: no transition is invented
        elif isinstance(record, (r.TurnOpened, r.MessageSent)):
            assert record.phase is here


def _check_reflections(records: list[r.Record]) -> None:
    done: set[str] = set()
    for record in records:
        if isinstance(record, r.CycleStarted) or (isinstance(record, r.TurnOpened) and record.phase is Phase.EXECUTE):
            done = set()  # a new execute turn reopens reflection like every gate
        elif isinstance(record, (RolledBack, ConversationForked)):
            done = set(record.state.reflected)
        elif isinstance(record, r.TurnOpened) and record.phase is Phase.REFLECTION:
            assert not done & set(record.agents), "each participant reflects once"
            done |= set(record.agents)


def _spent(records: list[r.Record]) -> Usage:
    total = NO_USAGE
    for record in records:
        spent = record.step.usage if isinstance(record, r.ModelResponded) else getattr(record, "usage", NO_USAGE)
        total = total + spent if spent.calls else total
    return total


def check_rest(play: Play) -> None:
    """The conversation has come to rest, and the person who wrote was told something."""
    assert play.conversation.status in ("waiting", "ended") or play.conversation.is_parked
    assert play.said(), "the person was left without a word"
    assert all(effect.key.work in (Work.PUBLISH, Work.TIMER) for effect in play.running.values())
