"""Transactions: calls that change or run take turns in the workspace, each between two checkpoints.

    wait for the turn ─► snapshot ─► the call ─► snapshot ─► put back what the phase does not permit ─► keep

So it is known what a command changed, in verification and chores nothing else remains of it, and what was put back can
still be found: the state a call left is kept before anything is undone. A call that is cancelled is tidied up after
like any other. Reading waits for nobody.

Never: raise for a checkpoint that could not be made; the call and its result count for more.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult

from .checkpoints import Change, Checkpoints
from .git import CheckpointFailed
from .permits import is_confined, may_change
from .snapshots import IGNORE_FILE, Snapshot
from .tool import Tool
from .workspace import Workspace

MOST_TOUCHED: Final = 1_000
"""Paths one call is said to have changed: they are recorded, and a command may unpack a whole archive."""

MOST_NAMED: Final = 20
"""Paths named in a sentence to a model."""

_UNKNOWN: Final = "[What this changed in the workspace could not be determined; look before you go on.]"

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What a call did to the workspace."""

    touched: tuple[Change, ...] = ()
    reverted: tuple[Change, ...] = ()
    stuck: tuple[Change, ...] = ()


class Transactions:
    """The turns of one workspace; `checkpoints` is None where they are switched off or git is missing."""

    def __init__(self, workspace: Workspace, checkpoints: Checkpoints | None = None) -> None:
        self._turn = workspace.turn
        self._checkpoints = checkpoints
        self._can_put_back = False

    def may_write(self, context: ExecutionContext) -> bool:
        """Whether the program of the call at hand may be let write to the workspace."""
        return self._can_put_back or not is_confined(context.phase)

    async def run(self, tool: Tool, context: ExecutionContext, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Carry a call out when it is its turn; cancelling gives the turn back once the workspace is in order.

        The result also tells what a program has changed, and what of that was put back.
        """
        if tool.access not in (Access.CHANGE, Access.RUN):
            return await call()
        async with self._taken(tool, context):
            before = None
            if tool.leaves_changes and self._checkpoints is not None:
                before = await _to_the_end(lambda: self._begin(tool, context))
            if before is None:
                return await call()
            self._can_put_back = True
            try:
                result = await call()
            except BaseException:
                await _to_the_end(lambda: self._end(tool, context, before))
                raise
            finally:
                self._can_put_back = False
            outcome = await _to_the_end(lambda: self._end(tool, context, before))
            return _told(result, outcome, context) if tool.access is Access.RUN else result

    @asynccontextmanager
    async def _taken(self, tool: Tool, context: ExecutionContext) -> AsyncIterator[None]:
        if self._turn.locked():
            _log.info("tool.waits_for_its_turn", tool=tool.name, **_named(context))
        async with self._turn:
            yield

    def _begin(self, tool: Tool, context: ExecutionContext) -> Snapshot | None:
        assert self._checkpoints is not None
        try:
            before = self._checkpoints.take(exact=tool.access is Access.RUN and is_confined(context.phase))
            self._checkpoints.keep(before, context.conversation_id, _message("before", tool, context))
        except (CheckpointFailed, OSError) as error:
            _log.error("checkpoint.failed", moment="before", error=str(error), **_named(context))
            return None
        return before

    def _end(self, tool: Tool, context: ExecutionContext, before: Snapshot) -> _Outcome | None:
        assert self._checkpoints is not None
        try:
            if tool.access is Access.RUN and is_confined(context.phase):
                return self._confine(self._checkpoints, tool, context, before)
            after = self._checkpoints.take()
            changed = self._checkpoints.changes(before, after) if tool.access is Access.RUN else ()
            self._checkpoints.keep(after, context.conversation_id, _message("after", tool, context))
        except (CheckpointFailed, OSError) as error:
            _log.error("checkpoint.failed", moment="after", error=str(error), **_named(context))
            return None
        return _Outcome(touched=tuple(changed))

    def _confine(
        self, checkpoints: Checkpoints, tool: Tool, context: ExecutionContext, before: Snapshot
    ) -> _Outcome:  # fmt: skip
        after = checkpoints.take(exact=True)
        changed = _visible(checkpoints.changes(before, after), before, after)
        checkpoints.keep(after, context.conversation_id, _message("after", tool, context))
        hiding = [change for change in changed if _name(change) == IGNORE_FILE and not _may(change, context)]
        reverted = {change.path: change for change in hiding}
        stuck = checkpoints.put_back(hiding)
        if hiding:  # only now is all that they hid to be seen
            after = checkpoints.take(exact=True)
            changed = _visible(checkpoints.changes(before, after), before, after)
        wrong = [change for change in changed if not _may(change, context) and change.path not in reverted]
        if any(change.is_new for change in [*wrong, *hiding]):
            # a file that was renamed: taking its new name away and leaving its old one would lose it
            wrong += [change for change in changed if not change.is_there and change not in wrong]
        reverted |= {change.path: change for change in wrong}
        stuck += checkpoints.put_back(wrong)
        if reverted:
            _log.info("workspace.put_back", paths=len(reverted) - len(stuck), stuck=len(stuck), **_named(context))
            checkpoints.keep(checkpoints.take(), context.conversation_id, _message("put back after", tool, context))
        return _Outcome(
            touched=tuple(change for change in changed if change.path not in reverted),
            reverted=tuple(change for change in reverted.values() if change not in stuck), stuck=tuple(stuck),
        )  # fmt: skip


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


def _message(moment: str, tool: Tool, context: ExecutionContext) -> str:
    fields = {
        "conversation": context.conversation_id,
        "cycle": context.cycle,
        "turn": context.turn,
        "call": context.call_id,
        "key": context.idempotency_key,
        "agent": context.agent,
        "phase": context.phase,
    }
    return f"{moment} {tool.name}\n\n" + "".join(f"{name}: {value}\n" for name, value in fields.items())


def _named(context: ExecutionContext) -> dict[str, str]:
    return {"conversation": context.conversation_id, "agent": context.agent, "call": context.call_id}


def _told(result: ToolResult, outcome: _Outcome | None, context: ExecutionContext) -> ToolResult:
    if outcome is None:
        return replace(result, content=f"{result.content}\n{_UNKNOWN}")
    touched, reverted, stuck = (_paths(part) for part in (outcome.touched, outcome.reverted, outcome.stuck))
    remarks = []
    if touched:
        remarks.append(f"Changed: {_several(touched)}.")
    if reverted:
        why = (
            "chores change only documentation and what this cycle has changed"
            if context.phase is Phase.CHORES
            else f"nothing is changed in {context.phase}"
        )
        remarks.append(f"Put back as it was, because {why}: {_several(reverted)}.")
    if stuck:
        remarks.append(f"Could not be put back: {_several(stuck)}; name this in your summary.")
    if len(touched) > MOST_TOUCHED:
        remarks.append(f"Only the first {MOST_TOUCHED} of these paths count as changed in this cycle.")
    return replace(
        result,
        content=f"{result.content}\n[{' '.join(remarks)}]" if remarks else result.content,
        touched=tuple(dict.fromkeys([*result.touched, *touched[:MOST_TOUCHED], *stuck[:MOST_TOUCHED]])),
        reverted=tuple(reverted[:MOST_TOUCHED]),
    )


def _paths(changes: Iterable[Change]) -> list[str]:
    return sorted(change.path.decode("utf-8", "replace") for change in changes)


def _several(paths: list[str]) -> str:
    named = ", ".join(path.replace("\n", "?") for path in paths[:MOST_NAMED])
    return f"{named} and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else named


async def _to_the_end(work: Callable[[], _T]) -> _T:
    """Do blocking work in a thread and wait for its end, cancelled or not: it must not go on without its turn."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()
