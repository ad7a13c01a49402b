"""Functions of operators are called outside decisions, each for a bounded time; decisions go by recorded verdicts."""

import asyncio
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tenex.core import records as r
from tenex.core.conversation import fold, new_conversation
from tenex.core.dispatch import decide
from tenex.core.effects import Evaluate, Key, Work
from tenex.core.functions.undecided import EvaluationRequested, FunctionsEvaluated
from tenex.core.functions.verdicts import FunctionQuestion
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.pending import pending
from tenex.core.records import Record
from tenex.core.signals import Evaluated, MessageReceived, TimerFired
from tenex.runtime import functions
from tenex.runtime.functions import FunctionCalls
from tenex.store.format import CONVERSATION
from tenex.workflows.agents import BaseAgent, State, tool
from tenex.workflows.agents.definition import program
from tenex.workflows.missions.config import with_missions
from tenex.workflows.missions.definitions import MissionWorkflow
from tenex.workflows.missions.state import MissionPart
from tenex.workflows.speakers import (
    Always,
    AnyOf,
    StayTarget,
    TerminateTarget,
    Transition,
    TransitionGraph,
    register_condition,
    register_target,
)
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.fold import Folded
from tenex.workflows.speakers.fold import fold as fold_round
from tenex.workflows.speakers.rounds import Envelope, TransitionDecision, WorkflowState
from tests.fakes.agent_phases import is_in_a_decision, with_program
from tests.fakes.python_agents import ScriptedModel, calls, script
from tests.fakes.runtime import World
from tests.fakes.scenario import ID, Scenario, one_turn, policy, reply
from tests.fakes.workflows import (
    KEY,
    TRIO,
    ScriptedSpeakers,
    session,
    started,
    unused_router,
    workflow,
    workflow_policy,
)

from .mission_kit import Journals, alone

ENOUGH = 30
"""Seconds after which what never returns does, so that a test without a bound fails and does not hang."""
IS_OVER = threading.Event()
"""Set when the test is over, so that nothing it has abandoned runs on."""


def loops() -> bool:
    until = time.monotonic() + ENOUGH
    while time.monotonic() < until and not IS_OVER.is_set():
        pass
    return True


def rests() -> bool:
    return IS_OVER.wait(ENOUGH)


def catches_all() -> bool:
    while not IS_OVER.is_set():
        try:
            loops()
        except BaseException:
            continue
    return True


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(functions, "TIMEOUT", 0.2)
    IS_OVER.clear()
    yield
    IS_OVER.set()


def question(code: Callable[[], Any]) -> FunctionQuestion:
    return FunctionQuestion(function=code.__name__, given="", code=code, call=code)


# ---- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [loops, rests, catches_all])
def test_what_does_not_return_is_given_up_and_not_called_again_while_it_runs(code: Callable[[], bool]) -> None:
    made, begun = FunctionCalls(), 0

    def counted() -> bool:
        nonlocal begun
        begun += 1
        return code()

    asked = question(counted)
    first, second = made.verdict(asked), made.verdict(asked)
    assert (first.kind, first.error) == ("TimeoutError", "it took longer than 0.2 s and was given up")
    if code is not loops:  # which may have ended by then
        assert (second.kind, second.error, begun) == ("TimeoutError", "an earlier call of it has not returned yet", 1)


def test_a_loop_in_python_ends_when_it_is_given_up_and_its_function_can_be_called_again() -> None:
    made, is_free = FunctionCalls(), False

    def code() -> bool:
        return is_free or loops()

    assert made.verdict(question(code)).kind == "TimeoutError"
    is_free, until = True, time.monotonic() + 10
    while (found := made.verdict(question(code))).kind and time.monotonic() < until:
        time.sleep(0.01)
    assert found.value is True


def test_what_returns_raises_or_returns_no_json_has_a_verdict() -> None:
    made, missing = FunctionCalls(), dict[str, int]()
    assert made.verdict(question(lambda: {"a": [1, None]})).value == {"a": [1, None]}
    failed = made.verdict(question(lambda: missing["x"]))
    assert (failed.kind, failed.value) == ("KeyError", None)
    odd = made.verdict(question(lambda: {1, 2}))
    assert (odd.kind, odd.error) == (
        "TypeError",
        "what it returned is a set; only values that JSON can hold are allowed.",
    )


