"""What went wrong with turns, completions, time, stopping and waiting (B4, B7, B10, B19, B20, B21, B25)."""

# ruff: noqa: N802 (the numbers of the catalogue are written B1)

import asyncio
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import ModelCall, Timer
from tenex.core.ids import Millis
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tests.fakes.runtime import World
from tests.fakes.scenario import WAITS, Router, in_flight, model_by_phase, reply, route, scenario_at, step_until
from tests.fakes.virtual import run


def test_B04_a_completion_that_arrives_twice_counts_once() -> None:
    """The tool counted it, and its echo from the relay counted it again."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor", "helper"), WAITS))
    step_until(scenario, lambda p: any(isinstance(e, ModelCall) for e in p.running.values()))
    call = next(e for e in scenario.running.values() if isinstance(e, ModelCall))
    answer = scenario.perform(call)
    scenario.handle(answer)
    assert scenario.handle(answer) == []
    scenario.settle()
    assert scenario.conversation.last_turn is not None
    agents = [done.agent for done in scenario.conversation.last_turn.completions]
    assert sorted(agents) == ["executor", "helper"]


@pytest.mark.parametrize("calls_complete", [True, False])
def test_B04_B10_a_completion_counts_and_is_seen_however_it_is_given(calls_complete: bool) -> None:
    """Those of some agents were never counted; those made up by the program stopped the work, and no one saw them."""
    step = (
        reply("", ("complete", {"response": "it is there", "summary": "done"}))
        if calls_complete
        else reply("it is there")
    )
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=[step])
    ).settle()
    closed = scenario.conversation.last_turn
    assert closed is not None
    assert closed.phase is Phase.EXECUTE
    assert [(done.agent, done.text) for done in closed.completions] == [("executor", "it is there")]
    assert [message.text for message in scenario.records(r.MessageSent) if message.purpose == "completion"][
        -1
    ] == "it is there"
    assert scenario.conversation.status == "waiting", "the router was asked again, and waits"


def test_B07_agents_of_a_turn_run_at_the_same_time_and_the_router_waits_for_the_last() -> None:
    """They ran one after the other, and the first one's completion started a second orchestrator."""
    thinking: set[str] = set()
    asked_meanwhile: list[set[str]] = []

    def router(question: dict[str, Any]) -> dict[str, Any]:
        asked_meanwhile.append(set(thinking))
        return WAITS if question["turns"] else route("execute", "executor", "helper", "planner")

    async def slow(world: World, request: ModelRequest, *more: Any) -> ModelStep:
        thinking.add(request.agent)
        try:
            await asyncio.sleep({"executor": 1, "helper": 60, "planner": 600}.get(request.agent, 0))
            return await step(world, request, *more)
        finally:
            thinking.discard(request.agent)

    step = World.step

    class Slow(World):
        async def step(self, request: ModelRequest, *more: Any) -> ModelStep:
            return await slow(self, request, *more)

    world = Slow(router, lambda request: reply(f"{request.agent} is done"))

    async def main() -> float:
        async with world.daemon() as daemon:
            daemon.write("build it")
            began = asyncio.get_running_loop().time()
            await daemon.until("waiting")
            return asyncio.get_running_loop().time() - began

    took = run(main)
    assert asked_meanwhile == [{"orchestrator"}, {"orchestrator"}], "never beside an agent, never twice at once"
    assert 600 < took < 605, "as long as the slowest, not as all together"


@pytest.mark.parametrize("stage", ["router", "agents", "tools"])
def test_B19_stop_ends_whatever_is_at_work(stage: str) -> None:
    """Only one kind of agent could be stopped, and the orchestrator never."""
    write = reply("", ("write_file", {"path": "f"}))
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor", "helper"), WAITS), model_by_phase(execute=[write])
    )
    if stage == "agents":
        step_until(scenario, lambda p: sum(isinstance(e, ModelCall) for e in p.running.values()) == 2)
    elif stage == "tools":
        step_until(
            scenario, lambda p: any(c.state == "permitted" for x in p.conversation.runs.values() for c in x.calls)
        )
    assert in_flight(scenario)
    scenario.user_writes("/stop")
    assert not in_flight(scenario)
    assert scenario.conversation.status == "waiting"
    assert scenario.conversation.turn is None


def test_B20_time_stops_with_the_work() -> None:
    """The clock of an execution ran on after it had succeeded."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS)).settle()
    assert scenario.conversation.status == "waiting"
    assert not [
        e for e in pending(scenario.conversation).values() if isinstance(e, Timer) and e.key.part in ("warn", "close")
    ]
    (started,) = [record for record in scenario.records(r.RunStarted) if record.agent == "executor"][-1:]
    (ended,) = scenario.records(r.RunEnded)[-1:]
    assert ended.run == started.run
    scenario.now = Millis(scenario.now + 3_600_000)
    scenario.user_writes("/status")
    assert not scenario.records(r.RunWarned), "an hour of waiting is no one's work"


def test_B21_what_a_run_waits_for_survives_a_restart() -> None:
    """Whom it waited for was kept in memory, in a value that could not be written."""
    asks = reply("", ("ask", {"question": "Which colour?"}))

    def worker(request: ModelRequest) -> ModelStep:
        stepped = any(isinstance(entry, ModelStep) for entry in request.entries)
        return reply("It is done.") if request.phase != "execute" or stepped else asks

    def router(question: dict[str, Any]) -> dict[str, Any]:
        return WAITS if question["turns"] else route("execute", "executor")

    world = World(router, worker)

    async def main() -> None:
        async with world.daemon(kill=True) as daemon:
            daemon.write("build it")
            while not daemon.state().is_parked:
                await asyncio.sleep(0.1)
        async with world.daemon() as daemon:
            assert daemon.state().is_parked
            daemon.write("blue")
            await daemon.until("waiting")

    run(main)
    (answered,) = [record for record in world.observed if isinstance(record, r.QuestionAnswered)]
    assert answered.text == "blue"
    assert world.requests[-2].agent == "executor"


def test_B25_how_long_a_call_took_is_measured() -> None:
    """Every call was logged with a duration of one second."""
    world = World(
        lambda question: WAITS if question["turns"] else route("execute", "executor"),
        lambda request: (
            reply("done")
            if any(isinstance(e, ModelStep) for e in request.entries)
            else reply("", ("read_file", {"path": "a"}), ("send", {"path": "b"}))
        ),
    )
    world.work = 7.0

    async def main() -> None:
        async with world.daemon() as daemon:
            daemon.write("build it")
            await daemon.until("waiting")

    run(main)
    began = {record.call: record.at for record in world.observed if isinstance(record, r.ToolCallStarted)}
    took = [record.at - began[record.call] for record in world.observed if isinstance(record, r.ToolCallCompleted)]
    assert len(took) == 2
    assert all(6_990 <= milliseconds < 7_100 for milliseconds in took), took


def test_B04_a_completion_that_comes_after_a_stop_counts_for_nothing() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    step_until(scenario, lambda p: any(isinstance(e, ModelCall) for e in p.running.values()))
    late = scenario.perform(next(e for e in scenario.running.values() if isinstance(e, ModelCall)))
    scenario.user_writes("/stop")
    assert scenario.handle(late) == []
    assert scenario.conversation.last_turn is not None
    assert [done.outcome for done in scenario.conversation.last_turn.completions] == ["stopped"]
