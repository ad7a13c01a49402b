"""Commands of a project, and what they cannot be run without."""

import shlex
import sys
from collections.abc import Iterable
from typing import Final

from .project_environment import ProjectEnvironment

Command = tuple[str, ...]
"""A program and its arguments."""

NOTES: Final = "AGENTS.md"


def line_of(steps: Iterable[Command]) -> str:
    """Steps as a line of a shell."""
    return " && ".join(shlex.join(step) for step in steps)


def missing_program(project: ProjectEnvironment, command: Command) -> str:
    """What a command cannot be run without and the workspace does not have; empty if nothing is missing."""
    if "/" in command[0]:
        return "" if (project.root / command[0]).exists() else command[0]
    if project.find(command[0]) is None:
        return command[0]
    if not command[0].startswith("python") or command[1:2] != ("-m",) or len(command) < 3:
        return ""
    module = command[2].partition(".")[0]
    places = [*project.libraries(), project.root, project.root / "src"]
    is_there = any((place / module).is_dir() or (place / f"{module}.py").is_file() for place in places)
    return "" if is_there or module in sys.stdlib_module_names else f"the module {module}"
