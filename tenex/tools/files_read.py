"""`read_file`, `list_files` and `search_files`."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolTable
from .ignored import ignored_below
from .path_patterns import fits
from .tool import Refusal, Tool, blocking_body, boolean, integer, object_schema, string, with_remarks
from .workspace import Workspace, digest

LARGEST_FILE: Final = 16 * 1024 * 1024
"""Bytes: a file is read whole, for its hash; what is larger is data, not source."""

SHOWN_AT_ONCE: Final = 256 * 1024
"""Bytes of text in one answer: about 64,000 tokens, which even large models feel."""

LINES_AT_ONCE: Final = 2_000
"""Lines shown unless the model asks for another number; nearly all source files have fewer."""

LISTED: Final = 500
"""Lines in one listing; a model that needs more needs a pattern."""

SUMMED_UP: Final = 100
"""Lines from which like files are summed up: more than a reader takes in, and about 1,000 tokens."""

LEAST_ALIKE: Final = 10
"""Like files that become one line: a handful are quicker read than guessed."""

NAMED: Final = 5
"""Of what was left out: enough to recognise what it is."""

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


WorkspaceOf = Callable[[ExecutionContext, str], Workspace]
"""Gives the workspace as a call sees it, or the inbox, where that has the path."""


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


@dataclass(frozen=True, slots=True)
class _Found:
    """Files below a folder."""

    names: list[str]
    """Those that fit, sorted."""
    visited: int
    """How many were looked at: one more than `VISITED` if there are more."""
    left_out: list[str]
    """What was not looked at, because `.gitignore` names it or programs make it; folders end with `/`."""


def _files(workspace: Workspace, start: Path, pattern: str) -> _Found:
    """The files below a folder that fit a pattern such as `*.py` or `src/**/test_*.py`, where `*` crosses folders."""
    left_out: list[str] = []
    walk = workspace.walk(start, ignored_below(workspace.root, start), left_out)
    visited = list(islice(walk, VISITED + 1))
    names = sorted(path for path in visited[:VISITED] if not pattern or fits(path, pattern))
    return _Found(names, len(visited), left_out)


def summed_up(paths: Sequence[str], folder: str, most: int) -> list[str]:
    """Paths in at most about so many lines: like files become one line, the largest groups first.

    Files are alike that differ in the name of one folder only, or in their own name but not in its suffix:
    `locale/*/app.po (57 files)`, `data/*.json (400 files)`. Those in the folder itself, whose list it is, are named.
    """
    surplus = len(paths) - most
    if surplus <= 0:
        return list(paths)
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for key in _alike(path, folder):
            groups[key].append(path)

    line_of: dict[str, str] = {}
    for key, members in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        alike = [path for path in members if path not in line_of]
        if surplus <= 0 or len(members) < LEAST_ALIKE:
            break
        if len(alike) >= LEAST_ALIKE:
            line_of |= dict.fromkeys(alike, f"{key} ({len(alike)} files)")
            surplus -= len(alike) - 1
    return list(dict.fromkeys(line_of.get(path, path) for path in paths))


def _alike(path: str, folder: str) -> Iterator[str]:
    """The names of the groups a path may be in."""
    *folders, name = path.split("/")
    for place in range(len(folders)):
        yield "/".join([*folders[:place], "*", *folders[place + 1 :], name])
    if "/".join(folders) != folder:
        yield "/".join([*folders, f"*{PurePosixPath(name).suffix}"])


def _left_out(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"Left out, as ignored or made by programs: {', '.join(paths[:NAMED])}{more}; name one in `path` to see it."


def read_file_tool(workspace_of: WorkspaceOf) -> Tool:
    """The tool `read_file`."""

    def read(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        workspace = workspace_of(context, arguments["path"])
        offset = int(arguments.get("offset", 1))
        limit = int(arguments.get("limit", LINES_AT_ONCE))
        real = workspace.resolve(arguments["path"])
        shown = workspace.shown(real)
        content = workspace.read(real, LARGEST_FILE)
        seen = {shown: digest(content)}
        return ToolResult(ok=True, content=_window(as_text(content, shown), shown, offset, limit), read=seen)

    return Tool(
        name="read_file",
        description=(
            "Reads a text file. Before each line are its number and a tab, which are not in the file. Long ones are "
            "shown in parts. A file must have been read before it is changed."
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


def numbered(lines: Iterable[str], first: int) -> str:
    """Lines of a file as models are shown them, each after its number and a tab; `first` is the number of the first."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))


