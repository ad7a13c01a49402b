"""`read_file`, `list_files` and `search_files`."""

import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

import regex

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .tool import Refusal, Tool, blocking_body, boolean, integer, object_schema, string, with_remarks
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

LARGEST_SEARCHED: Final = 1024 * 1024
"""Bytes of one file: sources are smaller; what is larger was made by a program."""

SEARCHED: Final = 16 * 1024 * 1024
"""Bytes of all files of one search."""

MOST_FOUND: Final = 200
"""Lines found; a model that gets more has asked for too little."""

LONGEST_LINE: Final = 300
"""Characters shown of a line: enough to recognise it, and minified files stay bearable."""

LONGEST_CONSIDERED: Final = 20_000
"""Characters of a line an expression is tried on: backtracking costs the square of it, or worse."""

DEADLINE: Final = 10.0
"""Seconds for an expression; 16 MiB take a reasonable one about a second."""


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


def _files(workspace: Workspace, start: Path, pattern: str) -> tuple[list[str], int]:
    """The files below a folder that fit a pattern such as `*.py` or `src/**/test_*.py`, where `*` crosses folders.

    Returns them sorted, and how many were looked at: one more than `VISITED` if there are more.
    """
    visited = list(islice(workspace.walk(start), VISITED + 1))
    forms = {pattern, pattern.replace("**/", "")}  # `**/` also matches no folder at all

    def fits(path: str) -> bool:
        name = PurePosixPath(path).name
        return not pattern or any(fnmatchcase(path, form) or fnmatchcase(name, form) for form in forms)

    return sorted(filter(fits, visited[:VISITED])), len(visited)


def read_file_tool(workspace: Workspace) -> Tool:
    """The tool `read_file`."""

    def read(arguments: Mapping[str, Any], _: ExecutionContext) -> ToolResult:
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

    def listing(arguments: Mapping[str, Any], _: ExecutionContext) -> ToolResult:
        pattern = arguments.get("pattern", "")
        found, visited = _files(workspace, workspace.resolve(arguments.get("path") or "."), pattern)
        if not found:
            return ToolResult(ok=True, content="No file fits." if pattern or visited else "There are no files here.")
        remarks = []
        if len(found) > LISTED:
            remarks.append(f"{len(found) - LISTED} more are not shown; narrow it down with `path` or `pattern`.")
        if visited > VISITED:
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


def search_files_tool(workspace: Workspace, *, deadline: float = DEADLINE) -> Tool:
    """The tool `search_files`; `deadline` is the seconds for a regular expression."""

    def search(arguments: Mapping[str, Any], _: ExecutionContext) -> ToolResult:
        matches = _matcher(arguments["pattern"], arguments, time.monotonic() + deadline)
        start = workspace.resolve(arguments.get("path") or ".")
        names, visited = [workspace.relative(start)], 1
        if not start.is_file():
            names, visited = _files(workspace, start, arguments.get("glob", ""))
        skipped, size = 0, 0

        def texts() -> Iterator[tuple[str, str]]:
            nonlocal skipped, size
            for name in names:
                try:
                    content = workspace.read(workspace.root / name, LARGEST_SEARCHED)
                    words = as_text(content, name)
                except Refusal:  # binary, too large, a link, unreadable
                    skipped += 1
                    continue
                size += len(content)
                if size > SEARCHED:
                    return
                yield name, words

        lines = ((path, number, line) for path, whole in texts() for number, line in enumerate(whole.split("\n"), 1))
        hits = (f"{path}:{number}: {_shortened(line)}" for path, number, line in lines if matches(line))
        found = list(islice(hits, MOST_FOUND + 1))
        remarks = []
        if len(found) > MOST_FOUND:
            remarks.append(f"There are more than these {MOST_FOUND}; narrow it down.")
        if skipped:
            files = "1 file was" if skipped == 1 else f"{skipped} files were"
            remarks.append(f"{files} left out: binary, larger than 1 MiB, a link, or not readable.")
        if size > SEARCHED or visited > VISITED:
            remarks.append("There was too much to search all of it; narrow it down with `path` or `glob`.")
        return ToolResult(ok=True, content=with_remarks("\n".join(found[:MOST_FOUND]) or "Nothing was found.", remarks))

    return Tool(
        name="search_files",
        description=f"Finds lines of text files that hold a text; shows at most {MOST_FOUND}.",
        parameters=object_schema(
            {"pattern": string(min_length=1, max_length=500)},
            {
                "path": string(),
                "glob": string("Such as `*.py`.", max_length=200),
                "regex": boolean("`pattern` is a Python regular expression for one line."),
                "ignore_case": boolean(),
            },
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=blocking_body(search),
    )


def _matcher(pattern: str, options: Mapping[str, Any], deadline: float) -> Callable[[str], bool]:
    """Tests a line; after the deadline, in seconds of the monotonic clock, a regular expression is refused."""
    if not options.get("regex"):
        if options.get("ignore_case"):
            wanted = pattern.casefold()
            return lambda line: wanted in line.casefold()
        return lambda line: pattern in line
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if options.get("ignore_case") else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise Refusal(f"`pattern` is not a valid regular expression: {error}.") from error

    def matches(line: str) -> bool:
        try:  # `concurrent` releases the interpreter's lock, or one bad expression would stop the whole daemon
            remaining = max(deadline - time.monotonic(), 0.001)
            return compiled.search(line, endpos=LONGEST_CONSIDERED, timeout=remaining, concurrent=True) is not None
        except TimeoutError as error:
            raise Refusal(
                "The expression took too long. Make it simpler (no repetition of what repeats already), search fewer "
                "files, or search for a plain text."
            ) from error

    return matches


def _shortened(line: str) -> str:
    plain = line.rstrip("\r")
    return plain if len(plain) <= LONGEST_LINE else f"{plain[:LONGEST_LINE]} [cut]"
