"""The requests of the Agent Client Protocol, version 1, that an editor makes of us.

Prompts and permissions are `session.py`; here is which session is meant. stdout belongs to the protocol: nothing here
prints.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from acp import PROTOCOL_VERSION, run_agent
from acp.connection import StreamDirection, StreamEvent
from acp.exceptions import RequestError
from acp.helpers import update_available_commands
from acp.interfaces import Agent, Client
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandInput,
    EmbeddedResourceContentBlock,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResourceContentBlock,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    TextContentBlock,
    TextResourceContents,
    UnstructuredCommandInput,
)

from tenex import __version__
from tenex.core.errors import TenexError
from tenex.core.inbox.commands import slash_commands

from .project import LISTED, Project
from .session import INTERNAL, UNKNOWN_SESSION, Session

WRONG_FOLDER: Final = -32602
"""`Invalid params` of JSON-RPC."""


async def serve(project: Project) -> None:
    """Be an agent on standard input and output until the editor closes them."""
    agent = EditorAgent(project)
    try:
        # every request of the protocol that we do not offer is answered by the library
        await run_agent(cast("Agent", agent), observers=[agent.on_frame])
    finally:
        await agent.close()


class EditorAgent:
    """The sessions of an editor."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: Client

    def on_connect(self, client: Client) -> None:
        """Take what reaches the editor."""
        self._client = client

    def on_frame(self, event: StreamEvent) -> None:
        """Offer the commands once a session's answer is written: an editor does not know the session before."""
        if event.direction is not StreamDirection.OUTGOING or "result" not in event.message:
            return
        answer = event.message["result"]
        session = answer.get("sessionId") if isinstance(answer, dict) else None
        if session in self._sessions:
            task = asyncio.create_task(self._offer_commands(session), name="commands")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Leave all conversations; they go on."""
        for session in self._sessions.values():
            await session.close()

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:  # noqa: ARG002
        """Say what is offered: version 1, whatever the editor speaks beside it."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            agent_info=Implementation(name="tenex", title="tenex", version=__version__),
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """A session whose conversation begins with its first message.

        Raises:
            RequestError: the editor's folder is not the workspace.
        """
        self._check_folder(cwd)
        session = self._project.new_session()
        self._sessions[session] = Session(session, self._project, self._client)
        return NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Show the messages of a conversation, and go on with it.

        Raises:
            RequestError: the editor's folder is not the workspace, or there is no such session.
        """
        self._check_folder(cwd)
        conversation = self._project.conversation_of(session_id)
        if conversation is None and not self._project.is_session(session_id):
            raise RequestError(UNKNOWN_SESSION, f"There is no session {session_id[:60]} in this data folder.")
        if session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        session = Session(session_id, self._project, self._client)
        if conversation is not None:
            await session.load(conversation)
        self._sessions[session_id] = session
        await self._offer_commands(session_id)
        return LoadSessionResponse()

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        """The conversations, last updated first; none for another folder than the workspace."""
        if cwd is not None and not self._is_workspace(cwd):
            return ListSessionsResponse(sessions=[])
        skipped = int(cursor) if cursor is not None and cursor.isdecimal() else 0
        with _explained():
            rows = await self._project.listed(skipped)
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=row["id"],
                    cwd=str(self._project.workspace),
                    title=row.get("title") or None,
                    updated_at=row.get("updated") or None,
                )
                for row in rows
            ],
            next_cursor=str(skipped + LISTED) if len(rows) == LISTED else None,
        )

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        """Write a message to the session's conversation, and answer when that rests.

        Raises:
            RequestError: there is no such session, or the message was not sent.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(UNKNOWN_SESSION, f"There is no session {session_id[:60]}: begin or load one first.")
        with _explained():
            return PromptResponse(stop_reason=await session.prompt(self._text_of(prompt)))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what runs in the session's conversation."""
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    async def _offer_commands(self, session_id: str) -> None:
        commands = [
            AvailableCommand(
                name=command.name,
                description=command.help,
                input=AvailableCommandInput(root=UnstructuredCommandInput(hint=command.usage or "…"))
                if command.takes_argument
                else None,
            )
            for command in slash_commands().values()
        ]
        await self._client.session_update(session_id, update_available_commands(commands))

    def _check_folder(self, cwd: str) -> None:
        if not self._is_workspace(cwd):
            raise RequestError(
                WRONG_FOLDER,
                f"The agents of this daemon work in {self._project.workspace}, and the editor has opened {cwd[:200]}. "
                "Open that folder, or name the data folder of another daemon with `tenex --data`.",
            )

    def _is_workspace(self, cwd: str) -> bool:
        try:
            return Path(cwd).resolve() == self._project.workspace.resolve()
        except (OSError, ValueError):
            return False

    def _text_of(self, prompt: Sequence[Any]) -> str:
        """The words of a prompt, with the files that it names: by their path in the workspace where they are there."""
        parts: list[str] = []
        for block in prompt:
            match block:
                case TextContentBlock():
                    parts.append(block.text)
                case ResourceContentBlock():
                    parts.append(f"`{self._place(block.uri)}`")
                case EmbeddedResourceContentBlock(resource=TextResourceContents() as file):
                    parts.append(f"\n`{self._place(file.uri)}`:\n```\n{file.text}\n```\n")
                case _:
                    parts.append(f"[{block.type}: it is not sent from editors]")
        return "".join(parts)

    def _place(self, uri: str) -> str:
        path = Path(uri.removeprefix("file://"))
        root = self._project.workspace.resolve()
        return str(path.relative_to(root)) if path.is_relative_to(root) else uri


@contextmanager
def _explained() -> Iterator[None]:
    """Give the sentence of an error of ours to the editor."""
    try:
        yield
    except TenexError as error:
        raise RequestError(INTERNAL, str(error)) from error
