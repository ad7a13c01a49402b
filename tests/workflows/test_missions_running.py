"""Running a mission in one process: steps, retries, timeouts, error edges, pauses, dependencies, values."""

import asyncio
import itertools
import math
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import fold
from tenex.core.effects import Key, Work
from tenex.core.errors import MissionFailed, ModelUnavailable, StepFailed, WorkflowError
from tenex.core.ids import ConversationId
from tenex.core.messages import ModelStep, Usage
from tenex.store.stats import Stats
from tenex.workflows.agents import BaseAgent
from tenex.workflows.missions import BaseNode, End, Graph, GraphRunContext, NodeError, durable
from tenex.workflows.missions import records as m
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.runner import NodeRunner
from tenex.workflows.missions.signals import NodeFailed
from tests.fakes.python_agents import ScriptedModel, script
from tests.fakes.virtual import VirtualClock, run

from . import mission_kit as kit
from .mission_kit import Journals, Mute


class Ledger(BaseModel):
    """A state with values that JSON does not have."""

    total: float = 0
    worst: float = -math.inf
    notes: list[str] = Field(default_factory=list, alias="theNotes")
    current_phase: str = ""
    phases_completed: list[str] = []


Ctx = GraphRunContext[Ledger, None]
Node = BaseNode[Ledger, None, Any]


def alone(body: Any, **policy: Any) -> Graph[Ledger, None, Any]:
    return kit.alone(body, Ledger, **policy)


def play(graph: Graph[Ledger, None, Any], journal: Journals | None = None, **more: Any) -> Any:
    return kit.play(graph, journal=journal, **{"state": Ledger(), **more})


def test_a_step_is_journaled_before_its_effect_and_after() -> None:
    journal, seen = Journals(), []

    async def body(ctx: Ctx) -> int:
        def act() -> int:
            seen.append([type(record).__name__ for record in journal.records()][-1])
            ctx.state.total += 1
            return 3

        result = await ctx.step("act", act)
        seen.append([type(record).__name__ for record in journal.records()][-1])
        return result

    assert play(alone(body), journal).output == 3
    assert seen == ["StepStarted", "StepCompleted"]
    assert next(rec for rec in journal.records() if isinstance(rec, m.StepCompleted)).changed == {"total": 1.0}


def test_a_transient_error_is_tried_again_and_steps_that_returned_are_kept() -> None:
    calls: list[str] = []

    async def body(ctx: Ctx) -> str:
        ctx.state.total += 1
        await ctx.step("once", lambda: calls.append("once"))
        if ctx.attempt < 2:
            calls.append("fails")
            raise ConnectionError("down")
        return f"{ctx.attempt} {ctx.state.total}"

    assert play(alone(body)).output == "2 1.0"
    assert calls == ["once", "fails", "fails"]


@pytest.mark.parametrize(
    ("asked", "gaps"), [(2.0, [1, 4, 16, 16]), (10.0**12, [1, 3600, 16, 16]), (math.inf, [1, 3600, 16, 16])]
)
def test_retries_are_bounded_and_waits_come_from_the_table_or_the_error(asked: float, gaps: list[int]) -> None:
    times: list[float] = []

    async def body(ctx: Ctx) -> None:
        times.append(asyncio.get_running_loop().time())
        raise ModelUnavailable("busy", retry_after=asked if ctx.attempt == 1 else None)

    result = play(alone(body, retries=4))
    assert (result.outcome, result.kind) == ("failed", "ModelUnavailable")
    assert [round(b - a) for a, b in itertools.pairwise(times)] == gaps
    with pytest.raises(MissionFailed, match="busy"):
        _ = result.output


@pytest.mark.parametrize(("replay", "tries"), [("read", 3), ("once", 1)])
def test_a_read_step_that_failed_runs_again_and_a_once_step_never(replay: Any, tries: int) -> None:
    calls: list[None] = []

    def breaks() -> None:
        calls.append(None)
        raise TimeoutError("slow")

    async def body(ctx: Ctx) -> None:
        await ctx.step("act", breaks, replay=replay)

    assert play(alone(body, retries=2)).kind == "TimeoutError"
    assert len(calls) == tries


