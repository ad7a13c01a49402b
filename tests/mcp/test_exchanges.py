"""A call that waits for a person stays open for a time, and what it waits for is the newest question."""

import asyncio
from typing import Any

from tenex.mcp.exchanges import MOST_HELD, Exchange, Exchanges


async def asking(exchange: Exchange) -> list[Any]:
    """A server that asks twice."""
    return [await exchange.ask("first"), await exchange.ask("second")]


async def test_each_question_has_its_own_answer_and_the_time_of_a_person_is_not_the_servers() -> None:
    exchange = Exchange(asking, timeout=0.05, held=60)
    assert await exchange.asks()
    exchange.answer(2, "to a question that was not asked")
    await asyncio.wait([exchange.task], timeout=0.1)
    assert exchange.question == "first"
    exchange.answer(1, "one")
    assert await exchange.asks()
    assert exchange.question == "second"
    exchange.answer(1, "late")
    exchange.answer(2, "two")
    assert not await exchange.asks()
    assert exchange.task.result() == ["one", "two"]


async def test_a_question_without_an_answer_is_given_up() -> None:
    exchange = Exchange(asking, timeout=60, held=0.01)
    assert await exchange.task == [None, None]
    assert exchange.was_given_up


async def test_one_that_is_held_no_longer_than_its_timeout_is_given_up_then() -> None:
    exchange = Exchange(asking, timeout=0.05, held=None)
    await asyncio.wait([exchange.task])
    assert exchange.was_given_up


async def test_of_too_many_that_wait_the_oldest_makes_room() -> None:
    exchanges = Exchanges(timeout=60, held=60)
    begun = [exchanges.begin(asking) for _ in range(MOST_HELD + 1)]
    for number, exchange in enumerate(begun):
        assert await exchange.asks()
        exchanges.keep(str(number), exchange)
    await asyncio.wait([begun[0].task])
    assert begun[0].task.cancelled()
    assert exchanges.take("0") is None
    assert exchanges.take("1") is begun[1]
    exchanges.end()
    await asyncio.wait([exchange.task for exchange in begun])
