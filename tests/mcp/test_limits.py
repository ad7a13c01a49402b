"""What a server sends is limited in size, number and time, and the sentence that says so names it and the limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tenex.mcp.connection import CallFailed, CallTimedOut, ServerConnection, ServerLost
from tenex.mcp.http import _Body
from tenex.mcp.limits import LARGEST_MESSAGE, MINUTE, MOST_MESSAGES, MOST_PAGES, MOST_TOOLS, Rate
from tests.fakes import mcp_hostile as hostile
from tests.fakes.mcp_hostile import TOOL, Answering, Exchange, HostileServer, hostile_server
from tests.service.person import until

from .conftest import config, connection_to, running, text_of

BUFFERS = 16 * 1024**2
"""Bytes that the kernel may have taken beyond what was read."""


@asynccontextmanager
async def at_address(
    tmp_path: Path, *, start: float = 20, seconds: float = 20, **ways: Answering
) -> AsyncIterator[tuple[HostileServer, ServerConnection]]:
    """A server that answers so, and the connection to it."""
    async with hostile_server(**ways) as server:
        connection = connection_to(config("api", url=server.url, timeout=seconds), tmp_path, start=start)
        async with running(connection):
            yield server, connection


@pytest.mark.parametrize("way", [hostile.endless_document, hostile.endless_event], ids=["document", "event"])
async def test_an_answer_without_end_fails_its_call_and_no_other(tmp_path: Path, way: Answering) -> None:
    async with at_address(tmp_path, tools_call=way) as (server, connection):
        with pytest.raises(CallFailed, match="api gave no answer: it sent a message of more than 4 MB"):
            await connection.call("use", {})
        async with asyncio.timeout(20):
            await server.gone.wait()
        assert LARGEST_MESSAGE < server.sent < LARGEST_MESSAGE + BUFFERS
        assert (connection.state, connection.counters.losses) == ("ready", 0)


@pytest.mark.parametrize("way", [hostile.endless_events, hostile.endless_questions], ids=["notifications", "questions"])
async def test_messages_without_end_end_the_connection(tmp_path: Path, way: Answering) -> None:
    async with at_address(tmp_path, tools_call=way) as (server, connection):
        with pytest.raises(ServerLost, match="api was ended while this ran: it sent more than 2,000 messages in a"):
            await connection.call("use", {})
        async with asyncio.timeout(20):
            await server.gone.wait()


async def test_a_program_that_sends_without_end_is_ended(tmp_path: Path) -> None:
    async with running(connection_to(config("faulty", "--flood"), tmp_path)) as connection:
        with pytest.raises(ServerLost, match="faulty was ended while this ran: it sent more than 2,000 messages"):
            await connection.call("echo", {})


async def test_a_line_of_a_program_is_named_with_its_limit(tmp_path: Path) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        with pytest.raises(ServerLost, match="faulty was ended while this ran: it sent a message of more than 4 MB"):
            await connection.call("big", {})


async def test_an_answer_in_drops_ends_some_time_after_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.mcp.http.EXTRA", 0.3)
    async with at_address(tmp_path, seconds=0.5, tools_call=hostile.drops) as (server, connection):
        with pytest.raises(CallTimedOut, match=r"api did not answer within 0\.5 s"):
            await connection.call("use", {})
        async with asyncio.timeout(20):
            await server.gone.wait()
        assert connection.state == "ready"


@pytest.mark.parametrize("method", ["initialize", "tools_list"])
async def test_one_that_never_answers_is_given_up(tmp_path: Path, method: str) -> None:
    async with hostile_server(**{method: hostile.never}) as server:
        connection = connection_to(config("api", url=server.url), tmp_path, start=0.5)
        async with running(connection):
            await connection.is_settled.wait()
            assert connection.why == "it did not answer within 0.5 s"


async def test_an_answer_to_the_start_that_has_no_end_is_the_reason(tmp_path: Path) -> None:
    async with at_address(tmp_path, tools_list=hostile.endless_document) as (_, connection):
        await connection.is_settled.wait()
        assert connection.why == "it sent a message of more than 4 MB"


async def test_streams_that_end_at_once_are_not_begun_without_end(tmp_path: Path) -> None:
    async with at_address(tmp_path, GET=hostile.ends_at_once) as (_, connection):
        await until(lambda: connection.counters.losses)
        assert connection.why == "it ended its streams of notifications more than 20 times in a minute"


async def test_a_compressed_answer_is_not_unpacked(tmp_path: Path) -> None:
    async with at_address(tmp_path, tools_call=hostile.compressed) as (_, connection):
        with pytest.raises(ServerLost, match="api was ended while this ran: it sent a compressed answer"):
            await connection.call("use", {})


def pages(tools: int, cursor: str = "next", size: int = 0) -> Answering:
    """A list of tools that has another page after each."""
    number = iter(range(10**9))

    async def answer(exchange: Exchange) -> None:
        names = [f"use_{next(number)}" for _ in range(tools)]
        listed = [{**TOOL, "name": name, "description": "x" * size} for name in names]
        await exchange.result({"tools": listed, **({"nextCursor": cursor} if cursor else {})})

    return answer


async def test_a_list_of_tools_without_end_is_refused(tmp_path: Path) -> None:
    async with at_address(tmp_path, tools_list=pages(0)) as (server, connection):
        await connection.is_settled.wait()
        assert connection.why == "its list of tools has more than 50 pages"
        assert server.requests.count("tools/list") == MOST_PAGES


async def test_a_list_of_tools_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with at_address(tmp_path, tools_list=pages(1, size=3 * 1024**2)) as (server, connection):
        await connection.is_settled.wait()
        assert connection.why == "its list of tools has more than 4 MB"
        assert server.requests.count("tools/list") == 2


async def test_of_many_tools_the_first_are_used_and_the_rest_is_named(tmp_path: Path) -> None:
    async with at_address(tmp_path, tools_list=pages(100)) as (_, connection):
        await connection.wait()
        assert len(connection.tools) == MOST_TOOLS
        assert connection.remark.startswith("it has more than 500 tools, and the others are left out")


async def test_of_many_tools_those_that_are_configured_are_found(tmp_path: Path) -> None:
    async with hostile_server(tools_list=pages(700, cursor="")) as server:
        chosen = config("api", url=server.url, tools=frozenset({"use_650"}))
        async with running(connection_to(chosen, tmp_path)) as connection:
            await connection.wait()
            assert [tool.name for tool in connection.tools] == ["use_650"]
            assert connection.remark == ""


async def test_a_result_is_not_checked_by_the_schema_of_its_server(tmp_path: Path) -> None:
    """Its expressions may take for ever."""

    async def listed(exchange: Exchange) -> None:
        await exchange.result({"tools": [{**TOOL, "outputSchema": {"type": "object", "required": ["missing"]}}]})

    async with at_address(tmp_path, tools_list=listed, tools_call=hostile.text("an answer")) as (_, connection):
        assert text_of(await connection.call("use", {})) == "an answer"


def test_a_rate_counts_by_the_minute() -> None:
    now = [0.0]
    rate = Rate(MOST_MESSAGES, lambda: now[0])
    assert rate.takes(MOST_MESSAGES)
    assert not rate.takes()
    now[0] += MINUTE
    assert rate.takes()


# ---- a list that changes ----


@pytest.mark.parametrize("era", [(), ("--modern",)], ids=["2025-11-25", "2026-07-28"])
async def test_a_list_that_changes_is_read_again_in_both_protocols(tmp_path: Path, era: tuple[str, ...]) -> None:
    def names() -> set[str]:
        return {tool.name for tool in connection.tools}

    async with running(connection_to(config("faulty", *era), tmp_path)) as connection:
        await connection.call("grow", {})
        await until(lambda: "grown" in names())
        await connection.call("grow", {"text": "-echo"})
        await until(lambda: "echo" not in names())


async def test_a_list_is_not_read_as_often_as_it_changes(tmp_path: Path) -> None:
    lists: list[float] = []

    async def listed(exchange: Exchange) -> None:
        lists.append(asyncio.get_running_loop().time())
        await hostile.one_tool(exchange)

    async def changes(exchange: Exchange) -> None:
        await exchange.head("text/event-stream")
        event = b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'
        while True:
            await exchange.send(event)
            await asyncio.sleep(0.02)

    async with hostile_server(tools_list=listed, GET=changes) as server:
        connection = connection_to(config("api", url=server.url), tmp_path, again=0.5)
        async with running(connection):
            await until(lambda: len(lists) == 3)
    assert lists[2] - lists[1] >= 0.5


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_events_are_counted_wherever_a_body_is_split(blank: bytes, size: int) -> None:
    body = b"".join(b"data: %d%s" % (number, blank) for number in range(20))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    counted: list[int] = []
    limited = _Body(Pieces(pieces), fault=ValueError, count=counted.append, most=None, seconds=None)
    assert b"".join([piece async for piece in limited]) == body
    assert sum(counted) == 20
