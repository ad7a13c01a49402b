"""`shell`, `python` and `check`: run a program in the workspace, in a sandbox, bounded in time and output.

Inside there is the workspace, the programs of the system, an empty home and /tmp that vanish with the program,
and no network unless the operator permits it. Nothing of ours is in its environment. In phases that change no files
`shell` and `python` may write only where what they wrote can be put back (`transactions`). What
`check` runs is fixed, a file; in the sandbox it cannot change the workspace, without one it runs as the daemon's user.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenex.core.config import Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox, workspace_scan
from .files_read import LARGEST_FILE
from .git_config import folders_elsewhere, why_no_repository
from .process import DiskReserve, decoded, named, plain_text
from .project_commands import Command, propose
from .project_environment import ProjectEnvironment
from .project_runs import ProjectRuns, is_whole_run
from .sandbox import RunPolicy
from .tool import Body, Refusal, Tool, integer, object_schema, run_uncancellable, string
from .workspace import Workspace
from .write_policy import is_confined

MOST_OUTPUT: Final = 32 * 1024
"""Bytes shown: the beginning and the end of a long log show what happened."""

CHECK_DEADLINE: Final = 60.0
"""Seconds: enough for a file of tests; what runs longer is a service or a loop, or a task for `shell`."""

NO_PYTHON: Final = "no Python is installed that programs here may use; the operator has to fix that."

LONGEST_COMMAND: Final = 100_000
"""Bytes: the kernel takes 128 KiB in one argument; what is longer is a file."""

LIMITS: Final = process.ProcessLimits(file=512 * 1024**2, address_space=0, data=4 * 1024**3)
"""For builds: a linked program has 200 MB, and Node and Java reserve far more addresses than they use."""

_NAMES: Final = {
    "passwd": "agent:x:{user}:{group}:agent:/tmp/home:/bin/sh\n",
    "group": "agent:x:{group}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "gitconfig": "[safe]\n\tdirectory = *\n",
}
"""What programs ask of /etc: a name for their user, where `localhost` is, and whose repositories git may read."""


_NO_TESTS: Final = 5  # pytest's exit status

_NO_REPOSITORY: Final = "fatal: not a git repository"
"""What git prints where it finds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """What the operator permits; `timeout` is in seconds, the most a command may take."""

    policy: RunPolicy = RunPolicy.OFF
    network: bool = False
    timeout: float = 120
    reserve: DiskReserve = DiskReserve()
    """What stays free on disk: none runs below it, and one that comes below it is stopped."""
    path: tuple[Path, ...] = ()
    """Folders of programs, besides the workspace's and the system's."""
    test: tuple[Command, ...] = ()
    """The project's test command, whose runs are recorded; without, that which its files name."""


