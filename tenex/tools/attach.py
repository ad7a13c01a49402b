"""`attach`: an agent sends a file of the workspace to the person, with its next message (ADR 93)."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolTable
from .files_read import WorkspaceOf
from .sent_files import EXCERPT, MOST_WAITING, SENDING, FileForPerson, SentFiles, size_in_words
from .tool import Refusal, Tool, object_schema, string
from .workspace import Workspace

LONGEST_CAPTION: Final = 200
"""Characters."""


def attach_tool(workspace_of: WorkspaceOf, files: SentFiles) -> Tool:
    """The tool `attach`."""

    def read(workspace: Workspace, path: str) -> FileForPerson:
        real = workspace.resolve(path)
        return files.read(workspace, real, workspace.relative(workspace.entry(path)))

    async def attach(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        if context.destination.waiting >= MOST_WAITING:
            raise Refusal(f"Not attached: {MOST_WAITING} files go with your answer already. Name the others in it.")
        file = await asyncio.to_thread(read, workspace_of(context, arguments["path"]), arguments["path"])
        caption = " ".join(arguments.get("caption", "").split())
        attached, fault = await files.attached(
            file,
            caption=caption,
            unique=context.idempotency_key,
            destination=context.destination,
            conversation=context.conversation_id,
        )
        if not fault:
            said = f"Uploaded: {file.path} ({file.size}) goes to the person with your answer."
            return ToolResult(ok=True, content=said, files=(attached,))
        return ToolResult(ok=file.text is not None, content=_not_sent(file, fault), files=(attached,))

    return Tool(
        name="attach",
        description="Sends a file of the workspace to the person, with your answer.",
        parameters=object_schema({"path": string()}, {"caption": string(max_length=LONGEST_CAPTION)}),
        access=Access.READ,
        replay=Replay.IDEMPOTENT,
        body=attach,
        time_cap=SENDING,
    )


def _not_sent(file: FileForPerson, why: str) -> str:
    """What the agent is told of a file that could not be uploaded."""
    if file.text is None:
        return f"Not sent: {why}. The person is informed of it with your answer. {file.place}."
    if len(file.data) <= EXCERPT:
        return f"Not sent as a file ({why}). Its text goes to the person with your answer."
    begin = size_in_words(EXCERPT)
    return (
        f"Not sent as a file ({why}). Only its first {begin} of {file.size} go with your answer, as text: put what "
        "matters of the rest into your answer."
    )


TOOLS: Final[ToolTable] = {"attach": lambda parts: attach_tool(parts.readable, parts.sent_files)}
