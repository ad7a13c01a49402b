"""The queue before a provider: calls at once, windows of a minute, pauses, fairness. On virtual time."""

import asyncio

import pytest

from tenex.core.errors import ModelUnavailable
from tenex.core.work.fair_queue import FairQueue
from tenex.llm.rate_limit import LONGEST_PAUSE, MINUTE, PATIENCE, ProviderQueue
from tests.fakes.virtual import run, virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


def starts(
    turns: ProviderQueue, calls: int, lasting: float = 0.0, tokens: int = 0, truly: int | None = None
) -> list[float]:
    """When each of so many calls, all wanted at once, got its turn."""
    began: list[float] = [0.0] * calls

    async def call(place: int) -> None:
        async with turns.turn(tokens) as turn:
            began[place] = now()
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


@pytest.mark.parametrize(
    ("turns", "given", "expected"),
    [
        (ProviderQueue("p", concurrency=2), {"calls": 6, "lasting": 1.0}, [0, 0, 1, 1, 2, 2]),
        (ProviderQueue("p", requests_per_minute=3), {"calls": 7, "lasting": 0.1}, [0, 0, 0, 60, 60, 60, 120]),
        (
            ProviderQueue("p", tokens_per_minute=100, concurrency=1),
            {"calls": 4, "tokens": 60, "truly": 30, "lasting": 1.0},
            [0, 1, MINUTE, MINUTE + 1],  # two truly took 60, a third estimated at 60 does not fit
        ),
        (ProviderQueue("p", tokens_per_minute=10), {"calls": 2, "tokens": 50}, [0, MINUTE]),
        (
            ProviderQueue("p", concurrency=3, requests_per_minute=5),
            {"calls": 8, "lasting": 7.0},
            [0, 0, 0, 7, 7, 60, 60, 60],
        ),
    ],
    ids=["calls at once", "requests", "tokens", "larger than the limit", "mixed"],
)
def test_calls_start_in_order_as_soon_as_the_limits_permit(
    turns: ProviderQueue, given: dict[str, int], expected: list[float]
) -> None:
    assert starts(turns, **given) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("daemons", "expected"),
    [(1, [0, 0, 0, 0, 60, 60]), (2, [0, 0, 60, 60, 120, 120]), (9, [0, 60, 120, 180, 240, 300])],
)
def test_daemons_that_share_a_provider_have_each_its_part_and_one_call_at_least(
    daemons: int, expected: list[float]
) -> None:
    for turns in (
        ProviderQueue("p", requests_per_minute=4),
        ProviderQueue("p", tokens_per_minute=4),
        ProviderQueue("p", concurrency=4),
    ):
        turns.share(daemons)
        assert starts(turns, calls=6, lasting=60.0, tokens=1) == expected
    unlimited = ProviderQueue("p")
    unlimited.share(daemons)
    assert starts(unlimited, calls=3) == [0, 0, 0]


def test_what_was_shared_is_whole_again() -> None:
    turns = ProviderQueue("p", concurrency=4)
    turns.share(2)
    turns.share(1)
    assert starts(turns, calls=5, lasting=1.0) == [0, 0, 0, 0, 1]


@virtual_time
async def test_a_pause_holds_everybody_but_a_call_a_person_wants_now() -> None:
    turns = ProviderQueue("p", concurrency=1)
    turns.pause(20)
    turns.pause(5)
    assert turns.paused == pytest.approx(20)
    async with turns.turn(through_pause=True):
        assert (now(), turns.active) == (0, 1)
    assert turns.active == 0
    async with turns.turn():
        assert now() == pytest.approx(20)


@virtual_time
async def test_a_call_that_would_wait_too_long_fails_at_once() -> None:
    turns = ProviderQueue("p", concurrency=1)
    turns.pause(PATIENCE + 60)
    async with turns.turn(through_pause=True):
        pass
    with pytest.raises(ModelUnavailable) as caught:
        async with turns.turn():
            raise AssertionError("it got a turn")
    assert caught.value.retry_after == pytest.approx(PATIENCE + 60)
    assert now() == 0
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


@virtual_time
async def test_a_cancelled_wait_leaves_no_trace() -> None:
    turns = ProviderQueue("p", concurrency=1, requests_per_minute=2)
    began: list[float] = []

    async def call() -> None:
        async with turns.turn():
            began.append(now())
            await asyncio.sleep(10)

    tasks = [asyncio.create_task(call()) for _ in range(4)]
    await asyncio.sleep(1)
    tasks[1].cancel()
    await asyncio.sleep(10)
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert began == [0, 10]
    assert turns.active == turns.waiting == 0


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


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ((("a", 1, 4), ("b", 1, 2), ("c", 1, 1)), "a0 b0 c0 a1 b1 a2 a3"),
        ((("o", 0, 9), ("m", 1, 3), ("g", 2, 2)), "o0 o1 o2 o3 m0 g0 o4 o5 o6 o7 m1 g1 o8 m2"),
    ],
    ids=["persons of one priority in turn", "owners first, but not for ever"],
)
def test_each_person_is_served_in_turn_by_priority(waiting: tuple[tuple[str, int, int], ...], expected: str) -> None:
    """Each row is a person, a priority and how many calls of theirs wait."""
    queue: FairQueue[str] = FairQueue()
    for person, priority, calls in waiting:
        for number in range(calls):
            queue.add(f"{person}{number}", person, priority)
    served = []
    while queue:
        assert queue.peek() is not None
        served.append(queue.pop())
    assert queue.peek() is None
    assert " ".join(served) == expected


@virtual_time
async def test_an_owner_waits_for_no_more_than_the_calls_in_flight_and_a_member_for_one_of_another() -> None:
    turns, served = ProviderQueue("p", concurrency=2), list[str]()

    async def ten_seconds(person: str, priority: int) -> None:
        async with turns.turn(person=person, priority=priority):
            served.append(person)
            await asyncio.sleep(10)

    async with asyncio.TaskGroup() as group:
        for person, priority in (*[("member", 1)] * 300, ("another", 1), ("owner", 0)):
            group.create_task(ten_seconds(person, priority))
    assert served[:5] == ["member", "member", "owner", "member", "another"]


@virtual_time
async def test_guests_take_half_of_the_places_so_that_an_owner_has_one_at_once() -> None:
    turns, served = ProviderQueue("p", concurrency=4), list[tuple[str, float]]()

    async def call(person: str, priority: int, seconds: float = 100.0) -> None:
        async with turns.turn(person=person, priority=priority):
            served.append((person, now()))
            await asyncio.sleep(seconds)

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(call(f"guest {number}", 2))
        await asyncio.sleep(10)
        assert (turns.active, turns.waiting) == (2, 4)
        for person, priority in (("owner", 0), ("member", 1), ("another", 1)):
            group.create_task(call(person, priority, 5.0))
    assert served == [
        ("guest 0", 0),
        ("guest 1", 0),
        ("owner", 10),
        ("member", 10),
        ("another", 15),
        ("guest 2", 100),
        ("guest 3", 100),
        ("guest 4", 200),
        ("guest 5", 200),
    ]
    assert turns.active == turns.waiting == 0


def test_a_provider_with_one_place_serves_guests_too() -> None:
    turns = ProviderQueue("p", concurrency=1)

    async def main() -> None:
        for priority in (2, 0, 2):
            async with turns.turn(person="someone", priority=priority):
                assert turns.active == 1

    run(main)
    assert turns.active == 0
