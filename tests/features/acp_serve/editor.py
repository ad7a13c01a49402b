"""An editor: the client of the protocol's own SDK, with `tenex acp` as its agent in a process of its own."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp import PROTOCOL_VERSION, connect_to_agent, text_block
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.service.kit import PATIENCE, TENEX, Folder, environment
from tests.service.person import until


class Editor:
    """What the person at it sees, and what they answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        """The option that is chosen for each permission; "" to leave it open."""
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[ToolCallUpdate, list[str]]] = []
        self.agent: ClientSideConnection
        self.pid = 0
        self.code = 0
        """With which the agent has ended."""
        self.complaints = ""
        """What it has written to standard error."""
        self._left_open = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True))

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_: Any,
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, [option.kind for option in options]))
        if self.answer:
            return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.answer))
        await self._left_open.wait()
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    def close_dialogs(self) -> None:
        """Answer what is open by `cancelled`, as an editor does that has cancelled a turn."""
        self._left_open.set()

    def said(self, kind: str = "agent_message_chunk") -> str:
        """The words of all updates of a kind."""
        return "".join(update["content"]["text"] for update in self.updates if update["sessionUpdate"] == kind)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    async def prompt(self, session: str, *texts: str) -> str:
        """Write, and wait for the end of the turn; returns why it ended."""
        done = await self.agent.prompt(session_id=session, prompt=[text_block(text) for text in texts])
        return str(done.stop_reason)

    async def until(self, holds: Callable[["Editor"], object]) -> None:
        await until(lambda: holds(self))


async def gathered(*work: Awaitable[Any]) -> list[Any]:
    """What all of these give, or the exceptions that they raise, within the patience of tests."""
    async with asyncio.timeout(PATIENCE):
        return list(await asyncio.gather(*work, return_exceptions=True))


@asynccontextmanager
async def editor(folder: Folder, answer: str = "") -> AsyncIterator[Editor]:
    """An editor that has started the agent and said hello."""
    shown = Editor(answer)
    client: Client = shown  # type: ignore[assignment]  # it offers neither files nor terminals
    process = await asyncio.create_subprocess_exec(
        *[*TENEX, "--data", str(folder.data), "acp"], env=environment(), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    shown.agent = connect_to_agent(client, process.stdin, process.stdout)
    shown.pid = process.pid
    try:
        hello = await shown.agent.initialize(protocol_version=PROTOCOL_VERSION)
        assert hello.protocol_version == PROTOCOL_VERSION
        yield shown
    finally:
        process.stdin.close()
        await shown.agent.close()
        async with asyncio.timeout(PATIENCE):
            assert process.stderr is not None
            shown.complaints = (await process.stderr.read()).decode()
            shown.code = await process.wait()
