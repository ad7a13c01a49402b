"""A small project of each kind whose tools are here: its check is found, runs in the sandbox and names what fails."""

import json
import os
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


GO_TEST = """\
package small

import "testing"

func TestAdds(t *testing.T) {
	if 1+1 != 2 {
		t.Fatal("no")
	}
}
"""
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
    "go": Small(
        files={"go.mod": "module small\n", "a_test.go": GO_TEST},
        check="go test ./...",
        break_by=("a_test.go", "1+1", "1+2"),
        failed=("TestAdds",),
        programs=("go",),
    ),
    "meson": Small(
        files={"meson.build": "project('small', 'c')\ntest('adds', executable('a', 'a.c'))\n", "a.c": C_PROGRAM},
        check="meson setup build && meson test -C build",
        break_by=RED,
        programs=("meson", "ninja", "cc"),
    ),
    "ruby, rake": Small(
        files={"Rakefile": 'require "rake/testtask"\nRake::TestTask.new { |t| t.pattern = "test/*.rb" }\n',
               "test/a_test.rb": 'require "minitest/autorun"\nclass CaseTest < Minitest::Test\n'
               "  def test_adds\n    assert_equal 2, 1 + 1\n  end\nend\n"},
        check="rake test",
        break_by=("test/a_test.rb", "1 + 1", "1 + 2"),
        programs=("ruby", "rake"),
    ),
    "ruby, rspec": Small(
        files={".rspec": "", "spec/a_spec.rb": 'describe "sum" do\n  it("adds") { expect(1 + 1).to eq(2) }\nend\n'},
        check="rspec",
        break_by=("spec/a_spec.rb", "1 + 1", "1 + 2"),
        programs=("ruby", "rspec"),
    ),
    "php, phpunit": Small(
        files={"phpunit.xml": "<phpunit><testsuites><testsuite name='a'><directory>tests</directory></testsuite>"
               "</testsuites></phpunit>\n",
               "vendor/bin/phpunit": '#!/bin/sh\nexec phpunit "$@"\n',
               "tests/CaseTest.php": "<?php\nclass CaseTest extends PHPUnit\\Framework\\TestCase {\n"
               "    function testAdds() { $this->assertSame(2, 1 + 1); }\n}\n"},
        check="vendor/bin/phpunit",
        break_by=("tests/CaseTest.php", "1 + 1", "1 + 2"),
        programs=("php", "phpunit"),
    ),
    "php, composer": Small(
        files={"composer.json": json.dumps({"scripts": {"test": "php tests.php"}}),
               "tests.php": "<?php\nexit(1 + 1 === 2 ? 0 : 1);\n"},
        check="composer run-script test",
        break_by=("tests.php", "1 + 1", "1 + 2"),
        programs=("php", "composer"),
    ),
    "elixir": Small(
        files={"mix.exs": "defmodule Small.MixProject do\n  use Mix.Project\n"
               '  def project, do: [app: :small, version: "0.1.0"]\nend\n',
               "test/test_helper.exs": "ExUnit.start()\n",
               "test/a_test.exs": 'defmodule CaseTest do\n  use ExUnit.Case\n  test "adds" do\n'
               "    assert 1 + 1 == 2\n  end\nend\n"},
        check="mix test",
        break_by=("test/a_test.exs", "1 + 1", "1 + 2"),
        programs=("elixir", "mix"),
    ),
    "bats": Small(
        files={"tests/a.bats": '@test "adds" {\n  [ $((1 + 1)) -eq 2 ]\n}\n'},
        check="bats tests",
        break_by=("tests/a.bats", "1 + 1", "1 + 2"),
        programs=("bats",),
    ),
    "just": Small(
        files={"justfile": "test:\n    sh tests.sh\n", "tests.sh": "test $((1 + 1)) -eq 2\n"},
        check="just test",
        break_by=("tests.sh", "1 + 1", "1 + 2"),
        programs=("just",),
    ),
    "deno": Small(
        files={"deno.json": "{}",
               "a_test.ts": 'Deno.test("adds", () => { if (1 + 1 !== 2) throw new Error("no"); });\n'},
        check="deno test",
        break_by=("a_test.ts", "1 + 1", "1 + 2"),
        failed=("adds",),
        programs=("deno",),
    ),
    "node, bun": Small(
        files={"package.json": "{}", "bunfig.toml": "", "a.test.ts": 'import {expect, test} from "bun:test";\n'
               'test("adds", () => expect(1 + 1).toBe(2));\n'},
        check="bun test",
        break_by=("a.test.ts", "1 + 1", "1 + 2"),
        programs=("bun",),
    ),
}  # fmt: skip
"""By the name of the row, and more words where a row has several. That of Rust is in `test_toolchains`."""

BY_FILES = {"java", "dotnet", "task"}
"""Rows that are not tried with their tools: their tests need packages of a registry, and Task is no package of
Debian. `test_project_checks` tries them on files alone."""

BESIDE = os.environ.get("TENEX_TEST_TOOLS", "")
"""A folder with `just`, `deno` and `bun`, which are no packages of Debian."""

NEEDS_BESIDE = {"just", "deno", "node, bun"} if not BESIDE else set[str]()


async def run_check(programs: Programs, check: ProjectCheck) -> Outcome:
    outcome, _ = await programs.execute(shell_of(check), programs.workspace.root, 100)
    return outcome


@needs_bubblewrap
@pytest.mark.parametrize("project", [project for project in PROJECTS if project not in NEEDS_BESIDE])
async def test_the_check_of_a_small_project_passes_and_fails(workspace: Workspace, project: str) -> None:
    small = PROJECTS[project]
    path = f"{BESIDE}:/usr/local/bin:/usr/bin:/bin"
    lacking = [name for name in small.programs if shutil.which(name, path=path) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not in /usr/bin, where the sandbox looks: install its package")
    root = workspace.root
    put(root, small.files)
    for script in (*root.glob("configure"), *root.glob("vendor/bin/*")):
        script.chmod(0o755)
    programs = Programs(workspace, replace(SANDBOXED, timeout=100, path=(Path(BESIDE),) if BESIDE else ()))
    found = {kind.kind.name: kind for kind in ecosystems_found(programs.project)}
    assert not found[project.partition(",")[0]].missing
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
    assert {kind.name for kind in ECOSYSTEMS} == {project.partition(",")[0] for project in PROJECTS} | BY_FILES | {
        "rust"
    }


def test_a_project_of_several_kinds_has_all_of_them(tmp_path: Path) -> None:
    assert ecosystems_of(ProjectFiles(tmp_path)) == {}
    put(tmp_path, {"Cargo.toml": "", "package.json": "{}", "tools/go.mod": ""})
    assert list(ecosystems_of(ProjectFiles(tmp_path))) == ["node", "rust"]
    assert [found.file for found in ecosystems_found(ProjectEnvironment(tmp_path))] == ["package.json", "Cargo.toml"]
