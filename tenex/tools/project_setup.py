"""How the environment of a project is made: what its files say of the packages it needs.

Anybody may have written them: nothing of them is run here, and a person decides what is.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .ecosystem_clues import ecosystems_of, setup_rule
from .ecosystems import REQUIREMENTS
from .project_checks import uses_pytest
from .project_commands import Command
from .project_files import ProjectFiles

_EXTRAS: Final = ("test", "tests", "testing", "dev")
"""Names that projects give what their tests need."""
_OPTIONAL: Final = "project.optional-dependencies"


def propose_setup(folder: Path) -> tuple[Command, ...]:
    """The steps that make a project's environment, as its files name plainly what is installed."""
    files = ProjectFiles(folder)
    steps: list[Command] = []
    for kind, _ in ecosystems_of(files).values():
        rule = setup_rule(files, kind)
        if rule is not None:
            run = rule.run.replace("{pip}", shlex.join(_pip_words(files))) if "{pip}" in rule.run else rule.run
            steps += (tuple(shlex.split(step)) for step in run.split(" && "))
    return tuple(steps)


def _pip_words(files: ProjectFiles) -> list[str]:
    """What pip installs in a project of Python: its requirements, itself, and what its tests need."""
    document = files.document("pyproject.toml")
    is_package = "project" in document or "build-system" in document or files.is_there("setup.py")
    groups = files.table("pyproject.toml", "dependency-groups")
    wanted = [word for name in REQUIREMENTS.split() if files.is_there(name) for word in ("-r", name)]
    extras = [name for name in _EXTRAS if name in files.table("pyproject.toml", _OPTIONAL)]
    if is_package:
        wanted += ["-e", f".[{','.join(extras)}]" if extras else "."]
    more = [package for name in _EXTRAS for package in _of_group(groups, name)]
    names_pytest = any(package.startswith("pytest") for package in more)
    if not extras and not names_pytest and uses_pytest(files):
        more.append("pytest")
    return [*wanted, *dict.fromkeys(more)]


def _of_group(groups: Mapping[str, Any], name: str, depth: int = 5) -> Iterator[str]:
    """The packages of a dependency group, with those it includes."""
    listed = groups.get(name)
    for entry in listed if isinstance(listed, list) and depth else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(included := entry.get("include-group"), str):
            yield from _of_group(groups, included, depth - 1)
