"""Who is served next at a busy provider: owners first, users in turn, none starved."""

import asyncio

from tenex.llm.rate_limit import ADVANTAGE, PATIENCE, FairQueue, ProviderQueue
from tests.fakes.virtual import run, virtual_time


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


def test_an_owner_waits_for_no_more_than_the_calls_in_flight() -> None:
    """Three hundred calls of one member wait; two are in flight."""
    turns = ProviderQueue("p", concurrency=2)

    async def call(person: str, priority: int) -> float:
        began = asyncio.get_running_loop().time()
        async with turns.turn(person=person, priority=priority):
            waited = asyncio.get_running_loop().time() - began
            await asyncio.sleep(10)
        return waited

    async def main() -> list[float]:
        async with asyncio.TaskGroup() as group:
            for _ in range(300):
                group.create_task(call("member", 1))
            await asyncio.sleep(1)
            return [await call("owner", 0) for _ in range(3)]

    assert max(run(main)) <= 10
    assert turns.active == turns.waiting == 0


def test_another_member_waits_for_one_call_of_the_first_and_not_for_all() -> None:
    turns = ProviderQueue("p", concurrency=1)

    async def call(person: str) -> float:
        began = asyncio.get_running_loop().time()
        async with turns.turn(person=person, priority=1):
            waited = asyncio.get_running_loop().time() - began
            await asyncio.sleep(10)
        return waited

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(call("one"))
            await asyncio.sleep(1)
            return await call("another")

    assert run(main) <= 20


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
