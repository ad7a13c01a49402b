"""Calls that change or run take turns in the workspace, whoever makes them and however they end."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tenex.core.config import Replay
from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.registry import ToolRegistry
from tenex.tools.serialized_calls import Transactions
from tenex.tools.tool import Tool, object_schema
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, make_context, needs_git


def tool_that(body: Any, access: Access, name: str = "shell") -> Tool:
    return Tool(name=name, description="", parameters=object_schema({}), access=access, replay=Replay.ONCE, body=body)


async def test_changing_calls_take_turns_across_registries_and_readers_do_not_wait(workspace: Workspace) -> None:
    """As after a reload: two registries over one workspace, two conversations; and one that is reading."""
    inside, most, has_read = 0, 0, False
    started, release = asyncio.Event(), asyncio.Event()

    async def changes(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        started.set()
        await release.wait()
        inside -= 1
        return ToolResult(ok=True, content="")

    async def reads(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        nonlocal has_read
        has_read = True
        return ToolResult(ok=True, content="")

    tools = [
        tool_that(changes, Access.RUN),
        tool_that(changes, Access.CHANGE, "write_file"),
        tool_that(reads, Access.READ, "read_file"),
    ]
    one, two = (ToolRegistry(tools, ROSTER.get, Transactions(workspace)) for _ in range(2))
    async with asyncio.TaskGroup() as group:
        for registry in (one, two):
            for name in ("shell", "write_file"):
                group.create_task(registry.call(name, {}, make_context()))
        await started.wait()
        await one.call("read_file", {}, make_context())
        assert has_read
        assert inside == 1
        release.set()
    assert most == 1


async def test_who_is_cancelled_while_waiting_does_nothing_and_holds_up_nobody(workspace: Workspace) -> None:
    started: list[str] = []
    release = asyncio.Event()

    async def changes(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        started.append(context.call_id)
        await release.wait()
        return ToolResult(ok=True, content="")

    registry = ToolRegistry([tool_that(changes, Access.RUN)], ROSTER.get, Transactions(workspace))
    calls = [asyncio.create_task(registry.call("shell", {}, make_context())) for _ in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, ToolResult) for result in results] == [True, False, True]
    assert len(started) == 2


@needs_git
async def test_a_tool_that_breaks_gives_its_turn_back_in_order(workspace: Workspace) -> None:
    (workspace.root / "app.py").write_text("whole")

    async def breaks(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        (workspace.root / "app.py").write_text("half")
        raise RuntimeError("broken")

    turns = Transactions(workspace, Checkpoints(workspace.root.parent / "checkpoints", workspace.root))
    registry = ToolRegistry([tool_that(breaks, Access.RUN)], ROSTER.get, turns)
    result = await registry.call("shell", {}, make_context(Phase.VERIFICATION))
    assert "failed for a reason of its own" in result.content
    assert (workspace.root / "app.py").read_text() == "whole"
    assert not workspace.turn.locked()
