"""The whole flow against a small obvious model: whatever happens to the process, the disk and the clock, they agree.

The router and the agents wait until a rule lets them answer, so the model knows what has happened. Deaths, restarts,
disks that fail and clocks that are set happen between; the model has never received them.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tenex.core import records as r
from tenex.core.config import Expectation, GateRules, Limits
from tenex.core.cycle.checks import ChangedFile, CheckOutcome, CheckResult, Inspection
from tenex.core.effects import Check, Inspect
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.pending import pending
from tenex.core.ports import ExecutionContext, OnText, OutgoingMessage, ToolResult, UnsignedEvent, ignore_text
from tests.fakes.runtime import Daemon, World
from tests.fakes.scenario import ALWAYS, check_invariants, policy, reply
from tests.fakes.subagents import calls_to, with_subagents
from tests.fakes.virtual import VirtualLoop
from tests.simulation.oracle import RecordedConversation, is_notice

from .model import GATES, Model

ID = "c" * 64
CALLED = "security"
"""Is in no turn: the executor calls it."""
LATER = ("reflection", "chores", "verification", "execute")
"""The phases a good router goes to, the farthest first."""
YEARS = 10 * 365 * 86_400_000


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Tracebacks of the faults we bring about would cost most of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


def _decision(phase: str, agents: list[str]) -> str:
    return json.dumps(
        {"phase": phase, "agents": agents, "reason": "because"} if phase else {"agents": agents, "reason": "because"}
    )


class PatientWorld(World):
    """Models that answer when a test lets them."""

    def __init__(self, gates: GateRules, *, has_checks: bool) -> None:
        super().__init__(lambda _question: None, lambda _request: None)
        if has_checks:
            self.checks = self
        self.content = 0
        """How often tools have changed the workspace."""
        self.begun: dict[int, int] = {}
        """What it was when each cycle first changed it."""
        self.checking: asyncio.Future[bool] | None = None
        """The check that runs; whether it passes is for the test to say."""
        patient = Expectation(warn_after=YEARS, close_after=YEARS)  # the model knows no deadline, and stories are long
        limits = Limits(turns_per_message=1_000, same_route=1_000, steps_per_run=1_000, default_expectation=patient)
        self.policy = with_subagents(policy(limits=limits, gates=gates), executor=[CALLED])
        self.asked: dict[str, asyncio.Future[Any]] = {}
        self.refusing: set[str] = set()
        self.faults = 0
        """How often a word cannot be sealed from now on."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        result = await super().call(name, arguments, context)
        if result.touched:
            self.begun.setdefault(context.cycle, self.content)
            self.content += 1
        return result

    async def inspect(self, effect: Inspect) -> Inspection:
        base = self.begun.get(effect.cycle, self.content)
        changed = (ChangedFile(path="f", added=1),) if base != self.content else ()
        return Inspection(tree=f"{self.content}", base=f"{base}", changed=changed, checks=("test",) if changed else ())

    async def run(self, effect: Check) -> CheckResult:
        """On the tree of the beginning it passes at once."""
        is_passed = True
        if not effect.is_earlier:
            self.must(self.checking is None, "two checks run at once")
            self.checking = asyncio.get_running_loop().create_future()
            try:
                is_passed = await self.checking
            finally:
                self.checking = None
        outcome: CheckOutcome = "passed" if is_passed else "failed"
        return CheckResult(name=effect.name, command="make", tree=effect.tree, outcome=outcome, status=not is_passed)

    def seal(self, draft: OutgoingMessage) -> tuple[UnsignedEvent, ...]:
        if self.faults:
            self.faults -= 1
            raise ZeroDivisionError
        return super().seal(draft)

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        who = "router" if request.purpose == "route" else request.agent
        if who in self.refusing:
            raise ModelRefused("filtered")
        self.must(who not in self.asked, f"{who} is asked twice at once")
        self.asked[who] = asyncio.get_running_loop().create_future()
        try:
            answer = await self.asked[who]
        finally:
            del self.asked[who]
        if isinstance(answer, Exception):
            raise answer
        return reply(answer) if isinstance(answer, str) else answer