# ---- where they are called ------------------------------------------------------------------------------------------


def test_a_condition_of_an_agent_that_does_not_return_is_not_true_on_record() -> None:
    class Waiting(BaseAgent):
        __system_message__ = "Work. {{ phase }}"
        phases = (("a", "b", lambda self: loops()), ("a", "c", lambda self: not is_in_a_decision()))

        @tool("Enter", condition=lambda self: rests())
        def enter(self) -> str:
            raise AssertionError("it is shut")

    model, journal = ScriptedModel(script(calls("enter"), "Done.")), Journals()
    agent = Waiting(model=model, journal=journal)
    assert asyncio.run(agent.run("Go")).phase == "c"
    failed = [(one.target, one.error) for one in journal.records() if isinstance(one, r.ConditionFailed)]
    assert failed == [("b", "TimeoutError: it took longer than 0.2 s and was given up")]
    (refused,) = [one for one in journal.records() if isinstance(one, r.ToolCallRejected)]
    assert "its condition failed (TimeoutError: " in refused.sentence


def test_a_factory_of_an_agents_state_is_called_once_and_never_in_a_decision() -> None:
    made: list[bool] = []

    def make_names() -> list[str]:
        made.append(is_in_a_decision())
        return [f"name {len(made)}"]

    class Helper(BaseAgent):
        __system_message__ = "You help."
        names: State[list[str]] = State(default_factory=make_names)

    helper = with_program(program(Helper(), {}))
    before = len(made)
    one = Scenario(one_turn("executor", "execute"), lambda *_: reply("Done."), config=helper).converse("Go")
    (first,) = one.records(r.AgentStateInitialized)
    assert first.values == {"names": [f"name {before + 1}"]}
    assert made[before:] == [False]


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (lambda _: loops(), "TimeoutError"),
        (lambda _: sys.exit(2), "SystemExit"),
        (lambda _: next(iter(())), "StopIteration"),
    ],
)
def test_a_beginning_that_fails_or_does_not_return_refuses_the_message(begin: Any, kind: str) -> None:
    one, evaluate = begun_by(begin)
    one.handle(evaluate())
    reason = f"its `begin` failed with {kind}. The author of its code has to fix that."
    assert any(reason in text for text in one.sent_texts())
    part = one.conversation.kinds["missions"]
    assert isinstance(part, MissionPart)
    assert part.refused == "endless"


def begun_by(begin: Any) -> tuple[Scenario, Callable[[], Evaluated]]:
    """A user has mentioned a mission with this `begin`; and what calls it."""
    mission = MissionWorkflow(graph=alone(), begin=begin)
    slug = Slug("endless")
    config = with_missions(policy(), {slug: mission.rule(slug, PublicKey("f" * 64))})
    one = Scenario(unused_router, lambda *_: reply(""), config=config)
    one.answers_at_once = False
    one.user_writes("Begin", addressed=(slug,))
    (effect,) = one.running.values()
    assert isinstance(effect, Evaluate)
    return one, lambda: asyncio.run(FunctionCalls().evaluate(one.conversation, effect, one.policy, one.now))


def test_a_system_without_threads_is_a_failure_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    _, evaluate = begun_by(lambda _: None)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert [verdict.kind for verdict in evaluate().verdicts] == ["RuntimeError"]


