"""Conditions and targets that do not return are cut off and have failed; everything else goes on."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tenex.core import records as r
from tenex.core.errors import UsageError
from tenex.core.ids import Slug
from tenex.core.workflow.rounds import Envelope, WorkflowState
from tenex.core.workflow.speakers import Folded, fold
from tenex.workflows import time_limit
from tenex.workflows.agents import BaseAgent, tool
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext
from tenex.workflows.missions.definitions import MissionWorkflow, Starting
from tenex.workflows.speakers import (
    Always,
    AnyOf,
    StayTarget,
    TerminateTarget,
    Transition,
    TransitionGraph,
    TransitionRegistry,
)
from tenex.workflows.time_limit import in_time
from tests.fakes.python_agents import ScriptedModel, calls, script

from .mission_kit import Journals

ENOUGH = 30
"""Seconds after which what never returns does, so that a test without a bound fails and does not hang."""


def loops() -> bool:
    """Work that does not end."""
    until = time.monotonic() + ENOUGH
    while time.monotonic() < until:
        pass
    return True


def rests() -> bool:
    """A wait outside Python's own code."""
    threading.Event().wait(ENOUGH)
    return True


def catches_all() -> bool:
    """Work that catches the first alarm, and goes on."""
    try:
        return loops()
    except BaseException:
        return loops()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(time_limit, "LONGEST", 0.03)
    monkeypatch.setattr(time_limit, "AGAIN", 0.01)
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def fails_when_it_is_cut_off() -> bool:
    """Work whose cleanup fails, as that of a lock which the alarm finds half released."""
    try:
        return loops()
    finally:
        raise RuntimeError("release unlocked lock")


@pytest.mark.parametrize("code", [loops, rests, catches_all, fails_when_it_is_cut_off])
def test_what_does_not_return_is_cut_off(code: Callable[[], bool]) -> None:
    with pytest.raises(TimeoutError, match="and was given up"):
        in_time(code)


def test_what_returns_or_raises_does_so_and_an_alarm_that_was_set_is_set_again() -> None:
    def mine(_number: int, _frame: Any) -> None:
        raise AssertionError("it is not due")

    before = signal.signal(signal.SIGALRM, mine)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        assert in_time(lambda given: given + 1, 1) == 2
        with pytest.raises(KeyError):
            in_time({"y": 1}.__getitem__, "x")
        with pytest.raises(TimeoutError):
            in_time(loops)
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_condition_of_an_agent_that_does_not_return_is_not_true_on_record() -> None:
    class Waiting(BaseAgent):
        __system_message__ = "Work. {{ phase }}"
        phases = (("a", "b", lambda self: loops()), ("a", "c", lambda self: True))

        @tool("Enter", condition=lambda self: rests())
        def enter(self) -> str:
            raise AssertionError("it is shut")

    model, journal = ScriptedModel(script(calls("enter"), "Done.")), Journals()
    agent = Waiting(model=model, journal=journal)
    assert asyncio.run(agent.run("Go")).phase == "c"
    failed = [(one.target, one.error) for one in journal.records() if isinstance(one, r.ConditionFailed)]
    assert failed == [("b", "TimeoutError: it took longer than 0.03 s and was given up")]
    (refused,) = [one for one in journal.records() if isinstance(one, r.ToolCallRejected)]
    assert "its condition failed (TimeoutError: it took longer" in refused.sentence


def test_a_beginning_that_does_not_return_refuses_the_message() -> None:
    """It is asked while a message is taken in; a daemon that waited for it would wait again at its next start."""

    @dataclass
    class Only(BaseNode[None, None, None]):
        async def run(self, ctx: GraphRunContext[None, None]) -> End[None]:
            return End(None)

    mission = MissionWorkflow(graph=Graph(nodes=(Only,), state_type=None), begin=lambda _message: loops())
    with pytest.raises(UsageError, match=r"its `begin` failed with TimeoutError\. The author of its code"):
        Starting(Slug("endless"), mission)("Begin")


@pytest.mark.parametrize("rings", ["before it is asked", "as it returns"])
def test_an_alarm_that_comes_at_the_edge_of_the_work_counts_as_one_within(
    rings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped goes on at any place; the caller receives of time that is up, and of nothing else."""
    real = signal.setitimer

    def setitimer(which: int, seconds: float, interval: float = 0.0) -> tuple[float, float]:
        before = real(which, seconds, interval)
        if (seconds > 0) == (rings == "before it is asked"):
            signal.raise_signal(signal.SIGALRM)
        return before

    monkeypatch.setattr(signal, "setitimer", setitimer)
    if rings == "before it is asked":
        with pytest.raises(TimeoutError, match="and was given up"):
            in_time(bool)
    else:
        assert in_time(bool) is False
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@dataclass(frozen=True)
class Endless:
    """A condition and a target that do not return."""

    name: ClassVar[str] = "endless"

    def evaluate(self, state: WorkflowState, envelope: Envelope) -> bool:
        return loops()

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
def test_a_rule_that_does_not_return_ends_its_workflow_with_what_to_fix(rule: Transition, what: str) -> None:
    registry = TransitionRegistry()
    registry.register_condition(Endless)
    registry.register_target(Endless)
    graph, state = TransitionGraph("ann", [rule], TerminateTarget()).begin(["ann", "bob"], registry=registry)
    found = fold(graph, state, Envelope(sender_id="ann"))
    assert isinstance(found, Folded)
    assert found.decision.close_reason == "rule_failed"
    assert found.sentences == (f"The {what} failed with TimeoutError; fix its code.",)
