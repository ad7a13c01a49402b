"""Transactions: calls that change or run are serialized in the workspace, and it is known what each of them changed.

    a phase that permits changes        wait for the turn ─► snapshot ─► the call ─► snapshot ─► what it wrote
    a phase that does not, for a        wait for the turn ─► the call, in the view of its turn
    program that can be contained                              └─► in chores: what is permitted is applied, file by file

Both snapshots are kept as checkpoints, also where the call is cancelled. Of what differs between them, the sandbox has
seen what the program wrote (`witness`); the rest was changed by somebody else meanwhile. Calls that read do not wait.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from tenex.core.phases import PHASES, Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.log import get_logger

from .background import BackgroundCommands
from .checkpoints import Change, Checkpoints, call_lines
from .displaced import Displaced, displaced_by
from .process import decoded, named
from .shadow_git import CheckpointFailed, ShadowDamaged
from .snapshots import Snapshot
from .tool import Refusal, Tool, log_fields, run_uncancellable, with_remarks
from .turn_views import TurnViews
from .witness import Seen, WitnessedResult, written_of
from .workspace import HIDDEN, Workspace
from .workspace_view import WorkspaceView, Written, is_changed_since
from .write_policy import is_confined, may_change

MOST_TOUCHED: Final = 1_000
"""Changed paths recorded for one call: they are recorded, and a command may unpack a whole archive."""

LARGEST_APPLIED: Final = 64 * 1024**2
"""Bytes of a file that is applied from a view: it is held in memory, and documents and sources are smaller."""

_UNKNOWN: Final = "[What this changed in the workspace could not be determined; look before you go on.]"

_NO_CHECKPOINT: Final = "[There is no checkpoint of what was there before: what this changed cannot be brought back.]"

_CHANGED_MEANWHILE: Final = "somebody changed it meanwhile"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """What a call did to the workspace."""

    after: Snapshot
    touched: tuple[Change, ...] = ()
    others: tuple[bytes, ...] = ()
    """What somebody else changed meanwhile."""
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Lines added and removed in what was changed, since the cycle began."""
    unchanged: tuple[str, ...] = ()
    """Of what was changed: what is again as it was when the cycle began."""