@dataclass(frozen=True, slots=True)
class Programs:
    """How the tools that run programs run them."""

    workspace: Workspace
    rules: ShellRules
    may_write: Callable[[ExecutionContext], bool] = lambda context: not is_confined(context.phase)
    """Whether the workspace may be written to in a call."""
    scratch: Path | None = None
    """The folder in which each call gets an empty one of its own; the system's unless given."""
    runs: ProjectRuns | None = None
    """Where runs of the project's tests are recorded."""

    @property
    def most(self) -> int:
        """The seconds that a program may take."""
        return max(1, int(self.rules.timeout))

    def tool(self, name: str, description: str, parameters: Mapping[str, Any], body: Body) -> Tool:
        """A tool that runs programs."""
        return Tool(
            name=name,
            description=description,
            parameters=parameters,
            access=Access.RUN,
            replay=Replay.ONCE,
            body=body,
            time_cap=self.most + process.GRACE + 5,  # its own deadline comes first, with a better message
        )

    @property
    def project(self) -> ProjectEnvironment:
        """What they find in the workspace."""
        return ProjectEnvironment(self.workspace.root, self.rules.path)

    def variables(self, home: str) -> dict[str, str]:
        """All that a program gets to know by variables; `home` is its home folder."""
        quiet = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"}
        names = {"USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh"}
        return {**sandbox.clean_environment(home), **self.project.variables(), **names, **quiet}

    async def run(
        self, command: Sequence[str], context: ExecutionContext, folder: Path, deadline: int, typed: str = ""
    ) -> ToolResult:
        """Run a program in a folder of the workspace; `typed` is the line of a shell that it reads."""
        root = self.workspace.root
        can_write, confined = self.may_write(context), is_confined(context.phase)
        outcome, settled = await self.execute(command, folder, deadline, can_write=can_write, confined=confined)
        if typed and folder == root:
            await asyncio.to_thread(self._record, typed, outcome)
        ended = outcome.ended("The command", deadline)
        if not can_write:
            ended += " The workspace was read-only to it in this phase."
        if outcome.status and _NO_REPOSITORY in outcome.output and (why := why_no_repository(root)):
            ended += f" {why}"
        if settled.removed:
            gone = named(decoded(settled.removed))
            ended += f" Taken away: {gone}. It is renamed, with `.replaced-` and digits at the end."
            ended += " Commands make no repositories here and nothing that git runs; a person can."
        if settled.lost:
            ended += f" Lost, and cannot be restored: {named(decoded(settled.lost))}; name this in your summary."
        reaches_out = self.rules.network or self.rules.policy is RunPolicy.UNSANDBOXED
        return replace(outcome.result(ended), has_outside_effect=reaches_out)

    def _record(self, typed: str, outcome: process.Outcome) -> None:
        """Record a run of the project's tests, if it was one."""
        test = self.rules.test or propose(self.workspace.root).test
        if self.runs is not None and is_whole_run(typed, test):
            self.runs.record("test", test, outcome.status, plain_text(outcome.output))

    async def execute(
        self,
        command: Sequence[str],
        folder: Path,
        deadline: float,
        *,
        can_write: bool,
        confined: bool,
        most_output: int = MOST_OUTPUT,
    ) -> tuple[process.Outcome, workspace_scan.Settled]:
        """Run a program, and take away what it may not leave behind.

        Raises:
            Refusal: too little is free on disk, or it may not run without a sandbox.
        """
        await asyncio.to_thread(self.rules.reserve.refuse_if_short)
        root, settled = self.workspace.root, workspace_scan.Settled()
        async with sandbox.scratch_folder(self.scratch) as own:
            before = await asyncio.to_thread(workspace_scan.take, root)
            line, environment = await asyncio.to_thread(
                partial(self._line, command, folder, own, before, can_write=can_write)
            )
            try:
                outcome = await process.run(
                    line,
                    cwd=folder,
                    environment=environment,
                    deadline=deadline,
                    most_output=most_output,
                    limits=LIMITS,
                    reserve=self.rules.reserve,
                )
            finally:
                settle = partial(workspace_scan.settle, root, before, confined=confined)
                if can_write and (confined or self.rules.policy is RunPolicy.SANDBOXED):
                    settled = await run_uncancellable(settle)
        return outcome, settled

    def _line(
        self, command: Sequence[str], folder: Path, own: Path, before: workspace_scan.Survey, *, can_write: bool
    ) -> tuple[Sequence[str], dict[str, str]]:
        """The command to run, and the environment to run it in."""
        if self.rules.policy is RunPolicy.UNSANDBOXED:
            if not can_write:
                raise Refusal(
                    "Commands cannot be run in this phase: nothing here could undo what they change. Use `check`, or "
                    "the tools that read."
                )
            return command, self.variables(str(own))
        for name, content in _NAMES.items():
            (own / name).write_text(content.format(user=os.getuid(), group=os.getgid()))
        root = self.workspace.root
        wrapped = sandbox.wrapped(
            root,
            command,
            self.variables(sandbox.HOME),
            cwd=folder,
            can_write=can_write,
            network=self.rules.network,
            files={f"/etc/{name}": own / name for name in _NAMES},
            folders=[*folders_elsewhere(root), *self.project.mounts()],
            protected=[root / os.fsdecode(path) for path in before.protected()],
        )
        return wrapped, {}


def shell_tool(programs: Programs) -> Tool:
    """The tool `shell`."""
    workspace, rules, most = programs.workspace, programs.rules, programs.most

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        command = checked(arguments["command"], "command")
        folder = await asyncio.to_thread(workspace.resolve, arguments.get("cwd") or ".")
        if not folder.is_dir():
            shown = workspace.relative(folder)
            raise Refusal(f"There is no folder {shown} to start in; `list_files` shows what there is.")
        line = [shutil.which("bash", path=os.defpath) or "/bin/sh", "-c", command]
        return await programs.run(line, context, folder, min(int(arguments.get("timeout", most)), most), command)

    network = "the network can be used" if rules.network else "there is no network"
    confined = (
        f" It runs in a sandbox: {network}; of the disk only the workspace and the system's programs are there, `.git` "
        "read-only."
    )
    return programs.tool(
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
    )


def python_tool(programs: Programs) -> Tool:
    """The tool `python`."""

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        program = checked(arguments["program"], "program")
        python = await asyncio.to_thread(programs.project.python)
        if python is None:
            raise Refusal(f"Nothing was run: {NO_PYTHON}")
        line = [python, "-B", "-c", program]  # without -I: modules of the workspace can be imported
        return await programs.run(line, context, programs.workspace.root, programs.most)

    return programs.tool(
        "python",
        f"Runs a program of Python in the workspace, as `shell` runs a command, for at most {programs.most} s. Reports "
        "the exit status and what it printed, so print what you want to know. Each call is a new process.",
        object_schema({"program": string("The program.", min_length=1)}),
        body,
    )


