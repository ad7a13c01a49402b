"""`move_file` and `delete_file`.

A file is deleted only if the agent has seen what it deletes; moving loses nothing and asks for no reading, but takes no
place that is taken. A link is moved or deleted itself, never what it leads to.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .files_read import LARGEST_FILE, as_text
from .files_write import check_seen
from .tool import Refusal, Tool, takes, text
from .workspace import Workspace
from .write_policy import check_chores


def move_file_tool(workspace: Workspace) -> Tool:
    """The tool `move_file`."""

    def move(path: str, to: str, context: ExecutionContext) -> ToolResult:
        source, target = workspace.entry(path), workspace.entry(to)
        old, new = workspace.relative(source), workspace.relative(target)
        check_chores(old, context)
        if old not in context.touched:  # a new name for a file of this cycle is this cycle's too
            check_chores(new, context)
        workspace.move(source, target)
        seen = context.read.get(old)
        return ToolResult(
            ok=True, content=f"Moved {old} to {new}.", touched=(old, new), read={new: seen} if seen is not None else {}
        )

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        return await asyncio.to_thread(move, arguments["path"], arguments["to"], context)

    return Tool(
        name="move_file",
        description=(
            "Moves or renames one file, with the folders it needs. Nothing may stand there already; folders are not "
            "moved."
        ),
        parameters=takes(
            {
                "path": text("The file, relative to the workspace."),
                "to": text("Its new path, relative to the workspace."),
            }
        ),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=body,
    )


def delete_file_tool(workspace: Workspace) -> Tool:
    """The tool `delete_file`."""

    def delete(path: str, context: ExecutionContext) -> ToolResult:
        real = workspace.entry(path)
        shown = workspace.relative(real)

        def check(content: bytes | None) -> None:
            check_chores(shown, context)
            if content is not None and _is_text(content, shown):
                check_seen(shown, content, context)

        if real.is_dir() and not real.is_symlink():
            workspace.remove_folder(real)
            return ToolResult(ok=True, content=f"Deleted the empty folder {shown}.")
        workspace.remove(real, check, LARGEST_FILE)
        return ToolResult(ok=True, content=f"Deleted {shown}.", touched=(shown,))

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        return await asyncio.to_thread(delete, arguments["path"], context)

    return Tool(
        name="delete_file",
        description=(
            "Deletes one file, or a folder that is empty. A text file must have been read before; files that are no "
            "text need not."
        ),
        parameters=takes({"path": text("The file or empty folder, relative to the workspace.")}),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=body,
    )


def _is_text(content: bytes, shown: str) -> bool:
    """Whether `read_file` could have shown it: what it cannot show cannot be asked to have been read."""
    try:
        as_text(content, shown)
    except Refusal:
        return False
    return True
