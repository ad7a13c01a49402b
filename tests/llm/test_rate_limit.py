"""The queue before a provider: calls at once, windows of a minute, pauses, fairness. On virtual time."""

import asyncio
from itertools import pairwise

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.llm.rate_limit import ADVANTAGE, LONGEST_PAUSE, MINUTE, PATIENCE, FairQueue, ProviderQueue, RateWindow
from tests.fakes.virtual import run, virtual_time


def starts(
    turns: ProviderQueue, calls: int, lasting: float = 0.0, tokens: int = 0, truly: int | None = None
) -> list[float]:
    """When each of so many calls, all wanted at once, got its turn."""
    began: list[float] = [0.0] * calls

    async def call(place: int) -> None:
        async with turns.turn(tokens) as turn:
            began[place] = asyncio.get_running_loop().time()
            assert turn.waited == pytest.approx(began[place])
            await asyncio.sleep(lasting)
            if truly is not None:
                turn.settle(truly)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for place in range(calls):
                group.create_task(call(place))

    run(main)
    assert turns.active == turns.waiting == 0
    return began


def test_no_more_than_so_many_at_once_and_in_order() -> None:
    assert starts(ProviderQueue("p", concurrency=2), 6, lasting=1.0) == [0, 0, 1, 1, 2, 2]


def test_no_minute_holds_more_requests_than_the_limit() -> None:
    began = starts(ProviderQueue("p", requests_per_minute=3), 10, lasting=0.1)
    assert began == sorted(began)
    assert all(later - earlier >= MINUTE - 1e-6 for earlier, later in zip(began, began[3:], strict=False))
    assert began[-1] == pytest.approx(3 * MINUTE)


def test_tokens_are_counted_as_estimated_until_they_are_known() -> None:
    began = starts(ProviderQueue("p", tokens_per_minute=100, concurrency=1), 4, tokens=60, truly=30, lasting=1.0)
    assert began == pytest.approx([0, 1, MINUTE, MINUTE + 1])  # two truly took 60, a third estimated at 60 does not fit


def test_a_call_larger_than_the_limit_goes_when_nothing_else_does() -> None:
    assert starts(ProviderQueue("p", tokens_per_minute=10), 2, tokens=50) == pytest.approx([0, MINUTE])


@pytest.mark.parametrize(("amount", "wait"), [(1, 0.0), (6, 10.0), (9, 40.0), (99, 40.0)])
def test_a_window_returns_the_wait_for_an_amount(amount: int, wait: float) -> None:
    window = RateWindow(10)
    window.add(3, 0.0)
    window.add(2, 30.0)
    assert window.wait(amount, 50.0) == pytest.approx(wait)


def test_a_pause_holds_everybody_and_a_shorter_one_does_not_end_it() -> None:
    turns = ProviderQueue("p")

    async def main() -> float:
        turns.pause(20)
        turns.pause(5)
        assert turns.paused == pytest.approx(20)
        async with turns.turn():
            return asyncio.get_running_loop().time()

    assert run(main) == pytest.approx(20)


@pytest.mark.parametrize("pause", [20.0, PATIENCE + 60])
def test_a_call_a_person_wants_now_goes_through_a_pause_and_the_others_do_not(pause: float) -> None:
    turns = ProviderQueue("p", concurrency=1)

    async def main() -> float:
        turns.pause(pause)
        async with turns.turn(through_pause=True):
            assert turns.active == 1
        assert turns.active == 0
        assert turns.paused == pytest.approx(pause)
        return asyncio.get_running_loop().time()

    assert run(main) == 0


@virtual_time
async def test_a_call_that_would_wait_too_long_fails_at_once() -> None:
    turns = ProviderQueue("p", concurrency=1)

    turns.pause(PATIENCE + 60)
    with pytest.raises(ModelUnavailable) as caught:
        async with turns.turn():
            raise AssertionError("it got a turn")
    assert caught.value.retry_after == pytest.approx(PATIENCE + 60)
    assert asyncio.get_running_loop().time() == 0
    turns.pause(10**9)
    assert turns.paused == LONGEST_PAUSE
    assert turns.waiting == 0