@pytest.mark.parametrize("replay", ["idempotent", "once"])
def test_a_refused_key_pauses_what_may_run_again_and_fails_what_may_not(replay: Any) -> None:
    calls: list[str] = []

    def asks() -> str:
        calls.append("ask")
        if len(calls) == 1:
            raise ModelUnavailable("no such key: correct it", needs_operator=True)
        return "answered"

    async def body(ctx: Ctx) -> str:
        return str(await ctx.step("ask", asks, replay=replay))

    journal, graph = Journals(), alone(body, retries=0)
    first = play(graph, journal, mission="m")
    again = play(graph, journal, mission="m")
    if replay == "once":
        assert (first.outcome, again.outcome, calls) == ("failed", "failed", ["ask"])
    else:
        assert (first.outcome, "no such key" in first.error, again.output) == ("paused", True, "answered")


def test_a_step_fails_with_the_same_error_the_first_time_and_after() -> None:
    seen: list[tuple[str, str]] = []

    async def body(ctx: Ctx) -> str:
        try:
            await ctx.step("pay", lambda: 1 / 0)
        except StepFailed as error:
            seen.append((error.kind, str(error)))
        if ctx.attempt == 0:
            raise ConnectionError("down")
        return "ok"

    assert play(alone(body)).output == "ok"
    assert seen == [("ZeroDivisionError", "step pay: ZeroDivisionError: division by zero")] * 2


def test_what_a_step_did_to_the_state_is_done_when_it_is_not_run_again() -> None:
    async def body(ctx: Ctx) -> list[Any]:
        state = ctx.state  # kept, as user code does

        def mark() -> None:
            state.notes.append("by the step")
            state.worst = -1.5

        state.total += 1
        await ctx.step("mark", mark)
        state.total += 1
        if ctx.attempt == 0:
            raise ConnectionError("down")
        return [state.total, state.worst, state.notes, ctx.state is state]

    assert play(alone(body)).output == [2.0, -1.5, ["by the step"], True]


def test_a_durable_function_is_a_step_in_a_node_and_itself_elsewhere() -> None:
    calls: list[int] = []

    @durable(replay="read")
    async def double(number: int) -> int:
        calls.append(number)
        return number * 2

    async def body(ctx: Ctx) -> int:
        found = await double(4)
        if ctx.attempt == 0:
            raise ConnectionError("down")
        return found

    assert (play(alone(body)).output, asyncio.run(double(1))) == (8, 2)
    assert calls == [4, 1]


def test_a_step_in_a_step_is_refused() -> None:
    async def body(ctx: Ctx) -> None:
        await ctx.step("outer", lambda: ctx.step("inner", int))

    result = play(alone(body))
    assert (result.outcome, result.kind) == ("failed", "WorkflowError")
    assert "The step inner is within the step outer" in result.error


def test_a_step_after_the_end_is_refused() -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[Any]] = []

        async def orphan(ctx: Ctx) -> None:
            async def later() -> None:
                await asyncio.sleep(5)
                await ctx.step("late", int)

            tasks.append(asyncio.create_task(later()))

        graph = alone(orphan)
        await graph.run(graph.first(), state=Ledger(), clock=VirtualClock())
        with pytest.raises(WorkflowError, match="after its node had ended"):
            await tasks[0]

    run(main)


def test_a_result_without_a_type_must_come_back_as_it_was() -> None:
    async def body(ctx: Ctx) -> Any:
        return await ctx.step("pair", lambda: (1, 2))

    result = play(alone(body))
    assert result.kind == "SerializationError"
    assert "annotate it" in result.error

    async def typed(ctx: Ctx) -> Any:
        pair = await ctx.step("pair", lambda: (1, 2), returns=tuple[int, int])
        return [type(pair).__name__, pair[1]]

    assert play(alone(typed)).output == ["tuple", 2]


def test_a_timeout_fires_and_cuts_off_what_runs_and_what_that_had_spent_is_booked_once() -> None:
    journal, ended = Journals(), list[str]()

    @dataclass
    class Slow(Node, timeout=10, on_error="Repair"):
        async def run(self, ctx: Ctx) -> "Repair":
            async def forever() -> None:
                ctx.spend("own:client", input_tokens=60)
                try:
                    await asyncio.sleep(3_600)
                finally:
                    ended.append(f"after {asyncio.get_running_loop().time():.0f} s")

            await ctx.step("wait", forever)
            return Repair()

    @dataclass
    class Repair(Node):
        error: NodeError | None = None

        async def run(self, ctx: Ctx) -> End[Any]:
            assert self.error is not None
            await asyncio.sleep(1)
            return End([self.error.node, self.error.kind, self.error.attempts])

    assert play(Graph(nodes=(Slow, Repair), state_type=Ledger), journal).output == ["Slow", "TimedOut", 1]
    assert ended == ["after 10 s"]
    assert spendings(journal) == [("own:client", 60)]


