"""`write_file`, `edit_file`, `move_file` and `delete_file`.

A change is refused if it would overwrite or delete content the agent has not seen: another agent of the same turn, or a
user with an editor, may have changed the file. Moving loses nothing and needs no reading, but never replaces a file. A
link is moved or deleted itself, never its target. A file with further names (hard links) in the workspace is written in
place, so that all of them have the new text.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from .dependencies import ToolTable
from .files_read import LARGEST_FILE, as_text, lines_of, numbered, shortened
from .line_ends import as_models_write, passages, with_line_ends
from .tool import Refusal, Tool, array, blocking_body, boolean, object_schema, string, with_remarks
from .workspace import Workspace, digest
from .write_policy import check_chores

LARGEST_WRITE: Final = 1024 * 1024
"""Bytes of one file written: more than any model writes in one answer, so it only stops mistakes."""

MOST_EDITS: Final = 100
"""Edits of one call: far more than a model makes at once."""

AROUND: Final = 3
"""Lines shown before and after a change, as `diff` does: enough to see whether indentation and blocks are right."""

MOST_SHOWN: Final = 120
"""Lines shown of a changed file; a model that replaces hundreds of places reads the file again."""

_BOM: Final = "\ufeff"
_NUMBERED: Final = re.compile(r"\s*\d+\t")


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


def _changed(names: tuple[str, ...], content: bytes, sentence: str) -> ToolResult:
    """The result of a call that has changed a file with these names."""
    # the writer has seen it: with `read` it may go on, and notices if another agent changes the file in between
    read = dict.fromkeys(names, digest(content))
    more = [f"The same file (a hard link): {', '.join(names[1:])}."] if names[1:] else []
    return ToolResult(ok=True, content=with_remarks(sentence, more), read=read, touched=names)


def _names_to_change(workspace: Workspace, real: Path, context: ExecutionContext) -> tuple[str, ...]:
    """The names of a file that a call may change, its own first.

    Raises:
        Refusal: the phase leaves one of them alone.
    """
    names = workspace.names_of(real)
    for name in names:
        check_chores(name, context)
    return names


def write_file_tool(workspace: Workspace) -> Tool:
    """The tool `write_file`."""

    def write(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = workspace.resolve(arguments["path"])
        shown = workspace.relative(real)
        names = _names_to_change(workspace, real, context)
        wanted = _as_bytes(arguments["content"], shown)
        was_there = False

        def make(current: bytes | None) -> bytes:
            nonlocal was_there, wanted
            was_there = current is not None
            wanted = _in_form_of(current, wanted)
            # the same content is the same file: so a call repeated after a crash finds its own work and is content
            if current is not None and current != wanted:
                check_seen(shown, current, context)
            return wanted

        workspace.update(real, make, LARGEST_FILE)
        return _changed(names, wanted, f"{'Replaced' if was_there else 'Created'} {shown} ({len(wanted)} bytes).")

    return Tool(
        name="write_file",
        description="Writes a whole text file, with the folders it needs; for small changes use `edit_file`.",
        parameters=object_schema({"path": string(), "content": string()}),
        access=Access.CHANGE,
        replay=Replay.IDEMPOTENT,
        body=blocking_body(write),
    )


def _in_form_of(current: bytes | None, wanted: bytes) -> bytes:
    """The new content of a file in the form it has: its byte order mark, line ends and final line end.

    Models are not shown these, so a model that leaves them out does not mean to change them.
    """
    if not current or not wanted or b"\0" in current:
        return wanted
    try:
        whole = current.decode("utf-8")
        text = wanted.decode("utf-8")
    except UnicodeDecodeError:
        return wanted
    if whole.endswith("\n") and not text.endswith("\n"):
        text += "\n"
    if whole.startswith(_BOM) and not text.startswith(_BOM):
        text = _BOM + text
    if "\r" not in text:  # else it says itself which line ends it has
        text = with_line_ends(text, whole, 0, len(whole))
    return text.encode("utf-8")


@dataclass(slots=True)
class _Text:
    """A file's text while it is edited."""

    text: str
    places: list[tuple[int, int]] = field(default_factory=list)
    """Where what is new begins and ends; characters."""

    def replace(self, passages: Sequence[tuple[int, int]], texts: Sequence[str]) -> None:
        """Replace passages, in order, by one text each; the places that were changed before move with the text."""
        pieces: list[str] = []
        added: list[tuple[int, int]] = []
        shifts = [0]  # by how far a place moves that so many passages precede
        position = 0
        for (start, end), new in zip(passages, texts, strict=True):
            pieces += [self.text[position:start], new]
            position = end
            added.append((start + shifts[-1], start + shifts[-1] + len(new)))
            shifts.append(shifts[-1] + len(new) - (end - start))
        pieces.append(self.text[position:])

        starts = [start for start, _ in passages]
        moves = [shifts[bisect_left(starts, first)] for first, _ in self.places]
        moved = [(first + move, last + move) for (first, last), move in zip(self.places, moves, strict=True)]
        self.places = sorted([*moved, *added])
        self.text = "".join(pieces)


