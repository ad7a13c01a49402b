"""`check`: runs one Python file that this cycle has changed, and reports how it ended.

The command is fixed: `python -I -B <file>`, nothing to read, an environment without anything of ours. In the sandbox
it cannot change the workspace; without one it runs as the daemon's user.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox
from .files_read import LARGEST_FILE
from .sandbox import RunPolicy
from .tool import Refusal, Tool, object_schema, string
from .workspace import Workspace

DEADLINE: Final = 10.0
"""Seconds: a check shows that a program works; one that runs longer is a service or a loop."""

MOST_OUTPUT: Final = 32 * 1024
"""Bytes shown: a traceback is 2 KiB, and a model learns nothing from the hundredth page."""


def check_tool(
    workspace: Workspace, policy: RunPolicy, *, deadline: float = DEADLINE, scratch: Path | None = None
) -> Tool:
    """The tool `check`; `deadline` is in seconds, `scratch` as for `shell_tool`."""

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
        async with sandbox.scratch_folder(scratch) as own:
            command, environment = [sys.executable, "-I", "-B", str(real)], sandbox.clean_environment(str(own))
            if policy is RunPolicy.SANDBOXED:
                command = sandbox.wrapped(workspace.root, command, sandbox.clean_environment(sandbox.HOME))
            outcome = await process.run(
                command, cwd=workspace.root, environment=environment, deadline=deadline, most_output=MOST_OUTPUT
            )
        return outcome.result(outcome.ended(workspace.relative(real), deadline))

    where = " It cannot change files there." if policy is RunPolicy.SANDBOXED else ""
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
        leaves_changes=policy is RunPolicy.UNSANDBOXED,
    )
