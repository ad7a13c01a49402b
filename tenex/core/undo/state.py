"""An `/undo` that is open."""

from dataclasses import dataclass

from .records import UndoScope


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoState:
    """An `/undo` that is open, or the list it gave; the rest as in `UndoRequested`, `to` of a list what undoes it."""

    seq: int
    scope: UndoScope
    to: int = 0
    is_open: bool = True
    paths: tuple[str, ...] = ()
    is_all: bool = False
    has_no_list: bool = False
