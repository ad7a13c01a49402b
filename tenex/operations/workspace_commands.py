"""Runs the project's commands in the workspace as the operator asks, and tells what the workspace lacks."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenex.configuration.build import commands_of, disk_reserve, program_folders, shell_policy
from tenex.core.errors import UsageError
from tenex.settings import ProjectPaths, Settings
from tenex.store.atomic import replace
from tenex.tools.process import plain_text
from tenex.tools.project_commands import (
    Command,
    ProjectCommands,
    line_of,
    missing_program,
    modules_wanted,
    packages_wanted,
    propose,
)
from tenex.tools.project_environment import VENVS, ProjectEnvironment
from tenex.tools.project_runs import ProjectRuns
from tenex.tools.sandbox import RunPolicy, probe_bubblewrap
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_view import Way

LARGEST_LOG: Final = 8 * 1024**2
"""Bytes kept of what one step prints: the beginning and the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the steps of a command ended."""

    command: str
    """The last step that was run."""
    status: int | None
    """None where it was stopped."""
    sentence: str
    log: Path
    output: str
    """Of the last step."""


def environment_of(settings: Settings, where: ProjectPaths) -> ProjectEnvironment:
    """What programs find in the workspace."""
    return ProjectEnvironment(where.workspace.resolve(), program_folders(settings))


async def run_command(
    name: str, settings: Settings, where: ProjectPaths, on_step: Callable[[Command], None] = lambda _: None
) -> Ended:
    """Run the steps of a command until one fails; the log is kept, and how it ended is recorded.

    Raises:
        UsageError: there is no such command, no workspace, no sandbox, or a program is missing.
        Refusal: too little is free on disk.
    """
    commands = commands_of(settings)
    steps = commands.steps(name) or (propose(where.workspace).test if name == "test" else ())
    if not steps:
        raise UsageError(f"No command is set for {name}. `tenex workspace show` proposes what tenex.toml may have.")
    if not where.workspace.is_dir():
        raise UsageError(f"There is no workspace {where.workspace}; set paths.workspace in tenex.toml.")
    is_sandboxed = settings.tools.shell.sandbox != "none"
    policy = shell_policy(settings, has_sandbox=is_sandboxed and probe_bubblewrap())
    if policy is RunPolicy.OFF:
        raise UsageError("Nothing was run: there is no sandbox, or it is switched off. `tenex doctor` tells more.")
    is_setup = name == "setup"
    seconds = settings.workspace.setup_timeout if is_setup else settings.tools.shell.timeout
    rules = ShellRules(
        policy=policy,
        network=settings.workspace.setup_network if is_setup else settings.tools.shell.network,
        timeout=seconds,
        reserve=disk_reserve(settings, where),
        path=program_folders(settings),
    )
    runs = ProjectRuns(where.data)
    ended = await _run_steps(steps, Programs(Workspace(where.workspace), rules), runs.log_of(name), on_step)
    runs.record(name, steps, ended.status, ended.output)
    return ended


async def _run_steps(
    steps: tuple[Command, ...], programs: Programs, log: Path, on_step: Callable[[Command], None]
) -> Ended:
    ended = Ended(command="", status=None, sentence="", log=log, output="")
    text = ""
    for step in steps:
        on_step(step)
        line = [_program(programs.project, step[0]), *step[1:]]
        outcome, _ = await programs.execute(
            line,
            programs.workspace.root,
            programs.rules.timeout,
            most_output=LARGEST_LOG,
        )
        output = plain_text(outcome.output)
        sentence = outcome.ended(f"`{line_of([step])}`", programs.rules.timeout)
        text += f"$ {line_of([step])}\n{output}\n{sentence}\n\n"
        await asyncio.to_thread(replace, log, text.encode("utf-8", "replace"))
        ended = Ended(command=line_of([step]), status=outcome.status, sentence=sentence, log=log, output=output)
        if outcome.status != 0:
            break
    return ended


def _program(project: ProjectEnvironment, name: str) -> str:
    """The path of a program; one with a slash is in the workspace.

    Raises:
        UsageError: there is none.
    """
    found = str(project.root / name) if "/" in name else project.find(name)
    if found is None or not os.access(found, os.X_OK):
        raise UsageError(
            f"{name} is not found in the workspace or on its path ({project.search_path()}). Install it, or add its "
            "folder to workspace.path."
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """How what programs write in phases that permit no changes is kept apart from the workspace."""

    way: Way
    faults: tuple[str, ...]
    """Why better ways cannot be used."""

    @property
    def sentence(self) -> str:
        """What it means."""
        return _CONTAINED[self.way]

    @property
    def fix(self) -> str:
        """What to do for an overlay; "" where there is one."""
        if self.way in (Way.OVERLAY, Way.BUBBLEWRAP):
            return ""
        if self.faults and self.faults[0].startswith("the owner"):
            return "give all files of the workspace to the user and the group of the daemon"
        return "put the data folder on a disk or volume of its own, and mount nothing within the workspace"


_CONTAINED: Final = {
    Way.OVERLAY: "an overlay for each turn",
    Way.BUBBLEWRAP: "an overlay of bubblewrap for each turn",
    Way.COPY: "a copy of the workspace for each turn, because there is no overlay here",
    Way.READ_ONLY: "the workspace is read-only, because there is no overlay here and it is too large to be copied",
}


def containment_of(settings: Settings, where: ProjectPaths) -> Containment | None:
    """How programs are kept apart, found by running one; None where agents run no programs, or there is no workspace.

    Raises:
        OSError: the data folder cannot be written to.
    """
    policy = shell_policy(settings, has_sandbox=probe_bubblewrap())
    if policy is RunPolicy.OFF or not where.workspace.is_dir():
        return None
    views = TurnViews(where.views, Workspace(where.workspace))
    way, faults = views.way(is_sandboxed=policy is RunPolicy.SANDBOXED)
    with suppress(OSError):  # a daemon has views there
        where.views.rmdir()
    return Containment(way=way, faults=faults)


@dataclass(frozen=True, slots=True)
class Lack:
    """What the workspace lacks, where, and what to do."""

    message: str
    place: str
    fix: str


def lacks(settings: Settings, where: ProjectPaths) -> Iterator[Lack]:
    """What agents will miss when they work on the project."""
    project = environment_of(settings, where)
    commands = commands_of(settings)
    if not project.root.is_dir():
        return
    for folder in program_folders(settings):
        if not folder.is_dir():
            yield Lack(f"there is no folder {folder}", "workspace.path", "correct it, or install what it is to hold")
    proposed = propose(project.root)
    yield from _lacks_of_environment(project, _how_to_set_up(commands, proposed))
    used = {"test": commands.test or proposed.test, "lint": commands.lint, "build": commands.build}
    for name, steps in used.items():
        if missing := next(filter(None, (missing_program(project, step) for step in steps)), ""):
            does = "the tests are run by" if name == "test" else f"the command {name} is"
            fix = _how_to_set_up(commands, proposed) if name == "test" else f"install it there, or set {name} = []"
            yield Lack(f"{does} `{line_of(steps)}`, and {missing} is not found", f"workspace.{name}", fix)
    runs = ProjectRuns(where.data)
    last = runs.last("setup", commands.setup)
    if last is not None and last.status != 0:
        yield Lack(f"the last setup failed: {last}", str(runs.log_of("setup")), "read this log, then repeat it")


def _lacks_of_environment(project: ProjectEnvironment, fix: str) -> Iterator[Lack]:
    if project.venv() is None:
        there = next((project.root / name for name in VENVS if os.path.lexists(project.root / name)), None)
        if there is not None and there.is_symlink():
            yield Lack("agents cannot use an environment that is a link out of the workspace", str(there), fix)
        elif there is not None:
            yield Lack("this environment has no interpreter that can be run", str(there), f"remove it, then {fix}")
        elif asking := packages_wanted(project.root):
            yield Lack(f"{asking} asks for packages, and there is no .venv", str(project.root), fix)
    if modules_wanted(project.root) and not (project.root / "node_modules").is_dir():
        yield Lack("package.json asks for packages, and there is no node_modules", str(project.root), fix)


def _how_to_set_up(commands: ProjectCommands, proposed: ProjectCommands) -> str:
    if commands.setup:
        return "run `tenex workspace setup`"
    if proposed.setup:
        return "set workspace.setup as `tenex workspace show` proposes, then run `tenex workspace setup`"
    return "set workspace.setup to the commands that make it, then run `tenex workspace setup`"