def _window(whole: str, shown: str, offset: int, limit: int) -> str:
    if not whole:
        return "(The file is empty.)"
    lines = lines_of(whole)
    if offset > len(lines):
        raise Refusal(f"{shown} has {len(lines)} lines; there is no line {offset}.")
    chosen: list[str] = []
    size = 0
    for line in islice(lines, offset - 1, offset - 1 + limit):
        size += len(line.encode("utf-8")) + 1
        if size > SHOWN_AT_ONCE and chosen:
            break
        chosen.append(line)
    last = offset - 1 + len(chosen)
    remarks = []
    if len(chosen) == 1 and size > SHOWN_AT_ONCE:
        chosen = [chosen[0].encode("utf-8")[:SHOWN_AT_ONCE].decode("utf-8", "ignore")]
        remarks.append(f"Line {offset} is longer than {SHOWN_AT_ONCE // 1024} KiB and was cut.")
    if last < len(lines):
        remarks.append(f"Lines {offset} to {last} of {len(lines)}; read on with offset {last + 1}.")
    elif offset > 1:
        remarks.append(f"Lines {offset} to {last} of {len(lines)}; this is the end.")
    return with_remarks(numbered(chosen, offset), remarks)


def lines_of(whole: str) -> list[str]:
    """The lines of a text; the end of the last line begins none."""
    lines = whole.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def list_files_tool(workspace_of: WorkspaceOf) -> Tool:
    """The tool `list_files`."""

    def listing(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        workspace = workspace_of(context, arguments.get("path") or ".")
        pattern = arguments.get("pattern", "")
        start = workspace.resolve(arguments.get("path") or ".")
        found = _files(workspace, start, pattern)
        folder = "" if start == workspace.root else workspace.relative(start)
        names = [workspace.shown(workspace.root / name) for name in found.names]
        lines = names if pattern else summed_up(names, folder, SUMMED_UP)
        remarks = []
        if len(lines) > LISTED:
            remarks.append(f"{len(lines) - LISTED} more are not shown; narrow it down with `path` or `pattern`.")
        if found.visited > VISITED:
            remarks.append(f"Only the first {VISITED} files were looked at; name a folder in `path`.")
        if found.left_out:
            remarks.append(_left_out(found.left_out))
        if not lines:
            nothing = "No file fits." if pattern or found.visited else "There are no files here."
            return ToolResult(ok=True, content=with_remarks(nothing, remarks))
        return ToolResult(ok=True, content=with_remarks("\n".join(lines[:LISTED]), remarks))

    return Tool(
        name="list_files",
        description=(
            f"Lists the files below a folder, sorted, in at most {LISTED} lines. Many like files may be one line."
        ),
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


def search_files_tool(workspace_of: WorkspaceOf, *, deadline: float = DEADLINE) -> Tool:
    """The tool `search_files`; `deadline` is the seconds for a regular expression."""

    def search(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        workspace = workspace_of(context, arguments.get("path") or ".")
        matches = _matcher(arguments["pattern"], arguments, time.monotonic() + deadline)
        start = workspace.resolve(arguments.get("path") or ".")
        among = _Found([workspace.relative(start)], 1, [])
        if not start.is_file():
            among = _files(workspace, start, arguments.get("glob", ""))
        skipped = 0
        size = 0

        def texts() -> Iterator[tuple[str, str]]:
            nonlocal skipped, size
            for name in among.names:
                try:
                    content = workspace.read(workspace.root / name, LARGEST_SEARCHED)
                    words = as_text(content, name)
                except Refusal:  # binary, too large, a link, unreadable
                    skipped += 1
                    continue
                size += len(content)
                if size > SEARCHED:
                    return
                yield workspace.shown(workspace.root / name), words

        lines = ((path, number, line) for path, whole in texts() for number, line in enumerate(whole.split("\n"), 1))
        hits = (f"{path}:{number}: {shortened(line)}" for path, number, line in lines if matches(line))
        found = list(islice(hits, MOST_FOUND + 1))
        remarks = []
        if len(found) > MOST_FOUND:
            remarks.append(f"There are more than these {MOST_FOUND}; narrow it down.")
        if skipped:
            files = "1 file was" if skipped == 1 else f"{skipped} files were"
            remarks.append(f"{files} left out: binary, larger than 1 MiB, a link, or not readable.")
        if size > SEARCHED or among.visited > VISITED:
            remarks.append("There was too much to search all of it; narrow it down with `path` or `glob`.")
        if not found and among.left_out:
            remarks.append(_left_out(among.left_out))
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
    import regex  # 1 MB: most searches have none

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


def shortened(line: str) -> str:
    """A line as it is shown among others, without its end."""
    plain = line.rstrip("\r")
    return plain if len(plain) <= LONGEST_LINE else f"{plain[:LONGEST_LINE]} [cut]"


TOOLS: Final[ToolTable] = {
    "read_file": lambda parts: read_file_tool(parts.readable),
    "list_files": lambda parts: list_files_tool(parts.readable),
    "search_files": lambda parts: search_files_tool(parts.readable),
}
