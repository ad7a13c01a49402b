"""What users read of files that go back or stay, in a conversation, on the command line and on the pages alike."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tenex.core.port_values import UndoOutcome
from tenex.core.text.amounts import count

CHANGED_BY_OTHERS: Final = "changed by somebody else too"
UNCLEAR: Final = "changed while a command ran, by it or by somebody else"

SHOWN: Final = 30
"""Files that a message names."""

WORDS: Final = frozenset({"turn", "cycle", "yes", "all"})
"""After `/undo` these are no paths, unless they are in quotes."""

_PLAIN: Final = re.compile(r"[^\s\"'`“”]+")


def listed(outcome: UndoOutcome, moment: str, *, shown: int = SHOWN) -> str:
    """What would go back to how it was at a moment, such as `before turn-1`, and what would stay."""
    if not outcome.files and not outcome.left:
        return "There is nothing to undo."
    left = staying(outcome.left, shown=shown)
    if not outcome.files:
        return f"Nothing of what changed since {moment} goes back by itself. {left}"
    changed = f"{count(len(outcome.files), 'file')} changed since {moment}: {some(outcome.files, shown)}."
    return f"{changed} {left}".rstrip()


def done(outcome: UndoOutcome, moment: str, *, shown: int = SHOWN) -> str:
    """What went back to how it was at a moment, and what stayed."""
    if outcome.is_as_before:
        named = f": {some(outcome.files, shown)}" if outcome.files else ""
        return f"Files are as {moment}{named}."
    if not outcome.files:
        return f"No file was put back. {staying(outcome.left, shown=shown)}".rstrip()
    return f"Put back: {some(outcome.files, shown)}. {staying(outcome.left, shown=shown)}".rstrip()


def staying(left: Mapping[str, str], *, shown: int = SHOWN) -> str:
    """The sentence about what stays as it is, with the reasons; empty where nothing does."""
    if not left:
        return ""
    return f"Left as they are: {'; '.join(reasons(left, shown=shown))}."


def reasons(left: Mapping[str, str], *, shown: int = SHOWN) -> list[str]:
    """The paths that stay for one reason, with it, for each reason."""
    paths: dict[str, list[str]] = {}
    for path, why in left.items():
        paths.setdefault(why, []).append(path)
    return [f"{some(names, shown)} ({why})" for why, names in paths.items()]


def some(names: Sequence[str], shown: int = SHOWN) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def as_words(paths: Iterable[str]) -> str:
    """Paths as a person writes them after `/undo`."""
    return " ".join(path if _PLAIN.fullmatch(path) and path.lower() not in WORDS else _quoted(path) for path in paths)


def _quoted(path: str) -> str:
    return f"'{path}'" if '"' in path else f'"{path}"'
