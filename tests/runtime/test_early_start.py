"""What starts while an append is under way, what waits for it, and what is left of an early start if it fails."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Replay
from tenex.core.conversation import fold, new_conversation
from tenex.core.dispatch import decide
from tenex.core.effects import Effect, ModelCall, Publish, Route, ToolCall
from tenex.core.ids import Millis, RunId
from tenex.core.messages import ModelRequest, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.port_values import ExecutionContext
from tenex.core.ports import OnText, PublishOutcome, ToolResult, UnsignedEvent, ignore_text
from tenex.core.signals import ModelCallInterrupted
from tests.fakes.runtime import World
from tests.fakes.scenario import ID, one_turn, policy, reply
from tests.fakes.virtual import virtual_time

TALKS = one_turn("executor", "brainstorm")
WORKS = one_turn("executor", "execute")
FLUSH = 100.0
"""Seconds of an append: whatever does not wait for it has long ended."""


def tools(request: ModelRequest) -> ModelStep:
    """A tool of each kind, and the end."""
    if any(isinstance(entry, ModelStep) for entry in request.entries):
        return reply("it is done")
    return reply("", ("read_file", {"path": "a"}), ("write_file", {"path": "a"}), ("send", {"path": "m"}))


class Watched(World):
    """Knows of each effect whether the record that wants it was durable when it started."""

    def __init__(self) -> None:
        super().__init__(WORKS, tools)
        self.append_time = FLUSH
        self.started: Counter[tuple[str, bool]] = Counter()

    def _starts(self, what: str, is_meant: Callable[[Effect], bool]) -> None:
        wanted = pending(fold(ID, self.records()))
        self.started[what, any(map(is_meant, wanted.values()))] += 1

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        self._starts(request.purpose, lambda one: isinstance(one, Route if request.purpose == "route" else ModelCall))
        return await super().step(request, on_text)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        self._starts(name, lambda one: isinstance(one, ToolCall) and one.context == context)
        return await super().call(name, arguments, context)

    async def publish(self, event: UnsignedEvent, relay: str) -> PublishOutcome:
        self._starts("publish", lambda one: isinstance(one, Publish) and one.event == event)
        return await super().publish(event, relay)


@virtual_time
async def test_only_what_changes_nothing_starts_before_its_records_are_durable() -> None:
    world = Watched()
    async with world.daemon() as daemon:
        daemon.write("build it")
        await daemon.until("waiting")
    early, durable = ({what for what, held in world.started if held is is_durable} for is_durable in (False, True))
    assert (early, durable) == ({"route", "work", "read_file"}, {"write_file", "send", "publish"})
    assert max(world.calls.values()) == 1


@virtual_time
async def test_a_turn_waits_for_the_disk_or_for_the_model_whichever_takes_longer() -> None:
    world = World(lambda q: {"agents": ["USER" if q["turns"] else "planner"], "reason": "-"}, lambda _: reply("done"))
    world.append_time = world.think = 10.0
    async with world.daemon() as daemon:
        daemon.write("hello")
        while not world.published:
            await asyncio.sleep(0.1)
        assert asyncio.get_running_loop().time() < 31, "three appends; the router and the agent think meanwhile"


def slow(append_time: float) -> World:
    """An agent thinks for 10 s, and appends take their time too."""
    world = World(TALKS, lambda _: reply("it is done"))
    world.think, world.append_time, world.cut_off = 10.0, append_time, Usage(input_tokens=7)
    return world


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize(("after", "cost"), [(5.0, 7), (20.0, 10)], ids=["cancelled", "answered"])
@pytest.mark.parametrize("failing", [1, 2])
@virtual_time
async def test_a_call_that_started_for_an_append_that_failed_is_made_again_and_its_cost_is_recorded(
    failing: int, after: float, cost: int, kept: int
) -> None:
    world = slow(after)
    world.fail_append = lambda number: kept if number == failing else None
    async with world.daemon() as daemon:
        daemon.write("build it")
        state = await daemon.until("waiting")
        asked = Counter(request.purpose for request in world.requests)
        assert (asked["route"], asked["work"]) == ((3, 1) if failing == 1 else (2, 2))
        assert state.totals.usage.input_tokens == 3 * 10 + cost
        (everyone, *_) = world.daily.today()
        assert everyone.used.tokens == state.totals.usage.tokens, "nothing is reserved or counted twice"
    (cancelled,) = world.records(r.ModelCallCancelled)
    run = world.records(r.RunStarted)[0].run
    assert (cancelled.run, cancelled.usage.input_tokens) == (None if failing == 1 else run, cost)
    assert (len(world.records(r.ModelResponded)), len(world.records(r.Routed))) == (1, 2)


@virtual_time
async def test_a_result_of_a_tool_that_started_for_an_append_that_failed_is_dropped() -> None:
    world = World(WORKS, tools)
    world.append_time = 1.0
    world.fail_append = lambda number: 0 if number == 3 else None
    async with world.daemon() as daemon:
        daemon.write("build it")
        await daemon.until("waiting")
    read = world.records(r.ToolCallStarted)[0]
    assert read.replay is Replay.READ
    assert world.calls[f"{ID}:{read.seq}"] == 2
    assert sorted(world.calls.values()) == [1, 1, 2]


@virtual_time
async def test_a_disk_that_goes_on_failing_costs_one_model_call() -> None:
    world = slow(5.0)
    world.fail_append = lambda _: 0
    async with world.daemon() as daemon:
        daemon.write("build it")
        await asyncio.sleep(3_600)
        assert len(world.requests) == 1
        world.fail_append = None
        await daemon.until("waiting")
    assert len(world.requests) == 4


@virtual_time
async def test_after_a_kill_before_the_append_returned_the_model_is_asked_the_same_again() -> None:
    world = slow(5.0)
    async with world.daemon(kill=True) as daemon:
        daemon.write("build it", event_id="b" * 64)
        while len(world.requests) < 2:
            await asyncio.sleep(0.1)
        assert not world.records(r.RunStarted)
    async with world.daemon() as daemon:
        await daemon.until("waiting")
    first, again = [request for request in world.requests if request.purpose == "work"]
    assert first.agent == again.agent
    assert first.entries == again.entries


def test_the_cost_of_a_call_for_a_conversation_that_never_began_begins_no_journal() -> None:
    cost = ModelCallInterrupted(run=RunId("t1.executor"), usage=Usage(input_tokens=7), model="script")
    assert not decide(new_conversation(ID), cost, policy(), Millis(1)).records
