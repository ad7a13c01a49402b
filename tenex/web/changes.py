"""The net difference of a cycle as a page shows it: by file, in hunks, each with the calls that made it.

Colours of syntax are Pygments': it takes the language from the name of a file. What looks like a secret key is replaced
before a line is coloured, because colours cut a line into pieces.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from markupsafe import Markup, escape

from tenex.tools.line_origins import LONGEST_PATCH, PathChange

from .rendering import clean_text

MOST_LINES: Final = 3_000
"""Of all files together: more is no page that somebody reads."""
LINE_CHARACTERS: Final = 1_000

_PLACE: Final = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$")
_COLOURS: Final[Sequence[tuple[str, str]]] = (
    ("Comment", "c"),
    ("Keyword", "k"),
    ("Literal.String", "s"),
    ("Literal.Number", "m"),
    ("Name.Function", "f"),
    ("Name.Class", "f"),
    ("Name.Tag", "k"),
    ("Name.Decorator", "f"),
)
"""Kinds of Pygments' tokens, with the class of their style."""


@dataclass(slots=True)
class Line:
    """A line of a file, with its number in it."""

    number: int
    html: Markup


@dataclass(slots=True, kw_only=True)
class Group:
    """Lines that follow one another: the same in both files, or some in the place of others."""

    is_same: bool
    was: list[Line] = field(default_factory=list)
    now: list[Line] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Hunk:
    """A piece of a file in which something differs."""

    heading: str
    groups: list[Group] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    """The records that permitted the calls which changed it; 0 for somebody else."""


@dataclass(slots=True, kw_only=True)
class FileChange:
    """How a file differs."""

    path: str
    kind: Literal["new", "changed", "deleted"]
    hunks: list[Hunk] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    note: str = ""
    """Why its lines are not shown."""


def files_of(changes: Iterable[PathChange]) -> list[FileChange]:
    """Files with their hunks; the last without, where there are too many lines."""
    left = MOST_LINES
    files = []
    for change in changes:
        file = _file(change, left)
        left -= sum(len(group.was) + len(group.now) for hunk in file.hunks for group in hunk.groups)
        files.append(file)
    return files


def _file(change: PathChange, room: int) -> FileChange:
    header, _, body = change.patch.partition("\n@@ ")
    is_new = "\nnew file mode" in header
    file = FileChange(path=change.path, kind="new" if is_new else "changed")
    if "\ndeleted file mode" in header:
        file.kind = "deleted"
    lines = f"@@ {body}".split("\n") if body else []
    file.added = sum(line.startswith("+") for line in lines)
    file.removed = sum(line.startswith("-") for line in lines)
    if not body:
        file.note = "No line of it is shown: it is no text, or only its permissions differ, or it is empty."
    elif len(change.patch) > LONGEST_PATCH or len(lines) > room:
        file.note = "It is too long to be shown here."
    else:
        file.hunks = list(_hunks(change, lines))
    return file


def _hunks(change: PathChange, lines: Sequence[str]) -> Iterator[Hunk]:
    starts = [number for number, line in enumerate(lines) if line.startswith("@@ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        place = _PLACE.match(lines[start])
        if place is not None:
            yield _hunk(change, lines[start + 1 : end], int(place[1]), int(place[2]), place[3])


def _hunk(change: PathChange, lines: Sequence[str], was: int, now: int, heading: str) -> Hunk:
    texts = [(line[0], clean_text(line[1 : LINE_CHARACTERS + 1]).replace("\n", " ")) for line in lines if line]
    old = iter(coloured(change.path, [text for sign, text in texts if sign in " -"]))
    new = iter(coloured(change.path, [text for sign, text in texts if sign in " +"]))
    hunk = Hunk(heading=clean_text(heading))
    calls: dict[int, None] = {}
    for sign, _ in texts:
        if sign not in " +-":  # "\ No newline at end of file"
            continue
        if not hunk.groups or hunk.groups[-1].is_same != (sign == " "):
            hunk.groups.append(Group(is_same=sign == " "))
        group = hunk.groups[-1]
        if sign != "+":
            group.was.append(Line(was, next(old)))
            _note(calls, change.gone, was, sign == "-")
            was += 1
        if sign != "-":
            group.now.append(Line(now, next(new)))
            _note(calls, change.made, now, sign == "+")
            now += 1
    hunk.calls = list(calls)
    return hunk


def _note(calls: dict[int, None], origins: Mapping[int, int], number: int, has_changed: bool) -> None:
    if has_changed and number in origins:
        calls[origins[number]] = None


def coloured(path: str, lines: Sequence[str]) -> list[Markup]:
    """Lines of a file that follow one another, as HTML."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(path, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [escape(line) for line in lines]
    made = [Markup()]
    for token, text in lexer.get_tokens("\n".join(lines)):
        name = str(token).removeprefix("Token.")
        style = next((style for kind, style in _COLOURS if name.startswith(kind)), "")
        for place, piece in enumerate(text.split("\n")):
            if place:
                made.append(Markup())
            if piece:
                made[-1] += Markup('<span class="{}">{}</span>').format(style, piece) if style else escape(piece)
    return made if len(made) == len(lines) else [escape(line) for line in lines]
