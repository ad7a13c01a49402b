"""Answers of models that are no longer awaited: not used, and their cost recorded exactly once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.dispatch import decide
from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import ModelRequest, ModelStep, Usage
from tenex.core.ports import OnText, ignore_text
from tenex.core.signals import ModelCallInterrupted, Signal
from tenex.core.transaction import Seal, Transaction
from tests.fakes.runtime import Daemon, World
from tests.fakes.scenario import one_turn, reply
from tests.fakes.virtual import run, virtual_time

LATE = Usage(input_tokens=300)
WORK, ROUTE_AGAIN = 2, 3
"""Which request of a conversation asks the first agent, and which asks the router after that agent's turn."""


class LateWorld(World):
    """A world with one turn for each message, whose request `number` costs 300 tokens, or fails at that cost."""

    def __init__(self, number: int, late: Exception | None = None) -> None:
        super().__init__(one_turn(), lambda _: reply("done"))
        self.think = 10.0
        self._number, self._late = number, late

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        is_late = len(self.requests) + 1 == self._number
        step = await super().step(request, on_text)
        if is_late and self._late is not None:
            raise self._late
        return replace(step, usage=LATE) if is_late else step


async def overtake(world: World, daemon: Daemon, command: str, number: int) -> None:
    """Have request `number` answered while the record of the command is written."""
    daemon.write("hello")
    while len(world.requests) < number:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)  # earlier messages are delivered, and that is written
    world.append_time, usual = 20.0, world.append_time
    daemon.write(command)
    await asyncio.sleep(1)
    world.append_time = usual
    await daemon.until("waiting")


def costs(world: World) -> list[tuple[str | None, int, str]]:
    return [(rec.run, rec.usage.input_tokens, rec.model) for rec in world.records(r.ModelCallCancelled)]


def scenario(world: World, command: str, number: int) -> None:
    async def main() -> None:
        async with world.daemon() as daemon:
            await overtake(world, daemon, command, number)
            assert daemon.state().totals.usage.input_tokens == 300 + 10 * (len(world.requests) - 1)

    run(main)


UNAVAILABLE = ModelUnavailable("cut off", usage=LATE, model="script")
REFUSED = ModelRefused("filtered", LATE, model="script")


@pytest.mark.parametrize("late", [None, UNAVAILABLE, REFUSED], ids=["answer", "unavailable", "refused"])
@pytest.mark.parametrize(("command", "number"), [("/retry", ROUTE_AGAIN), ("/stop", ROUTE_AGAIN), ("/stop", WORK)])
def test_what_a_model_cost_is_recorded_when_a_command_overtakes_its_answer(
    command: str, number: int, late: Exception | None
) -> None:
    world = LateWorld(number, late)
    scenario(world, command, number)
    ended = [rec for rec in world.observed if isinstance(rec, r.RunEnded)]
    assert (ended[0].outcome == "stopped") == (number == WORK)
    assert costs(world) == [(ended[0].run if number == WORK else None, 300, "script")]


@virtual_time
async def test_a_late_answer_without_a_cost_is_not_recorded() -> None:
    world = LateWorld(ROUTE_AGAIN, ModelUnavailable("connection refused"))
    async with world.daemon() as daemon:
        await overtake(world, daemon, "/retry", ROUTE_AGAIN)
    assert costs(world) == []


@pytest.mark.parametrize("is_written", [True, False])
def test_the_cost_of_a_late_answer_is_recorded_once_when_its_append_fails(*, is_written: bool) -> None:
    world = LateWorld(ROUTE_AGAIN)
    world.cut_off = Usage(input_tokens=10)  # of the call that has started while the append fails
    failed: list[int] = []

    def fault(_: int) -> int | None:
        is_next = any(isinstance(record, r.CommandGiven) for record in world.observed) and not failed
        if is_next:
            failed.append(1)
        return int(is_written) if is_next else None

    world.fail_append = fault
    scenario(world, "/retry", ROUTE_AGAIN)
    assert failed
    assert [cost for _, cost, _ in costs(world)] == [300, 10]


def test_the_cost_of_a_late_answer_is_recorded_once_when_it_is_given_up_after_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LateWorld(ROUTE_AGAIN)
    faults = {"decide": 2, "observe": 1}

    def fails(where: str) -> None:
        if faults[where]:
            faults[where] -= 1
            raise ZeroDivisionError

    def odd(state: Conversation, signal: Signal, policy: Policy, now: Millis, seal: Seal) -> Transaction:
        if isinstance(signal, ModelCallInterrupted):
            fails("decide")
        return decide(state, signal, policy, now, seal)

    observed_records: Callable[..., None] = world.observed_records

    def received(conversation: ConversationId, records: list[r.Record]) -> None:
        if any(isinstance(record, r.ModelCallCancelled) for record in records):
            fails("observe")
        observed_records(conversation, records)

    monkeypatch.setattr("tenex.runtime.actor.decide", odd)
    monkeypatch.setattr(world, "observed_records", received)
    scenario(world, "/retry", ROUTE_AGAIN)
    assert faults == {"decide": 0, "observe": 0}
    assert costs(world) == [(None, 300, "script")]
