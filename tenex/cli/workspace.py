"""`tenex workspace`: the project's environment and checks, shown and run with what agents' programs have."""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import TenexError

from .shared import output
from .shared.options import Globals
from .shared.register import group, register

if TYPE_CHECKING:
    from tenex.operations.workspace_commands import Ended
    from tenex.tools.project_checks import KnownCheck
    from tenex.tools.project_commands import Command
    from tenex.tools.project_environment import ProjectEnvironment
    from tenex.tools.project_needs import FoundEcosystem

workspace = group("Show and set up the project that agents work on.")

SHOWN: Final = 20
"""Lines of output shown of a command that failed; the log has all."""


@register(workspace)
def setup(given: Globals) -> None:
    """Make the project's environment: run the commands of `workspace.setup` in the sandbox.

    They use the network where `workspace.setup_network` is true. The log is kept in the data folder.
    """
    from tenex.operations.workspace_commands import run_setup
    from tenex.settings import check_paths, resolve_paths
    from tenex.telemetry import configure

    settings = given.settings()
    check_paths(settings)
    telemetry = configure("error", "auto")
    try:
        ended = asyncio.run(
            run_setup(settings, resolve_paths(settings), lambda step: output.message(f"$ {output.one_line(step)}"))
        )
    finally:
        telemetry.close()
    if ended.status != 0:
        _show_end(ended)
        raise TenexError(f"{ended.sentence} Its log: {ended.log}")
    given.show(_facts(ended), f"setup: {_last_line(ended)}", f"Log: {ended.log}")


@register(workspace)
def check(
    given: Globals,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name; without, all that the daemon runs.")] = "",
) -> None:
    """Run checks of the project in the workspace, in the sandbox; `tenex workspace show` lists them.

    The daemon runs them apart from the workspace; here they may leave in it what your own run would.
    """
    from tenex.operations.workspace_commands import checks_named, run_check
    from tenex.settings import check_paths, resolve_paths
    from tenex.telemetry import configure

    settings = given.settings()
    check_paths(settings)
    where = resolve_paths(settings)
    ended: dict[str, Ended] = {}
    telemetry = configure("error", "auto")
    try:
        for one in checks_named(name, settings, where):
            output.message(f"$ {output.one_line(one.run)}")
            ended[one.name] = asyncio.run(run_check(one, settings, where))
            if ended[one.name].status != 0:
                _show_end(ended[one.name])
    finally:
        telemetry.close()
    lines = [
        f"{one}: {_last_line(end) if end.status == 0 else end.sentence}  (log: {end.log})" for one, end in ended.items()
    ]
    given.show({one: _facts(end) for one, end in ended.items()}, "\n".join(lines))
    failed = [one for one, end in ended.items() if end.status != 0]
    if failed:
        raise TenexError(f"Not passed: {', '.join(failed)}.")


def _facts(ended: "Ended") -> dict[str, Any]:
    return {"command": ended.command, "status": ended.status, "log": str(ended.log)}


def _show_end(ended: "Ended") -> None:
    for line in ended.output.splitlines()[-SHOWN:]:
        output.message(f"  {output.one_line(line)}")


def _last_line(ended: "Ended") -> str:
    last = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "")
    return output.one_line(last) or "done"


@register(workspace)
def show(given: Globals) -> None:
    """Show interpreter, setup and checks, what is missing, and what to write into `tenex.toml`."""
    from tenex.configuration.build import environment_of
    from tenex.operations.workspace_commands import checks_known, checks_run, containment_of, lacks, setup_steps
    from tenex.settings import check_paths, resolve_paths
    from tenex.tools.project_commands import line_of
    from tenex.tools.project_needs import ecosystems_found
    from tenex.tools.project_runs import ProjectRuns
    from tenex.tools.project_setup import propose_setup

    settings = given.settings()
    check_paths(settings)
    where = resolve_paths(settings)
    project = environment_of(settings, where)
    steps = setup_steps(settings)
    proposed = () if steps else propose_setup(where.workspace)
    known = checks_known(settings, where)
    running = {check.name for check in checks_run(settings, where)}
    runs = ProjectRuns(where.data)
    kinds = ecosystems_found(project)
    missing = list(lacks(settings, where))
    contained = containment_of(settings, where)
    facts = {
        "workspace": str(project.root),
        "python": project.python(),
        "version": project.python_version(),
        "path": project.search_path(),
        "ecosystems": [
            {"name": found.kind.name, "file": found.file, "programs": dict(found.programs)} for found in kinds
        ],
        "setup": [list(step) for step in steps],
        "proposed": [list(step) for step in proposed],
        "checks": [_check_facts(one, runs=one.check.name in running) for one in known],
        "missing": [lack.message for lack in missing],
        "contained": None if contained is None else {"way": contained.way, "faults": list(contained.faults)},
    }
    last = runs.last("setup", line_of(steps))
    lines = [
        f"workspace  {project.root}",
        *(_ecosystem_line(found, project) for found in kinds),
        f"setup      {output.one_line(line_of(steps)) or 'not set'}{f'; last run {last}' if last is not None else ''}",
    ]
    for one in known:
        last = runs.last(f"check-{one.check.name}", one.check.run)
        ran = f"; run by hand {last}" if last is not None else ""
        lines.append(f"check      {_check_line(one, runs=one.check.name in running)}{ran}")
    if not known:
        lines.append("check      none is set, and no file of the project names one")
    if contained is not None:
        lines.append(f"contained  {contained.sentence}{f'; {contained.fix}' if contained.fix else ''}")
    lines += [output.with_options(f"missing    {lack.message}; {lack.fix}") for lack in missing]
    given.show(facts, "\n".join(lines))
    if not given.as_json and proposed:
        output.message(
            f"\nProposed from the project's files; read it, then write it into {where.config or 'tenex.toml'}:"
        )
        output.message(setup_text(proposed))


def _ecosystem_line(found: "FoundEcosystem", project: "ProjectEnvironment") -> str:
    """What shows that a project is of a kind, and its programs."""
    version = f" {project.python_version()}" if found.kind.name == "python" else ""
    programs = (place or f"no {name}" for name, place in found.programs.items())
    return f"{found.kind.name:<10} {', '.join(programs)}{version.rstrip()} ({output.one_line(found.file)})"


def _check_facts(known: "KnownCheck", *, runs: bool) -> dict[str, Any]:
    check = known.check
    return {
        "name": check.name,
        "run": check.run,
        "timeout": check.timeout,
        "when": list(check.when),
        "tests": check.has_tests,
        "source": known.source or "settings",
        "missing": known.missing,
        "runs": runs,
    }


def _check_line(known: "KnownCheck", *, runs: bool) -> str:
    """A check, who names it, and whether the daemon runs it."""
    check = known.check
    if not check.run:
        return f"{check.name}: switched off (checks.{check.name})"
    source = known.source or f"checks.{check.name}"
    when = f", where {' or '.join(check.when)} changed" if check.when else ""
    why = f"{known.missing} is not found" if known.missing else "" if runs else "there is no sandbox"
    state = ""
    if why and not runs:
        state = f"; does not run: {why}"
    elif why:
        state = f"; {why}"
    return f"{check.name}: {output.one_line(check.run)} ({source}{when}){state}"


def setup_text(steps: "Sequence[Command]") -> str:
    """The lines of `[workspace]` for steps that are proposed; empty for none."""
    if not steps:
        return ""
    listed = [list(step) for step in steps]
    value = json.dumps(listed[0] if len(listed) == 1 else listed, ensure_ascii=False)
    return f"[workspace]\nsetup = {value}\nsetup_network = true"
