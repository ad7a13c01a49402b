"""The checks of a project: its own commands by name (tests, types, lint, build), as set or as its files name them.

What the operator set counts first, then the notes to agents (`AGENTS.md`), then the rows of `ecosystems`. The files
are read and nothing of them is run here. Anybody may have written them: what they name is run only in a sandbox.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .ecosystem_clues import package_manager, place_of
from .ecosystems import ECOSYSTEMS, PYTEST, CheckRule, Ecosystem
from .project_commands import NOTES, missing_program
from .project_environment import ProjectEnvironment
from .project_files import EarlierFiles, ProjectFiles

LONGEST_CHECK: Final = 1_800.0
"""Seconds that a check may take unless set."""
TESTS: Final = ("test", "tests")
"""Names of checks that run tests, unless set."""

_NOTED: Final[Mapping[str, tuple[str, ...]]] = {
    "test": ("pytest", "python -m pytest", "python3 -m pytest", "uv run pytest", "poetry run pytest", "tox", "nox",
             "python -m unittest", "python3 -m unittest", "make test", "make check", "just test", "task test",
             "npm test", "npm run test", "yarn test", "yarn run test", "pnpm test", "pnpm run test", "bun test",
             "bun run test", "deno test", "deno task test", "cargo test", "cargo nextest run", "go test", "mvn test",
             "./mvnw test", "gradle test", "./gradlew test", "dotnet test", "rspec", "bundle exec rspec", "rake test",
             "bundle exec rake test", "phpunit", "vendor/bin/phpunit", "composer test", "mix test", "ctest", "bats"),
    "lint": ("ruff check", "flake8", "make lint", "just lint", "npm run lint", "yarn lint", "yarn run lint",
             "pnpm lint", "pnpm run lint", "bun run lint", "cargo clippy", "go vet", "golangci-lint run"),
    "types": ("mypy", "pyright", "tsc --noEmit", "make typecheck", "npm run typecheck", "yarn typecheck",
              "pnpm typecheck", "pnpm run typecheck", "bun run typecheck"),
    "build": ("python -m build", "make build", "npm run build", "yarn build", "yarn run build", "pnpm build",
              "pnpm run build", "bun run build", "cargo build", "go build"),
}  # fmt: skip
"""How a line of notes begins that names a check."""
_CODE: Final = re.compile(r"^```[^\n]*\n(.*?)^```|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
_SHELL: Final = re.compile(r"[|&;<>$`\\*?(){}\[\]#~!]")
"""Characters that mean something to a shell, or stand for what somebody has to fill in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCheck:
    """A command that says whether the work is right."""

    name: str
    run: str
    """A line for a shell; empty for a check that is switched off."""
    timeout: float = LONGEST_CHECK
    """Seconds."""
    when: tuple[str, ...] = ()
    """Patterns of paths: it applies where one that changed matches; without any it always applies."""
    has_tests: bool = False
    """Whether it runs tests, so that a run without any is no success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCheck:
    """A check, who names it, and whether it can run."""

    check: ProjectCheck
    source: str = ""
    """The file of the project that names it; empty where the operator set it."""
    missing: str = ""
    """What it cannot be run without and the workspace does not have, as far as the line tells."""


def shell_of(check: ProjectCheck) -> list[str]:
    """The program and the arguments that carry out a check; where a shell can, a part of a pipe that fails counts."""
    bash = shutil.which("bash", path=os.defpath)
    return [bash, "-o", "pipefail", "-c", check.run] if bash is not None else ["/bin/sh", "-c", check.run]


def known_checks(
    own: Sequence[ProjectCheck], project: ProjectEnvironment, earlier: Mapping[str, bytes | None] | None = None
) -> tuple[KnownCheck, ...]:
    """The checks of a project: those that are set, also to nothing, and those that its files name.

    A check that is set is the only one of its kind: `test` replaces `test-node` too. With `earlier`, what files held
    before, they are those that the project had.
    """
    named = {check.name for check in own}
    files = EarlierFiles(project.root, earlier) if earlier else ProjectFiles(project.root)
    found = [
        KnownCheck(check=check, source=source, missing=_missing(project, check.run.partition(" && ")[0]))
        for check, source in _found(files)
        if not {check.name, check.name.partition("-")[0]} & named
    ]
    given = [KnownCheck(check=check, missing=_missing(project, check.run)) for check in own]
    return (*given, *found)


def checks_of(
    own: Sequence[ProjectCheck],
    project: ProjectEnvironment,
    *,
    with_found: bool = True,
    earlier: Mapping[str, bytes | None] | None = None,
) -> tuple[ProjectCheck, ...]:
    """The checks that run in a project: those that are set; of those that its files name, which can run there.

    Args:
        own: the checks that are set.
        project: where they run.
        with_found: whether found checks run; where programs have all rights of the user, they should not.
        earlier: what files held before, by path, None for one that was not there: then those are meant that ran there.
    """
    return tuple(
        known.check
        for known in known_checks(own, project, earlier)
        if known.check.run and (not known.source or (with_found and not known.missing))
    )


def _missing(project: ProjectEnvironment, command: str) -> str:
    """What a command cannot be run without; empty too where only a shell could tell its program."""
    if _SHELL.search(command) or not _is_closed(command):
        return ""
    words = tuple(shlex.split(command))
    return "" if "=" in words[0] else missing_program(project, words)


def _found(files: ProjectFiles) -> Iterator[tuple[ProjectCheck, str]]:
    """The checks that the files name, each with the file."""
    noted = _in_notes(files.text(NOTES))
    for name, run in noted.items():
        yield _check(name, run), NOTES
    whole = set(noted)
    given = set(noted)
    for kind in ECOSYSTEMS:
        first = {name: rule for name, rule in _first_of(files, kind).items() if name not in whole}
        for name, (rule, source) in first.items():
            run = rule.run.replace("{npm}", package_manager(files))
            yield _check(f"{name}-{kind.name}" if name in given else name, run), source
        given |= first.keys()
        if kind.is_whole:
            whole |= first.keys()


def _first_of(files: ProjectFiles, kind: Ecosystem) -> dict[str, tuple[CheckRule, str]]:
    """The first rule of each name whose clues are there, with the file in which it was seen."""
    first: dict[str, tuple[CheckRule, str]] = {}
    for rule in kind.checks:
        source = "" if rule.name in first else _seen(files, rule)
        if source:
            first[rule.name] = rule, source
    return first


def uses_pytest(files: ProjectFiles) -> bool:
    """Whether the tests of a project of Python are run by pytest."""
    (python,) = (kind for kind in ECOSYSTEMS if kind.name == "python")
    first = _first_of(files, python).get("test")
    return first is not None and first[0].run == PYTEST


def _check(name: str, run: str) -> ProjectCheck:
    return ProjectCheck(name=name, run=run, has_tests=name.partition("-")[0] in TESTS)


def _seen(files: ProjectFiles, rule: CheckRule) -> str:
    """The file that names a check, if all clues are there; else empty."""
    places = [place_of(files, clue) for clue in rule.clues]
    return places[-1] if all(places) else ""


def _in_notes(notes: str) -> dict[str, str]:
    """The first command of each kind in code of the notes, without what narrows it in a longer form of the same line.

    Lines that need a shell are left out.
    """
    lines = [line.strip().removeprefix("$ ") for code in _CODE.findall(notes) for line in "\n".join(code).splitlines()]
    plain = [line for line in lines if line.isprintable() and not _SHELL.search(line) and _is_closed(line)]
    found = {}
    for name, beginnings in _NOTED.items():
        named = [line for line in plain if any(line == one or line.startswith(f"{one} ") for one in beginnings)]
        if named:
            found[name] = min((line for line in named if f"{named[0]} ".startswith(f"{line} ")), key=len)
    return found


def _is_closed(line: str) -> bool:
    """Whether no quote is left open."""
    try:
        return bool(shlex.split(line))
    except ValueError:
        return False
