"""Records of `/undo`: files of the workspace go back to before the last work; the conversation itself goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tenex.core.record import Record

UndoScope = Literal["turn", "cycle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequested(Record):
    """A user asks what was changed since before the last turn or cycle that changed a file, or has it undone.

    With `to` it is undone: the last record before that work, as it was listed. With 0 it is only listed.
    """

    scope: UndoScope
    name: str
    to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesUndone(Record):
    """The request `request` is answered: the files, listed or put back to what they were after record `to`.

    `left` are those that stay as they are, with the reasons. The trees are of the shadow repository, as in
    `RolledBack`; empty where files were only listed, or `fault` is why nothing was done.
    """

    request: int
    to: int = 0
    since: str = ""
    files: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    restored_tree: str = ""
    previous_tree: str = ""
