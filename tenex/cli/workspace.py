"""`tenex workspace`: the project's environment and commands, shown and run as agents run them."""

import asyncio
import json
from typing import TYPE_CHECKING, Final

from tenex.core.errors import TenexError

from .shared import output
from .shared.options import Globals
from .shared.register import group, register

if TYPE_CHECKING:
    from tenex.tools.project_commands import Command, ProjectCommands

workspace = group("Show and set up the project that agents work on.")

SHOWN: Final = 20
"""Lines of output shown of a command that failed; the log has all."""


@register(workspace)
def setup(given: Globals) -> None:
    """Make the project's environment: run the commands of `workspace.setup` in the sandbox.

    They use the network where `workspace.setup_network` is true. The log is kept in the data folder.
    """
    _run(given, "setup")


@register(workspace)
def test(given: Globals) -> None:
    """Run the project's tests, in the sandbox as agents run them."""
    _run(given, "test")


def _run(given: Globals, name: str) -> None:
    from tenex.operations.workspace_commands import run_command
    from tenex.settings import check_paths, resolve_paths
    from tenex.telemetry import configure
    from tenex.tools.project_commands import line_of

    settings = given.settings()
    check_paths(settings)

    def on_step(step: "Command") -> None:
        output.message(f"$ {output.one_line(line_of([step]))}")

    telemetry = configure("error", "auto")
    try:
        ended = asyncio.run(run_command(name, settings, resolve_paths(settings), on_step))
    finally:
        telemetry.close()
    if ended.status != 0:
        for line in ended.output.splitlines()[-SHOWN:]:
            output.message(f"  {output.one_line(line)}")
        raise TenexError(f"{ended.sentence} Its log: {ended.log}")
    shown = {"command": ended.command, "status": ended.status, "log": str(ended.log)}
    last = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "")
    given.show(shown, f"{name}: {output.one_line(last) or 'done'}", f"Log: {ended.log}")


@register(workspace)
def show(given: Globals) -> None:
    """Show interpreter, commands and last runs, what is missing, and what to write into `tenex.toml`."""
    from tenex.configuration.build import commands_of
    from tenex.operations.workspace_commands import containment_of, environment_of, lacks
    from tenex.settings import check_paths, resolve_paths
    from tenex.tools.project_commands import NAMES, line_of, propose
    from tenex.tools.project_runs import ProjectRuns

    settings = given.settings()
    check_paths(settings)
    where = resolve_paths(settings)
    project = environment_of(settings, where)
    commands = commands_of(settings)
    proposed = propose(where.workspace)
    runs = ProjectRuns(where.data)
    missing = list(lacks(settings, where))
    contained = containment_of(settings, where)
    facts = {
        "workspace": str(project.root),
        "python": project.python(),
        "version": project.python_version(),
        "path": project.search_path(),
        "commands": {name: [list(step) for step in commands.steps(name)] for name in NAMES},
        "proposed": {name: [list(step) for step in proposed.steps(name)] for name in NAMES if not commands.steps(name)},
        "missing": [lack.message for lack in missing],
        "contained": None if contained is None else {"way": contained.way, "faults": list(contained.faults)},
    }
    lines = [
        f"workspace  {project.root}",
        f"python     {project.python() or 'none'} {project.python_version()}".rstrip(),
    ]
    for name in NAMES:
        steps = commands.steps(name)
        last = runs.last(name, steps or proposed.steps(name))
        ran = f"; last run {last}" if last is not None else ""
        lines.append(f"{name:<10} {output.one_line(line_of(steps)) if steps else 'not set'}{ran}")
    if contained is not None:
        lines.append(f"contained  {contained.sentence}{f'; {contained.fix}' if contained.fix else ''}")
    lines += [output.with_options(f"missing    {lack.message}; {lack.fix}") for lack in missing]
    given.show(facts, "\n".join(lines))
    if not given.as_json and (text := proposal(commands, proposed)):
        output.message(
            f"\nProposed from the project's files; read it, then write it into {where.config or 'tenex.toml'}:"
        )
        output.message(text)


def proposal(commands: "ProjectCommands", proposed: "ProjectCommands") -> str:
    """The lines of `[workspace]` for what is proposed and not set; empty if nothing is."""
    from tenex.tools.project_commands import NAMES

    lines = []
    for name in NAMES:
        steps = () if commands.steps(name) else proposed.steps(name)
        if steps:
            given = [list(step) for step in steps]
            lines.append(f"{name} = {json.dumps(given[0] if len(given) == 1 else given, ensure_ascii=False)}")
        if steps and name == "setup":
            lines.append("setup_network = true")
    return "\n".join(["[workspace]", *lines]) if lines else ""