def _edited(whole: str, edits: Sequence[Mapping[str, Any]], shown: str) -> _Text:
    """Make all edits, each on what those before it left.

    Raises:
        Refusal: one cannot be made; then the file stays as it is.
    """
    text = _Text(whole)
    for number, edit in enumerate(edits, 1):
        which = "" if len(edits) == 1 else f" of edit {number}"
        old = edit["old"]
        new = edit["new"]
        # a model that writes CR itself means these line ends, unless they are not there
        is_literal = "\r" in old + new and old in text.text
        if not is_literal:
            old = as_models_write(old)
            new = as_models_write(new)
        times = text.text.count(old) if is_literal else sum(1 for _ in passages(text.text, old))
        fault = ""
        if old == new:
            fault = f"`old` and `new`{which} are the same."
        elif times == 0:
            fault = f"it does not contain `old`{which}. {_why_not_contained(edit['old'])}"
        elif times > 1 and not edit.get("all"):
            fault = f"it contains `old`{which} {times} times; give more of the lines around it, or set `all`."
        if fault:
            raise Refusal(f"{shown} was not changed: {fault}")
        if is_literal:
            spans = [match.span() for match in re.finditer(re.escape(old), text.text)]
            text.replace(spans, [new] * times)
        else:
            spans = _apart(passages(text.text, old))
            text.replace(spans, [with_line_ends(new, text.text, start, end) for start, end in spans])
    return text


def _why_not_contained(old: str) -> str:
    if all(_NUMBERED.match(line) for line in old.splitlines()):
        return "Leave out the line numbers and tabs: `read_file` adds them."
    return "Copy it letter for letter, with its spaces; or read the file again."


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that do not overlap one before them."""
    apart: list[tuple[int, int]] = []
    for start, end in spans:
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _around(edited: _Text) -> str:
    """The changed places with the lines around them, numbered; at most `MOST_SHOWN` lines."""
    lines = lines_of(edited.text)
    wanted: dict[int, None] = {}
    number = 0
    position = 0
    for first, last in edited.places:
        number += edited.text.count("\n", position, first)
        position = first
        end = number + edited.text.count("\n", first, max(first, last - 1))
        wanted |= dict.fromkeys(range(max(0, number - AROUND), min(len(lines), end + 1 + AROUND)))
    shown = list(islice(wanted, MOST_SHOWN))
    blocks = [
        numbered((shortened(lines[number]) for _, number in block), block[0][1] + 1)
        for _, group in groupby(enumerate(shown), key=lambda pair: pair[1] - pair[0])
        if (block := list(group))
    ]
    return "\n[...]\n".join([*blocks, "(more changes are not shown)"] if len(wanted) > MOST_SHOWN else blocks)


def edit_file_tool(workspace: Workspace) -> Tool:
    """The tool `edit_file`."""

    def edit(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = workspace.resolve(arguments["path"])
        shown = workspace.relative(real)
        names = _names_to_change(workspace, real, context)
        edited = _Text("")

        def make(current: bytes | None) -> bytes:
            nonlocal edited
            if current is None:
                raise Refusal(f"There is no file {shown}; `write_file` makes one.")
            check_seen(shown, current, context)
            edited = _edited(as_text(current, shown), arguments["edits"], shown)
            return _as_bytes(edited.text, shown)

        content = workspace.update(real, make, LARGEST_FILE)
        count = len(edited.places)
        now = f"Changed {shown} in {count} place{'s' if count > 1 else ''}. It is now:\n{_around(edited)}"
        return _changed(names, content, now if edited.text else f"Changed {shown}: it is empty now.")

    passage = object_schema(
        {"old": string("The passage, letter for letter.", min_length=1), "new": string()},
        {"all": boolean("Replace every occurrence.")},
    )
    return Tool(
        name="edit_file",
        description=(
            "Replaces passages of a file you have read: all of them, one after another, or none. Each must occur "
            "exactly once."
        ),
        parameters=object_schema({"path": string(), "edits": array(passage, most=MOST_EDITS)}),
        access=Access.CHANGE,
        replay=Replay.ONCE,
        body=blocking_body(edit),
    )


def move_file_tool(workspace: Workspace) -> Tool:
    """The tool `move_file`."""

    def move(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        source = workspace.entry(arguments["path"])
        target = workspace.entry(arguments["to"])
        old = workspace.relative(source)
        new = workspace.relative(target)
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


TOOLS: Final[ToolTable] = {
    "write_file": lambda parts: write_file_tool(parts.workspace),
    "edit_file": lambda parts: edit_file_tool(parts.workspace),
    "move_file": lambda parts: move_file_tool(parts.workspace),
    "delete_file": lambda parts: delete_file_tool(parts.workspace),
}
