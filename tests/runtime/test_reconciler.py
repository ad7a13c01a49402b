"""What should be in flight against what is: started once, cancelled when unwanted, and counted."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tenex.core.effects import Effect, Key, Publish, Route, Timer, Work
from tenex.core.ids import EventId, Millis
from tenex.core.ports import UnsignedEvent
from tenex.core.signals import Signal, TimerFired
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
        self.reconciler = Reconciler("here", self._prepare, self.posted.append, self._spawn)

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
    await harness.reconciler.cancel()


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
    await harness.reconciler.cancel()


async def test_while_it_drains_only_words_are_begun() -> None:
    harness = Harness()
    harness.wants(ROUTE)
    harness.reconciler.drain()
    harness.wants(ROUTE, TIMER, PUBLISH)
    assert harness.begun == [ROUTE.key, PUBLISH.key]
    await harness.reconciler.cancel()


async def test_after_a_cancel_everything_is_released_and_may_begin_again() -> None:
    harness = Harness()
    harness.wants(ROUTE, TIMER, PUBLISH)
    await harness.end(PUBLISH.key)
    await harness.reconciler.cancel()
    assert harness.counts == (0, 0)
    assert all(task.done() for task in harness.tasks)
    harness.wants(ROUTE, PUBLISH)
    assert (harness.counts, harness.begun[3:]) == ((2, 1), [ROUTE.key, PUBLISH.key])
    await harness.reconciler.cancel()
