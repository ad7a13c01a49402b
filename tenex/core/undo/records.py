"""Records of `/undo`: files of the workspace go back to before the last work; the conversation itself goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tenex.core.record import Record

UndoScope = Literal["turn", "cycle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequested(Record):
    """A user asks what was changed since before the last turn or cycle that changed a file, or has it undone.

    With `to` it is undone: the last record before that work, as it was listed. With 0 it is only listed, unless
    `paths` are named: exactly these go back, of the newest work that changed one of them. With `is_all` also goes back
    what a command or somebody else may have changed.
    """

    scope: UndoScope
    name: str
    to: int = 0
    paths: tuple[str, ...] = ()
    is_all: bool = False
    has_no_list: bool = False
    """Whether the user agreed to a list, and there is none: the last one was before newer work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesUndone(Record):
    """The request `request` is answered: the files, listed or put back to what they were after record `to`.

    `left` are those that stay as they are, with the reasons. Of them `unclear` are those of which is not known whether
    a command or somebody else changed them, and `by_name` the new ones that may be the only copy of something: a user
    can have them put back by name. The trees are of the shadow repository, as in `RolledBack`; empty where files were
    only listed, or `fault` is why nothing was done. `is_as_before` is whether nothing that checkpoints hold differs.
    """

    request: int
    to: int = 0
    since: str = ""
    files: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    restored_tree: str = ""
    previous_tree: str = ""
    unclear: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    is_as_before: bool = False
