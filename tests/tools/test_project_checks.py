"""Which checks a project has: what the operator set, what its notes name, and what its files show, by ecosystem."""

import json
from pathlib import Path

import pytest

from tenex.tools import project_files
from tenex.tools.project_checks import ProjectCheck, checks_of, known_checks, shell_of
from tenex.tools.project_environment import ProjectEnvironment

from .conftest import put

CASE = "import unittest\nclass T(unittest.TestCase): ...\n"
PYTEST = "python3 -m pytest"
CMAKE = "cmake -B build && cmake --build build && cd build && ctest --output-on-failure --no-tests=error"


def node(**more: object) -> str:
    scripts = {"test": "vitest run", "lint": "eslint", "typecheck": "tsc", "build": "vite build"}
    return json.dumps({"scripts": scripts} | more)


def scripts(**named: str) -> str:
    return json.dumps({"scripts": named, "devDependencies": {"typescript": "5"}})


def found(root: Path, *own: ProjectCheck) -> dict[str, str]:
    return {one.check.name: one.check.run for one in known_checks(own, ProjectEnvironment(root))}


@pytest.mark.parametrize(
    ("files", "checks"),
    [
        ({}, {}),
        ({"pytest.ini": ""}, {"test": PYTEST}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, {"test": PYTEST}),
        ({"setup.cfg": "[tool:pytest]\n"}, {"test": PYTEST}),
        ({"tox.ini": "[testenv]\ncommands = {envpython} -m pytest %(x)s\n"}, {"test": PYTEST}),
        ({"requirements-dev.txt": "pytest-cov==1\n", "noxfile.py": ""}, {"test": PYTEST}),
        ({"pyproject.toml": "[tool.ruff]\nselect = ['flake8-pytest-style']\n"}, {"lint": "ruff check ."}),
        ({"pyproject.toml": "[project]\n", "tests/test_a.py": "def test(): ..."}, {"test": PYTEST}),
        ({"pyproject.toml": "[project]\n"}, {}),
        ({"pyproject.toml": "[project", "package.json": "[1]", "tox.ini": "no section"}, {}),
        ({"test_a.py": CASE}, {"test": "python3 -m unittest"}),
        ({"tests/__init__.py": "", "tests/test_a.py": CASE}, {"test": "python3 -m unittest"}),
        ({"setup.py": "", "tests/test_a.py": CASE}, {"test": "python3 -m unittest discover -s tests"}),
        ({"test/testing.py": CASE}, {"test": "python3 -m unittest discover -s test"}),
        ({"test_a.py": "def test_x(): ...\n"}, {}),
        ({"manage.py": "os.environ['DJANGO']\nimport django\n"}, {"test": "python3 manage.py test"}),
        ({"tox.ini": "[testenv]\ncommands = stestr\n"}, {"test": "tox"}),
        ({"noxfile.py": ""}, {"test": "nox"}),
        ({".flake8": "", "mypy.ini": "[mypy]\n"}, {"lint": "flake8", "types": "mypy ."}),
        ({"pyproject.toml": "[tool.mypy]\nfiles = ['src']\n[tool.pyright]\n"}, {"types": "mypy"}),
        ({"pyrightconfig.json": "{}"}, {"types": "pyright"}),
        (
            {"package.json": node()},
            {"test": "npm run test", "lint": "npm run lint", "types": "npm run typecheck", "build": "npm run build"},
        ),
        ({"package.json": scripts(test="x"), "pnpm-lock.yaml": ""}, {"test": "pnpm run test"}),
        ({"package.json": scripts(test="x"), "bun.lock": ""}, {"test": "bun run test"}),
        (
            {"package.json": json.dumps({"scripts": {"test": "x"}, "packageManager": "yarn@4.1"}), "bun.lock": ""},
            {"test": "yarn run test"},
        ),
        ({"package.json": scripts(test='echo "Error: no test specified" && exit 1')}, {}),
        ({"package.json": '{"scripts": []}'}, {}),
        ({"package.json": '{"scripts": {"test": ""}}'}, {}),
        ({"package.json": "{}", "bunfig.toml": "", "src/a.test.ts": ""}, {"test": "bun test"}),
        ({"package.json": scripts(test="x"), "tsconfig.json": ""}, {"test": "npm run test", "types": "tsc --noEmit"}),
        ({"package.json": scripts(test="xo && tsc"), "tsconfig.json": ""}, {"test": "npm run test"}),
        ({"package.json": '{"scripts": {"test": "x"}}', "tsconfig.json": ""}, {"test": "npm run test"}),
        ({"deno.json": '{"tasks": {"fmt": "x", "test": "deno test -A"}}'}, {"test": "deno task test"}),
        ({"deno.jsonc": "{} // x", "main_test.ts": ""}, {"test": "deno test"}),
        ({"Makefile": "VAR := 1\ntest := 2\ntests:\nbuild: a\n\ty\n"}, {"build": "make build"}),
        ({"Makefile": ".PHONY: test\n\ntest: build\n\tcc\ncheck:\n"}, {"test": "make test"}),
        ({"makefile": "check: all\n", "pytest.ini": ""}, {"check": "make check", "test": PYTEST}),
        ({"Makefile": "test:\n", "pytest.ini": "", "Cargo.toml": ""}, {"test": "make test"}),
        ({"configure": "", "Makefile.in": "check: check-am\n"}, {"check": "./configure && make check"}),
        ({"justfile": "alias t := test\n@test *args:\n  x\nlint := 'y'\n"}, {"test": "just test"}),
        ({"Taskfile.yml": "version: '3'\ntasks:\n  test:\n    cmds: [x]\n  types: {}\n"},
         {"test": "task test", "types": "task types"}),
        ({"CMakeLists.txt": "project(x)\nenable_testing()\n"}, {"test": CMAKE}),
        ({"CMakeLists.txt": "include (CTest )\n"}, {"test": CMAKE}),
        ({"CMakeLists.txt": "include(GNUInstallDirs)\n"}, {}),
        ({"meson.build": "project('x', 'c')\n"}, {"test": "meson setup build && meson test -C build"}),
        ({"Cargo.toml": ""}, {"test": "cargo test --offline"}),
        ({"go.mod": ""}, {"test": "go test ./..."}),
        ({"pom.xml": ""}, {"test": "mvn -o test"}),
        ({"pom.xml": "", "mvnw": ""}, {"test": "./mvnw -o test"}),
        ({"build.gradle.kts": "", "gradlew": ""}, {"test": "./gradlew --offline test"}),
        ({"settings.gradle": ""}, {"test": "gradle --offline test"}),
        ({"x.sln": ""}, {"test": "dotnet test"}),
        ({".rspec": "", "Gemfile.lock": "", "Rakefile": "Rake::TestTask.new"}, {"test": "bundle exec rspec"}),
        ({"spec/a_spec.rb": ""}, {"test": "rspec"}),
        ({"Rakefile": "task :test do\n"}, {"test": "rake test"}),
        ({"Rakefile": "task :build\n"}, {}),
        ({"phpunit.xml.dist": "", "composer.json": '{"scripts": {"test": "x"}}'}, {"test": "vendor/bin/phpunit"}),
        ({"composer.json": '{"scripts": {"test": "x"}}'}, {"test": "composer run-script test"}),
        ({"mix.exs": ""}, {"test": "mix test"}),
        ({"test/a.bats": ""}, {"test": "bats test"}),
        ({"cpanfile": "", "t/a.t": ""}, {"test": "prove -lr"}),
        ({"go.mod": "", "package.json": node(), "pytest.ini": ""},
         {"test": PYTEST, "test-node": "npm run test", "test-go": "go test ./...", "lint": "npm run lint",
          "types": "npm run typecheck", "build": "npm run build"}),
    ],
)  # fmt: skip
def test_checks_are_found_in_files(tmp_path: Path, files: dict[str, str], checks: dict[str, str]) -> None:
    put(tmp_path, files)
    assert found(tmp_path) == checks


