"""`shell`: runs a command line in the workspace, in a sandbox, bounded in time and output.

Inside there is the workspace, the programs of the system, Python, an empty home and /tmp that vanish with the command,
and no network unless the operator permits it. Nothing of ours is in its environment. In phases that change no files it
may write only where what it wrote can be put back (`transactions`).
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.errors import InternalError
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox, workspace_scan
from .process import DiskReserve, decoded, named
from .sandbox import RunPolicy
from .tool import Body, Refusal, Tool, integer, object_schema, run_uncancellable, string
from .workspace import Workspace
from .write_policy import is_confined

MOST_OUTPUT: Final = 32 * 1024
"""Bytes shown, as many as `check` shows: the beginning and the end of a long log show what happened."""

LONGEST_COMMAND: Final = 100_000
"""Bytes: the kernel takes 128 KiB in one argument; what is longer is a file."""

LIMITS: Final = process.ProcessLimits(file=512 * 1024**2, address_space=0, data=4 * 1024**3)
"""For builds: a linked program has 200 MB, and Node and Java reserve far more addresses than they use."""

_NAMES: Final = {
    "passwd": "agent:x:{user}:{group}:agent:/tmp/home:/bin/sh\n",
    "group": "agent:x:{group}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""What programs ask of /etc: a name for their user, and where `localhost` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """What the operator permits; `timeout` is in seconds, the most a command may take."""

    policy: RunPolicy = RunPolicy.OFF
    network: bool = False
    timeout: float = 120
    reserve: DiskReserve = DiskReserve()
    """What stays free on disk: none runs below it, and one that comes below it is stopped."""


def _may_change_files(context: ExecutionContext) -> bool:
    return not is_confined(context.phase)


def shell_tool(
    workspace: Workspace,
    rules: ShellRules,
    *,
    may_write: Callable[[ExecutionContext], bool] = _may_change_files,
    scratch: Path | None = None,
) -> Tool:
    """The tool `shell`.

    Args:
        workspace: where commands run.
        rules: how; with the policy `OFF` there is no tool, do not ask for one.
        may_write: whether the workspace may be written to in a call.
        scratch: the folder in which each call gets an empty one of its own; the system's unless given.

    Raises:
        InternalError: the policy is `OFF`.
    """
    if rules.policy is RunPolicy.OFF:
        raise InternalError("there is no shell tool where shells are off")
    most = max(1, int(rules.timeout))

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        command = checked(arguments["command"], "command")
        folder = await asyncio.to_thread(workspace.resolve, arguments.get("cwd") or ".")
        if not folder.is_dir():
            shown = workspace.relative(folder)
            raise Refusal(f"There is no folder {shown} to start in; `list_files` shows what there is.")
        line = [shutil.which("bash", path=os.defpath) or "/bin/sh", "-c", command]
        deadline = min(int(arguments.get("timeout", most)), most)
        confined = is_confined(context.phase)
        one = _Command(workspace, rules, folder, deadline, can_write=may_write(context), confined=confined)
        return await one.run(line, scratch)

    network = "the network can be used" if rules.network else "there is no network"
    confined = (
        f" It runs in a sandbox: {network}; of the disk only the workspace and the system's programs are there, `.git` "
        "read-only."
    )
    return _tool(
        "shell",
        f"Runs a command line in the workspace, for at most {most} s, without input. Each call is a new shell: folder, "
        f"variables and background programs do not last.{confined if rules.policy is RunPolicy.SANDBOXED else ''}",
        object_schema(
            {"command": string(min_length=1)},
            {
                "timeout": integer(f"Seconds; {most} at most and unless given."),
                "cwd": string("A folder; the workspace unless given."),
            },
        ),
        body,
        most,
    )


def python_tool(
    workspace: Workspace,
    rules: ShellRules,
    *,
    may_write: Callable[[ExecutionContext], bool],
    scratch: Path | None = None,
) -> Tool:
    """The tool `python`; its arguments are those of `shell_tool`, and there is none where shells are off."""
    most = max(1, int(rules.timeout))

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        program = checked(arguments["program"], "program")
        line = [sys.executable, "-B", "-c", program]  # without -I: modules of the workspace can be imported
        confined = is_confined(context.phase)
        one = _Command(workspace, rules, workspace.root, most, can_write=may_write(context), confined=confined)
        return await one.run(line, scratch)

    return _tool(
        "python",
        f"Runs a program of Python in the workspace, as `shell` runs a command, for at most {most} s. Reports the"
        " exit status and what it printed, so print what you want to know. Each call is a new process.",
        object_schema({"program": string("The program.", min_length=1)}),
        body,
        most,
    )


def _tool(name: str, description: str, parameters: Mapping[str, Any], body: Body, most: int) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        access=Access.RUN,
        replay=Replay.ONCE,
        body=body,
        time_cap=most + process.GRACE + 5,  # its own deadline comes first, with a better message
    )


@dataclass(frozen=True, slots=True)
class _Command:
    """One command in the workspace."""

    workspace: Workspace
    rules: ShellRules
    folder: Path
    deadline: int
    can_write: bool
    confined: bool
    """Whether there are files that the phase does not let it change."""

    async def run(self, command: Sequence[str], scratch: Path | None) -> ToolResult:
        await asyncio.to_thread(self.rules.reserve.refuse_if_short)
        root, settled = self.workspace.root, workspace_scan.Settled()
        async with sandbox.scratch_folder(scratch) as own:
            before = await asyncio.to_thread(workspace_scan.take, root)
            line, environment = self._line(command, own, before)
            try:
                outcome = await process.run(
                    line,
                    cwd=self.folder,
                    environment=environment,
                    deadline=self.deadline,
                    most_output=MOST_OUTPUT,
                    limits=LIMITS,
                    reserve=self.rules.reserve,
                )
            finally:
                settle = partial(workspace_scan.settle, root, before, confined=self.confined)
                if self.can_write and (self.confined or self.rules.policy is RunPolicy.SANDBOXED):
                    settled = await run_uncancellable(settle)
        ended = outcome.ended("The command", self.deadline)
        if not self.can_write:
            ended += " The workspace was read-only to it in this phase."
        if settled.removed:
            gone = named(decoded(settled.removed))
            ended += f" Taken away: {gone}. Commands make no repositories here; a person can."
        if settled.lost:
            ended += f" Lost, and cannot be restored: {named(decoded(settled.lost))}; name this in your summary."
        return outcome.result(ended)

    def _line(
        self, command: Sequence[str], own: Path, before: workspace_scan.Survey
    ) -> tuple[Sequence[str], dict[str, str]]:
        """The command to run, and the environment to run it in."""
        if self.rules.policy is RunPolicy.UNSANDBOXED:
            if not self.can_write:
                raise Refusal(
                    "Commands cannot be run in this phase: nothing here could undo what they change. Use `check`, or "
                    "the tools that read."
                )
            return command, _environment(str(own))
        for name, content in _NAMES.items():
            (own / name).write_text(content.format(user=os.getuid(), group=os.getgid()))
        root = self.workspace.root
        wrapped = sandbox.wrapped(
            root,
            command,
            _environment(sandbox.HOME),
            cwd=self.folder,
            can_write=self.can_write,
            network=self.rules.network,
            files={f"/etc/{name}": own / name for name in _NAMES},
            protected=[root / os.fsdecode(path) for path in before.protected()],
        )
        return wrapped, {}


def checked(command: str, name: str) -> str:
    """The argument `name` as the kernel takes one, or a refusal."""
    if "\0" in command:
        raise Refusal(f"`{name}` holds a NUL character, which no command line can; remove it.")
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise Refusal(f"`{name}` was not run: character {error.start + 1} is half of a pair.") from error
    if size > LONGEST_COMMAND:
        raise Refusal(f"`{name}` has {size} bytes and {LONGEST_COMMAND} is the most; write a script and run that.")
    return command


def _environment(home: str) -> dict[str, str]:
    clean = sandbox.clean_environment(home)
    ours = f"{sys.prefix}/bin"  # the Python that `check` runs, by the names `python` and `python3`
    path = clean["PATH"] if ours in clean["PATH"].split(":") else f"{ours}:{clean['PATH']}"
    quiet = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
    return {**clean, "PATH": path, "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh", **quiet}
