"""The servers of a daemon: begun, replaced and ended as they are configured, with their tools in a fixed order."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tenex.core.installation import pip_install
from tenex.mcp.config import Configured, ServerConfig
from tenex.mcp.connection import Launch, ServerConnection
from tenex.mcp.servers import McpServers, missing_sdk
from tests.service.person import until

from .conftest import config, connection_to, launch


@asynccontextmanager
async def servers_in(folder: Path) -> AsyncIterator[McpServers]:
    def connect(server: ServerConfig, _launch: Launch, on_tools: Callable[[], None]) -> ServerConnection:
        return connection_to(server, folder, on_tools)

    servers = McpServers(partial(launch, folder=folder), connect=connect)
    try:
        yield servers
    finally:
        await servers.close()


async def test_tools_are_named_by_their_server_and_sorted(tmp_path: Path) -> None:
    async with servers_in(tmp_path) as servers:
        servers.apply(Configured(servers=(config("a"), config("b", tools=frozenset({"pid", "echo"})))))
        await servers.settle(20)
        names = list(servers.tools)
        assert names == sorted(names)
        assert names[-2:] == ["b__echo", "b__pid"]
        assert {server["state"] for server in servers.status()} == {"ready"}


async def test_a_changed_configuration_replaces_what_differs_and_nothing_else(tmp_path: Path) -> None:
    async with servers_in(tmp_path) as servers:
        servers.apply(Configured(servers=(config("a"), config("b"), config("c"))))
        await servers.settle(20)
        kept, changed, before = servers.of("a"), servers.of("b"), servers.tools
        servers.apply(Configured(servers=(config("a"), config("b", timeout=7)), faults={"c": "c: it is wrong."}))
        await servers.settle(20)
        assert servers.of("a") is kept
        assert servers.of("b") is not changed
        assert servers.of("c") is None
        assert servers.tools is not before
        assert not any(name.startswith("c__") for name in servers.tools)
        assert servers.status()[-1] == {"name": "c", "state": "refused", "why": "c: it is wrong."}
        assert changed is not None
        await until(lambda: changed.state == "stopped")


async def test_without_the_sdk_each_server_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    servers = McpServers(partial(launch, folder=tmp_path), why_not=lambda: "MCP servers need the extra `mcp`. Run: x")
    servers.apply(Configured(servers=(config("a"),)))
    await servers.settle(20)
    assert servers.faults == {"a": "MCP servers need the extra `mcp`. Run: x"}
    assert not servers.tools
    servers.apply(Configured())
    assert not servers.faults


def test_the_sdk_is_there_in_a_version_that_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_sdk() == ""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.30.0")
    assert missing_sdk() == f"The package mcp is too old (1.30.0). Run: {pip_install(extra='mcp')}"
