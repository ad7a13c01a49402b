"""`write_file` and `edit_file`.

A change is refused where it would overwrite what the agent has not seen: another agent of the same turn, or a person
with an editor, may have been there first.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .files_read import LARGEST_FILE, as_text
from .tool import Refusal, Tool, flag, takes, text
from .workspace import Workspace, digest
from .write_policy import check_chores

LARGEST_WRITE: Final = 1024 * 1024
"""Bytes of one file written: more than any model says in one answer, so it only stops what is a mistake."""


def check_seen(path: str, current: bytes, context: ExecutionContext) -> None:
    """Refuse what would overwrite something the agent has not seen in this run.

    Raises:
        Refusal: it has not read the file, or somebody has changed it since.
    """
    seen = context.read.get(path)
    if seen is None:
        raise Refusal(f"{path} exists and you have not read it in this run; read it first, then change it.")
    if seen != digest(current):
        raise Refusal(f"{path} has changed since you read it; read it again, then change it.")


def _as_bytes(content: str, path: str) -> bytes:
    try:
        encoded = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(
            f"{path} was not written: character {error.start + 1} is half of a pair, not a character."
        ) from error
    if len(encoded) > LARGEST_WRITE:
        raise Refusal(
            f"{path} was not written: it would have {len(encoded)} bytes, and {LARGEST_WRITE // 1024} KiB is the "
            "most. Split it into several files."
        )
    return encoded


def _changed(path: str, content: bytes, sentence: str) -> ToolResult:
    # whoever wrote it has seen it: `read` lets the same agent go on, and be told if another came between
    return ToolResult(ok=True, content=sentence, read={path: digest(content)}, touched=(path,))


def write_file_tool(workspace: Workspace) -> Tool:
    """The tool `write_file`."""

    def write(path: str, content: str, context: ExecutionContext) -> ToolResult:
        real = workspace.resolve(path)
        shown = workspace.relative(real)
        check_chores(shown, context)
        wanted = _as_bytes(content, shown)
        was_there = False

        def make(current: bytes | None) -> bytes:
            nonlocal was_there
            was_there = current is not None
            # the same content is the same file: so a call repeated after a crash finds its own work and is content
            if current is not None and current != wanted:
                check_seen(shown, current, context)
            return wanted

        workspace.update(real, make, LARGEST_FILE)
        return _changed(shown, wanted, f"{'Replaced' if was_there else 'Created'} {shown} ({len(wanted)} bytes).")

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        return await asyncio.to_thread(write, arguments["path"], arguments["content"], context)

    return Tool(
        name="write_file",
        description=(
            "Writes a whole text file, with the folders it needs. A file that already exists must have been read "
            "before; for small changes use `edit_file`."
        ),
        parameters=takes(
            {"path": text("The file, relative to the workspace."), "content": text("The file's whole content.")}
        ),
        access=Access.CHANGE,
        replay=Replay.IDEMPOTENT,
        body=body,
    )


def _with_its_line_ends(whole: str, old: str, new: str) -> tuple[str, str]:
    """A passage and its replacement with the line ends of the file, if it has but one kind; models write only LF."""
    if "\r" in old + new or not whole.count("\r\n") == whole.count("\r") == whole.count("\n") > 0:
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\n", "\r\n")


def edit_file_tool(workspace: Workspace) -> Tool:
    """The tool `edit_file`."""

    def edit(path: str, old: str, new: str, everywhere: bool, context: ExecutionContext) -> ToolResult:
        real = workspace.resolve(path)
        shown = workspace.relative(real)
        check_chores(shown, context)
        if old == new:
            raise Refusal(f"{shown} was not changed: `old` and `new` are the same.")
        times = 0

        def make(current: bytes | None) -> bytes:
            nonlocal times
            if current is None:
                raise Refusal(f"There is no file {shown}; `write_file` makes one.")
            check_seen(shown, current, context)
            whole = as_text(current, shown)
            passage, instead = _with_its_line_ends(whole, old, new)
            times = whole.count(passage)
            if times == 0:
                raise Refusal(f"{shown} does not contain `old`; copy it letter for letter, spaces and line ends too.")
            if times > 1 and not everywhere:
                raise Refusal(f"{shown} contains `old` {times} times; give more of the lines around it, or set `all`.")
            return _as_bytes(whole.replace(passage, instead), shown)

        content = workspace.update(real, make, LARGEST_FILE)
        return _changed(shown, content, f"Changed {shown} in {times} place{'s' if times > 1 else ''}.")

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        return await asyncio.to_thread(
            edit, arguments["path"], arguments["old"], arguments["new"], bool(arguments.get("all")), context
        )

    return Tool(
        name="edit_file",
        description="Replaces a passage of a file you have read. The passage must stand there exactly once.",
        parameters=takes(
            {
                "path": text("The file, relative to the workspace."),
                "old": text("The passage as it stands in the file, letter for letter.", shortest=1),
                "new": text("What shall stand there instead; empty removes the passage."),
            },
            {"all": flag("Replace every occurrence, not only a single one.")},
        ),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=body,
    )
