"""`write_file`, `edit_file`, `move_file` and `delete_file`.

A change is refused if it would overwrite or delete content the agent has not seen: another agent of the same turn, or a
user with an editor, may have changed the file. Moving loses nothing and needs no reading, but never replaces a file. A
link is moved or deleted itself, never its target.
"""

from collections.abc import Mapping
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .files_read import LARGEST_FILE, as_text
from .tool import Refusal, Tool, blocking_body, boolean, object_schema, string
from .workspace import Workspace, digest
from .write_policy import check_chores

LARGEST_WRITE: Final = 1024 * 1024
"""Bytes of one file written: more than any model writes in one answer, so it only stops mistakes."""


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
    # the writer has seen it: with `read` it may go on, and notices if another agent changes the file in between
    return ToolResult(ok=True, content=sentence, read={path: digest(content)}, touched=(path,))


def write_file_tool(workspace: Workspace) -> Tool:
    """The tool `write_file`."""

    def write(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = workspace.resolve(arguments["path"])
        shown = workspace.relative(real)
        check_chores(shown, context)
        wanted = _as_bytes(arguments["content"], shown)
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

    return Tool(
        name="write_file",
        description="Writes a whole text file, with the folders it needs; for small changes use `edit_file`.",
        parameters=object_schema({"path": string(), "content": string()}),
        access=Access.CHANGE,
        replay=Replay.IDEMPOTENT,
        body=blocking_body(write),
    )


def _with_its_line_ends(whole: str, old: str, new: str) -> tuple[str, str]:
    """A passage and its replacement with the line ends of the file, if it has but one kind; models write only LF."""
    if "\r" in old + new or not whole.count("\r\n") == whole.count("\r") == whole.count("\n") > 0:
        return old, new
    return old.replace("\n", "\r\n"), new.replace("\n", "\r\n")


def edit_file_tool(workspace: Workspace) -> Tool:
    """The tool `edit_file`."""

    def edit(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        old, new = arguments["old"], arguments["new"]
        real = workspace.resolve(arguments["path"])
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
            if times > 1 and not arguments.get("all"):
                raise Refusal(f"{shown} contains `old` {times} times; give more of the lines around it, or set `all`.")
            return _as_bytes(whole.replace(passage, instead), shown)

        content = workspace.update(real, make, LARGEST_FILE)
        return _changed(shown, content, f"Changed {shown} in {times} place{'s' if times > 1 else ''}.")

    return Tool(
        name="edit_file",
        description="Replaces a passage of a file you have read. The passage must occur exactly once.",
        parameters=object_schema(
            {"path": string(), "old": string("The passage, letter for letter.", min_length=1), "new": string()},
            {"all": boolean("Replace every occurrence.")},
        ),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=blocking_body(edit),
    )


def move_file_tool(workspace: Workspace) -> Tool:
    """The tool `move_file`."""

    def move(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        source, target = workspace.entry(arguments["path"]), workspace.entry(arguments["to"])
        old, new = workspace.relative(source), workspace.relative(target)
        check_chores(old, context)
        if old not in context.touched:  # a new name for a file of this cycle is this cycle's too
            check_chores(new, context)
        workspace.move(source, target)
        seen = context.read.get(old)
        return ToolResult(
            ok=True, content=f"Moved {old} to {new}.", touched=(old, new), read={new: seen} if seen is not None else {}
        )

    return Tool(
        name="move_file",
        description="Moves or renames one file; the new path must be free.",
        parameters=object_schema({"path": string(), "to": string()}),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=blocking_body(move),
    )


def delete_file_tool(workspace: Workspace) -> Tool:
    """The tool `delete_file`."""

    def delete(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = workspace.entry(arguments["path"])
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

    return Tool(
        name="delete_file",
        description="Deletes one file that has been read, or an empty folder.",
        parameters=object_schema({"path": string()}),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=blocking_body(delete),
    )


def _is_text(content: bytes, shown: str) -> bool:
    """Whether `read_file` could have shown it: what it cannot show cannot be asked to have been read."""
    try:
        as_text(content, shown)
    except Refusal:
        return False
    return True
