"""`python`: runs a program in the workspace, as `shell` runs a command: the same sandbox, the same bounds."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process
from .shell import ShellRules, checked, runner
from .tool import Tool, takes, text
from .workspace import Workspace


def python_tool(
    workspace: Workspace,
    rules: ShellRules,
    *,
    may_write: Callable[[ExecutionContext], bool],
    scratch: Path | None = None,
) -> Tool:
    """The tool `python`; its arguments are those of `shell_tool`, and there is none where shells are off."""
    most = max(1, int(rules.timeout))
    run = runner(workspace, rules, may_write=may_write, scratch=scratch)

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        program = checked(arguments["program"], "program")
        line = [sys.executable, "-B", "-c", program]  # without -I: modules of the workspace can be imported
        return await run(line, workspace.root, most, context)

    return Tool(
        name="python",
        description=(
            f"Runs a program of Python in the workspace, as `shell` runs a command, for at most {most} s. Tells the"
            " exit status and what it printed, so print what you want to know. Each call begins anew."
        ),
        parameters=takes({"program": text("The program.", shortest=1)}, {}),
        access=Access.RUN,
        replay=Replay.ONCE,
        body=body,
        time_cap=most + process.GRACE + 5,  # its own deadline comes first, and says more
    )
