"""What should be in flight against what is: started once, cancelled when unwanted, and counted."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from tenex.core.effects import Effect, Key, Publish, Route, Timer, Work
from tenex.core.ids import EventId, Millis
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import Signal, TimerFired, ToolReturned
from tenex.core.work.fair_queue import waiting_for_turn
from tenex.runtime.reconciler import Reconciler
from tests.fakes.scenario import ALICE, RELAY

EVENT = UnsignedEvent(id=EventId("e" * 64), pubkey=ALICE, created_at=1, kind=1, tags=(), content="text")
ROUTE = Route(key=Key(Work.ROUTE, 1))
TIMER = Timer(key=Key(Work.TIMER, 2, "warn"), due=Millis(5))
PUBLISH = Publish(key=Key(Work.PUBLISH, 3, f"0 {RELAY}"), event=EVENT, relay=RELAY)


class Harness:
    """A reconciler whose tasks end when the test ends them."""

    def __init__(self) -> None:
        self.begun: list[Key] = []
        self.cancelled: list[Key] = []
        self.posted: list[Signal] = []
        self._ends: dict[Key, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.may_start = True
        self.reconciler = Reconciler("here", self._prepare, self.posted.append, self._spawn, lambda: self.may_start)

    def wants(self, *effects: Effect) -> None:
        self.reconciler.reconcile({effect.key: effect for effect in effects})

    async def end(self, key: Key) -> Signal:
        self._ends[key].set()
        while not self.posted:
            await asyncio.sleep(0)
        return self.posted.pop()

    @property
    def counts(self) -> tuple[int, int]:
        return self.reconciler.busy, self.reconciler.working

    def _prepare(self, effect: Effect) -> Callable[[], Coroutine[Any, Any, Signal]]:
        key, done = effect.key, asyncio.Event()
        self.begun.append(key)
        self._ends[key] = done

        async def work() -> Signal:
            try:
                await done.wait()
            except asyncio.CancelledError:
                self.cancelled.append(key)
                raise
            return TimerFired(key=key)

        return work

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]


async def test_what_may_start_no_more_when_its_turn_comes_begins_when_it_may_again() -> None:
    """As where the process was stopped in between, and another worker may write the conversation."""
    harness = Harness()
    harness.wants(ROUTE, TIMER)
    harness.may_start = False
    await asyncio.wait(harness.tasks)
    harness.wants(ROUTE, TIMER)
    assert (harness.counts, len(harness.tasks), harness.posted) == ((0, 0), 2, [])
    harness.may_start = True
    harness.wants(ROUTE, TIMER)
    assert harness.counts == (1, 1)
    await asyncio.sleep(0)
    assert await harness.end(ROUTE.key) == TimerFired(key=ROUTE.key)
    await harness.reconciler.close()


async def test_it_counts_what_is_in_flight_without_timers_and_steps_without_words() -> None:
    harness = Harness()
    for wanted, counts in (((), (0, 0)), ((TIMER,), (0, 0)), ((TIMER, PUBLISH), (1, 0))):
        harness.wants(*wanted)
        assert harness.counts == counts
    harness.wants(TIMER, PUBLISH, ROUTE)
    assert harness.counts == (2, 1)
    await asyncio.sleep(0)
    harness.wants(PUBLISH)
    assert harness.counts == (1, 0)
    await asyncio.wait(harness.tasks[:1])
    assert TIMER.key in harness.cancelled
    await harness.reconciler.close()


async def test_work_begins_once_and_again_only_when_its_end_was_decided_and_it_is_still_wanted() -> None:
    harness = Harness()
    for _ in range(2):
        harness.wants(ROUTE, TIMER)
    assert harness.begun == [ROUTE.key, TIMER.key]
    signal = await harness.end(ROUTE.key)
    harness.wants(ROUTE, TIMER)
    assert (harness.counts, len(harness.begun)) == ((0, 0), 2), "its work is done, and not yet decided on"
    harness.reconciler.acknowledge(signal)
    harness.reconciler.acknowledge(signal)
    harness.wants(ROUTE, TIMER)
    assert (harness.counts, harness.begun[2:]) == ((1, 1), [ROUTE.key])
    harness.reconciler.acknowledge(await harness.end(TIMER.key))
    harness.wants(ROUTE)
    assert harness.counts == (1, 1), "a timer that has fired is counted no more, in either way"
    await harness.reconciler.close()


async def test_while_it_drains_only_words_are_begun() -> None:
    harness = Harness()
    harness.wants(ROUTE)
    harness.reconciler.drain()
    harness.wants(ROUTE, TIMER, PUBLISH)
    assert harness.begun == [ROUTE.key, PUBLISH.key]
    await harness.reconciler.close()


async def test_a_step_that_waits_for_its_turn_is_given_up_at_a_stop_and_one_that_has_begun_is_not() -> None:
    """A tool's start is recorded, so it ends with a result; what asks a model within a tool has begun."""
    harness, turn = Harness(), asyncio.Event()
    tool = Key(Work.TOOL, 5)

    def prepare(effect: Effect) -> Callable[[], Coroutine[Any, Any, Signal]]:
        waits_as = Work.MODEL if effect.key.part == "asks" else effect.key.work

        async def work() -> Signal:
            with waiting_for_turn(waits_as):
                await turn.wait()
            return TimerFired(key=effect.key)

        return work

    harness.reconciler = Reconciler("here", prepare, harness.posted.append, harness._spawn)
    effects = [SimpleNamespace(key=key) for key in (ROUTE.key, tool, Key(Work.TOOL, 6, "asks"))]
    harness.wants(*effects)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert harness.counts == (3, 1)
    harness.reconciler.drain()
    assert harness.counts == (1, 1)
    (signal,) = harness.posted
    assert isinstance(signal, ToolReturned)
    assert (signal.key, signal.result.ok) == (tool, False)
    assert "nothing was done" in signal.result.content
    harness.posted.clear()
    turn.set()
    await asyncio.wait(harness.tasks)
    assert [task.cancelled() for task in harness.tasks] == [True, True, False]
    await harness.reconciler.close()


