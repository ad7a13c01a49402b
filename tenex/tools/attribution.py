"""Which of the differences between checkpoints are whose: a call's own, somebody else's, or unclear.

The commits of a conversation are pairs around its calls. What differs within a pair is the call's if a file tool says
that it wrote the path, or if every write of its program was seen. Otherwise a program and a person may have written at
the same time. What differs between two pairs, somebody else has changed. Going back writes between two commits too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, Literal

from tenex.core.phases import Access
from tenex.core.record import Record
from tenex.core.records import FilesUndone, ToolCallCompleted, ToolCallStarted
from tenex.core.rollback.whole import RolledBack

from .checkpoints import Commit
from .displaced import Displaced
from .workspace import LONGEST_PATH

_BEFORE: Final = "before"
_AFTER: Final = "after"
_ENDED: Final = "ended"

Writer = Literal["tool", "program", "unclear", "back"]
"""Who wrote between two checkpoints: a file tool, a program that was watched, one that was not, or going back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two checkpoints around one call, or around going back."""

    writer: Writer
    call: int
    """The seq of the record that permitted the call; of going back, its own."""
    end: float
    """The seq of the record that ended it; infinite where none did."""
    began: float
    """When, in seconds since 1970."""
    before: str
    after: str
    to: float = 0.0
    """Of going back: to after which record."""
    touched: frozenset[str] = frozenset()
    """What a file tool says that it wrote."""
    others: frozenset[bytes] = frozenset()
    """What somebody else is known to have written meanwhile."""
    displaced: Displaced = field(default_factory=Displaced)
    is_background: bool = False
    """Whether it is of a background command that has ended: then both trees are the same."""

    def is_own(self, path: bytes) -> bool:
        """Whether a path that differs was, or may have been, written by the call."""
        if self.writer == "tool":
            return as_recorded(path) in self.touched
        return path not in self.others

    def wrote_only(self, path: bytes) -> bool:
        """Whether its bytes came from the model or a checkpoint, and from no other file of the workspace."""
        if self.writer == "back":
            return True
        return self.writer == "tool" and self.touched == {as_recorded(path)}


def pairs_of(commits: Sequence[Commit], records: Sequence[Record]) -> Iterator[Pair]:
    """The pairs of a conversation in which something changed or was lost, oldest first.

    A call that is not on record, as after a rebuild, is somebody else's. A background command ends with its run.
    """
    started = {record.seq: record for record in records if isinstance(record, ToolCallStarted)}
    completed = {(record.run, record.call): record for record in records if isinstance(record, ToolCallCompleted)}
    returns = [record for record in records if isinstance(record, RolledBack | FilesUndone) and record.restored_tree]
    ends = {run: record.seq for record in records if (run := getattr(record, "run", None))}
    last = 0.0
    to = 0.0
    began = 0.0
    for previous, commit in pairwise(commits):
        if commit.moment == _BEFORE or (commit.tree == previous.tree and commit.displaced.is_nothing):
            continue
        if not commit.call:
            # where the daemon ended before it could record that it went back, it belongs to what was before
            record = _taken(returns, previous.tree, commit.tree)
            if record is not None:
                last = record.seq
                to = record.to
                began = record.at / 1000
            yield Pair(
                writer="back", call=int(last), end=last, began=began, to=to, before=previous.tree, after=commit.tree
            )
            continue
        start = started.get(commit.call)
        if start is None:
            continue
        done = completed.get((start.run, start.call))
        began = start.at / 1000
        end = inf if done is None else done.seq
        if commit.moment == _ENDED:
            end = ends[start.run]
        last = max(last, start.seq if done is None else done.seq)
        yield Pair(
            writer=_writer(commit, done),
            call=commit.call,
            end=end,
            began=began,
            before=previous.tree,
            after=commit.tree,
            touched=frozenset(done.touched) if done is not None else frozenset(),
            others=commit.others,
            displaced=commit.displaced,
            is_background=commit.moment == _ENDED,
        )


def _writer(commit: Commit, done: ToolCallCompleted | None) -> Writer:
    if commit.moment == _ENDED:
        return "program"
    if commit.moment != _AFTER:  # what a phase did not permit was put back, by an older version
        return "back"
    if commit.access is Access.CHANGE and done is not None and done.ok:
        return "tool"
    return "program" if commit.access is Access.RUN and commit.is_witnessed else "unclear"


def _taken(returns: list[RolledBack | FilesUndone], before: str, after: str) -> RolledBack | FilesUndone | None:
    """Take the first record of going back from one tree to another out of a list."""
    for place, record in enumerate(returns):
        if (record.previous_tree, record.restored_tree) == (before, after):
            return returns.pop(place)
    return None


def undone_stretches(records: Iterable[Record]) -> list[tuple[int, int]]:
    """The stretches of records whose work was undone, each from the last record before it."""
    return [
        (record.to, record.seq)
        for record in records
        if isinstance(record, RolledBack | FilesUndone) and record.restored_tree
    ]


def as_recorded(path: bytes) -> str:
    """A path as records and users have it."""
    return path.removesuffix(b"/")[:LONGEST_PATH].decode("utf-8", "replace")