def test_what_was_spent_when_the_time_of_the_last_node_was_up_is_booked_once() -> None:
    journal = Journals()

    async def ask(ctx: Ctx) -> None:
        ctx.spend("own:client", input_tokens=60)
        await asyncio.sleep(100)

    async def body(ctx: Ctx) -> None:
        await ctx.step("ask", ask, ctx)

    assert play(alone(body, timeout=5), journal).outcome == "failed"
    assert spendings(journal) == [("own:client", 60)]


def test_a_node_that_returns_what_it_may_not_fails_with_what_it_may() -> None:
    @dataclass
    class One(Node):
        kind: str = ""

        async def run(self, ctx: Ctx) -> "Two":
            answers: dict[str, Any] = {"self": self, "end": End(None), "class": Two, "none": None, "text": "Two"}
            ctx.state.notes.append("not kept")
            return answers[self.kind]  # type: ignore[no-any-return]

    @dataclass
    class Two(Node):
        async def run(self, ctx: Ctx) -> End[Any]:
            return End(None)

    graph: Graph[Ledger, None, Any] = Graph(nodes=(One, Two), state_type=Ledger)
    for kind, words in {
        "self": "One cannot be followed by One; it may be followed by: Two.",
        "end": "One cannot be followed by END; it may be followed by: Two.",
        "class": "One returned the class Two; it may return an instance of: Two.",
        "none": "One returned None; it may return an instance of: Two.",
        "text": "One returned a str; it may return an instance of: Two.",
    }.items():
        result = play(graph, start=One(kind=kind))
        assert (result.outcome, result.error, result.state.notes) == ("failed", f"One: {words}", [])


@pytest.mark.parametrize("is_step", [False, True])
def test_an_error_without_words_fails_its_node(is_step: bool) -> None:
    def mute() -> None:
        raise Mute

    async def body(ctx: Ctx) -> None:
        if is_step:
            await ctx.step("mute", mute)
        mute()

    result = play(alone(body))
    assert (result.outcome, result.kind, "Mute" in result.error) == ("failed", "Mute", True)


def test_the_reason_of_a_pause_is_a_text_that_users_can_read() -> None:
    async def body(ctx: Ctx) -> None:
        await ctx.pause(reason)

    reason: Any = 404
    assert play(alone(body)).kind == "WorkflowError"
    reason = "wait " * 10_000
    assert len(play(alone(body)).error) == 2_000


@pytest.mark.parametrize("is_step", [False, True])
def test_code_that_exits_fails_its_node_and_not_the_process(is_step: bool) -> None:
    """A command line within a node would otherwise end the daemon at each start."""

    async def body(ctx: Ctx) -> None:
        if is_step:
            await ctx.step("leave", sys.exit, 3)
        sys.exit(3)

    result = play(alone(body))
    assert (result.kind, "3" in result.error) == ("SystemExit", True)


def test_dependencies_that_exit_are_a_failure_too() -> None:
    graph = alone(kit.idle)
    effect = NodeRun(
        key=Key(Work.NODE, 1),
        conversation=ConversationId("c"),
        workflow=graph.name,
        node="Only",
        data={},
        state=graph.dump_state(Ledger()),
        steps={},
        attempt=0,
    )
    failed = run(NodeRunner({graph.name: (graph, lambda: sys.exit(3))}).prepare(effect, lambda _: None))
    assert isinstance(failed, NodeFailed)
    assert (failed.kind, "3" in failed.message) == ("DeserializationError", True)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionError("no"), True),
        (ValueError("no"), False),
        (ExceptionGroup("side by side", [ConnectionError("no"), TimeoutError("no")]), True),
        (ExceptionGroup("side by side", [ConnectionError("no"), ValueError("no")]), False),
    ],
)
def test_an_error_may_pass_and_of_several_each_must(error: Exception, passes: bool) -> None:
    tries: list[int] = []

    async def body(ctx: Ctx) -> None:
        tries.append(ctx.attempt)
        raise error

    play(alone(body, retries=1))
    assert tries == [0, 1][: passes + 1]