@dataclass(frozen=True)
class Endless:
    """A condition and a target that do not return."""

    name: ClassVar[str] = "endless"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        return rests()

    def resolve(self, state: WorkflowState, envelope: Envelope) -> Any:
        return loops()


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (Transition(Endless(), StayTarget()), "condition Endless"),
        (Transition(AnyOf([Endless()]), StayTarget()), "condition AnyOf"),
        (Transition(Always(), Endless()), "target Endless"),
    ],
)
@pytest.mark.usefixtures("fresh_default")
def test_a_rule_that_does_not_return_ends_its_workflow_with_what_to_fix(rule: Transition, what: str) -> None:
    register_condition(Endless)
    register_target(Endless)
    graph, state = TransitionGraph("ann", [rule], TerminateTarget()).begin(["ann", "bob"])
    found = fold_round(graph, state, Envelope(sender_id="ann"), FunctionCalls().verdict)
    assert isinstance(found, Folded)
    assert found.decision.close_reason == "rule_failed"
    (sentence,) = found.sentences
    assert sentence.startswith(f"The {what} failed with TimeoutError: it took longer than 0.2 s")


# ---- in a conversation ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Late:
    """Fires from a round on; changes what it is given, which must not matter."""

    after: int
    name: ClassVar[str] = "late"
    made: ClassVar[list[bool]] = []

    def __post_init__(self) -> None:
        Late.made.append(is_in_a_decision())

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        assert not is_in_a_decision()
        state.context_vars.clear()  # type: ignore[attr-defined]
        return state.turn_count >= self.after


@dataclass(frozen=True)
class Chooses:
    name: ClassVar[str] = "chooses"

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        assert not is_in_a_decision()
        return TransitionDecision(TRIO[state.turn_count % 3])


class Broken:
    """By the name of another, and none of its code works."""

    name: ClassVar[str] = "late"

    def __init__(self, **_: Any) -> None:
        raise AssertionError("it is made")

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        raise AssertionError("it is asked")

    def resolve(self, state: WorkflowState, envelope: Envelope) -> TransitionDecision:
        raise AssertionError("it is asked")


@pytest.fixture
def graph(fresh_default: None) -> TransitionGraph:
    """Goes round by an operator's target until an operator's condition fires."""
    register_condition(Late)
    register_target(Chooses)
    register_condition(Endless)
    return TransitionGraph(TRIO[0], [Transition(Late(4), TerminateTarget("enough"))], Chooses())


def test_a_round_is_decided_by_recorded_verdicts_and_they_change_nothing(graph: TransitionGraph) -> None:
    Late.made.clear()
    one = started(graph, context={"x": 1}).settle()
    assert [rec.next for rec in one.records(w.RoundClosed)] == [TRIO[1], TRIO[2], TRIO[0], ""]
    assert one.records(w.WorkflowClosed)[0].reason == "enough"
    assert session(one).speakers.context_vars == {"x": 1}
    verdicts = [[(v.function, v.value) for v in rec.verdicts] for rec in one.records(FunctionsEvaluated)]
    assert verdicts[0] == [("condition late 4", False), ("target chooses", {"next": TRIO[1], "reason": ""})]
    assert verdicts[-1] == [("condition late 4", True)]
    assert not any(Late.made), "no decision makes an operator's object"


def test_a_journal_with_verdicts_is_read_and_decided_again_without_any_function(graph: TransitionGraph) -> None:
    one = started(graph).settle()
    records, _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions(one.journal))
    assert (fault, fold(ID, records)) == (None, one.conversation)
    register_condition(Broken)
    register_target(type("BrokenTarget", (Broken,), {"name": "chooses"}))
    state = new_conversation(ID)
    for decision in one.journal:
        if isinstance(first := decision[0], FunctionsEvaluated):
            (key,) = [key for key in pending(state) if key.work is Work.FUNCTIONS]
            assert key == Key(Work.FUNCTIONS, first.request)
            again = decide(state, Evaluated(key=key, verdicts=first.verdicts), one.policy, first.at).records
            assert [unsealed(rec) for rec in again] == [unsealed(rec) for rec in decision]
        for rec in decision:
            state.apply(rec)


