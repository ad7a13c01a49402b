"""Restores the workspace to what it was after a record of a conversation's journal, from its checkpoints.

The commits of a conversation name the calls they were made for, and the journal records when each call began and ended;
so the newest commit that was made at or before a record is what the workspace held then. A conversation that was
rolled back before, with its files, has a record of it.

Nothing is lost by it: what there is now is kept first, and what has no copy is left alone and named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tenex.core.cycle.records import CycleStarted
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.port_values import UndoOutcome
from tenex.core.record import Record
from tenex.core.records import FilesUndone, ToolCallCompleted, ToolCallStarted, UndoScope
from tenex.core.rollback.whole import RolledBack
from tenex.core.work.records import TurnOpened

from .checkpoints import Change, Checkpoints, Commit
from .snapshots import IGNORE_FILE, Snapshot

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
    wanted, left = _restore(checkpoints, changes, then, now)
    after = checkpoints.take()
    checkpoints.keep(after, conversation, f"after going back\n\nconversation: {conversation}\nwhy: {why}\n")
    return Returned(
        tree=after.tree,
        was=now.tree,
        changed=tuple(_text(path) for path in sorted(wanted - left.keys())),
        left={_text(path): left[path] for path in sorted(left)},
    )


def _restore(
    checkpoints: Checkpoints, changes: Sequence[Change], then: Snapshot, now: Snapshot
) -> tuple[set[bytes], dict[bytes, str]]:
    """Undo changes: the paths that were to be put back, and of them those that were left, with the reasons."""
    ignoring = [change for change in changes if change.path.rpartition(b"/")[2] == IGNORE_FILE]
    done = checkpoints.put_back(ignoring, then, now)
    # of what was ignored then, nothing is known
    rest = checkpoints.drop_ignored(change for change in changes if change not in ignoring)
    left = (done | checkpoints.put_back(rest, then, now)).left
    return {change.path for change in [*ignoring, *rest]}, left


@dataclass(frozen=True, slots=True)
class _Work:
    """What one call changed: the trees around it."""

    call: int
    """The seq of the record that permitted it."""
    before: str
    after: str


def undo(
    checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], scope: UndoScope, to: int
) -> UndoOutcome:
    """List what the last work of a conversation changed, or with `to` put it back. Blocks.

    The work is that of the calls after the beginning of the last turn, or cycle, in which one changed a file. Only
    what its calls changed goes back; what somebody else has changed too, in between or since, is left.

    Raises:
        CheckpointFailed: git failed, or what there is cannot be kept; nothing was changed.
    """
    now = checkpoints.take(exact=True)
    work = list(_work(checkpoints.commits(conversation), records))
    if to:
        return _undo(checkpoints, conversation, records, scope, to, [one for one in work if one.call > to], now)
    while work:  # of work that is undone already, by whatever way, nothing is listed
        to = max(1, _begin_of(records, scope, work[-1].call).seq - 1)
        chosen = [one for one in work if one.call > to]
        found = _listed(checkpoints, records, scope, to, chosen, now)
        if found.files or found.left:
            return found
        work = work[: -len(chosen)]
    return UndoOutcome()


def _own_changes(
    checkpoints: Checkpoints, chosen: Sequence[_Work], now: Snapshot
) -> tuple[list[Change], dict[bytes, str]]:
    """What only calls changed, and the paths that somebody else changed too, with the reason."""
    then = checkpoints.read(chosen[0].before)
    paths = {path for one in chosen for path in checkpoints.differing(one.before, one.after)}
    others = checkpoints.differing(chosen[-1].after, now.tree)
    for one, following in pairwise(chosen):
        others |= checkpoints.differing(one.after, following.before)
    changes = [change for change in checkpoints.changes(then, now) if change.path in paths]
    own = [change for change in changes if change.path not in others]
    return own, {change.path: "changed by somebody else too" for change in changes if change.path in others}


def _listed(
    checkpoints: Checkpoints,
    records: Sequence[Record],
    scope: UndoScope,
    to: int,
    chosen: Sequence[_Work],
    now: Snapshot,
) -> UndoOutcome:
    own, left = _own_changes(checkpoints, chosen, now)
    since = _named(_begin_of(records, scope, chosen[0].call))
    return UndoOutcome(to=to, since=since, files=_described(own), left=_texts(left))


def _undo(
    checkpoints: Checkpoints,
    conversation: ConversationId,
    records: Sequence[Record],
    scope: UndoScope,
    to: int,
    chosen: Sequence[_Work],
    now: Snapshot,
) -> UndoOutcome:
    if not chosen:
        return UndoOutcome()
    own, left = _own_changes(checkpoints, chosen, now)
    since = _named(_begin_of(records, scope, chosen[0].call))
    checkpoints.keep(now, conversation, f"before undoing\n\nconversation: {conversation}\n")
    _, failed = _restore(checkpoints, own, checkpoints.read(chosen[0].before), now)
    after = checkpoints.take()
    checkpoints.keep(after, conversation, f"after undoing\n\nconversation: {conversation}\n")
    done = [change for change in own if change.path not in failed]
    return UndoOutcome(
        to=to,
        since=since,
        files=_described(done),
        left=_texts(left | failed),
        restored_tree=after.tree,
        previous_tree=now.tree,
    )


def _work(commits: Sequence[Commit], records: Sequence[Record]) -> Iterator[_Work]:
    """The calls that changed something which was not undone since, oldest first.

    Of a call that is not on record, as after a rebuild, no one knows the turn: it is somebody else's change.
    """
    gone = _gone(records)
    started = {record.seq for record in records if isinstance(record, ToolCallStarted)}
    for previous, commit in pairwise(commits):
        is_gone = any(first < commit.call < last for first, last in gone)
        is_own = commit.call in started and commit.moment != _BEFORE
        if is_own and commit.tree != previous.tree and not is_gone:
            yield _Work(commit.call, previous.tree, commit.tree)


def _gone(records: Iterable[Record]) -> list[tuple[int, int]]:
    """The stretches of records whose work was undone, each from the last record before it."""
    return [
        (record.to, record.seq)
        for record in records
        if isinstance(record, RolledBack | FilesUndone) and record.restored_tree
    ]


def _begin_of(records: Sequence[Record], scope: UndoScope, call: int) -> Record:
    """The record with which the turn or cycle of a call began; the first where none is known."""
    kinds = (CycleStarted,) if scope == "cycle" else (CycleStarted, TurnOpened)
    begun = [record for record in records if isinstance(record, kinds) and record.seq < call]
    return begun[-1] if begun else records[0]


def _named(record: Record) -> str:
    match record:
        case TurnOpened():
            return f"{record.turn_id} ({record.phase})"
        case CycleStarted():
            return f"cycle {record.cycle}"
    return "its beginning"


def _described(changes: Iterable[Change]) -> tuple[str, ...]:
    return tuple(_text(change.path) for change in changes)


def _texts(paths: Mapping[bytes, str]) -> dict[str, str]:
    return {_text(path): paths[path] for path in sorted(paths)}


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
        if isinstance(record, RolledBack | FilesUndone) and record.restored_tree:
            yield record.seq, record.restored_tree


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
