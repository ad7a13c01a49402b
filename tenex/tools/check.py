"""`check`: runs one Python file that this cycle has changed, and reports how it ended.

The command is fixed: `python -I -B <file>`, nothing to read, an environment without anything of ours. With
`SANDBOXED` it runs in bubblewrap and cannot change the workspace; with `UNSANDBOXED` it runs as the daemon's user.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.errors import InternalError
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, restore, sandbox
from .files_read import LARGEST_FILE
from .process import plain_text
from .tool import Refusal, Tool, object_schema, string
from .workspace import Workspace

DEADLINE: Final = 10.0
"""Seconds: a check shows that a program works; one that runs longer is a service or a loop."""

MOST_OUTPUT: Final = 32 * 1024
"""Bytes shown: a traceback is 2 KiB, and a model learns nothing from the hundredth page."""


class CheckPolicy(StrEnum):
    """How programs may be run here."""

    SANDBOXED = "sandboxed"
    UNSANDBOXED = "unsandboxed"
    OFF = "off"


def check_tool(
    workspace: Workspace, policy: CheckPolicy, *, deadline: float = DEADLINE, scratch: Path | None = None
) -> Tool:
    """The tool `check`.

    Args:
        workspace: where the file lies and the program starts.
        policy: `OFF` has no tool; do not ask for one.
        deadline: seconds the program may run.
        scratch: the folder in which each run gets an empty one of its own; the system's unless given.

    Raises:
        Bug: the policy is `OFF`.
    """
    if policy is CheckPolicy.OFF:
        raise InternalError("there is no check tool where checks are off")

    def permitted(path: str, context: ExecutionContext) -> Path:
        real = workspace.resolve(path)
        shown = workspace.relative(real)
        if real.suffix != ".py":
            raise Refusal(f"{shown} is not a Python file; `check` runs files that end in `.py` and nothing else.")
        workspace.read(real, LARGEST_FILE)  # refuses what is missing or no file
        if shown not in context.touched:
            mine = ", ".join(sorted(name for name in context.touched if name.endswith(".py"))[:20]) or "none yet"
            raise Refusal(f"{shown} has not been changed in this cycle; `check` runs only files that have: {mine}.")
        return real

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = await asyncio.to_thread(permitted, arguments["path"], context)
        empty = tempfile.mkdtemp(prefix="tenex-check-", dir=scratch)
        try:
            outcome = await run(real, empty)
        finally:
            await asyncio.to_thread(restore.clear_away, Path(empty))
        return _result(workspace.relative(real), outcome, deadline)

    async def run(real: Path, empty: str) -> process.Outcome:
        command = [sys.executable, "-I", "-B", str(real)]
        environment = sandbox.clean_environment(empty)
        if policy is CheckPolicy.SANDBOXED:
            wrapped = sandbox.wrapped(workspace.root, command, sandbox.clean_environment(sandbox.HOME))
            if wrapped is None:
                raise Refusal("Programs cannot be run: the sandbox (bubblewrap) is gone. The operator has to fix that.")
            command = wrapped
        return await process.run(
            command, cwd=workspace.root, environment=environment, deadline=deadline, most_output=MOST_OUTPUT
        )

    where = " It cannot change files there." if policy is CheckPolicy.SANDBOXED else ""
    return Tool(
        name="check",
        description=(
            f"Runs a Python file that was changed in this cycle, for at most {deadline:g} s, without arguments or "
            f"input.{where} It runs as `python -I`: modules beside it are found only if it puts their folder on "
            "`sys.path`."
        ),
        parameters=object_schema({"path": string()}),
        access=Access.RUN,
        replay=Replay.IDEMPOTENT,
        body=body,
        time_cap=deadline + process.GRACE + 5,  # its own deadline comes first, with a better message
        leaves_changes=policy is CheckPolicy.UNSANDBOXED,
    )


def _result(shown: str, outcome: process.Outcome, deadline: float) -> ToolResult:
    if outcome.status is None:
        ended = f"{shown} was still running after {deadline:g} s and was stopped."
    elif outcome.status < 0:
        ended = f"{shown} was ended by signal {-outcome.status}."
    else:
        ended = f"{shown} ended with exit status {outcome.status}."
    printed = plain_text(outcome.output)
    return ToolResult(
        ok=outcome.status == 0, content=f"{ended} Output:\n{printed}" if printed.strip() else f"{ended} No output."
    )