async def test_once_it_is_closed_everything_is_released_and_nothing_begins() -> None:
    harness = Harness()
    harness.wants(ROUTE, TIMER, PUBLISH)
    await harness.end(PUBLISH.key)
    await harness.reconciler.close()
    assert harness.counts == (0, 0)
    assert all(task.done() for task in harness.tasks)
    harness.wants(ROUTE, PUBLISH)
    assert (harness.counts, harness.begun[3:]) == ((0, 0), [])


async def test_a_step_whose_turn_comes_when_nothing_may_start_is_started_again_later() -> None:
    """As where a worker was paused meanwhile, and another one may write the conversation."""
    turns: list[asyncio.Event] = []
    begun: list[int] = []

    def prepare(effect: Effect) -> Callable[[], Coroutine[Any, Any, Signal]]:
        turn = asyncio.Event()
        turns.append(turn)

        async def work() -> Signal:
            with waiting_for_turn(Work.ROUTE):
                await turn.wait()
            begun.append(len(turns))
            return TimerFired(key=effect.key)

        return work

    here = Harness()
    reconciler = Reconciler("here", prepare, here.posted.append, here._spawn, lambda: here.may_start)
    reconciler.reconcile({ROUTE.key: ROUTE})
    await asyncio.sleep(0)
    here.may_start = False
    turns[0].set()
    await asyncio.wait(here.tasks, timeout=10)
    assert (begun, here.posted, reconciler.busy) == ([], [], 0)
    reconciler.reconcile({ROUTE.key: ROUTE})
    assert len(turns) == 1
    here.may_start = True
    reconciler.reconcile({ROUTE.key: ROUTE})
    turns[1].set()
    await asyncio.wait(here.tasks, timeout=10)
    assert (begun, len(here.posted)) == ([2], 1)