@pytest.mark.parametrize(
    ("notes", "checks"),
    [
        ("Run `pytest -q tests`, not `make test`.\n```\n$ ruff check src\nnpm run build | cat\n```\n",
         {"test": "pytest -q tests", "lint": "ruff check src"}),
        ("One: `cargo test parser -- --exact`; all: `cargo test`, `cargo clippy`.",
         {"test": "cargo test", "lint": "cargo clippy"}),
        ('Use `pytest $(evil)` or `pytest <file>` or `pytest "x`, and write tests with pytest.', {"test": "make test"}),
    ],
)  # fmt: skip
def test_notes_to_agents_come_before_files(tmp_path: Path, notes: str, checks: dict[str, str]) -> None:
    put(tmp_path, {"AGENTS.md": notes, "Makefile": "test:\n", "go.mod": ""})
    assert found(tmp_path) == checks


def test_a_check_that_is_set_is_the_only_one_of_its_kind(tmp_path: Path) -> None:
    put(tmp_path, {"pytest.ini": "", "package.json": node()})
    own = ProjectCheck(name="test", run="./all"), ProjectCheck(name="lint", run=""), ProjectCheck(name="doc", run="d")
    everything = {"test": "./all", "lint": "", "doc": "d", "types": "npm run typecheck", "build": "npm run build"}
    assert found(tmp_path, *own) == everything
    assert "test" in found(tmp_path, ProjectCheck(name="test-node", run=""))
    put(tmp_path, {".venv/bin/python": "", ".venv/bin/npm": ""})
    for name in ("python", "npm"):
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    project = ProjectEnvironment(tmp_path)
    assert [one.name for one in checks_of(own, project)] == ["test", "doc", "types", "build"]
    assert [one.name for one in checks_of(own, project, with_found=False)] == ["test", "doc"]