def test_a_cancellation_from_elsewhere_is_a_failure_and_not_silence() -> None:
    async def body(ctx: Ctx) -> None:
        inner = asyncio.ensure_future(asyncio.sleep(10))
        inner.cancel()
        await inner

    assert play(alone(body)).kind == "CancelledError"


# ---- what models cost ------------------------------------------------------------------------------------------------


class Asked(BaseAgent):
    __system_message__ = "You answer."


def answers(cost: int) -> ScriptedModel:
    return ScriptedModel(
        script(ModelStep(text="So it is.", model="vendor:large", usage=Usage(input_tokens=cost, cost_usd=0.5)))
    )


def spendings(journal: Journals) -> list[tuple[str, int]]:
    return [(one.model, one.usage.input_tokens) for one in journal.records() if isinstance(one, m.MissionUsageRecorded)]


@pytest.mark.parametrize(
    ("cost", "name"),
    [
        ({"cost_usd": math.nan}, "cost_usd"),
        ({"cost_usd": -1}, "cost_usd"),
        ({"cost_usd": "much"}, "cost_usd"),
        ({"cost_usd": True}, "cost_usd"),
        ({"model": None}, "model"),
        ({"output_tokens": 1.5}, "output_tokens"),
        ({"input_tokens": -1}, "input_tokens"),
    ],
)
def test_a_cost_that_is_none_fails_the_node_that_reported_it(cost: Any, name: str) -> None:
    """A sum with one that is no number would never reach a limit; one that cannot be stored would end the process."""
    journal = Journals()

    async def body(ctx: Ctx) -> None:
        ctx.spend(**{"model": "own:client", **cost})

    result = play(alone(body), journal)
    assert (result.outcome, result.kind) == ("failed", "WorkflowError")
    assert f"`{name}`" in result.error
    assert spendings(journal) == []


def test_what_a_nodes_models_cost_is_counted_in_a_step_beside_one_and_in_a_mission_within() -> None:
    journal = Journals()

    async def ask(cost: int) -> str:
        return (await Asked(model=answers(cost)).run("Is it so?")).final_output

    async def within(ctx: Ctx) -> str:
        return await ask(1000)

    async def inner() -> str:
        graph = alone(within)
        return str((await graph.run(graph.first(), state=Ledger())).output)

    async def body(ctx: Ctx) -> str:
        await ctx.step("ask", ask, 1)
        await ctx.step("both", asyncio.gather, ask(10), ask(100), returns=list[str])
        await ctx.step("inner", inner)
        ctx.spend("own:client", input_tokens=7, output_tokens=1)
        return await ask(10_000)

    result = play(alone(body), journal)
    assert result.output == "So it is."
    large = [("vendor:large", cost) for cost in (1, 110, 1000)]
    assert spendings(journal) == [*large, ("own:client", 7), ("vendor:large", 10_000)]
    name = ConversationId("a" * 64)
    stats = Stats.of(name, journal.records())
    assert (stats.usage, set(stats.agents)) == (fold(name, journal.records()).totals.usage, {"mission"})
    assert (stats.usage.input_tokens, stats.usage.calls) == (11_118, 6)


def test_a_mission_whose_models_have_cost_too_much_pauses_before_its_next_step() -> None:
    journal, asked = Journals(), []

    async def ask(name: str) -> None:
        asked.append(name)
        await Asked(model=answers(60)).run("Is it so?")

    async def body(ctx: Ctx) -> int:
        for name in ("one", "two", "three", "four", "five"):
            await ctx.step(name, ask, name)
        return len(asked)

    graph, limits = alone(body), Limits(tokens_per_cycle=100)
    result = play(graph, journal, limits=limits)
    assert (result.outcome, asked) == ("paused", ["one", "two"])
    assert "This work has used 120 tokens of 100" in result.error
    assert [one.limit for one in journal.records() if isinstance(one, r.LimitReached)] == ["tokens_per_cycle"]
    assert play(graph, journal, limits=limits).outcome == "paused"
    assert asked == ["one", "two", "three", "four"]
    assert play(graph, journal, limits=limits).output == 5