class Transactions:
    """The turns of one workspace; `checkpoints` is None where they are switched off or git is missing.

    `background` are the programs that may write to it without a turn, `views` what contained programs write to.
    """

    def __init__(
        self,
        workspace: Workspace,
        checkpoints: Checkpoints | None = None,
        background: BackgroundCommands | None = None,
        views: TurnViews | None = None,
    ) -> None:
        self._turn = workspace.turn
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._background = background or BackgroundCommands()
        self._views = views

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Those of the workspace; None where there are none."""
        return self._checkpoints

    async def run(self, tool: Tool, context: ExecutionContext, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Carry a call out when it is its turn; cancelling gives the turn back once the workspace is in order.

        The result also has what a program has changed.
        """
        if tool.access not in (Access.CHANGE, Access.RUN):
            return await call()
        if self._turn.locked():
            _log.info("tool.queued", tool=tool.name, **log_fields(context))
        async with self._turn.turn_of(context):
            await self._background.settled()
            call = self._turn.bounded(call, context)
            if tool.is_contained and is_confined(context.phase):
                return await self._contained(tool, context, call)
            if not tool.leaves_changes or self._checkpoints is None:
                result = await call()
                is_unknown = tool.access is Access.RUN and tool.leaves_changes
                return replace(result, has_outside_effect=result.has_outside_effect or is_unknown)
            return await self._between_checkpoints(self._checkpoints, tool, context, call)

    async def _between_checkpoints(
        self,
        checkpoints: Checkpoints,
        tool: Tool,
        context: ExecutionContext,
        call: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        before = await run_uncancellable(lambda: _kept_before(checkpoints, tool, context))
        if before is None:
            result = await call()
            if result.ok or tool.access is Access.RUN:
                result = replace(result, content=f"{result.content}\n{_NO_CHECKPOINT}", has_outside_effect=True)
            return result
        own = tool.access is Access.CHANGE
        with self._workspace.watched() as writes:
            try:
                result = await call()
            except BaseException:
                seen = writes if own else None
                await run_uncancellable(lambda: end_of_call(checkpoints, tool, context, before, seen))
                raise
        if own and not result.ok and not writes.before:
            return result  # a refusal has changed nothing
        done = result
        witness: Seen | None = writes if own else None
        if isinstance(result, WitnessedResult):
            witness = result.witness
        outcome = await run_uncancellable(
            lambda: end_of_call(checkpoints, tool, context, before, witness, done.touched)
        )
        await self._show_in_view(context, done.touched)
        if outcome is not None:
            result = replace(result, lines=outcome.lines, unchanged=outcome.unchanged)
        return with_changes(result, outcome) if tool.access is Access.RUN else result

    async def _contained(
        self, tool: Tool, context: ExecutionContext, call: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Carry out a call in its view; where the phase permits some changes, these are applied once it has ended."""
        try:
            result = await call()
        except BaseException:
            await run_uncancellable(lambda: self._drop_permitted(context))
            raise
        view = self._views.opened(context) if self._views is not None else None
        if self._views is None or view is None or not PHASES[context.phase].changes_only_own or result.question:
            return result
        written = await run_uncancellable(lambda: list(view.written()))
        if any(_is_permitted(one, context) for one in written):
            await self._views.end_resident(context)
            written = await run_uncancellable(lambda: list(view.written()))
        return await run_uncancellable(lambda: self._applied(view, written, tool, context, result))

    def _applied(
        self,
        view: WorkspaceView,
        written: Sequence[Written],
        tool: Tool,
        context: ExecutionContext,
        result: ToolResult,
    ) -> ToolResult:
        permitted = [one for one in written if _is_permitted(one, context)]
        left: dict[bytes, str] = {}
        applied: list[bytes] = []
        lines: Mapping[str, tuple[int, int]] = {}
        if permitted:
            before = self._checkpoints and _kept_before(self._checkpoints, tool, context)
            # all are looked at first: to apply one changes its folder
            left = {one.path: why for one in permitted if (why := self._why_left(view, one, context))}
            with self._workspace.watched() as writes:
                for one in permitted:
                    if one.path in left:
                        continue
                    try:
                        self._apply(view, one)
                    except (OSError, Refusal) as error:
                        left[one.path] = str(error)
                    else:
                        applied.append(one.path)
            if self._checkpoints is not None and before:
                outcome = end_of_call(self._checkpoints, tool, context, before, writes)
                lines = outcome.lines if outcome is not None else {}
            view.forget([one.path for one in permitted])  # from now on the workspace shows them
        kept_out = [one.path for one in written if one not in permitted]
        remarks = []
        if applied:
            remarks.append(f"Changed: {named(decoded(applied))}.")
        if left:
            reasons = [f"{decoded([path])[0]} ({why})" for path, why in sorted(left.items())]
            remarks.append(f"Not applied: {named(reasons)}.")
        if fresh := view.not_named(_summed_up(view, kept_out)):
            remarks.append(
                f"Not applied, because {context.phase} change only documentation and what this cycle has changed: "
                f"{named(decoded(fresh))}. Only your commands of this turn see that."
            )
        return replace(
            result,
            content=with_remarks(result.content, remarks),
            touched=tuple(dict.fromkeys([*result.touched, *decoded(applied)[:MOST_TOUCHED]])),
            reverted=tuple(decoded(fresh)[:MOST_TOUCHED]),
            lines=lines,
        )

    def _apply(self, view: WorkspaceView, one: Written) -> None:
        """Put one file of a view into the workspace as a whole, or remove it there.

        Raises:
            Refusal: somebody changed it meanwhile, or it may not be changed; it is as it was.
            OSError: the disk does not take it, or it has become another kind of file.
        """
        real = self._workspace.root / _text(one.path)

        def check() -> None:
            if is_changed_since(self._workspace.root, one.path, view.began):
                raise Refusal(_CHANGED_MEANWHILE)

        if not one.is_there:
            self._workspace.remove(real, lambda _: check(), 0)
            return
        content, mode = view.read(one.path, LARGEST_APPLIED)

        def make(_: bytes | None) -> bytes:
            check()
            return content

        present = 0
        with suppress(FileNotFoundError):
            present = real.lstat().st_mode
        is_as_executable = present & 0o111 == mode & 0o111
        self._workspace.update(real, make, LARGEST_APPLIED, None if is_as_executable else mode)

    def _why_left(self, view: WorkspaceView, one: Written, context: ExecutionContext) -> str:
        """Why a file of a view is not applied; "" where it can be."""
        root = self._workspace.root
        is_gone = not view.has_below(one.path)
        if is_changed_since(root, one.path, view.began) or (is_gone and not one.is_new):
            return _CHANGED_MEANWHILE
        if is_gone and is_changed_since(root, view.folder_below(one.path), view.began):
            return "somebody changed its folder meanwhile"  # the file may have been there, and be removed
        names = self._workspace.names_of(root / _text(one.path))
        other = next((name for name in names if not may_change(name, context)), "")
        return f"it is {other} too" if other else ""

    def _drop_permitted(self, context: ExecutionContext) -> None:
        """Drop what a call that was cut off has written and a later one would apply."""
        view = self._views.opened(context) if self._views is not None else None
        if view is not None and PHASES[context.phase].changes_only_own:
            view.forget([one.path for one in view.written() if _is_permitted(one, context)])

    async def _show_in_view(self, context: ExecutionContext, touched: Iterable[str]) -> None:
        """Have the programs of this turn see what a file tool has changed."""
        view = self._views.opened(context) if self._views is not None else None
        if self._views is not None and view is not None:
            await self._views.end_resident(context)
            view.forget([path.encode("utf-8", "surrogateescape") for path in touched])


def _is_permitted(written: Written, context: ExecutionContext) -> bool:
    """Whether the phase permits a call to change this; nothing in a repository, whatever folder that is in."""
    is_of_git = b".git" in written.path.lower().split(b"/")
    return written.is_file and not is_of_git and may_change(_text(written.path), context)


def _kept_before(checkpoints: Checkpoints, tool: Tool, context: ExecutionContext) -> Snapshot | None:
    """The snapshot before a call; None where there is none."""
    try:
        try:
            return _kept(checkpoints, "before", tool, context)
        except ShadowDamaged as error:
            checkpoints.replace(str(error))
            return _kept(checkpoints, "before", tool, context)
    except (CheckpointFailed, OSError) as error:
        _log.error("checkpoint.failed", moment="before", error=str(error), **log_fields(context))
        return None


def _kept(checkpoints: Checkpoints, moment: str, tool: Tool, context: ExecutionContext) -> Snapshot:
    snapshot = checkpoints.take()
    checkpoints.keep(snapshot, context.conversation_id, call_message(moment, tool.name, context))
    return snapshot


def end_of_call(
    checkpoints: Checkpoints,
    tool: Tool,
    context: ExecutionContext,
    before: Snapshot,
    witness: Seen | None,
    touched: Iterable[str] = (),
    after: Snapshot | None = None,
) -> CallOutcome | None:
    """Keep what a call left; `touched` are the paths that it says it has changed. None where that is not known.

    `after` is the snapshot where it was taken before.
    """
    try:
        after = after or checkpoints.take()
        changed: Sequence[Change] = ()
        others: tuple[bytes, ...] = ()
        is_run = tool.access is Access.RUN
        is_witnessed = is_run and witness is not None and not witness.fault
        displaced = Displaced()
        if is_run:
            changed = checkpoints.changes(before, after)
            if witness is not None and is_witnessed:
                paths = [change.path for change in changed]
                own = written_of(witness, checkpoints.root, paths)
                others = tuple(path for path in paths if path not in own)
                changed = [change for change in changed if change.path in own]
                paths = [change.path for change in changed]
                displaced = displaced_by(witness, checkpoints.root, before.ignored, paths)
        elif witness is not None:
            displaced = displaced_by(witness, checkpoints.root, before.ignored, witness.before)
        about = call_lines(tool.access, witnessed=is_witnessed, others=others, displaced=displaced)
        message = call_message("after", tool.name, context) + about
        checkpoints.keep(after, context.conversation_id, message, always=not displaced.is_nothing)
    except (CheckpointFailed, OSError) as error:
        _log.error("checkpoint.failed", moment="after", error=str(error), **log_fields(context))
        return None
    all_paths = {*touched, *decoded(change.path for change in changed)}
    lines: Mapping[str, tuple[int, int]] = {}
    unchanged: tuple[str, ...] = ()
    try:
        lines, unchanged = checkpoints.since_beginning(context.conversation_id, context.cycle, after, all_paths)
    except CheckpointFailed as error:  # users are shown the names alone
        _log.warning("checkpoint.lines_unknown", error=str(error), **log_fields(context))
    return CallOutcome(after=after, touched=tuple(changed), others=others, lines=lines, unchanged=unchanged)


def _summed_up(view: WorkspaceView, paths: Iterable[bytes]) -> list[bytes]:
    """Paths to name: a folder that is new is named once, and what programs make for themselves is not."""
    found: dict[bytes, None] = {}
    for path in paths:
        names = path.split(b"/")
        if any(name.decode("utf-8", "replace").lower() in HIDDEN for name in names):
            continue
        folders = (b"/".join(names[:depth]) for depth in range(1, len(names)))
        new = next((folder for folder in folders if not view.has_below(folder)), None)
        found[new + b"/" if new is not None else path] = None
    return list(found)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def call_message(moment: str, tool: str, context: ExecutionContext) -> str:
    """The message of a commit that is made for a call."""
    about = {
        "conversation": context.conversation_id,
        "cycle": context.cycle,
        "turn": context.turn,
        "call": context.call_id,
        "key": context.idempotency_key,
        "agent": context.agent,
        "phase": context.phase,
    }
    return f"{moment} {tool}\n\n" + "".join(f"{name}: {value}\n" for name, value in about.items())


def with_changes(result: ToolResult, outcome: CallOutcome | None) -> ToolResult:
    """The result of a call with what it has changed; None where that is not known."""
    if outcome is None:
        return replace(result, content=f"{result.content}\n{_UNKNOWN}", has_outside_effect=True)
    touched = decoded(change.path for change in outcome.touched)
    remarks = []
    if touched:
        remarks.append(f"Changed: {named(touched)}.")
    if outcome.others:
        remarks.append(f"Changed by somebody else while it ran: {named(decoded(outcome.others))}.")
    lost = decoded(change.path for change in outcome.touched if change.has_lost)
    if lost:
        remarks.append(f"No checkpoint has what was there before: {named(lost)}.")
    if len(touched) > MOST_TOUCHED:
        remarks.append(f"Only the first {MOST_TOUCHED} of these paths count as changed in this cycle.")
    return replace(
        result,
        content=with_remarks(result.content, remarks),
        touched=tuple(dict.fromkeys([*result.touched, *touched[:MOST_TOUCHED]])),
    )
