"""Restores the workspace to what it was after a record of a conversation's journal, from its checkpoints.

The commits of a conversation name the calls they were made for, and the journal records when each call began and ended;
so the newest commit that was made at or before a record is what the workspace held then. A conversation that was
rolled back before, with its files, has a record of it.

Nothing is lost by it: what there is now is kept first, and what has no copy is left alone and named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.records import ToolCallCompleted, ToolCallStarted
from tenex.core.records.base import Record
from tenex.core.state.rollback import RolledBack

from .checkpoints import Checkpoints, Commit
from .snapshots import IGNORE_FILE

_BEFORE: Final = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The workspace was put back."""

    tree: str
    """What it holds now, of that which is kept."""
    was: str
    """What it held before."""
    changed: tuple[str, ...]
    """Paths that were removed, written or overwritten."""
    left: Mapping[str, str]
    """Paths that were left as they are, with the reasons: most have no copy."""


def tree_after(checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], to: int) -> str:
    """The tree of what the workspace held right after a record.

    Raises:
        UsageError: there is no such checkpoint.
        CheckpointFailed: git failed.
    """
    following = next((record for record in records if record.seq == to + 1), None)
    if isinstance(following, RolledBack) and following.previous_tree:  # it is going back that is to be undone
        return following.previous_tree
    commits = list(checkpoints.commits(conversation))
    known = [*_of_calls(commits, records), *_of_going_back(records)]
    before = [(seq, tree) for seq, tree in known if seq <= to]
    if before:  # of two after one record the later: what a call left, and what was put back of it
        return max(reversed(before), key=lambda one: one[0])[1]
    if commits:  # the first of them is from before this conversation's first change
        return commits[0].tree
    raise UsageError(
        f"No checkpoint of conversation {conversation[:12]} shows the workspace after record {to}: "
        "it has changed nothing, or checkpoints were off. Without `--files` it goes back, and the files stay."
    )


def put_back(checkpoints: Checkpoints, conversation: ConversationId, tree: str, why: str) -> Returned:
    """Make the workspace hold what a tree holds; what it held is kept first. Blocks.

    Raises:
        CheckpointFailed: what there is cannot be kept; nothing was changed.
    """
    now = checkpoints.take(exact=True)
    checkpoints.keep(now, conversation, f"before going back\n\nconversation: {conversation}\nwhy: {why}\n")
    then = checkpoints.read(tree)
    changes = checkpoints.changes(then, now)
    ignoring = [change for change in changes if change.path.rpartition(b"/")[2] == IGNORE_FILE]
    done = checkpoints.put_back(ignoring, then, now)
    # of what was ignored then, nothing is known
    rest = checkpoints.drop_ignored(change for change in changes if change not in ignoring)
    left = (done | checkpoints.put_back(rest, then, now)).left
    wanted = {change.path for change in [*ignoring, *rest]}
    after = checkpoints.take()
    checkpoints.keep(after, conversation, f"after going back\n\nconversation: {conversation}\nwhy: {why}\n")
    return Returned(
        tree=after.tree,
        was=now.tree,
        changed=tuple(_text(path) for path in sorted(wanted - left.keys())),
        left={_text(path): left[path] for path in sorted(left)},
    )


def _of_calls(commits: Iterable[Commit], records: Iterable[Record]) -> Iterator[tuple[int, str]]:
    """For each commit of a call: the record it follows, and its tree."""
    began: dict[tuple[str, str], int] = {}
    ended: dict[int, int] = {}
    for record in records:
        if isinstance(record, ToolCallStarted):
            began[record.run, record.call] = record.seq
        elif isinstance(record, ToolCallCompleted) and (record.run, record.call) in began:
            ended[began[record.run, record.call]] = record.seq
    for commit in commits:
        if commit.call and (seq := commit.call if commit.moment == _BEFORE else ended.get(commit.call)):
            yield seq, commit.tree


def _of_going_back(records: Iterable[Record]) -> Iterator[tuple[int, str]]:
    for record in records:
        if isinstance(record, RolledBack) and record.restored_tree:
            yield record.seq, record.restored_tree


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
