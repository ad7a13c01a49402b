"""`search_files`: finds lines by a text or a regular expression."""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import regex

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .files_read import VISITED, as_text, fits
from .tool import Refusal, Tool, blocking_body, boolean, object_schema, string, with_remarks
from .workspace import Workspace

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

_MORE: Final = f"There are more than these {MOST_FOUND}; narrow it down."


class _Texts:
    """The texts of one search, read one by one, with a count of what was left out."""

    def __init__(self, workspace: Workspace, path: str, glob: str) -> None:
        self._workspace, self._glob = workspace, glob
        self._start = workspace.resolve(path)
        self.skipped = 0
        self.full = False

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Paths with their texts, in order, up to `SEARCHED` bytes."""
        size = 0
        for name in self._names():
            try:
                content = self._workspace.read(self._workspace.root / name, LARGEST_SEARCHED)
                words = as_text(content, name)
            except Refusal:  # binary, too large, a link, unreadable
                self.skipped += 1
                continue
            size += len(content)
            if size > SEARCHED:
                self.full = True
                return
            yield name, words

    def _names(self) -> list[str]:
        if self._start.is_file():
            return [self._workspace.relative(self._start)]
        names = list(islice(self._workspace.walk(self._start), VISITED + 1))
        self.full = len(names) > VISITED
        return sorted(name for name in names[:VISITED] if not self._glob or fits(name, self._glob))

    def remarks(self) -> list[str]:
        """What the model should know about what was not searched."""
        out = []
        if self.skipped:
            files = "1 file was" if self.skipped == 1 else f"{self.skipped} files were"
            out.append(f"{files} left out: binary, larger than 1 MiB, a link, or not readable.")
        if self.full:
            out.append("There was too much to search all of it; narrow it down with `path` or `glob`.")
        return out


def search_files_tool(workspace: Workspace, *, deadline: float = DEADLINE) -> Tool:
    """The tool `search_files`; `deadline` is the seconds for a regular expression."""

    def search(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        del context
        matches = _matcher(arguments["pattern"], arguments, time.monotonic() + deadline)
        texts = _Texts(workspace, arguments.get("path") or ".", arguments.get("glob", ""))
        lines = ((path, number, line) for path, whole in texts for number, line in enumerate(whole.split("\n"), 1))
        hits = (f"{path}:{number}: {_shortened(line)}" for path, number, line in lines if matches(line))
        found = list(islice(hits, MOST_FOUND + 1))
        more = [_MORE] if len(found) > MOST_FOUND else []
        body = "\n".join(found[:MOST_FOUND]) or "Nothing was found."
        return ToolResult(ok=True, content=with_remarks(body, [*more, *texts.remarks()]))

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