def unsealed(record: Record) -> Record:
    if isinstance(record, r.MessageSent):
        return dataclasses.replace(record, events=(), relays=())
    if isinstance(record, r.RunStarted):
        return dataclasses.replace(record, digest="", system=None, entries=())
    return record


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_any_append_changes_nothing_of_what_follows(graph: TransitionGraph, moment: str) -> None:
    whole = started(graph).settle()
    rounds = [(rec.speaker, rec.next) for rec in whole.records(w.RoundClosed)]
    for number in range(1, whole.appends + 1):
        one = Scenario(unused_router, ScriptedSpeakers(), config=workflow_policy(workflow(graph)))
        one.crash_at = (number, moment)
        one.user_writes("Make it good", addressed=("review",))
        one.settle()
        assert one.crashed == 1
        assert [(rec.speaker, rec.next) for rec in one.records(w.RoundClosed)] == rounds
        assert len(one.records(w.WorkflowClosed)) == 1
        assert one.refold() == one.conversation
        assert one.records(EvaluationRequested)
        assert one.records(FunctionsEvaluated)


def undecided(graph: TransitionGraph) -> Scenario:
    """A conversation whose rules are asked who is next, and have not answered."""
    one = started(graph)
    one.answers_at_once = False
    while not one.conversation.work.undecided:
        assert one.step()
    return one


def test_what_is_undecided_is_wanted_after_a_restart_and_nothing_is_repeated_for_it(graph: TransitionGraph) -> None:
    one = undecided(graph)
    asked = one.records(EvaluationRequested)[-1]
    key = Key(Work.FUNCTIONS, asked.seq)
    assert set(pending(one.refold())) & {key, asked.signal.key} == {key}
    spoke = len(one.records(r.ModelResponded))
    one.crash()
    assert key in one.running
    assert asked.signal.key not in one.running
    one.user_writes("And this?")
    one.user_writes("And that?")
    assert [type(rec.signal) for rec in one.records(EvaluationRequested)[-2:]] == [MessageReceived] * 2
    one.settle()
    assert [rec.text for rec in one.records(r.MessageRecorded)][1:] == ["And this?", "And that?"], "in their order"
    assert len(one.records(r.ModelResponded)) == spoke + len(one.records(w.RoundClosed))


def test_a_timer_and_a_stop_end_what_is_undecided(graph: TransitionGraph) -> None:
    one = undecided(graph)
    used = one.conversation.totals.usage
    one.fire("turn_within.close")
    assert isinstance(one.conversation.work.undecided[-1].signal, TimerFired), "the rules are asked who is next"
    one.settle()
    assert len(one.records(w.RoundClosed)) == 4
    assert one.conversation.totals.usage.tokens == used.tokens + 4 * 15

    two = undecided(graph)
    two.user_writes("/stop")
    two.answers_at_once = True
    two.settle()
    assert two.conversation.work.undecided == ()
    assert two.refold() == two.conversation


def test_other_conversations_are_served_while_a_function_does_not_return(
    graph: TransitionGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "TIMEOUT", 1.0)
    endless = TransitionGraph(TRIO[0], [Transition(Endless(), StayTarget())], TerminateTarget())
    world = World(unused_router, lambda request: reply(f"{request.agent} is done"))
    world.policy, world.functions = workflow_policy(workflow(endless)), FunctionCalls()
    first, second = ConversationId("c" * 64), ConversationId("d" * 64)

    async def main() -> None:
        async with world.daemon() as daemon:
            daemon.write("go", tagged=(KEY,))
            while not any(isinstance(rec, EvaluationRequested) for rec in of(first)):
                await asyncio.sleep(0.005)
            began = time.monotonic()
            daemon.write("/help", conversation=second)
            while not any(isinstance(rec, r.MessageSent) for rec in of(second)):
                await asyncio.sleep(0.005)
            assert time.monotonic() - began < 0.8
            assert not any(isinstance(rec, w.WorkflowClosed) for rec in of(first))
            while not any(isinstance(rec, w.WorkflowClosed) for rec in of(first)):
                await asyncio.sleep(0.02)

    def of(name: ConversationId) -> list[Record]:
        return [rec for decision in world.books.get(name, ()) for rec in decision]

    asyncio.run(asyncio.wait_for(main(), 20))
    (end,) = [rec for rec in of(first) if isinstance(rec, w.WorkflowClosed)]
    assert end.reason == "rule_failed"
