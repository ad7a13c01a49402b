"""A small project of each kind whose tools are here: its check is found, runs in the sandbox and names what fails."""

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tenex.tools.check_reports import from_output
from tenex.tools.ecosystem_clues import ecosystems_of
from tenex.tools.ecosystems import ECOSYSTEMS
from tenex.tools.process import Outcome
from tenex.tools.project_checks import ProjectCheck, checks_of, shell_of
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.project_files import ProjectFiles
from tenex.tools.project_needs import ecosystems_found
from tenex.tools.shell_runner import Programs
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap

from .conftest import SANDBOXED, put


@dataclass(frozen=True, kw_only=True)
class Small:
    """A project with one test that passes, and what has to be replaced for it to fail."""

    files: dict[str, str]
    check: str
    break_by: tuple[str, str, str]
    """A file, a text in it, and what it is replaced by: Python takes a file of the same second and length for the one
    that it has compiled."""
    failed: tuple[str, ...] = ()
    """The names that are reported then."""
    programs: tuple[str, ...] = field(default=())


C_PROGRAM = "int main(void) { return 0; }\n"
NODE_TEST = 'const {test} = require("node:test");\ntest("adds", () => require("node:assert").equal(1 + 1, 2));\n'
CASE = """\
import unittest


class Case(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(1 + 1, 2)
"""
RED = ("a.c", "return 0", "return 1")

PROJECTS = {
    "make": Small(
        files={"Makefile": "test: a\n\t./a\n\na: a.c\n\tcc -o a a.c\n", "a.c": C_PROGRAM},
        check="make test",
        break_by=RED,
        programs=("make", "cc"),
    ),
    "autotools": Small(
        files={"configure": "#!/bin/sh\ncp Makefile.in Makefile\n",
               "Makefile.in": "check: a\n\t./a\na: a.c\n\tcc -o a a.c\n", "a.c": C_PROGRAM},
        check="./configure && make check",
        break_by=RED,
        programs=("make", "cc"),
    ),
    "cmake": Small(
        files={"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(small C)\nenable_testing()\n"
               "add_executable(a a.c)\nadd_test(NAME adds COMMAND a)\n", "a.c": C_PROGRAM},
        check="cmake -B build && cmake --build build && cd build && ctest --output-on-failure --no-tests=error",
        break_by=RED,
        failed=("adds",),
        programs=("cmake", "cc"),
    ),
    "perl": Small(
        files={"Makefile.PL": "", "t/adds.t": "use Test::More tests => 1;\nis(1 + 1, 2, 'adds');\n"},
        check="prove -lr",
        break_by=("t/adds.t", "1 + 1", "1 + 2"),
        failed=("./t/adds.t",),
        programs=("prove",),
    ),
    "node": Small(
        files={"package.json": json.dumps({"scripts": {"test": "node --test"}}), "adds.test.js": NODE_TEST},
        check="npm run test",
        break_by=("adds.test.js", "1 + 1", "1 + 2"),
        programs=("node", "npm"),
    ),
    "python": Small(
        files={"test_a.py": CASE},
        check="python3 -m unittest",
        break_by=("test_a.py", "1 + 1", "1 + 1 + 1"),
        failed=("test_adds (test_a.Case",),
        programs=("python3",),
    ),
}  # fmt: skip
"""By the name of the row. That of Rust is in `test_toolchains`."""

BY_FILES = {"just", "task", "deno", "go", "java", "dotnet", "ruby", "php", "elixir", "meson", "bats"}
"""Rows whose tools are not on every machine: `test_project_checks` tries them on files alone."""


async def run_check(programs: Programs, check: ProjectCheck) -> Outcome:
    outcome, _ = await programs.execute(shell_of(check), programs.workspace.root, 100)
    return outcome


@needs_bubblewrap
@pytest.mark.parametrize("kind", PROJECTS)
async def test_the_check_of_a_small_project_passes_and_fails(workspace: Workspace, kind: str) -> None:
    small = PROJECTS[kind]
    lacking = [name for name in small.programs if shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not in /usr/bin, where the sandbox looks: install its package")
    root = workspace.root
    put(root, small.files)
    for script in root.glob("configure"):
        script.chmod(0o755)
    programs = Programs(workspace, replace(SANDBOXED, timeout=100))
    found = {kind.kind.name: kind for kind in ecosystems_found(programs.project)}
    assert not found[kind].missing
    (check,) = (check for check in checks_of((), programs.project) if check.run == small.check)
    outcome = await run_check(programs, check)
    assert outcome.status == 0, outcome.output

    name, text, replacement = small.break_by
    put(root, {name: (root / name).read_text().replace(text, replacement)})
    outcome = await run_check(programs, check)
    assert outcome.status, outcome.output
    failed = from_output(outcome.output).failed
    assert len(failed) >= len(small.failed)
    assert all(shown.startswith(wanted) for shown, wanted in zip(failed, small.failed, strict=False)), failed


def test_every_row_is_tried_or_said_not_to_be() -> None:
    assert {kind.name for kind in ECOSYSTEMS} == PROJECTS.keys() | BY_FILES | {"rust"}


def test_a_project_of_several_kinds_has_all_of_them(tmp_path: Path) -> None:
    assert ecosystems_of(ProjectFiles(tmp_path)) == {}
    put(tmp_path, {"Cargo.toml": "", "package.json": "{}", "tools/go.mod": ""})
    assert list(ecosystems_of(ProjectFiles(tmp_path))) == ["node", "rust"]
    assert [found.file for found in ecosystems_found(ProjectEnvironment(tmp_path))] == ["package.json", "Cargo.toml"]
