"""What a request wants made, as values; one task concerns one file.

`path` is None where the person named no file; `name_hint` then says what to call it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that prints something. `code` is Python; `text` is what it must print, line for line."""

    path: str | None
    text: str | None
    code: str | None = None
    name_hint: str = "script.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A file with exactly this content, but for the newline at its end; an empty text asks for an empty file."""

    path: str | None
    text: str
    name_hint: str = "notes.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines that a file must hold at its end."""

    path: str | None
    text: str
    name_hint: str = "notes.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFile:
    """A list of items, one a line."""

    path: str | None
    items: tuple[str, ...]
    name_hint: str = "list.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A Python function; `returns` is an expression over `params`."""

    path: str | None
    name: str
    params: str
    returns: str
    name_hint: str = "functions.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Words to be replaced by others everywhere in a file."""

    path: str | None
    old: str
    new: str
    name_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unable:
    """Something that was asked for and that rules cannot do, with the reason as a clause."""

    path: str | None
    why: str
    name_hint: str = ""


WHOLE_FILE = Program | TextFile
"""Tasks that say all a file holds, whatever it held before."""

Task = Program | TextFile | Lines | ListFile | Function | Replacement | Unable


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as understood: its tasks in order, and what the person wants to be asked first, if anything."""

    tasks: tuple[Task, ...] = ()
    question: str = ""


def short(text: str, limit: int = 60) -> str:
    """A text on one line, cut for use in a sentence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def describe(task: Task) -> str:
    """Say in a clause what a task's file is to do or hold: `prints “hello”`."""
    match task:
        case Program(text=str(text)):
            lines = text.splitlines()
            if len(lines) > 1:
                return f"prints {len(lines)} lines, “{short(lines[0])}” first"
            return f"prints “{short(text)}”"
        case Program():
            return "prints something"
        case TextFile(text=""):
            return "is empty, for you did not say what it should hold"
        case TextFile(text=text) | Lines(text=text):
            return f"holds “{short(text)}”"
        case ListFile(items=items):
            return f"lists {len(items)} item{'s' if len(items) != 1 else ''}"
        case Function(name=name, params=params, returns=returns):
            return f"has `{name}({params})`, which returns `{short(returns)}`"
        case Replacement(old=old, new=new):
            return f"says “{short(new)}” instead of “{short(old)}”"
        case Unable(why=why):
            return why
