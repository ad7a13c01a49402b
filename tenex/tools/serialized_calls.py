"""Transactions: calls that change or run are serialized in the workspace, each between two checkpoints.

    wait for the turn ─► snapshot ─► the call ─► snapshot ─► put back what the phase does not permit ─► keep

So it is known what a command changed, in verification and chores nothing else remains of it, and what was put back can
still be found: the state a call left is kept before anything is undone, and what cannot be kept stays and is named. A
call that is cancelled is tidied up after like any other. Calls that read do not wait.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tenex.core.phases import PHASES, Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.log import get_logger

from .background import BackgroundCommands
from .checkpoints import Change, Checkpoints, PutBack
from .pending_revert import PendingRevert
from .process import decoded, named
from .shadow_git import CheckpointFailed, ShadowDamaged
from .snapshots import IGNORE_FILE, Snapshot
from .tool import Tool, log_fields, run_uncancellable, with_remarks
from .workspace import Workspace
from .write_policy import is_confined, may_change

MOST_TOUCHED: Final = 1_000
"""Changed paths recorded for one call: they are recorded, and a command may unpack a whole archive."""

_LONGEST: Final = 60.0  # seconds; tools that run have limits of their own

_UNKNOWN: Final = "[What this changed in the workspace could not be determined; look before you go on.]"

_NO_CHECKPOINT: Final = "[There is no checkpoint of what was there before: what this changed cannot be brought back.]"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What a call did to the workspace."""

    touched: tuple[Change, ...] = ()
    reverted: tuple[Change, ...] = ()
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Lines added and removed in what was changed, since the cycle began."""
    left: Mapping[bytes, str] = field(default_factory=dict)
    """What should have been reverted and was left as it is, with the reasons."""
    renamed: tuple[bytes, ...] = ()
    """The new paths of what has no copy and was in the place of what was reverted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """How a call began."""

    before: Snapshot | None = None
    """What there was; None if unknown, and then nothing can be reverted."""
    unsettled: PendingRevert | None = None
    earlier: _Outcome | None = None
    """Of a call that was cut off, if nothing has reported it yet."""


class Transactions:
    """The turns of one workspace; `checkpoints` is None where they are switched off or git is missing.

    `background` are the programs that may write to it without a turn.
    """

    def __init__(
        self, workspace: Workspace, checkpoints: Checkpoints | None = None, background: BackgroundCommands | None = None
    ) -> None:
        self._turn = workspace.turn
        self._root = workspace.root
        self._checkpoints = checkpoints
        self._background = background or BackgroundCommands()
        self._can_put_back = False
        self._unreported: _Outcome | None = None

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Those of the workspace; None where there are none."""
        return self._checkpoints

    def may_write(self, context: ExecutionContext) -> bool:
        """Whether the program of the current call may write to the workspace."""
        return self._can_put_back or not is_confined(context.phase)

    async def run(self, tool: Tool, context: ExecutionContext, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Carry a call out when it is its turn; cancelling gives the turn back once the workspace is in order.

        The result also has what a program has changed, and what of that was reverted.
        """
        if tool.access not in (Access.CHANGE, Access.RUN):
            return await call()
        if self._turn.locked():
            _log.info("tool.queued", tool=tool.name, **log_fields(context))
        async with self._turn.turn_of(context):
            await self._background.settled()
            call = self._turn.bounded(call, context)
            checkpoints = self._checkpoints
            # what else writes meanwhile would be put back too, so where that may be necessary the program only reads
            is_shared = _is_confined(tool, context) and self._background.is_any_running
            if not tool.leaves_changes or checkpoints is None or is_shared:
                result = await call()
                is_unknown = tool.access is Access.RUN and tool.leaves_changes and self.may_write(context)
                return replace(result, has_outside_effect=result.has_outside_effect or is_unknown)
            begun = await run_uncancellable(lambda: self._begin(checkpoints, tool, context))
            before = begun.before
            if before is None:
                result = await call()
                if result.ok if tool.access is Access.CHANGE else self.may_write(context):
                    result = replace(result, content=f"{result.content}\n{_NO_CHECKPOINT}", has_outside_effect=True)
                return _reminded(result, begun)
            self._can_put_back = True
            try:
                result = await call()
            except BaseException:
                outcome = await run_uncancellable(lambda: _end(checkpoints, tool, context, before, begun.unsettled))
                if outcome is not None and (outcome.left or outcome.renamed):
                    self._unreported = outcome
                raise
            finally:
                self._can_put_back = False
            if tool.access is Access.CHANGE and not result.ok:
                return _reminded(result, begun)  # a refusal has changed nothing
            done = result
            outcome = await run_uncancellable(
                lambda: _end(checkpoints, tool, context, before, begun.unsettled, done.touched)
            )
            if outcome is not None:
                result = replace(result, lines=outcome.lines)
            return _reminded(_with_changes(result, outcome, context) if tool.access is Access.RUN else result, begun)

    def _begin(self, checkpoints: Checkpoints, tool: Tool, context: ExecutionContext) -> _Begun:
        earlier = self._unreported
        self._unreported = None
        try:
            earlier = self._settle(checkpoints) or earlier
            try:
                before = _kept_before(checkpoints, tool, context)
            except ShadowDamaged as error:
                checkpoints.replace(str(error))
                before = _kept_before(checkpoints, tool, context)
            unsettled = None
            if _is_confined(tool, context):
                unsettled = checkpoints.pending.open(tool.name, context, before, tool.time_cap or _LONGEST)
        except (CheckpointFailed, OSError) as error:
            _log.error("checkpoint.failed", moment="before", error=str(error), **log_fields(context))
            return _Begun(earlier=earlier)
        return _Begun(before=before, unsettled=unsettled, earlier=earlier)

    def _settle(self, checkpoints: Checkpoints) -> _Outcome | None:
        """Put back what a call changed whose end was never seen."""
        left = checkpoints.pending.unfinished()
        if left is None:
            return None
        _log.warning("checkpoint.revert_pending", tool=left.tool, **log_fields(left.context))
        try:
            outcome = _confine(
                checkpoints, left.tool, left.context, left.before, lambda path: left.may_have_changed(self._root, path)
            )
        except ShadowDamaged as error:  # it cannot be done, and must not block later calls
            _log.error("checkpoint.revert_failed", error=str(error), **log_fields(left.context))
            outcome = _Outcome()
        checkpoints.pending.close()
        return outcome


