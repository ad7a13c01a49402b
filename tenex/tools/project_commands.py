"""The commands of a project: how it is set up, tested, checked and built, and what its files say about that.

`propose` reads files that anybody may have written: nothing of them is run here, and a person decides what is.
"""

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from .bounded_read import text_or_nothing
from .project_environment import ProjectEnvironment

Command = tuple[str, ...]
"""A program and its arguments."""

LARGEST: Final = 64 * 1024
"""Bytes read of a file that may name commands."""

NOTES: Final = "AGENTS.md"

_PYTEST: Final = ("python", "-m", "pytest")
_EXTRAS: Final = ("test", "tests", "testing", "dev")
"""Names that projects give what their tests need."""
_REQUIREMENTS: Final = ("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "dev-requirements.txt")
_RUNNERS: Final = {
    "test": (*_PYTEST[2:], "python -m pytest", "python3 -m pytest", "uv run pytest", "poetry run pytest", "tox", "nox",
             "make test", "make check", "npm test", "npm run test", "yarn test", "pnpm test"),
    "lint": ("ruff check", "flake8", "make lint", "npm run lint", "yarn lint", "pnpm lint"),
    "build": ("python -m build", "make build", "npm run build", "yarn build", "pnpm build"),
}  # fmt: skip
"""How a line of notes begins that names a command."""
_CODE: Final = re.compile(r"^```[^\n]*\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_SHELL: Final = re.compile(r"[|&;<>$`\\*?(){}\[\]#~!]")
"""Characters that mean something to a shell, or stand for what somebody has to fill in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCommands:
    """Commands by what they are for, each in steps; none is unknown."""

    setup: tuple[Command, ...] = ()
    test: tuple[Command, ...] = ()
    lint: tuple[Command, ...] = ()
    build: tuple[Command, ...] = ()

    def steps(self, name: str) -> tuple[Command, ...]:
        """Those of one name."""
        found: tuple[Command, ...] = getattr(self, name)
        return found


NAMES: Final = ("setup", "test", "lint", "build")
UNKNOWN: Final = ProjectCommands()


def line_of(steps: Iterable[Command]) -> str:
    """Steps as a line of a shell."""
    return " && ".join(shlex.join(step) for step in steps)


def propose(folder: Path) -> ProjectCommands:
    """The commands that the files of a folder name plainly; what its notes to agents name comes first."""
    python = _Python(folder)
    scripts = _scripts(folder)
    targets = _targets(folder)
    test: tuple[Command, ...] = ()
    if "test" in targets:
        test = (("make", "test"),)
    elif python.uses_pytest:
        test = (_PYTEST,)
    elif "no test specified" not in scripts.get("test", "no test specified"):
        test = (("npm", "test"),)
    elif python.tox:
        test = (("tox",),)
    found = ProjectCommands(
        setup=(*python.setup(), *_node_setup(folder)),
        test=test,
        lint=_first(targets, scripts, "lint") or ((("ruff", "check", "."),) if python.uses_ruff else ()),
        build=_first(targets, scripts, "build"),
    )
    return replace(found, **_named_in_notes(text_or_nothing(folder / NOTES, LARGEST)))


def packages_wanted(folder: Path) -> str:
    """The file that asks for packages of Python; empty where none does."""
    return _Python(folder).wants_packages


def modules_wanted(folder: Path) -> bool:
    """Whether `package.json` asks for packages."""
    given = _json(folder / "package.json")
    return any(isinstance(given.get(name), dict) and given[name] for name in ("dependencies", "devDependencies"))


def missing_program(project: ProjectEnvironment, command: Command) -> str:
    """What a command cannot be run without and the workspace does not have; empty if nothing is missing."""
    if "/" in command[0]:
        return "" if (project.root / command[0]).exists() else command[0]
    if project.find(command[0]) is None:
        return command[0]
    venv = project.venv()
    if venv is None or not command[0].startswith("python") or command[1:2] != ("-m",) or len(command) < 3:
        return ""
    module = command[2].partition(".")[0]
    places = [*venv.glob("lib/python3*/site-packages"), project.root, project.root / "src"]
    is_there = any((place / module).is_dir() or (place / f"{module}.py").is_file() for place in places)
    return "" if is_there or module in sys.stdlib_module_names else f"the module {module}"


def _first(targets: frozenset[str], scripts: Mapping[str, str], name: str) -> tuple[Command, ...]:
    if name in targets:
        return (("make", name),)
    return (("npm", "run", name),) if name in scripts else ()


class _Python:
    """What the files of a project of Python say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._project = _toml(folder / "pyproject.toml")
        self._setup_cfg, self.tox = _ini(folder / "setup.cfg"), _ini(folder / "tox.ini")

    @property
    def uses_pytest(self) -> bool:
        folder = self._folder
        names = "pytest" in _table(self._project, "tool") or bool(text_or_nothing(folder / "pytest.ini", LARGEST))
        in_tox = "pytest" in self.tox or any("pytest" in lines.get("commands", "") for lines in self.tox.values())
        if names or in_tox or "tool:pytest" in self._setup_cfg:
            return True
        has_tests = any(folder.glob("tests/test_*.py")) or any(folder.glob("test/test_*.py"))
        return has_tests and (self._is_package or bool(self._requirements))

    @property
    def uses_ruff(self) -> bool:
        names = ("ruff.toml", ".ruff.toml")
        return "ruff" in _table(self._project, "tool") or any((self._folder / name).is_file() for name in names)

    @property
    def _is_package(self) -> bool:
        parts = ("project", "build-system")
        return any(part in self._project for part in parts) or (self._folder / "setup.py").is_file()

    @property
    def _requirements(self) -> list[str]:
        return [name for name in _REQUIREMENTS if (self._folder / name).is_file()]

    @property
    def wants_packages(self) -> str:
        about = _table(self._project, "project")
        if about.get("dependencies") or about.get("optional-dependencies") or self._project.get("dependency-groups"):
            return "pyproject.toml"
        if "dependencies" in _table(_table(self._project, "tool"), "poetry"):
            return "pyproject.toml"
        return self._requirements[0] if self._requirements else ""

    def setup(self) -> Iterator[Command]:
        """A virtual environment, and what is installed in it."""
        if not (self._is_package or self._requirements):
            return
        yield ("python3", "-m", "venv", ".venv")
        wanted = [word for name in self._requirements for word in ("-r", name)]
        extras = [name for name in _EXTRAS if name in _table(_table(self._project, "project"), "optional-dependencies")]
        if self._is_package:
            wanted += ["-e", f".[{','.join(extras)}]" if extras else "."]
        groups = _table(self._project, "dependency-groups")
        more = [one for name in _EXTRAS for one in _of_group(groups, name)]
        if self.uses_pytest and not extras and not any(one.startswith("pytest") for one in more):
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


def _node_setup(folder: Path) -> Iterator[Command]:
    if modules_wanted(folder):
        yield ("npm", "ci" if (folder / "package-lock.json").is_file() else "install")


def _named_in_notes(notes: str) -> dict[str, tuple[Command, ...]]:
    """The first command of each kind in code of the notes; lines that need a shell are left out."""
    lines = [line.strip().removeprefix("$ ") for code in _CODE.findall(notes) for line in "\n".join(code).splitlines()]
    found: dict[str, tuple[Command, ...]] = {}
    for line in lines:
        for name, beginnings in _RUNNERS.items():
            is_one = any(line == one or line.startswith(f"{one} ") for one in beginnings)
            if is_one and name not in found and not _SHELL.search(line):
                try:
                    found[name] = (tuple(shlex.split(line)),)
                except ValueError:  # an open quote
                    continue
    return found


def _targets(folder: Path) -> frozenset[str]:
    text = text_or_nothing(folder / "Makefile", LARGEST)
    return frozenset(re.findall(r"^([A-Za-z][\w-]*)\s*:(?!=)", text, re.MULTILINE))


def _scripts(folder: Path) -> dict[str, str]:
    given = _json(folder / "package.json").get("scripts")
    return {name: text for name, text in given.items() if isinstance(text, str)} if isinstance(given, dict) else {}


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text_or_nothing(file, LARGEST) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text_or_nothing(file, LARGEST))
    except (ValueError, RecursionError):
        return {}


def _ini(file: Path) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None, strict=False, default_section="")
    try:
        parser.read_string(text_or_nothing(file, LARGEST))
    except (ConfigError, ValueError):
        return {}
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    return found if isinstance(found, dict) else {}
