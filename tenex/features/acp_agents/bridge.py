"""Our tools for an ACP agent, by the Model Context Protocol over HTTP.

A call is handed on and waited for, for hours where a person is asked. Meanwhile the client is informed every few
seconds that it goes on: clients that asked for progress begin their timeout again, and no connection looks dead. A call
ends early where the client cancels it or ends its session, and where the bridge ends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from tenex import __version__
from tenex.core.messages import CallResult, ToolSpec
from tenex.log import get_logger

PROGRESS: Final = 10.0
"""Seconds between two notes that a call goes on: clients give up after 30 s or more without one."""

log = get_logger(__name__)

OnToolCall = Callable[[str, Mapping[str, Any]], Awaitable[CallResult]]
"""Takes the name of a tool and its arguments; it is cancelled where the client gives the call up."""


class Bridge:
    """The MCP server of one agent's process."""

    def __init__(self, tools: Callable[[], Sequence[ToolSpec]], call: OnToolCall) -> None:
        self._tools = tools
        self._call = call
        server: Server[dict[str, Any]] = Server(
            "tenex", version=__version__, on_list_tools=self._listed, on_call_tool=self._called
        )
        self._sessions = StreamableHTTPSessionManager(server, session_idle_timeout=None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve within the block; at its end calls that are under way are cancelled."""
        async with self._sessions.run():
            yield

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as an application of ASGI."""
        await self._sessions.handle_request(scope, receive, send)

    async def _listed(self, _: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(name=tool.name, description=tool.description, input_schema=dict(tool.parameters))
                for tool in self._tools()
            ]
        )

    async def _called(self, context: ServerRequestContext[Any], asked: CallToolRequestParams) -> CallToolResult:
        if asked.name not in {tool.name for tool in self._tools()}:
            raise MCPError(INVALID_PARAMS, f"There is no tool {asked.name[:80]}.")
        call = asyncio.ensure_future(self._call(asked.name, asked.arguments or {}))
        try:
            notes = 0
            while not (await asyncio.wait((call,), timeout=PROGRESS))[0]:
                notes += 1
                await context.session.report_progress(notes, message="It goes on.")
            result = call.result()
        except Exception as error:
            log.exception("bridge.call_failed", tool=asked.name)
            raise MCPError(INTERNAL_ERROR, "The call failed inside the daemon.") from error  # its text stays here
        finally:
            call.cancel()
        return CallToolResult(content=[TextContent(text=result.content)], is_error=not result.ok)
