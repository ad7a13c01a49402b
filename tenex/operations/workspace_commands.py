"""Runs the project's commands in the workspace as the operator asks, and tells what the workspace lacks."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenex.configuration.build import (
    applying_checks,
    disk_reserve,
    environment_of,
    program_folders,
    set_checks,
    shell_policy,
)
from tenex.core.errors import UsageError
from tenex.settings import ProjectPaths, Settings, suggestion
from tenex.store.atomic import replace
from tenex.tools.process import plain_text
from tenex.tools.project_checks import KnownCheck, ProjectCheck, known_checks, shell_of
from tenex.tools.project_commands import Command, line_of
from tenex.tools.project_environment import VENVS, ProjectEnvironment
from tenex.tools.project_needs import ecosystems_found, how_to_get
from tenex.tools.project_runs import ProjectRuns
from tenex.tools.project_setup import propose_setup
from tenex.tools.sandbox import RunPolicy, probe_bubblewrap
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.toolchains import Toolchain, has_programs, toolchain_of
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_view import Way

LARGEST_LOG: Final = 8 * 1024**2
"""Bytes kept of what one step prints: the beginning and the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How commands ended."""

    command: str
    """The last that was run."""
    status: int | None
    """None where it was stopped."""
    sentence: str
    log: Path
    output: str
    """Of the last one."""


def setup_steps(settings: Settings) -> tuple[Command, ...]:
    """The steps of `workspace.setup`."""
    return tuple(map(tuple, settings.workspace.setup))


def checks_known(settings: Settings, where: ProjectPaths) -> tuple[KnownCheck, ...]:
    """The checks of the project, those too that do not run."""
    return known_checks(set_checks(settings), environment_of(settings, where))


def checks_run(settings: Settings, where: ProjectPaths) -> tuple[ProjectCheck, ...]:
    """The checks that the daemon runs on this machine."""
    return applying_checks(settings, where, _policy(settings))


def checks_named(name: str, settings: Settings, where: ProjectPaths) -> tuple[ProjectCheck, ...]:
    """The check of a name, or without a name all that the daemon runs.

    Raises:
        UsageError: there is none.
    """
    known = [one.check for one in checks_known(settings, where) if one.check.run]
    if name:
        named = tuple(check for check in known if check.name == name)
        if not named:
            raise UsageError(f"There is no check {name}; {suggestion(name, [check.name for check in known])}")
        return named
    checks = checks_run(settings, where)
    if not checks:
        raise UsageError("No check of the project can run. `tenex workspace show` tells what is known and missing.")
    return checks


async def run_setup(settings: Settings, where: ProjectPaths, on_step: Callable[[str], None] = lambda _: None) -> Ended:
    """Run the steps of the setup until one fails; the log is kept, and how it ended is recorded.

    Raises:
        UsageError: there are no steps, no workspace, no sandbox, or a program is missing.
        Refusal: too little is free on disk.
    """
    steps = setup_steps(settings)
    if not steps:
        raise UsageError("No command is set for setup. `tenex workspace show` proposes what tenex.toml may have.")
    given = settings.workspace
    programs = programs_for(settings, where, given.setup_timeout, has_network=given.setup_network)
    runs = ProjectRuns(where.data)
    ended = Ended(command="", status=None, sentence="", log=runs.log_of("setup"), output="")
    text = ""
    for step in steps:
        on_step(line_of([step]))
        line = [_program(programs.project, step[0], settings.workspace.path), *step[1:]]
        ended, text = await _run(programs, line, line_of([step]), ended.log, text)
        if ended.status != 0:
            break
    runs.record("setup", line_of(steps), ended.status, ended.output)
    return ended


async def run_check(check: ProjectCheck, settings: Settings, where: ProjectPaths) -> Ended:
    """Run a check in the workspace, with what agents' programs have; the log is kept, and how it ended is recorded.

    Raises:
        UsageError: there is no workspace, or no sandbox.
        Refusal: too little is free on disk.
    """
    programs = programs_for(settings, where, check.timeout, has_network=settings.tools.shell.network)
    runs = ProjectRuns(where.data)
    ended, _ = await _run(programs, shell_of(check), check.run, runs.log_of(f"check-{check.name}"), "")
    runs.record(f"check-{check.name}", check.run, ended.status, ended.output)
    return ended


def _policy(settings: Settings) -> RunPolicy:
    return shell_policy(settings, has_sandbox=settings.tools.shell.sandbox != "none" and probe_bubblewrap())


def programs_for(settings: Settings, where: ProjectPaths, seconds: float, *, has_network: bool) -> Programs:
    """What runs commands for a person.

    Raises:
        UsageError: there is no workspace, or no sandbox.
    """
    if not where.workspace.is_dir():
        raise UsageError(f"There is no workspace {where.workspace}; set paths.workspace in tenex.toml.")
    policy = _policy(settings)
    if policy is RunPolicy.OFF:
        raise UsageError("Nothing was run: there is no sandbox, or it is switched off. `tenex doctor` tells more.")
    rules = ShellRules(
        policy=policy,
        network=has_network,
        network_environment=settings.tools.shell.network_environment,
        timeout=seconds,
        reserve=disk_reserve(settings, where),
        path=program_folders(settings),
        packages=where.packages,
    )
    return Programs(Workspace(where.workspace), rules)


async def _run(programs: Programs, line: Sequence[str], shown: str, log: Path, before: str) -> tuple[Ended, str]:
    """Run a program, and write its output into the log after what is `before` it; also the text of the log."""
    outcome, _ = await programs.execute(
        line,
        programs.workspace.root,
        programs.rules.timeout,
        most_output=LARGEST_LOG,
    )
    output = plain_text(outcome.output)
    sentence = outcome.ended(f"`{shown}`", programs.rules.timeout)
    text = f"{before}$ {shown}\n{output}\n{sentence}\n\n"
    await asyncio.to_thread(replace, log, text.encode("utf-8", "replace"))
    return Ended(command=shown, status=outcome.status, sentence=sentence, log=log, output=output), text


def _program(project: ProjectEnvironment, name: str, entries: Sequence[str]) -> str:
    """The path of a program; one with a slash is in the workspace.

    Raises:
        UsageError: there is none.
    """
    found = str(project.root / name) if "/" in name else project.find(name)
    if found is None or not os.access(found, os.X_OK):
        if "/" in name:
            raise UsageError(f"{name} is not found in {project.root}. Make it there, or correct the command.")
        raise UsageError(f"The sandbox has no {name}: {next(how_to_get(project, [name], os.environ, entries))}.")
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
    """What agents will miss when they work on the project, and which checks cannot run."""
    project = environment_of(settings, where)
    if not project.root.is_dir():
        return
    for folder in program_folders(settings):
        if not folder.is_dir():
            yield Lack(f"there is no folder {folder}", "workspace.path", "correct it, or install what it is to hold")
        elif not _brings_anything(toolchain_of(folder, project.root)):
            fix = "name a folder of programs, or one of the toolchains that docs/how-to/project.md lists"
            yield Lack(f"there is no program in {folder}", "workspace.path", fix)
    setup = setup_steps(settings)
    how = _how_to_set_up(project, is_set=bool(setup))
    environment = list(_lacks_of_environment(project, how))
    yield from environment
    entries = settings.workspace.path
    needed = {name: found for found in reversed(ecosystems_found(project)) for name in found.missing}
    for (name, found), fix in zip(needed.items(), how_to_get(project, needed, os.environ, entries), strict=True):
        message = f"{found.kind.title} needs {name}, which the sandbox does not have"
        yield Lack(message, str(project.root / found.file), fix)
    for known in checks_known(settings, where):
        if known.missing and not (known.missing in needed and known.source):
            yield from _lacks_of_check(known, project, entries, how if environment else "")
    runs = ProjectRuns(where.data)
    last = runs.last("setup", line_of(setup))
    if last is not None and last.status != 0:
        yield Lack(f"the last setup failed: {last}", str(runs.log_of("setup")), "read this log, then repeat it")


def _brings_anything(toolchain: Toolchain) -> bool:
    """Whether there is a program in a folder, or it is one of packages alone."""
    is_of_packages = bool(toolchain.name and toolchain.shown and not toolchain.programs)
    return is_of_packages or any(map(has_programs, toolchain.programs))


def _lacks_of_check(
    known: KnownCheck, project: ProjectEnvironment, entries: Sequence[str], environment: str
) -> Iterator[Lack]:
    """What a check lacks; `environment` is how to make the project's environment, where there is none."""
    check = known.check
    fix = environment
    if not fix and ("/" in known.missing or " " in known.missing):  # a file of the project, or a module
        fix = "install it, or add its folder to workspace.path"
    elif not fix:
        fix = next(how_to_get(project, [known.missing], os.environ, entries))
    message = f"the check {check.name} is `{check.run}`, and {known.missing} is not found"
    if not known.source:
        yield Lack(message, f"checks.{check.name}", f'{fix}, or set `run = ""`')
    elif check.has_tests:
        yield Lack(f"{message}, so it does not run", str(project.root / known.source), fix)


def _lacks_of_environment(project: ProjectEnvironment, fix: str) -> Iterator[Lack]:
    there: Path | None = None
    if project.venv() is None:
        there = next((project.root / name for name in VENVS if os.path.lexists(project.root / name)), None)
        if there is not None and there.is_symlink():
            yield Lack("agents cannot use an environment that is a link out of the workspace", str(there), fix)
        elif there is not None:
            yield Lack("this environment has no interpreter that can be run", str(there), f"remove it, then {fix}")
    for found in ecosystems_found(project):
        is_reported = found.kind.name == "python" and there is not None
        if found.lacks_packages and not is_reported:
            message = f"{found.lacks_packages} asks for packages, and there is no {found.kind.installed.split()[0]}"
            yield Lack(message, str(project.root), fix)


def _how_to_set_up(project: ProjectEnvironment, *, is_set: bool) -> str:
    if is_set:
        return "run `tenex workspace setup`"
    if propose_setup(project.root):
        return "set workspace.setup as `tenex workspace show` proposes, then run `tenex workspace setup`"
    return "set workspace.setup to the commands that make it, then run `tenex workspace setup`"
