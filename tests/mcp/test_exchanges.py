"""A call that waits for a person stays open for a time, and what it waits for is the newest question."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tenex.mcp.connection import Answer
from tenex.mcp.exchanges import MOST_HELD, Exchange, Exchanges, call_key
from tenex.mcp.questions import needs_input, question_in
from tests.fakes import mcp_hostile as hostile
from tests.service.person import until

from .conftest import config, connection_to, running, text_of


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


async def test_of_a_holder_that_has_ended_all_calls_are_given_up() -> None:
    exchanges = Exchanges(timeout=60, held=60)
    begun = {holder: exchanges.begin(asking) for holder in ("talk turn-1.a a", "talk turn-10.a a")}
    for holder, exchange in begun.items():
        assert await exchange.asks()
        exchanges.keep(call_key(holder, "order", {"text": "tea"}), exchange)
    exchanges.end_of("talk turn-1.a ")
    gone, kept = begun.values()
    await asyncio.wait([gone.task])
    assert gone.task.cancelled()
    assert exchanges.take(call_key("talk turn-10.a a", "order", {"text": "tea"})) is kept
    exchanges.end()
    await asyncio.wait([kept.task])


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


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late"])
async def test_a_server_at_an_address_asks_in_the_stream_of_its_call(tmp_path: Path, *, is_late: bool) -> None:
    """It waits for as long as a call may take; then the call is made again, and the answer is there."""
    replies: asyncio.Queue[Any] = asyncio.Queue()
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    params = {"message": "How many?", "requestedSchema": schema}

    async def event(request: hostile.Exchange, **message: Any) -> None:
        await request.send(f"data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode())

    async def asks(request: hostile.Exchange) -> None:
        await request.head("text/event-stream")
        await event(request, id="q", method="elicitation/create", params=params)
        content = [{"type": "text", "text": json.dumps(await replies.get())}]
        await event(request, id=request.message["id"], result={"content": content})

    async def takes(request: hostile.Exchange) -> None:
        replies.put_nowait(request.message["result"])
        await request.head("text/plain", status="202 Accepted")

    async with hostile.hostile_server(**{"tools_call": asks, "an answer": takes}) as server:
        timeout = 1 if is_late else 20
        async with running(connection_to(config("api", url=server.url, timeout=timeout), tmp_path)) as connection:
            asked = await connection.call("use", {})
            if is_late:
                await until(lambda: server.requests.count("an answer") == 1)
                asked = await connection.call("use", {}, goes_on=True)
            question = question_in(asked)
            assert needs_input(asked)
            assert question is not None
            answer = Answer(key=question.key, values={"count": 7}, state=asked.request_state)
            done = json.loads(text_of(await connection.call("use", {}, answer)))
    assert done == {"action": "accept", "content": {"count": 7}}
    assert server.requests.count("tools/call") == (2 if is_late else 1)
