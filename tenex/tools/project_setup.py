"""How the environment of a project is made: what its files say of the packages it needs.

Anybody may have written them: nothing of them is run here, and a person decides what is.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .project_checks import uses_pytest
from .project_commands import Command
from .project_files import LOCKS, ProjectFiles, package_manager

_EXTRAS: Final = ("test", "tests", "testing", "dev")
"""Names that projects give what their tests need."""
_REQUIREMENTS: Final = ("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "dev-requirements.txt")
_OPTIONAL: Final = "project.optional-dependencies"

_INSTALL: Final[Mapping[str, tuple[str, str]]] = {
    "npm": ("npm ci", "npm install"),
    "pnpm": ("pnpm install --frozen-lockfile", "pnpm install"),
    "yarn": ("yarn install --frozen-lockfile", "yarn install"),
    "bun": ("bun install --frozen-lockfile", "bun install"),
}
"""How it installs them: with such a file, and without."""


def propose_setup(folder: Path) -> tuple[Command, ...]:
    """The steps that make a project's environment, as its files name plainly what is installed."""
    files = ProjectFiles(folder)
    return (*_Python(files).setup(), *_node_setup(files))


def packages_wanted(folder: Path) -> str:
    """The file that asks for packages of Python; empty where none does."""
    return _Python(ProjectFiles(folder)).wants_packages


def modules_wanted(folder: Path) -> bool:
    """Whether `package.json` asks for packages."""
    return _asks_for_modules(ProjectFiles(folder))


class _Python:
    """What the files of a project of Python say about its packages."""

    def __init__(self, files: ProjectFiles) -> None:
        self._files = files
        self._project = files.table("pyproject.toml", "project")
        self._groups = files.table("pyproject.toml", "dependency-groups")

    @property
    def _is_package(self) -> bool:
        parts = ("project", "build-system")
        document = self._files.document("pyproject.toml")
        return any(part in document for part in parts) or self._files.is_there("setup.py")

    @property
    def _requirements(self) -> list[str]:
        return [name for name in _REQUIREMENTS if self._files.is_there(name)]

    @property
    def wants_packages(self) -> str:
        if self._project.get("dependencies") or self._project.get("optional-dependencies") or self._groups:
            return "pyproject.toml"
        if self._files.value("pyproject.toml", "tool.poetry.dependencies") is not None:
            return "pyproject.toml"
        return self._requirements[0] if self._requirements else ""

    def setup(self) -> Iterator[Command]:
        """A virtual environment, and what is installed in it."""
        if not (self._is_package or self._requirements):
            return
        yield ("python3", "-m", "venv", ".venv")
        wanted = [word for name in self._requirements for word in ("-r", name)]
        extras = [name for name in _EXTRAS if name in self._files.table("pyproject.toml", _OPTIONAL)]
        if self._is_package:
            wanted += ["-e", f".[{','.join(extras)}]" if extras else "."]
        more = [package for name in _EXTRAS for package in _of_group(self._groups, name)]
        names_pytest = any(package.startswith("pytest") for package in more)
        if not extras and not names_pytest and uses_pytest(self._files):
            more.append("pytest")
        yield ("pip", "install", *wanted, *dict.fromkeys(more))


def _of_group(groups: Mapping[str, Any], name: str, depth: int = 5) -> Iterator[str]:
    """The packages of a dependency group, with those it includes."""
    listed = groups.get(name)
    for entry in listed if isinstance(listed, list) and depth else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(included := entry.get("include-group"), str):
            yield from _of_group(groups, included, depth - 1)


def _asks_for_modules(files: ProjectFiles) -> bool:
    return any(files.table("package.json", name) for name in ("dependencies", "devDependencies"))


def _node_setup(files: ProjectFiles) -> Iterator[Command]:
    if _asks_for_modules(files):
        manager = package_manager(files)
        pinned, unpinned = _INSTALL[manager]
        is_pinned = any(map(files.is_there, LOCKS[manager]))
        yield tuple((pinned if is_pinned else unpinned).split())
