"""Puts files of the workspace back to what they were before the work of a conversation, from its checkpoints.

The commits of a conversation name the calls they were made for, and the journal records when each call began and ended;
so the newest commit that was made at or before a record is what the workspace held then. A conversation that was
rolled back before, with its files, has a record of it. `undo_plan` decides which files go back.

Nothing is lost by it: what there is now is kept first, and what has no copy is left alone and named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tenex.core.cycle.records import CycleStarted
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.port_values import UndoOutcome
from tenex.core.record import Record
from tenex.core.records import FilesUndone, ToolCallCompleted, ToolCallStarted, UndoScope
from tenex.core.rollback.whole import RolledBack
from tenex.core.work.records import TurnOpened

from .attribution import Pair, pairs_of, undone_stretches
from .checkpoints import Checkpoints, Commit
from .undo_plan import Plan, Planner, Wanted, as_word

_BEFORE: Final = "before"


def tree_after(checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], to: int) -> str:
    """The tree of what the workspace held right after a record.

    Raises:
        UsageError: there is no such checkpoint.
        CheckpointFailed: git failed.
    """
    following = next((record for record in records if record.seq == to + 1), None)
    if isinstance(following, RolledBack | FilesUndone) and following.previous_tree:  # going back is to be undone
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


def list_rollback(
    checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], to: int, *, is_all: bool
) -> UndoOutcome:
    """List what of the work after a record would go back. Blocks.

    Raises:
        UsageError: there is no checkpoint of then.
        CheckpointFailed: git failed.
    """
    plan = _rollback_plan(checkpoints, conversation, records, to, is_all=is_all)[1]
    return _outcome(plan, to, f"record {to}")


def roll_back(
    checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], to: int, *, is_all: bool
) -> UndoOutcome:
    """Put back what the work after a record changed; what the workspace held is kept first. Blocks.

    Args:
        checkpoints: of the workspace.
        conversation: whose work.
        records: all of its journal.
        to: the record.
        is_all: whether also what a command or somebody else may have changed goes back.

    Raises:
        UsageError: there is no checkpoint of then.
        CheckpointFailed: git failed, or what there is cannot be kept; nothing was changed.
    """
    planner, plan = _rollback_plan(checkpoints, conversation, records, to, is_all=is_all)
    why = f"going back\n\nconversation: {conversation}\nwhy: back to record {to}\n"
    return _carried_out(checkpoints, conversation, planner, plan, why, to, f"record {to}")


def _rollback_plan(
    checkpoints: Checkpoints, conversation: ConversationId, records: Sequence[Record], to: int, *, is_all: bool
) -> tuple[Planner, Plan]:
    tree = tree_after(checkpoints, conversation, records, to)
    now = checkpoints.take()
    pairs = [pair for pair in pairs_of(checkpoints.commits(conversation), records) if pair.end > to]
    planner = Planner(checkpoints, now)
    return planner, planner.plan(tree, pairs, Wanted(is_all=is_all, names_others=True))


def undo(
    checkpoints: Checkpoints,
    conversation: ConversationId,
    records: Sequence[Record],
    scope: UndoScope,
    to: int = 0,
    paths: tuple[str, ...] = (),
    is_all: bool = False,
) -> UndoOutcome:
    """List what the last work of a conversation changed, or with `to` or `paths` put it back. Blocks.

    The work is that of the calls after the beginning of the last turn, or cycle, in which one changed a file; where
    paths are named, one of these. Of what was undone already nothing is listed. The rest as in `UndoRequested`.

    Raises:
        CheckpointFailed: git failed, or what there is cannot be kept; nothing was changed.
    """
    pairs = list(pairs_of(checkpoints.commits(conversation), records))
    if not any(pair.writer != "back" for pair in pairs):
        return UndoOutcome()
    planner = Planner(checkpoints, checkpoints.take())
    if not to and not paths:
        return _listed(planner, records, scope, pairs)

    if not to:
        wanted = {as_word(path) for path in paths}
        changing = [pair for pair in pairs if pair.writer != "back" and planner.changed(pair) & wanted]
        to = _beginning(records, scope, (changing or pairs)[-1].call)
    chosen = [pair for pair in pairs if pair.end > to]
    if not chosen:
        return UndoOutcome()
    plan = planner.plan(chosen[0].before, chosen, Wanted(paths=paths, is_all=is_all, to=to))
    if plan.unknown:
        return UndoOutcome(to=to, fault=f"no work here changed {plan.unknown[0]}. `/undo` lists what did change.")
    why = f"undoing\n\nconversation: {conversation}\n"
    return _carried_out(checkpoints, conversation, planner, plan, why, to, _since(records, scope, chosen))


def _listed(planner: Planner, records: Sequence[Record], scope: UndoScope, pairs: Sequence[Pair]) -> UndoOutcome:
    stretches = undone_stretches(records)
    work = [pair for pair in pairs if pair.writer != "back"]
    gone = [pair for pair in work if any(first < pair.call < last for first, last in stretches)]
    changing = [pair for pair in work if pair not in gone and pair.before != pair.after]
    losing = [pair for pair in work if pair not in gone and pair.before == pair.after]
    # the newest first; then calls of which nothing can go back, such as a build; and last what an undo has left
    ordered = [*reversed(changing), *reversed(losing), *reversed(gone)]
    beginnings = [_beginning(records, scope, pair.call) for pair in ordered]
    for to in dict.fromkeys(beginnings):
        chosen = [pair for pair in pairs if pair.end > to]
        plan = planner.plan(chosen[0].before, chosen, Wanted(to=to))
        if plan.changes or plan.left:
            return _outcome(plan, to, _since(records, scope, chosen))
    return UndoOutcome()


def _carried_out(
    checkpoints: Checkpoints,
    conversation: ConversationId,
    planner: Planner,
    plan: Plan,
    why: str,
    to: int,
    since: str,
) -> UndoOutcome:
    checkpoints.keep(plan.now, conversation, f"before {why}")
    failed = checkpoints.put_back(plan.changes, plan.then, plan.now, plan.written)
    checkpoints.forget_ignored(checkpoints.changes(plan.then, plan.now))
    after = checkpoints.take()
    checkpoints.keep(after, conversation, f"after {why}")

    remaining = planner.remaining(plan, after)
    hidden = {path for path in remaining if plan.now.was_ignored(path) and path not in plan.left}
    plan.left |= failed | dict.fromkeys(hidden, "was ignored by git until now")
    plan.changes = [change for change in plan.changes if change.path not in failed]
    return replace(
        _outcome(plan, to, since),
        restored_tree=after.tree,
        previous_tree=plan.now.tree,
        is_as_before=not plan.left and not remaining and not plan.then.is_cut,
    )


def _outcome(plan: Plan, to: int, since: str) -> UndoOutcome:
    return UndoOutcome(
        to=to,
        since=since,
        files=_texts(change.path for change in plan.changes),
        left={_text(path): plan.left[path] for path in sorted(plan.left)},
        unclear=_texts(plan.unclear),
        by_name=_texts(plan.by_name),
    )


def _beginning(records: Sequence[Record], scope: UndoScope, call: int) -> int:
    """The last record before the turn or cycle of a call."""
    return max(1, _begin_of(records, scope, call).seq - 1)


def _since(records: Sequence[Record], scope: UndoScope, chosen: Sequence[Pair]) -> str:
    first = next((pair for pair in chosen if pair.writer != "back"), chosen[0])
    return _named(_begin_of(records, scope, first.call))


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


def _texts(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(_text(path) for path in paths)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
