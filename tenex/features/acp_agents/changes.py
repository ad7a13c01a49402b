"""What the program of one run changes in the workspace, from one checkpoint to the next.

The program works between its calls too, and a call is first seen when it has begun. So a call is not looked at from its
beginning to its end: its checkpoint before is the one after the call before it, and what the program wrote is what the
sandbox has seen since then (`tools/witness`).
"""

from dataclasses import replace

from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.log import get_logger
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.serialized_calls import call_message, end_of_call, with_changes
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.snapshots import Snapshot
from tenex.tools.tool import Tool, log_fields, run_uncancellable
from tenex.tools.witness import Witness, written_of
from tenex.tools.workspace import Workspace

_log = get_logger(__name__)


class Changes:
    """The changes of one program, which writes to the workspace itself."""

    def __init__(self, workspace: Workspace, checkpoints: Checkpoints | None) -> None:
        self.witness = Witness(workspace.root)
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._newest: Snapshot | None = None

    async def begin(self, context: ExecutionContext) -> None:
        """Take the first checkpoint, before the program can write."""
        async with self._workspace.turn.turn_of(context):
            self._newest = await run_uncancellable(lambda: self._taken(context))

    async def of_call(self, tool: Tool, context: ExecutionContext, result: ToolResult) -> ToolResult:
        """The result of a call that has ended, with what the program has changed since the checkpoint before."""
        async with self._workspace.turn.turn_of(context):
            return await run_uncancellable(lambda: self._of_call(tool, context, result))

    async def has_more(self, context: ExecutionContext) -> bool:
        """Whether the program has changed something since the newest checkpoint."""
        async with self._workspace.turn.turn_of(context):
            return await run_uncancellable(lambda: self._has_more(context))

    def close(self) -> None:
        """Free what sees the program."""
        self.witness.close()

    def _of_call(self, tool: Tool, context: ExecutionContext, result: ToolResult) -> ToolResult:
        before = self._newest
        after = self._taken(context)
        seen = self.witness.until_now()
        self.witness.begin()  # what it writes from here on belongs to the next call
        if self._checkpoints is None or before is None or after is None:
            return replace(result, has_outside_effect=True)
        tool = replace(tool, access=Access.RUN)
        message = call_message("before", tool.name, context)
        try:
            self._checkpoints.keep(before, context.conversation_id, message)
        except (CheckpointFailed, OSError) as error:
            _log.error("checkpoint.failed", moment="before", error=str(error), **log_fields(context))
            return with_changes(result, None)
        outcome = end_of_call(self._checkpoints, tool, context, before, seen, after=after)
        self._newest = after
        if outcome is not None:
            result = replace(result, lines=outcome.lines, unchanged=outcome.unchanged)
        return with_changes(result, outcome)

    def _has_more(self, context: ExecutionContext) -> bool:
        after = self._taken(context)
        if self._checkpoints is None or self._newest is None or after is None:
            return False
        self.witness.look()
        try:
            paths = [change.path for change in self._checkpoints.changes(self._newest, after)]
        except CheckpointFailed as error:
            _log.error("checkpoint.failed", moment="after", error=str(error), **log_fields(context))
            return True
        return bool(self.witness.fault and paths) or bool(written_of(self.witness, self._checkpoints.root, paths))

    def _taken(self, context: ExecutionContext) -> Snapshot | None:
        try:
            return self._checkpoints.take() if self._checkpoints is not None else None
        except (CheckpointFailed, OSError) as error:
            _log.error("checkpoint.failed", moment="call", error=str(error), **log_fields(context))
            return None
