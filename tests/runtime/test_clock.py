"""A clock that is set: back an hour, on ten years, while agents work, wait, are parked, or the daemon is down."""

import asyncio
import itertools
import json
import time
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.errors import ModelUnavailable
from tenex.core.ids import Millis
from tenex.core.messages import ModelRequest, ModelStep
from tenex.runtime.clock import SystemClock
from tenex.store.stats import Stats, as_json
from tenex.store.view_json import render
from tests.fakes.runtime import Daemon, World, worker
from tests.fakes.scenario import ID, longest_way, reply, route
from tests.fakes.virtual import virtual_time

HOUR, YEARS = 3_600_000, 10 * 365 * 86_400_000
STEPS = pytest.mark.parametrize("by", [-HOUR, YEARS, -YEARS], ids=["an hour back", "ten years on", "ten years back"])


def check_sane(world: World, away: int = 0) -> None:
    """Durations are plausible and event ids unique; `away` ms may count as idle time."""
    stats = as_json(Stats.of(ID, world.records()))
    spent = [stats["durationMs"], *(p["durationMs"] for p in stats["phases"].values())]
    assert all(0 <= ms < YEARS // 2 + away for ms in spent), spent
    assert 0 <= stats["workingMs"] < YEARS // 2
    shown = json.loads(render(Daemon(world, None).state(ID)))  # type: ignore[arg-type]
    assert all(0 <= ms < YEARS // 2 + away for ms in durations(shown))
    ids = [event.id for rec in world.records(r.MessageSent) for event in rec.events]
    assert len(ids) == len(set(ids)) == len(world.published)


def durations(value: Any) -> list[int]:
    if not isinstance(value, dict):
        return [ms for item in value for ms in durations(item)] if isinstance(value, list) else []
    own = [ms for name, ms in value.items() if name.startswith("duration") and isinstance(ms, int)]
    return [*own, *(ms for item in value.values() for ms in durations(item))]


@STEPS
@pytest.mark.parametrize("moment", [0.01, 0.06, 0.12, 0.3])
@virtual_time
async def test_a_turn_under_way_ends_as_if_the_clock_had_not_been_set(by: int, moment: float) -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        await daemon.write_in_turn("hello", "think", "plan")
        await asyncio.sleep(moment)
        world.clock.epoch += by
        await daemon.until("ended")
    assert {rec.outcome for rec in world.records(r.RunEnded)} == {"finished"}
    assert not world.records(r.RunWarned)
    assert [rec.by for rec in world.records(r.ClockAdjusted)] == [by]
    check_sane(world)


@STEPS
@virtual_time
async def test_a_tool_that_hangs_is_warned_of_and_ended_when_its_time_has_passed(by: int) -> None:
    world = World(longest_way, worker)
    world.work = 10.0**6

    async with world.daemon() as daemon:
        await daemon.write_in_turn("hello", "think", "plan")
        while not world.calls:
            await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        world.work = 0.01  # of those after it
        await asyncio.sleep(300)
        world.clock.epoch += by
        while "timed_out" not in {rec.outcome for rec in world.records(r.RunEnded)}:
            await asyncio.sleep(1.0)
        ended = asyncio.get_running_loop().time() - began
        await daemon.until("ended")
    assert 1_795 < ended < 1_810
    assert len({rec.run for rec in world.records(r.RunWarned)}) == len(world.records(r.RunWarned)) >= 1


@STEPS
@virtual_time
async def test_a_held_model_is_tried_again_when_its_time_has_passed(by: int) -> None:
    tries: list[float] = []

    def router(question: dict[str, Any]) -> Any:
        tries.append(asyncio.get_running_loop().time())
        return ModelUnavailable("connection refused") if len(tries) < 6 else longest_way(question)

    world = World(router, worker)

    async with world.daemon() as daemon:
        daemon.write("hello")
        for pause in (0.5, 3.0, 100.0):  # in the first wait, in the second, and while it is held
            await asyncio.sleep(pause)
            world.clock.epoch += by if pause != 3.0 else -by
        await daemon.until("waiting")
    waits = [round(later - earlier) for earlier, later in itertools.pairwise(tries[:6])]
    assert waits == [1, 4, 16, 300, 300]


@STEPS
@pytest.mark.parametrize("restarts", [False, True], ids=["in one life", "between two"])
@virtual_time
async def test_a_parked_run_has_its_time_left_when_the_answer_comes(by: int, *, restarts: bool) -> None:
    def asks(request: ModelRequest) -> ModelStep:
        if not any(isinstance(entry, ModelStep) for entry in request.entries):
            return reply("", ("ask", {"question": "Which colour?"}))
        return worker(request)

    world = World(lambda q: route(None, "USER" if q["turns"] else "executor"), asks)

    async with world.daemon() as daemon:
        daemon.write("hello")
        while not world.records(r.QuestionAsked):
            await asyncio.sleep(0.1)
        await asyncio.sleep(40 if restarts else 86_400)
        if not restarts:
            world.clock.epoch += by
            daemon.write("blue")
            await daemon.until("waiting")
    if restarts:
        world.clock.epoch += by
        await asyncio.sleep(100)
        async with world.daemon() as daemon:
            daemon.write("blue")
            await daemon.until("waiting")
    (answered,) = world.records(r.QuestionAnswered)
    left = answered.close_at - answered.at
    assert 1_790_000 < left <= 1_800_000 or (left > 0 and not world.records(r.ClockAdjusted)), left
    assert {rec.outcome for rec in world.records(r.RunEnded)} == {"finished"}


@STEPS
@virtual_time
async def test_a_clock_set_between_two_lives_costs_no_deadline_and_no_retry(by: int) -> None:
    world = World(lambda question: ModelUnavailable("connection refused"), worker)

    async with world.daemon(kill=True) as daemon:
        daemon.write("hello")
        await asyncio.sleep(60)  # tried three times, and held
    world.clock.epoch += by
    world.router = longest_way
    async with world.daemon() as daemon:
        await daemon.until("waiting", seconds=320)
    due = [rec.seq for rec in world.records(r.RetryDue)]
    assert len(due) == len(world.records(r.RetryScheduled))
    check_sane(world, max(0, by))


@STEPS
@virtual_time
async def test_messages_are_dated_in_their_order_and_never_far_ahead(by: int) -> None:
    world = World(longest_way, worker)
    stamps: list[tuple[int, int]] = []
    seal = world.seal

    def dated(draft: Any) -> Any:
        stamps.append((draft.created_at, world.clock.now() // 1000))
        return seal(draft)

    world.seal = dated  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        stamps.append((0, 0))
        world.clock.epoch += by
        for text in ("think", "plan"):
            daemon.write(text, created_at=int(1_700_000_000 + asyncio.get_running_loop().time()))
            await daemon.until("waiting" if text == "think" else "ended")
    assert all(at <= now + 60 for at, now in stamps)
    after = [at for at, _ in stamps[stamps.index((0, 0)) + 1 :]]
    assert len(after) > 4
    assert after == sorted(set(after))


@STEPS
@virtual_time
async def test_a_relay_that_is_away_is_given_up_after_three_days_and_not_before(by: int) -> None:
    world = World(longest_way, worker)
    world.relays = lambda draft: ("ws://relay", "ws://away")  # type: ignore[method-assign]
    publish = world.publish

    async def away(event: Any, relay: str) -> Any:
        if relay == "ws://away":
            await asyncio.sleep(10.0**7)
        return await publish(event, relay)

    world.publish = away  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("hello")
        await asyncio.sleep(3_600)
        world.clock.epoch += by
        await asyncio.sleep(3_600)
    world.clock.epoch += by
    async with world.daemon():
        while not world.records(r.OutboxExpired):
            await asyncio.sleep(60)
        expired = asyncio.get_running_loop().time()
    assert 3 * 86_400 <= expired < 3 * 86_400 + 7_300


@virtual_time
async def test_a_message_that_no_relay_takes_is_given_up_after_thirty_days_in_which_the_daemon_ran() -> None:
    world = World(longest_way, worker)

    async def away(event: Any, relay: str) -> Any:
        await asyncio.sleep(10.0**8)

    world.publish = away  # type: ignore[method-assign]

    async with world.daemon() as daemon:
        daemon.write("hello")
        await asyncio.sleep(3_600)
        world.clock.epoch += YEARS
        await asyncio.sleep(3_600)
    world.clock.epoch += YEARS
    async with world.daemon():
        while not world.records(r.OutboxExpired):
            await asyncio.sleep(3_600)
        expired = asyncio.get_running_loop().time()
    assert 30 * 86_400 <= expired < 30 * 86_400 + 10_800
    assert {(record.accepted, record.lost) for record in world.records(r.OutboxExpired)} == {(0, 1)}


@virtual_time
async def test_the_view_is_written_after_the_clock_went_back() -> None:
    world = World(longest_way, worker)

    async with world.daemon() as daemon:
        daemon.write("hello")
        await daemon.until("waiting")
        await asyncio.sleep(1)
        world.clock.epoch -= HOUR
        world.think = 60.0
        before = world.shown[ID]
        daemon.write("think")
        await asyncio.sleep(5)
        assert world.shown[ID] > before
        world.think = 0.05
        daemon.write("/stop")
        await daemon.until("waiting")


async def test_the_systems_clock_waits_for_time_to_pass_and_not_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, loop = SystemClock(), asyncio.get_running_loop()
    assert abs(clock.now() - time.time() * 1000) < 60_000
    began = loop.time()
    waiting = asyncio.create_task(clock.sleep_until(Millis(clock.now() + 50)))
    await asyncio.sleep(0)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - HOUR * 1_000_000)
    async with asyncio.timeout(60):
        await waiting
    assert loop.time() - began >= 0.049
