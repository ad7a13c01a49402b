"""`search_files`: finds lines by a text or a regular expression.

A text is looked for in a thread; an expression in a process of its own (see `matcher`).
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process as programs
from .files_read import VISITED, as_text, fits
from .sandbox import clean_environment
from .tool import Refusal, Tool, flag, takes, text
from .workspace import LONGEST_PATH, Workspace

LARGEST_SEARCHED: Final = 1024 * 1024
"""Bytes of one file: sources are smaller; what is larger was made by a program."""

SEARCHED: Final = 16 * 1024 * 1024
"""Bytes of all files of one search, which also bounds what an expression's process is given."""

MOST_FOUND: Final = 200
"""Lines found; a model that gets more has asked for too little."""

LONGEST_LINE: Final = 300
"""Characters shown of a line: enough to recognise it, and minified files stay bearable."""

LONGEST_CONSIDERED: Final = 20_000
"""Characters of a line an expression is tried on: backtracking costs the square of it, or worse."""

DEADLINE: Final = 10.0
"""Seconds for an expression; 16 MiB take a sane one about a second."""

MATCHER: Final = Path(__file__).with_name("matcher.py")

_Hit = tuple[str, int, str]


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
    """The tool `search_files`; `deadline` is in seconds and for expressions."""

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        del context
        pattern, ignore_case = arguments["pattern"], bool(arguments.get("ignore_case"))
        texts = await asyncio.to_thread(_Texts, workspace, arguments.get("path") or ".", arguments.get("glob", ""))
        if arguments.get("regex"):
            found, more = await _by_expression(pattern, ignore_case, texts, workspace.root, deadline)
        else:
            found, more = await asyncio.to_thread(_by_text, pattern, ignore_case, texts)
        return _told(found, more, texts)

    return Tool(
        name="search_files",
        description=f"Finds lines in the workspace's text files that hold a text; shows at most {MOST_FOUND}.",
        parameters=takes(
            {"pattern": text("The text to find, letter for letter.", shortest=1, longest=500)},
            {
                "path": text("A folder or file, relative to the workspace; all of it unless given."),
                "glob": text("Which files, such as `*.py`.", longest=200),
                "regex": flag("Take `pattern` as a Python regular expression, matched line by line."),
                "ignore_case": flag("Let capitals and small letters be the same."),
            },
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=body,
    )


def _by_text(pattern: str, ignore_case: bool, texts: _Texts) -> tuple[list[_Hit], bool]:
    wanted = pattern.casefold() if ignore_case else pattern
    found: list[_Hit] = []
    for path, whole in texts:
        for number, line in enumerate(whole.split("\n"), 1):
            if wanted in (line.casefold() if ignore_case else line):
                if len(found) == MOST_FOUND:
                    return found, True
                found.append((path, number, line))
    return found, False


async def _by_expression(
    pattern: str, ignore_case: bool, texts: _Texts, root: Path, deadline: float
) -> tuple[list[_Hit], bool]:
    def fill(file: BinaryIO) -> None:
        asked = {"pattern": pattern, "ignore_case": ignore_case, "most": MOST_FOUND, "longest": LONGEST_LINE + 1}
        file.write(json.dumps(asked).encode() + b"\n")
        for path, whole in texts:
            considered = "\n".join(line[:LONGEST_CONSIDERED] for line in whole.split("\n"))
            file.write(json.dumps([path, considered]).encode() + b"\n")
        file.seek(0)

    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(fill, file)
        outcome = await programs.run(
            [sys.executable, "-I", "-S", "-B", str(MATCHER)],
            cwd=root,
            environment=clean_environment("/nonexistent"),
            deadline=deadline,
            most_output=MOST_FOUND * (LONGEST_PATH + LONGEST_LINE) * 12,  # JSON takes up to 12 bytes for a character
            stdin=file,
        )
    if outcome.status is None:
        raise Refusal(
            f"The expression took longer than {deadline:g} s. Make it simpler (no repetition of what repeats already), "
            "search fewer files, or search for a plain text."
        )
    if outcome.status != 0:
        raise Refusal("The expression could not be searched for: it took too much memory. Make it simpler.")
    answer = json.loads(outcome.output)
    if "fault" in answer:
        raise Refusal(f"`pattern` is no regular expression: {answer['fault']}.")
    return [(path, number, line) for path, number, line in answer["found"]], answer["more"]


def _told(found: list[_Hit], more: bool, texts: _Texts) -> ToolResult:
    lines = [f"{path}:{number}: {_shortened(line)}" for path, number, line in found]
    remarks = texts.remarks()
    if more:
        remarks.insert(0, f"There are more than these {MOST_FOUND}; narrow it down.")
    body = "\n".join(lines) or "Nothing was found."
    return ToolResult(ok=True, content=f"{body}\n[{' '.join(remarks)}]" if remarks else body)


def _shortened(line: str) -> str:
    plain = line.rstrip("\r")
    return plain if len(plain) <= LONGEST_LINE else f"{plain[:LONGEST_LINE]} [cut]"