def _kept_before(checkpoints: Checkpoints, tool: Tool, context: ExecutionContext) -> Snapshot:
    before = checkpoints.take(exact=_is_confined(tool, context))
    checkpoints.keep(before, context.conversation_id, _message("before", tool.name, context))
    return before


def _end(
    checkpoints: Checkpoints,
    tool: Tool,
    context: ExecutionContext,
    before: Snapshot,
    unsettled: PendingRevert | None,
    touched: Iterable[str] = (),
) -> _Outcome | None:
    """Keep what a call left; `touched` are the paths that it says it has changed."""
    try:
        if unsettled is not None:
            checkpoints.pending.ended(unsettled)
            outcome = _confine(checkpoints, tool.name, context, before)
            checkpoints.pending.close()
            return outcome
        after = checkpoints.take()
        changed = checkpoints.changes(before, after) if tool.access is Access.RUN else ()
        checkpoints.keep(after, context.conversation_id, _message("after", tool.name, context))
    except (CheckpointFailed, OSError) as error:
        _log.error("checkpoint.failed", moment="after", error=str(error), **log_fields(context))
        return None
    lines = _lines(checkpoints, context, after, [*touched, *decoded(change.path for change in changed)])
    return _Outcome(touched=tuple(changed), lines=lines)


def _lines(
    checkpoints: Checkpoints, context: ExecutionContext, after: Snapshot, paths: Iterable[str]
) -> Mapping[str, tuple[int, int]]:
    try:
        return checkpoints.lines_of(context.conversation_id, context.cycle, after.tree, set(paths))
    except CheckpointFailed as error:  # users are shown the names alone
        _log.warning("checkpoint.lines_unknown", error=str(error), **log_fields(context))
        return {}


def _confine(
    checkpoints: Checkpoints,
    tool: str,
    context: ExecutionContext,
    before: Snapshot,
    is_its_own: Callable[[bytes], bool] = lambda _: True,
) -> _Outcome:
    """Put back what the phase does not permit, of those changes that are the call's own."""
    after = checkpoints.take(exact=True)
    # asked now: reverting changes the times this is based on
    own = [change for change in checkpoints.changes(before, after) if is_its_own(change.path)]
    changed = _visible(own, before, after)
    checkpoints.keep(after, context.conversation_id, _message("after", tool, context))
    hiding = [change for change in changed if _name(change) == IGNORE_FILE and not _may(change, context)]
    reverted = {change.path: change for change in hiding}
    done = checkpoints.put_back(hiding, before, after, rename=True)
    if hiding:  # only now is all that they hid to be seen, and what they showed is ignored again
        known = {change.path for change in own}
        after = checkpoints.take(exact=True)
        own = [
            change for change in checkpoints.changes(before, after) if change.path in known or is_its_own(change.path)
        ]
        changed = _visible(checkpoints.drop_ignored(own), before, after)
        checkpoints.keep(after, context.conversation_id, _message("after", tool, context))
    wrong = [change for change in changed if not _may(change, context) and change.path not in reverted]
    if any(change.is_new for change in [*wrong, *hiding]):
        # a file that was renamed: taking its new name away and leaving its old one would lose it
        wrong += [change for change in changed if not change.is_there and change not in wrong]
    reverted |= {change.path: change for change in wrong}

    lost = [change.path for change in changed if change.has_lost and not change.is_there]
    if lost:  # it was renamed or packed: what is new may be all that there is of it
        reason = f"may hold what was {named(decoded(lost[:1]))}"
        done |= PutBack({change.path: reason for change in wrong if change.is_new})
    wrong = [change for change in wrong if change.path not in done.left]
    done |= checkpoints.put_back(wrong, before, after, rename=True)
    if reverted:
        count = len(reverted) - len(done.left)
        left = len(done.left)
        _log.info("workspace.reverted", paths=count, left=left, **log_fields(context))
        checkpoints.keep(checkpoints.take(), context.conversation_id, _message("put back after", tool, context))
    remaining = tuple(change for change in changed if change.path not in reverted)
    return _Outcome(
        touched=remaining,
        lines=_lines(checkpoints, context, after, decoded(change.path for change in remaining)),
        reverted=tuple(change for change in reverted.values() if change.path not in done.left),
        left=done.left,
        renamed=tuple(done.renamed.values()),
    )


