"""`read_file` and `list_files`."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .tool import Refusal, Tool, blocking_body, integer, object_schema, string, with_remarks
from .workspace import Workspace, digest

LARGEST_FILE: Final = 16 * 1024 * 1024
"""Bytes: a file is read whole, for its hash; what is larger is data, not source."""

SHOWN_AT_ONCE: Final = 256 * 1024
"""Bytes of text in one answer: about 64,000 tokens, which even large models feel."""

LINES_AT_ONCE: Final = 2_000
"""Lines shown unless the model asks for another number; nearly all source files have fewer."""

LISTED: Final = 500
"""Paths in one listing; a model that needs more needs a pattern."""

VISITED: Final = 50_000
"""Paths looked at in one listing, so that a workspace of millions costs a bounded time."""


def as_text(content: bytes, shown: str) -> str:
    """A file's content as text, line ends untouched.

    Raises:
        Refusal: it is not UTF-8, or holds NUL bytes as only binary files do.
    """
    if b"\0" in content:
        raise Refusal(f"{shown} is a binary file; only text can be used here.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(f"{shown} is not UTF-8 text (byte {error.start + 1}); only text can be used here.") from error


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern such as `*.py`, `src/*.py` or `src/**/test_*.py`; `*` crosses folders."""
    forms = {pattern, pattern.replace("**/", "")}  # `**/` also matches no folder at all
    name = PurePosixPath(path).name
    return any(fnmatchcase(path, form) or fnmatchcase(name, form) for form in forms)


def read_file_tool(workspace: Workspace) -> Tool:
    """The tool `read_file`."""

    def read(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        del context
        offset, limit = int(arguments.get("offset", 1)), int(arguments.get("limit", LINES_AT_ONCE))
        real = workspace.resolve(arguments["path"])
        shown = workspace.relative(real)
        content = workspace.read(real, LARGEST_FILE)
        seen = {shown: digest(content)}
        return ToolResult(ok=True, content=_window(as_text(content, shown), shown, offset, limit), read=seen)

    return Tool(
        name="read_file",
        description=(
            "Reads a text file. Long ones are shown in parts. A file must have been read before it is changed."
        ),
        parameters=object_schema(
            {"path": string()},
            {
                "offset": integer("The first line, from 1."),
                "limit": integer(f"How many lines; {LINES_AT_ONCE} unless given."),
            },
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=blocking_body(read),
    )


def _window(whole: str, shown: str, offset: int, limit: int) -> str:
    if not whole:
        return "(The file is empty.)"
    lines = whole.split("\n")
    if lines[-1] == "":
        lines.pop()  # the last line's end begins no line
    if offset > len(lines):
        raise Refusal(f"{shown} has {len(lines)} lines; there is no line {offset}.")
    chosen: list[str] = []
    size = 0
    for line in islice(lines, offset - 1, offset - 1 + limit):
        size += len(line.encode("utf-8")) + 1
        if size > SHOWN_AT_ONCE and chosen:
            break
        chosen.append(line)
    body, last = "\n".join(chosen), offset - 1 + len(chosen)
    remarks = []
    if len(chosen) == 1 and size > SHOWN_AT_ONCE:
        body = body.encode("utf-8")[:SHOWN_AT_ONCE].decode("utf-8", "ignore")
        remarks.append(f"Line {offset} is longer than {SHOWN_AT_ONCE // 1024} KiB and was cut.")
    if last < len(lines):
        remarks.append(f"Lines {offset} to {last} of {len(lines)}; read on with offset {last + 1}.")
    elif offset > 1:
        remarks.append(f"Lines {offset} to {last} of {len(lines)}; this is the end.")
    return with_remarks(body, remarks)


def list_files_tool(workspace: Workspace) -> Tool:
    """The tool `list_files`."""

    def listing(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        del context
        pattern = arguments.get("pattern", "")
        visited = list(islice(workspace.walk(workspace.resolve(arguments.get("path") or ".")), VISITED + 1))
        found = sorted(name for name in visited[:VISITED] if not pattern or fits(name, pattern))
        if not found:
            return ToolResult(ok=True, content="No file fits." if pattern or visited else "There are no files here.")
        remarks = []
        if len(found) > LISTED:
            remarks.append(f"{len(found) - LISTED} more are not shown; narrow it down with `path` or `pattern`.")
        if len(visited) > VISITED:
            remarks.append(f"Only the first {VISITED} files were looked at; name a folder in `path`.")
        return ToolResult(ok=True, content=with_remarks("\n".join(found[:LISTED]), remarks))

    return Tool(
        name="list_files",
        description=f"Lists the files below a folder, sorted, at most {LISTED}.",
        parameters=object_schema(
            {},
            {
                "path": string("A folder; the workspace unless given."),
                "pattern": string("Such as `*.py` or `src/**/test_*.py`.", max_length=200),
            },
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=blocking_body(listing),
    )