class FlowMachine(RuleBasedStateMachine):
    gates = ALWAYS
    needed = frozenset(GATES)
    has_checks = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        asyncio.set_event_loop(self.loop)
        self.world = PatientWorld(self.gates, has_checks=self.has_checks)
        self.model = Model(needed=self.needed, has_checks=self.has_checks)
        self.count = 0
        self.life: AbstractAsyncContextManager[Daemon] | None = None
        self._begin(kill=True)

    def _begin(self, *, kill: bool) -> None:
        self.life = self.world.daemon(kill=kill)
        self.daemon = self.loop.run_until_complete(self.life.__aenter__())
        self._settle()

    def _end(self) -> None:
        assert self.life is not None
        self.loop.run_until_complete(self.life.__aexit__(None, None, None))
        self.life = None

    def _settle(self) -> None:
        """Longer than a suspended conversation waits for its disk, and than a held one for its model."""
        self.loop.run_until_complete(asyncio.sleep(400))

    def _write(self, text: str, event_id: str | None = None, reply_to: str | None = None) -> None:
        async def write() -> str:
            return self.daemon.write(text, event_id=event_id, reply_to=reply_to)

        assert self.loop.run_until_complete(write()) == "admitted"

    # ---- what may happen ----

    @initialize(steps=st.integers(0, 20), which=st.integers(0, 99))
    def somebody_begins(self, steps: int, which: int) -> None:
        """The first message, and good models bring the conversation to any phase."""
        self.a_person_writes()
        self.work_goes_on(steps, which)

    @rule()
    def a_person_writes(self, calls_to: str = "", question: str | None = None) -> None:
        """Whenever they like; where all wait for them, and there is one question, it is the answer."""
        self.count += 1
        event_id = f"{self.count:064d}"[::-1]
        self._write(f"message {self.count}", event_id, question)
        self.model.wrote(event_id, calls_to)
        self._settle()

    @precondition(lambda self: self.model.parked)
    @rule(which=st.integers(0, 9))
    def a_person_replies(self, which: int) -> None:
        """To the question of one of those who wait, of which there may be several."""
        who = sorted(self.model.parked)[which % len(self.model.parked)]
        state = self.daemon.state()
        question = next(event for event, (run, _) in state.work.asks.items() if state.work.runs[run].agent == who)
        self.a_person_writes(who, question)

    @precondition(lambda self: self.model.is_asking)
    @rule(which=st.integers(0, 99))
    def the_router_decides(self, which: int) -> None:
        """As the table and the gates permit."""
        ways = self.model.permitted()
        if ways:
            self._decide(*ways[which % len(ways)])

    def _decide(self, phase: str, agents: list[str]) -> None:
        self.world.asked["router"].set_result(_decision(phase, agents))
        self.model.decided(phase, agents)
        self._settle()

    @precondition(lambda self: self.model.is_asking)
    @rule(
        answer=st.sampled_from(["hm", '{"agents": ["wizard"], "reason": "-"}', '{"agents": []}', "failed", "leap"]),
        which=st.integers(0, 99),
    )
    def the_router_errs(self, answer: str, which: int) -> None:
        """Asked again with the reason, three times in all; a failed call is no answer."""
        if answer == "failed":
            self.world.asked["router"].set_result(ModelUnavailable("connection refused"))
        elif answer == "leap":
            barred = self.model.forbidden()
            self.world.asked["router"].set_result(_decision(*barred[which % len(barred)]))
            self.model.refused()
        else:
            self.world.asked["router"].set_result(answer)
            self.model.refused()
        self._settle()

    @precondition(lambda self: self.model.thinking)
    @rule(which=st.integers(0, 9), is_subagent=st.booleans())
    def an_agent_needs_someone(self, which: int, *, is_subagent: bool) -> None:
        """The user, whose answer may be long in coming; or a sub-agent, who has a model of its own."""
        agent = sorted(self.model.thinking)[which % len(self.model.thinking)]
        if is_subagent and "executor" in self.model.thinking and self.model.phase != "reflection":
            self.count += 1  # of the same calls with the same results the run would be ended
            self.world.asked["executor"].set_result(reply("", *calls_to(CALLED, message=f"look into {self.count}")))
            self.model.called("executor", CALLED)
        elif self.model.phase != "reflection":
            self.world.asked[agent].set_result(reply("", ("ask", {"question": f"What does {agent} do?"})))
            self.model.asked_person(agent)
        self._settle()

    @precondition(lambda self: self.model.thinking)
    @rule(which=st.integers(0, 9), outcome=st.sampled_from(["finished", "finished", "finished", "failed", "again"]))
    def an_agent_ends(self, which: int, outcome: str) -> None:
        """With its part done, with answers of no use, or not yet: its model has to be asked again."""
        agent = sorted(self.model.thinking)[which % len(self.model.thinking)]
        future = self.world.asked[agent]
        if outcome == "again":
            future.set_result(ModelUnavailable("connection refused"))
        elif outcome == "failed":
            self.world.refusing.add(agent)
            future.set_result(ModelRefused("filtered"))
            self.model.ended(agent, outcome)
        else:
            done = ("complete", {"response": f"{agent} did it", "verdict": "verified"})
            tool = {"execute": "write_file", "verification": "check"}.get(self.model.phase)
            if agent == CALLED:  # who advises: a call that is refused would keep it from completing
                tool = None
            future.set_result(reply("", *([(tool, {"path": "f"})] if tool else []), done))
            self.model.ended(agent, outcome)
        self._settle()
        self.world.refusing.clear()
        if self.model.is_checking and self.model.is_newer:  # its agents may have been shown what was written
            self.model.is_asking = self.daemon.state().router.question is not None

    @precondition(lambda self: self.model.runs_check)
    @rule(is_passed=st.booleans())
    def a_check_ends(self, *, is_passed: bool) -> None:
        """Whatever else is under way."""
        assert self.world.checking is not None
        self.world.checking.set_result(is_passed)
        self.model.check_ended(is_passed=is_passed)
        self._settle()

    @precondition(lambda self: self.model.is_asking or self.model.working or self.model.runs_check)
    @rule(steps=st.integers(3, 20), which=st.integers(0, 99))
    def work_goes_on(self, steps: int, which: int) -> None:
        """Good models for a while, so that later phases are reached as well."""
        for _ in range(steps):
            ways = self.model.permitted()
            if self.model.is_asking and ways:
                onward = [way for phase in LATER for way in ways if way[0] == phase != self.model.phase]
                self._decide(*[*onward, ways[-1]][0])
            elif self.model.thinking:
                self.an_agent_ends(which, "finished")
            elif self.model.parked:
                self.a_person_replies(which)
            elif self.model.runs_check:
                self.a_check_ends(is_passed=True)

    @rule(
        odd=st.sampled_from(["stop", "process", "clock", "disk", "ours"]),
        kill=st.booleans(),
        times=st.integers(1, 4),
        away=st.sampled_from([0.0, 60.0, 10_000.0]),
        by=st.sampled_from([-3_600_000, YEARS, -YEARS, 4_000]),
    )
    def something_odd_happens(self, odd: str, times: int, away: float, by: int, *, kill: bool) -> None:
        """One rule for all that is rare, so that most steps are work."""
        match odd:
            case "stop":
                self._write("/stop")
                self.model.stopped()
                self._settle()
            case "process":
                self.the_process_ends_and_starts_again(away, kill=kill)
            case "clock":
                self.world.clock.epoch = max(0, self.world.clock.epoch + by)  # no date is before 1970
            case "disk":
                self.the_disk_fails(times, kept=int(by > 0), dies=kill)
            case "ours":
                self.world.faults = min(times, 2)  # a third in a row, and what was received is given up

    def the_process_ends_and_starts_again(self, away: float, *, kill: bool) -> None:
        self._end()
        self.loop.run_until_complete(asyncio.sleep(away))
        self._begin(kill=kill)

    def the_disk_fails(self, times: int, *, kept: int, dies: bool) -> None:
        """The next appends fail, with a part of each on disk or nothing; perhaps the process dies of it too."""
        until = self.world.appends + times
        self.world.fail_append = lambda number: kept if number <= until else None
        if dies:
            self.loop.run_until_complete(asyncio.sleep(0.3))
            self.the_process_ends_and_starts_again(0.0, kill=True)

    # ---- what always holds ----

    @invariant()
    def they_agree(self) -> None:
        """Where it is, who works, who took part, and that no message was lost or taken in twice."""
        if self.model.status == "new":
            return
        state, model = self.daemon.state(), self.model
        assert (state.cycle.status, str(state.cycle.phase)) == (model.status, model.phase)
        called = {
            run.agent: state.work.runs[run.parent].agent for run in state.work.runs.values() if run.parent is not None
        }
        assert {run.agent for run in state.work.own_runs} == model.working
        assert called == model.callers
        assert {run.agent for run in state.work.runs.values() if run.has_parked} == model.parked
        assert len(state.work.asks) == len(model.parked)
        assert (state.router.question is not None) is model.is_asking
        assert set(state.cycle.participants) == model.participants
        received = [rec.event_id for rec in self._records() if isinstance(rec, r.MessageRecorded)]
        assert received == model.messages
        assert (self.world.checking is not None) is model.runs_check
        assert set(self.world.asked) == model.thinking | ({"router"} if model.is_asking else set())

    @invariant()
    def it_is_sound(self) -> None:
        """Legal transitions, each reflects once, sums equal, work in flight if and only if it does not wait."""
        if self.model.status == "new":
            return
        state = self.daemon.state()
        check_invariants(RecordedConversation(self.world.books[ConversationId(ID)], state))  # type: ignore[arg-type]
        message = {event.id for rec in self._records() if isinstance(rec, r.MessageSent) for event in rec.events}
        published = self.world.published
        assert message <= set(published)
        assert all(is_notice(event) for key, event in published.items() if key not in message)
        assert {key.work for key in pending(state)} <= {"route", "model", "timer", "check"}

    def _records(self) -> list[r.Record]:
        return [rec for decision in self.world.books.get(ConversationId(ID), []) for rec in decision]

    def teardown(self) -> None:
        if self.life is not None:
            self._end()
        self.loop.close()
        asyncio.set_event_loop(None)


FlowMachine.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestFlowMachine = FlowMachine.TestCase


class VerificationAloneMachine(FlowMachine):
    """The same where a rule passes chores and reflection after each change."""

    gates = GateRules(chores="never", reflection="never")
    needed = frozenset({"verification"})


VerificationAloneMachine.TestCase.settings = FlowMachine.TestCase.settings
TestVerificationAloneMachine = VerificationAloneMachine.TestCase


class CheckedMachine(FlowMachine):
    """The same in a project with a check."""

    has_checks = True


CheckedMachine.TestCase.settings = FlowMachine.TestCase.settings
TestCheckedMachine = CheckedMachine.TestCase


@pytest.mark.soak
@pytest.mark.parametrize("machine", [FlowMachine, VerificationAloneMachine, CheckedMachine])
def test_many_other_stories(machine: type[FlowMachine]) -> None:
    """New ones every time; a story that fails is printed with the seed that shows it again."""
    many = settings(
        FlowMachine.TestCase.settings, max_examples=400, stateful_step_count=50, derandomize=False, print_blob=True
    )
    run_state_machine_as_test(machine, settings=many)