def _is_confined(tool: Tool, context: ExecutionContext) -> bool:
    """Whether what a call changes may have to be put back."""
    return tool.access is Access.RUN and is_confined(context.phase)


def _may(change: Change, context: ExecutionContext) -> bool:
    return may_change(change.path.decode("utf-8", "surrogateescape"), context)


def _name(change: Change) -> bytes:
    return change.path.rpartition(b"/")[2]


def _visible(changed: Iterable[Change], before: Snapshot, after: Snapshot) -> list[Change]:
    """The changes without new folders that ignore themselves whole, as the caches of test runners do."""
    folders = {path.rpartition(b"/")[0] for path in before.permissions} | {b""}
    return [
        change
        for change in changed
        if not (change.is_new and change.path in after.hidden and change.path.rpartition(b"/")[0] not in folders)
    ]


def _message(moment: str, tool: str, context: ExecutionContext) -> str:
    fields = {
        "conversation": context.conversation_id,
        "cycle": context.cycle,
        "turn": context.turn,
        "call": context.call_id,
        "key": context.idempotency_key,
        "agent": context.agent,
        "phase": context.phase,
    }
    return f"{moment} {tool}\n\n" + "".join(f"{name}: {value}\n" for name, value in fields.items())


def _with_changes(result: ToolResult, outcome: _Outcome | None, context: ExecutionContext) -> ToolResult:
    if outcome is None:
        return replace(result, content=f"{result.content}\n{_UNKNOWN}", has_outside_effect=True)
    touched = _paths(outcome.touched)
    reverted = _paths(outcome.reverted)
    left = decoded(outcome.left)
    remarks = []
    if touched:
        remarks.append(f"Changed: {named(touched)}.")
    lost = _paths(change for change in outcome.touched if change.has_lost)
    if lost:
        remarks.append(f"No checkpoint has what was there before: {named(lost)}.")
    if reverted:
        why = (
            f"{context.phase} change only documentation and what this cycle has changed"
            if PHASES[context.phase].changes_only_own
            else f"nothing is changed in {context.phase}"
        )
        remarks.append(f"Put back as it was, because {why}: {named(reverted)}.")
    remarks += _left_remarks(outcome)
    if len(touched) > MOST_TOUCHED:
        remarks.append(f"Only the first {MOST_TOUCHED} of these paths count as changed in this cycle.")
    return replace(
        result,
        content=with_remarks(result.content, remarks),
        touched=tuple(dict.fromkeys([*result.touched, *touched[:MOST_TOUCHED], *left[:MOST_TOUCHED]])),
        reverted=tuple(reverted[:MOST_TOUCHED]),
    )


def _reminded(result: ToolResult, begun: _Begun) -> ToolResult:
    earlier = begun.earlier
    if earlier is None or not (earlier.reverted or earlier.left or earlier.renamed):
        return result
    remarks = ["An earlier command had been cut off."]
    if earlier.reverted:
        remarks.append(f"What it had changed was put back now: {named(_paths(earlier.reverted))}.")
    return replace(result, content=with_remarks(result.content, [*remarks, *_left_remarks(earlier)]))


def _left_remarks(outcome: _Outcome) -> Iterator[str]:
    if outcome.renamed:
        yield f"There was no copy of what they replaced; it is renamed: {named(decoded(outcome.renamed))}."
    if outcome.left:
        left = [f"{decoded([path])[0]} ({why})" for path, why in sorted(outcome.left.items())]
        yield f"Could not be put back: {named(left)}; name this in your response."


def _paths(changes: Iterable[Change]) -> list[str]:
    return decoded(change.path for change in changes)