@virtual_time
async def test_a_pause_that_comes_while_one_waits_counts_too() -> None:
    turns = ProviderQueue("p", requests_per_minute=1)

    async with turns.turn():
        pass
    waiting = asyncio.create_task(turns.turn().__aenter__())
    await asyncio.sleep(MINUTE / 2)
    turns.pause(PATIENCE + MINUTE)
    with pytest.raises(ModelUnavailable):
        await waiting


def test_a_cancelled_wait_leaves_no_trace() -> None:
    turns = ProviderQueue("p", concurrency=1, requests_per_minute=2)

    async def main() -> list[float]:
        clock = asyncio.get_running_loop().time
        began: list[float] = []

        async def call() -> None:
            async with turns.turn():
                began.append(clock())
                await asyncio.sleep(10)

        tasks = [asyncio.create_task(call()) for _ in range(4)]
        await asyncio.sleep(1)
        tasks[1].cancel()
        await asyncio.sleep(10)
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return began

    assert run(main) == [0, 10]
    assert turns.active == turns.waiting == 0


def test_fairness_holds_when_long_and_short_calls_mix() -> None:
    began = starts(ProviderQueue("p", concurrency=3, requests_per_minute=5), 12, lasting=7.0)
    assert all(earlier <= later for earlier, later in pairwise(began))


def order(*waiting: tuple[str, int, int]) -> list[str]:
    """Who is served, in order, where each (person, priority, calls) waits from the beginning."""
    queue: FairQueue[str] = FairQueue()
    for person, priority, calls in waiting:
        for number in range(calls):
            queue.add(f"{person}{number}", person, priority)
    served = []
    while queue:
        assert queue.peek() is not None
        served.append(queue.pop())
    assert queue.peek() is None
    return served


def test_people_of_one_priority_are_served_in_turn_and_each_ones_calls_in_order() -> None:
    assert order(("a", 1, 4), ("b", 1, 2), ("c", 1, 1)) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_owners_go_before_members_but_not_for_ever() -> None:
    served = "".join(name[0] for name in order(("o", 0, 9), ("m", 1, 3), ("g", 2, 2)))
    assert served == "oooo" + "mg" + "oooo" + "mg" + "o" + "m"
    assert ADVANTAGE == 4


def test_a_call_that_gives_up_leaves_the_queue() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add("x", "a", 1)
    queue.add("y", "b", 1)
    queue.discard("x", "a", 1)
    queue.discard("x", "a", 1)
    queue.discard("z", "unknown", 7)
    assert (len(queue), queue.pop(), queue.peek()) == (1, "y", None)


async def ten_seconds(turns: ProviderQueue, person: str, priority: int) -> float:
    """Call for ten seconds; returns the seconds it waited."""
    began = asyncio.get_running_loop().time()
    async with turns.turn(person=person, priority=priority):
        waited = asyncio.get_running_loop().time() - began
        await asyncio.sleep(10)
    return waited


@virtual_time
async def test_an_owner_waits_for_no_more_than_the_calls_in_flight() -> None:
    """Three hundred calls of one member wait; two are in flight."""
    turns = ProviderQueue("p", concurrency=2)
    async with asyncio.TaskGroup() as group:
        for _ in range(300):
            group.create_task(ten_seconds(turns, "member", 1))
        await asyncio.sleep(1)
        assert max([await ten_seconds(turns, "owner", 0) for _ in range(3)]) <= 10
    assert turns.active == turns.waiting == 0


@virtual_time
async def test_another_member_waits_for_one_call_of_the_first_and_not_for_all() -> None:
    turns = ProviderQueue("p", concurrency=1)
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(ten_seconds(turns, "one", 1))
        await asyncio.sleep(1)
        assert await ten_seconds(turns, "another", 1) <= 20


@virtual_time
async def test_a_call_that_was_refused_and_cancelled_at_once_holds_no_place() -> None:
    turns = ProviderQueue("p", concurrency=1)

    async with turns.turn():
        waiting = asyncio.create_task(turns.turn().__aenter__())
        await asyncio.sleep(0)
        turns.pause(PATIENCE + 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (turns.active, turns.waiting) == (1, 0)
    assert turns.active == 0