@pytest.mark.parametrize(
    ("files", "earlier", "checks"),
    [
        ({"tests/__init__.py": ""}, {"tests/test_a.py": CASE.encode()}, {"test": "python3 -m unittest"}),
        ({"tests/test_a.py": CASE}, {"tests/test_a.py": None}, {}),
        ({"Makefile": "all:\n"}, {"Makefile": b"test:\n\ttrue\nall:\n"}, {"test": "make test"}),
        ({"Makefile": "test:\n"}, {"Makefile": b"lint:\n"}, {"lint": "make lint"}),
        ({"Makefile": "test:\n"}, {"other": b"\xff"}, {"test": "make test"}),
    ],
)
def test_the_checks_of_before_are_those_that_files_named_then(
    files: dict[str, str], earlier: dict[str, bytes | None], checks: dict[str, str], tmp_path: Path
) -> None:
    put(tmp_path, files)
    known = known_checks((), ProjectEnvironment(tmp_path), earlier)
    assert {one.check.name: one.check.run for one in known} == checks


def test_a_found_check_runs_where_its_program_is(tmp_path: Path) -> None:
    put(tmp_path, {"pytest.ini": "", "package.json": node(), "CMakeLists.txt": "enable_testing()"})
    project = ProjectEnvironment(tmp_path, (tmp_path / "programs",))
    put(tmp_path, {".venv/bin/python": "", ".venv/bin/python3": "", "programs/cmake": ""})
    for name in (".venv/bin/python", ".venv/bin/python3", "programs/cmake"):
        (tmp_path / name).chmod(0o755)
    missing = {one.check.name: one.missing for one in known_checks((), project)}
    assert (missing["test"], missing["test-cmake"]) == ("the module pytest", "")
    assert "test" not in [one.name for one in checks_of((), project)]
    put(tmp_path, {".venv/lib/python3.12/site-packages/pytest/__init__.py": ""})
    (test, *_) = checks_of((), project)
    assert (test.name, test.run, test.has_tests) == ("test", PYTEST, True)


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("nothing-such -x", "nothing-such"),
        ("sh -c true", ""),
        ("X=1 nothing-such", ""),
        ("cd below && nothing-such", ""),
        ('nothing-such "', ""),
        ("./gone", "./gone"),
    ],
)
def test_what_a_set_check_lacks_is_told_where_the_line_is_plain(tmp_path: Path, run: str, missing: str) -> None:
    (known,) = known_checks([ProjectCheck(name="test", run=run)], ProjectEnvironment(tmp_path))
    assert known.missing == missing
    assert checks_of([known.check], ProjectEnvironment(tmp_path)) == (known.check,)


def test_large_files_and_folders_are_read_in_part(tmp_path: Path) -> None:
    filler = "x = 1\n" * (project_files.LARGEST // 6 + 1)
    put(tmp_path, {"Makefile": f"{filler}test:\n", "tests/test_0.py": "", "setup.py": ""})
    put(tmp_path, {f"t/{number:05}.x": "" for number in range(project_files.MOST_ENTRIES)})
    assert found(tmp_path) == {"test": PYTEST}
    assert len(project_files.ProjectFiles(tmp_path).matching("t/*.x")) == project_files.MOST_ENTRIES
    put(tmp_path, {"t/more.x": ""})
    assert len(project_files.ProjectFiles(tmp_path).matching("t/*.x")) == project_files.MOST_ENTRIES


def test_a_part_of_a_pipe_that_fails_is_a_failure() -> None:
    import subprocess

    line = shell_of(ProjectCheck(name="test", run="false | cat"))
    assert subprocess.run(line, check=False).returncode == 1
