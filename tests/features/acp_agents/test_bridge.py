"""Our tools as an agent's MCP client has them: the official client, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client

from tenex.features.acp_agents import bridge
from tenex.features.acp_agents.proxy import Proxy

from .proxy_kit import ASK, Calls, config_for, proxy, result
from .vendor_server import vendor_server


@asynccontextmanager
async def talking(made: Proxy) -> AsyncIterator[ClientSession]:
    """A session of the official client."""
    async with streamable_http_client(made.addresses["mcp"]) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def test_tools_are_listed_as_the_run_has_them() -> None:
    async with vendor_server() as server, proxy(config_for(server)) as made, talking(made) as session:
        (tool,) = (await session.list_tools()).tools
        assert (tool.name, tool.description, tool.input_schema) == (ASK.name, ASK.description, dict(ASK.parameters))
        with pytest.raises(MCPError, match="There is no tool shell"):
            await session.call_tool("shell", {})


@pytest.mark.parametrize("ok", [True, False])
async def test_a_call_waits_for_its_answer(ok: bool) -> None:
    calls = Calls()
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        asking = asyncio.create_task(session.call_tool("ask", {"question": "Which port?"}))
        assert await calls.asked.get() == ("ask", {"question": "Which port?"})
        calls.answer.set_result(result("8080", ok=ok))
        answer = await asking
        assert [getattr(part, "text", "") for part in answer.content] == ["8080"]
        assert answer.is_error is not ok


async def test_calls_wait_beside_each_other() -> None:
    calls = Calls()
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        asking = [asyncio.create_task(session.call_tool("ask", {"question": str(at)})) for at in range(3)]
        assert {str(await calls.asked.get()) for _ in asking} == {
            str(("ask", {"question": str(at)})) for at in range(3)
        }
        calls.answer.set_result(result("yes"))
        assert len(await asyncio.gather(*asking)) == 3


async def test_the_client_is_informed_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "PROGRESS", 0.02)
    calls = Calls()
    seen = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        if progress >= 2:
            seen.set()

    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        asking = asyncio.create_task(session.call_tool("ask", {"question": "?"}, progress_callback=progress))
        async with asyncio.timeout(20):
            await seen.wait()
        calls.answer.set_result(result("yes"))
        assert (await asking).content


async def test_a_call_that_the_client_gives_up_is_cancelled() -> None:
    calls = Calls()
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        asking = asyncio.create_task(session.call_tool("ask", {"question": "?"}))
        await calls.asked.get()
        asking.cancel()
        async with asyncio.timeout(20):
            await calls.cancelled.wait()


async def test_a_client_whose_time_is_over_cancels_its_call() -> None:
    calls = Calls()
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        with pytest.raises(MCPError):
            await session.call_tool("ask", {"question": "?"}, read_timeout_seconds=0.2)
        async with asyncio.timeout(20):
            await calls.cancelled.wait()


async def test_closing_the_proxy_cancels_calls(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        asking = asyncio.create_task(session.call_tool("ask", {"question": "?"}))
        await calls.asked.get()
        await made.close()
        async with asyncio.timeout(20):
            await calls.cancelled.wait()
        with pytest.raises(MCPError):
            await asking
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_a_fault_of_ours_is_an_error_for_the_client() -> None:
    calls = Calls()
    calls.answer.set_exception(RuntimeError("secret of the daemon"))
    async with vendor_server() as server, proxy(config_for(server), calls=calls) as made, talking(made) as session:
        with pytest.raises(MCPError) as failed:
            await session.call_tool("ask", {"question": "?"})
        assert "secret" not in str(failed.value)
        assert (await session.list_tools()).tools, "the session goes on"
