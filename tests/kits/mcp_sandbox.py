"""A server of MCP in a sandbox that runs commands, and the tools of an agent that uses it."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tenex.app.mcp_tools import McpTools
from tenex.app.mcp_views import McpViews
from tenex.configuration.mcp_launch import Launcher
from tenex.core.config import Agent, AgentKind
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.mcp.config import Configured, ServerConfig
from tenex.mcp.servers import McpServers
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.registry import ToolRegistry
from tenex.tools.serialized_calls import Transactions
from tenex.tools.standard import standard_tools
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tests.fakes import mcp_server
from tests.mcp.conftest import config
from tests.tools.conftest import SANDBOXED, KeptLessons, make_context, processes_in

WORKER = Agent(
    slug=Slug("executor"),
    name="executor",
    pubkey=PublicKey("0" * 64),
    kind=AgentKind.WORKER,
    tools=frozenset({"shell", "read_file", "write_file", "faulty__*", "second__*"}),
)


def server(name: str = "faulty", **more: object) -> ServerConfig:
    """The faulty server in the sandbox; it runs commands."""
    words = ("-I", "-S", mcp_server.__file__, "--runs")
    return config(name, **{"command": sys.executable, "args": words, "sandbox": True, **more})


class Bench:
    """A workspace, the tools of a worker, and servers."""

    def __init__(self, data: Path) -> None:
        self.root = data / "workspace"
        self.root.mkdir(parents=True, exist_ok=True)
        workspace = Workspace(self.root)
        launcher = Launcher(workspace.root, data, has_sandbox=True)
        self.servers = McpServers(launcher)
        self.views = TurnViews(data / "views", workspace)
        turns = Transactions(workspace, Checkpoints(data / "checkpoints", workspace.root), views=self.views)
        ours = ToolDependencies(
            workspace=workspace,
            lessons=KeptLessons(),
            shell=SANDBOXED,
            has_sandbox=True,
            transactions=turns,
            views=self.views,
        )
        self.tools = McpTools(self.servers, McpViews(self.servers, self.views, launcher.in_view), self._keep, self.root)
        self.registry = ToolRegistry(standard_tools(ours), lambda _: WORKER, turns, source=self.tools)

    async def _keep(self, _: ConversationId, name: str, data: bytes) -> str:
        raise AssertionError(f"{name}: {data!r}")

    async def do(self, tool: str, context: ExecutionContext | None = None, /, **arguments: object) -> ToolResult:
        return await self.registry.call(tool, arguments, context or make_context())

    async def run(self, command: str, context: ExecutionContext | None = None, name: str = "faulty") -> ToolResult:
        """Have a server run a command."""
        return await self.do(f"{name}__run", context, text=command)

    async def pid(self, context: ExecutionContext) -> str:
        """What tells the process that answers from another one: the start of it, as its number is 2 in each sandbox."""
        return (await self.run("cut -d' ' -f22 /proc/$PPID/stat", context)).content


@asynccontextmanager
async def opened(data: Path, *servers: ServerConfig) -> AsyncIterator[Bench]:
    bench = Bench(data.resolve())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bench.servers.close)
        stack.push_async_callback(bench.views.close)
        bench.servers.apply(Configured(servers=servers or (server(),)))
        await bench.servers.settle(30)
        assert [state["state"] for state in bench.servers.status()] == ["ready"] * len(bench.servers.connections)
        yield bench
    assert not processes_in(bench.root)
    assert not [link for link in Path("/proc/self/fd").iterdir() if "tenex-witness" in str(link.resolve())]
