"""Servers in the view of a turn: where the phase permits no changes, they run there beside the ordinary ones.

    first call of a turn ─► a server in its view ─► further calls ─► another program is to run there, or the turn ends
                                                                          └─► the server is ended

What a server remembers between calls is remembered so long.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from tenex.core.ports import ExecutionContext
from tenex.mcp.config import ServerConfig
from tenex.mcp.connection import ServerConnection
from tenex.mcp.servers import McpServers
from tenex.mcp.stdio import Program
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace_view import Way, WorkspaceView

LaunchInView = Callable[[ServerConfig, WorkspaceView], Program]
"""What is started for a server in a view; blocks."""


class _ViewServer:
    """A server in a view."""

    def __init__(self, connection: ServerConnection, name: str) -> None:
        self.connection = connection
        self.owner = asyncio.create_task(connection.run(), name=name)
        self._is_stopped = False

    @property
    def key(self) -> ServerConfig:
        """How it is configured: one that was changed meanwhile is another one."""
        return self.connection.config

    async def close(self) -> None:
        """End it."""
        if not self._is_stopped:  # a second cancellation would cut its end short
            self._is_stopped = True
            self.connection.stop(self.owner)
        await asyncio.wait([self.owner])


class McpViews:
    """The servers in the views of a workspace."""

    def __init__(self, servers: McpServers, views: TurnViews, launch: LaunchInView) -> None:
        """Take the servers, the views, and how a server is started in one."""
        self._servers = servers
        self._views = views
        self._launch = launch
        self._running: list[_ViewServer] = []

    def has_other_files(self, context: ExecutionContext) -> bool:
        """Whether the programs of a call's turn may see other files than the workspace has."""
        view = self._views.opened(context)
        return view is not None and view.way is not Way.READ_ONLY

    @asynccontextmanager
    async def server(
        self, connection: ServerConnection, context: ExecutionContext
    ) -> AsyncIterator[tuple[WorkspaceView, ServerConnection]]:
        """The view of a call's turn, and the server of a connection in it, which has been tried to start.

        Raises:
            Refusal: the disk does not take the view.
        """
        begin = partial(self._begin, connection, context.turn)
        async with self._views.resident(context, connection.config, begin) as (view, server):
            assert isinstance(server, _ViewServer)
            await server.connection.is_settled.wait()  # a start has a bound of its own
            yield view, server.connection

    def give_up_all(self, holder: str) -> None:
        """Give up the calls of a holder, or of all whose names begin so, that wait for a person."""
        for server in self._running:
            server.connection.give_up_all(holder)

    def _begin(self, connection: ServerConnection, turn: str, view: WorkspaceView) -> _ViewServer:
        began: list[int] = []

        def launch(config: ServerConfig) -> Program:
            program = self._launch(config, view)
            began.append(view.began)
            view.began = began[0]  # what it wrote before it was started again is its own too
            return program

        server = _ViewServer(
            self._servers.connect_too(connection, launch), f"MCP server {connection.config.name} in the view of {turn}"
        )
        self._running.append(server)
        server.owner.add_done_callback(lambda _: self._running.remove(server))
        return server
