"""`shell`, `python` and `check`: run a program in the workspace, in a sandbox, bounded in time and output.

What `check` runs is fixed, a file; in the sandbox it cannot change the workspace, without one it runs as the daemon's
user.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tenex.core.config import CallNeed, Replay
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult

from . import process, sandbox
from .dependencies import ToolDependencies, ToolTable
from .ecosystem_clues import ecosystems_of
from .files_read import LARGEST_FILE
from .project_environment import ProjectEnvironment
from .project_files import ProjectFiles
from .sandbox import RunPolicy
from .shell_runner import MOST_OUTPUT, NETWORK, WRITE_GIT, Programs
from .tool import Refusal, Tool, boolean, integer, object_schema, string
from .workspace import Workspace

CHECK_DEADLINE: Final = 60.0
"""Seconds: enough for a file of tests; what runs longer is a service or a loop, or a task for `shell`."""

NO_PYTHON: Final = "no Python is installed that programs here may use; the operator has to fix that."

LONGEST_COMMAND: Final = 100_000
"""Bytes: the kernel takes 128 KiB in one argument; what is longer is a file."""

LONGEST_REASON: Final = 300
"""Characters of `why`: a person reads it on a phone."""

_USES: Final = {NETWORK.name: "installs, downloads", WRITE_GIT.name: "commits"}

_NO_TESTS: Final = 5  # pytest's exit status


def shell_tool(programs: Programs) -> Tool:
    """The tool `shell`."""
    rules = programs.rules
    most = programs.most

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        command = checked(arguments["command"], "command")
        folder = await asyncio.to_thread(programs.folder, arguments.get("cwd"))
        deadline = min(int(arguments.get("timeout", most)), most)
        wanted = needed(programs.needs, arguments)
        return await programs.run(shell_line(command), context, folder, deadline, needs=wanted)

    network = "the network can be used" if rules.network else "there is no network"
    confined = (
        f" It runs in a sandbox: {network}; of the disk only the workspace and the system's programs are there, `.git` "
        f"read-only.{_ways_out(programs.needs)}"
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
                **need_parameters(programs.needs),
            },
        ),
        body,
        programs.needs,
    )


def needed(needs: Iterable[CallNeed], arguments: Mapping[str, Any]) -> frozenset[str]:
    """The names of what a call has beyond the sandbox."""
    return frozenset(need.name for need in needs if arguments.get(need.name) is True)


def need_parameters(needs: Iterable[CallNeed]) -> dict[str, Any]:
    """The parameters by which a call asks for more than the sandbox."""
    offered = {need.name: boolean() for need in needs if not need.refusal}
    return {**offered, "why": string("For the person.", max_length=LONGEST_REASON)} if offered else {}


def _ways_out(needs: Iterable[CallNeed]) -> str:
    """How a command gets more than the sandbox, and what it never gets."""
    offered = [f"`{need.name}: true` ({_USES[need.name]})" for need in needs if not need.refusal]
    said = f" {' and '.join(offered)} with `why` ask a person to lift that for this command." if offered else ""
    if any(need.name == WRITE_GIT.name and need.refusal for need in needs):
        said += " Agents do not commit here."
    return said


def shell_line(command: str) -> list[str]:
    """The program and the arguments that carry out a command line; a pipe fails where one of its programs does."""
    bash = shutil.which("bash", path=os.defpath)
    return [bash, "-o", "pipefail", "-c", command] if bash is not None else ["/bin/sh", "-c", command]


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
    asks: bool = False,
) -> Tool:
    """The tool `check`, of files that this cycle has changed.

    `deadline` is in seconds; `scratch` is as in `Programs`, `path` as in `ShellRules`. With `asks` a person allows each
    run.
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
                command = sandbox.wrapped(
                    workspace.root, command, inside, folders=project.mounts(), private=project.private_folders()
                )
            return await process.run(
                command,
                cwd=workspace.root,
                environment=environment,
                deadline=seconds,
                most_output=MOST_OUTPUT,
                umask=workspace.umask,
            )

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        real = await asyncio.to_thread(permitted, arguments["path"], context)
        shown = workspace.relative(real)
        project = ProjectEnvironment(workspace.root, path)
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
        asks=asks,
        why="it runs without a sandbox, with all your rights",
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


def _is_for_python(dependencies: ToolDependencies) -> bool:
    """Whether the workspace is a project of Python, or of no known kind yet, and there is an interpreter."""
    root = dependencies.workspace.root
    languages = [name for name, (kind, _) in ecosystems_of(ProjectFiles(root)).items() if not kind.is_whole]
    is_sandboxed = dependencies.check is RunPolicy.SANDBOXED
    has_python = not is_sandboxed or ProjectEnvironment(root, dependencies.shell.path).python() is not None
    return has_python and ("python" in languages or not languages)


def _check(dependencies: ToolDependencies) -> Tool | None:
    if dependencies.check is RunPolicy.OFF or not _is_for_python(dependencies):
        return None
    return check_tool(
        dependencies.workspace,
        dependencies.check,
        scratch=dependencies.scratch,
        path=dependencies.shell.path,
        asks=dependencies.check_asks,
    )


TOOLS: Final[ToolTable] = {
    "check": _check,
    "shell": lambda parts: shell_tool(parts.programs) if parts.programs else None,
    "python": lambda parts: python_tool(parts.programs) if parts.programs else None,
}
