"""The proxy as an agent reaches it: from a sandbox without any other network, on real namespaces."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.features.acp_agents.proxy import Proxy
from tenex.tools import sandbox, shared_namespaces
from tenex.tools.shared_namespaces import SharedNamespaces
from tests.programs import needs_bubblewrap

from .proxy_kit import CLAUDE, Calls, config_for, proxy, result
from .vendor_server import INPUT, KEY, Sent, Talk, VendorServer, message_events, vendor_server

pytestmark = needs_bubblewrap

ASK = """
import json, os, sys, urllib.request
body = json.dumps({"model": "test-claude", "max_tokens": 9, "messages": [], "stream": sys.argv[2] == "stream"}).encode()
request = urllib.request.Request(sys.argv[1] + "/v1/messages", body, {"content-type": "application/json"})
with urllib.request.urlopen(request) as answer:
    for line in answer:
        print(line.decode(), end="", flush=True)
"""

LEAVE = """
import socket, sys
for address in (("192.0.2.7", 80), ("127.0.0.1", int(sys.argv[1]))):
    try:
        socket.create_connection(address, 3)
        print("reached", address)
    except OSError as error:
        print(error.strerror)
"""

USE_TOOL = """
import asyncio, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def main():
    async with streamable_http_client(sys.argv[1]) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        print((await session.call_tool("ask", {"question": "Which port?"})).content[0].text)

asyncio.run(main())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "workspace"
    made.mkdir()
    return made


@contextmanager
def network(root: Path) -> Iterator[SharedNamespaces]:
    made = shared_namespaces.make(root, network=True)
    assert made is not None
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def shared(root: Path) -> Iterator[SharedNamespaces]:
    with network(root) as made:
        yield made


@asynccontextmanager
async def inside(server: VendorServer, shared: SharedNamespaces, **more: Any) -> AsyncIterator[Proxy]:
    async with proxy(config_for(server), listeners=shared_namespaces.listen(shared), **more) as made:
        yield made


async def start(
    shared: SharedNamespaces, root: Path, script: str, *words: str, is_sandboxed: bool = True
) -> asyncio.subprocess.Process:
    """A program in the network, as a rule in the sandbox."""
    line = [sys.executable, "-c", script, *words]
    if is_sandboxed:
        line = sandbox.wrapped(
            root,
            ["/bin/sh", "-c", 'exec python3 -c "$@"', "sh", script, *words],
            sandbox.clean_environment(sandbox.HOME),
            joins=True,
        )
    with shared.used() as descriptors:
        return await asyncio.create_subprocess_exec(
            *shared.joining(), *line, stdout=subprocess.PIPE, pass_fds=descriptors
        )


async def output(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(60):
        text, _ = await process.communicate()
    return text.decode()


async def test_an_agent_in_the_sandbox_reaches_its_models_and_nothing_else(
    shared: SharedNamespaces, root: Path
) -> None:
    async with vendor_server() as server, inside(server, shared) as made:
        answer = await output(await start(shared, root, ASK, made.addresses["anthropic"], "whole"))
        assert json.loads(answer)["content"][0]["text"] == "Hello"
        assert KEY not in answer
        assert made.taken()[CLAUDE].input_tokens == INPUT
        tried = await output(await start(shared, root, LEAVE, str(server.port)))
        assert tried.splitlines() == ["Network is unreachable", "Connection refused"], "the machine's loopback too"


async def test_neither_the_machine_nor_another_turn_reaches_it(shared: SharedNamespaces, root: Path) -> None:
    async with vendor_server() as server, inside(server, shared) as made:
        port = int(made.addresses["mcp"].split("/")[2].rpartition(":")[2])
        with socket.socket() as asking:
            assert asking.connect_ex(("127.0.0.1", port)) != 0
        with network(root) as other:
            tried = await output(await start(other, root, LEAVE, str(port)))
        assert tried.splitlines()[-1] == "Connection refused"


async def test_an_agent_that_is_killed_ends_its_request_and_pays(shared: SharedNamespaces, root: Path) -> None:
    async def reply(talk: Talk, sent: Sent) -> None:
        await talk.begin_events()
        await talk.event(message_events(sent.body["model"])[0], "message_start")
        await talk.unless_gone(asyncio.Event().wait())

    async with vendor_server() as server, inside(server, shared) as made:
        server.reply = reply
        process = await start(shared, root, ASK, made.addresses["anthropic"], "stream")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"event: message_start\n"
        process.kill()
        async with asyncio.timeout(20):
            await server.gone.wait()
            await process.wait()
        assert made.taken()[CLAUDE].input_tokens == INPUT


async def test_the_official_client_uses_our_tools_from_inside(shared: SharedNamespaces, root: Path) -> None:
    calls = Calls()
    async with vendor_server() as server, inside(server, shared, calls=calls) as made:
        process = await start(shared, root, USE_TOOL, made.addresses["mcp"], is_sandboxed=False)
        async with asyncio.timeout(60):
            assert await calls.asked.get() == ("ask", {"question": "Which port?"})
        calls.answer.set_result(result("8080"))
        assert (await output(process)).splitlines() == ["['ask']", "8080"]