def check_tool(
    workspace: Workspace,
    policy: RunPolicy,
    *,
    deadline: float = CHECK_DEADLINE,
    scratch: Path | None = None,
    path: tuple[Path, ...] = (),
) -> Tool:
    """The tool `check`, of files that this cycle has changed.

    `deadline` is in seconds; `scratch` is as in `Programs`, `path` as in `ShellRules`.
    """

    def permitted(name: str, context: ExecutionContext) -> Path:
        real = workspace.resolve(name)
        shown = workspace.relative(real)
        if real.suffix != ".py":
            raise Refusal(f"{shown} is not a Python file; `check` runs files that end in `.py` and nothing else.")
        workspace.read(real, LARGEST_FILE)  # refuses what is missing or no file
        if shown not in context.touched:
            mine = ", ".join(sorted(name for name in context.touched if name.endswith(".py"))[:20]) or "none yet"
            raise Refusal(f"{shown} has not been changed in this cycle; `check` runs only files that have: {mine}.")
        return real

    async def run(command: Sequence[str], project: ProjectEnvironment, seconds: float) -> process.Outcome:
        async with sandbox.scratch_folder(scratch) as own:
            environment = sandbox.clean_environment(str(own))
            if policy is RunPolicy.SANDBOXED:
                inside = {**sandbox.clean_environment(sandbox.HOME), **project.variables()}
                command = sandbox.wrapped(workspace.root, command, inside, folders=project.mounts())
            return await process.run(
                command, cwd=workspace.root, environment=environment, deadline=seconds, most_output=MOST_OUTPUT
            )

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = await asyncio.to_thread(permitted, arguments["path"], context)
        shown, project = workspace.relative(real), ProjectEnvironment(workspace.root, path)
        if policy is not RunPolicy.SANDBOXED:  # nothing in the workspace decides which program runs outside
            outcome = await run([sys.executable, "-I", "-B", str(real)], project, deadline)
            return replace(outcome.result(outcome.ended(shown, deadline)), has_outside_effect=True)
        python = await asyncio.to_thread(project.python)
        if python is None:
            raise Refusal(f"{shown} was not run: {NO_PYTHON}")
        ends = asyncio.get_running_loop().time() + deadline
        for words in await asyncio.to_thread(_ways_to_run, workspace.root, real):
            left = max(0.1, ends - asyncio.get_running_loop().time())
            outcome = await run([python, "-B", *words], project, left)
            if not _has_no_tests(words, outcome):
                break
        return outcome.result(outcome.ended(shown, deadline))

    where = " It runs as `python -I`: modules beside it are found only if it puts their folder on `sys.path`."
    if policy is RunPolicy.SANDBOXED:
        where = " A file of tests is run by pytest, a module of a package by its name. It cannot change files there."
    return Tool(
        name="check",
        description=(
            f"Runs a Python file that was changed in this cycle, for at most {deadline:g} s, without arguments or "
            f"input.{where}"
        ),
        parameters=object_schema({"path": string()}),
        access=Access.RUN,
        replay=Replay.IDEMPOTENT,
        body=body,
        time_cap=deadline + process.GRACE + 5,  # its own deadline comes first, with a better message
        leaves_changes=policy is RunPolicy.UNSANDBOXED,
    )


def _ways_to_run(root: Path, file: Path) -> list[list[str]]:
    """How a file is run, as arguments of Python from the workspace's folder; the next where one finds nothing to do."""
    shown = file.relative_to(root)
    ways: list[list[str]] = []
    if file.name.startswith("test_") or file.stem.endswith("_test"):
        ways.append(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(shown)])
    top = file.parent
    while top != root and (top / "__init__.py").is_file():
        top = top.parent
    names = file.relative_to(top).with_suffix("").parts
    is_module = top != file.parent and all(name.isidentifier() for name in names)
    if is_module and top != root:
        start = f"import runpy, sys; sys.path.insert(0, {str(top)!r}); runpy.run_module({'.'.join(names)!r}, "
        return [*ways, ["-c", f"{start}run_name='__main__', alter_sys=True)"]]
    return [*ways, ["-m", ".".join(names)] if is_module else [str(file)]]


def _has_no_tests(words: Sequence[str], outcome: process.Outcome) -> bool:
    """Whether pytest is missing, or has found no tests in the file: it is a program then."""
    is_missing = outcome.status == 1 and outcome.output.rstrip().endswith("No module named pytest")
    return words[:2] == ["-m", "pytest"] and (outcome.status == _NO_TESTS or is_missing)


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
