"""What files of a project say about its setup, what a command needs, and how the last run by a person is kept."""

import json
from pathlib import Path

import pytest

from tenex.tools.project_commands import line_of, missing_program
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.project_runs import ProjectRuns
from tenex.tools.project_setup import propose_setup

from .conftest import put

VENV = "python3 -m venv .venv"
PACKAGE = "[build-system]\nrequires = []\n[project]\nname = 'x'\ndependencies = ['y']\n"
NODE = {"devDependencies": {"vite": "1"}}


@pytest.mark.parametrize(
    ("files", "setup"),
    [
        ({}, ""),
        (
            {"pyproject.toml": f"{PACKAGE}[project.optional-dependencies]\ntests = ['pytest']\ndocs = ['mkdocs']\n"},
            f"{VENV} && pip install -e '.[tests]'",
        ),
        (
            {"pyproject.toml": "[project]\nname = 'x'\n[dependency-groups]\ndev = ['z>=1', {include-group = 'test'}]\n"
             "test = ['pytest>=8', {include-group = 'dev'}]\n", "tests/test_a.py": ""},
            f"{VENV} && pip install -e . 'pytest>=8' 'z>=1'",
        ),
        ({"requirements.txt": "y\n", "tests/test_a.py": ""}, f"{VENV} && pip install -r requirements.txt pytest"),
        ({"setup.py": "", "tox.ini": "[testenv]\ncommands = nose\n"}, f"{VENV} && pip install -e ."),
        ({"package.json": json.dumps(NODE)}, "npm install"),
        ({"package.json": json.dumps(NODE), "package-lock.json": ""}, "npm ci"),
        ({"package.json": json.dumps(NODE), "pnpm-lock.yaml": ""}, "pnpm install --frozen-lockfile"),
        ({"package.json": json.dumps(NODE | {"packageManager": "yarn@4"})}, "yarn install"),
        ({"package.json": json.dumps(NODE | {"packageManager": "yarn@4.1.0"}), "yarn.lock": ""},
         "yarn install --immutable"),
        ({"package.json": json.dumps(NODE | {"packageManager": "yarn@1.22.0"}), "yarn.lock": ""},
         "yarn install --frozen-lockfile"),
        ({"package.json": json.dumps(NODE), "yarn.lock": "# yarn lockfile v1\n"}, "yarn install --frozen-lockfile"),
        ({"package.json": json.dumps(NODE), "yarn.lock": "__metadata:\n  version: 8\n"}, "yarn install --immutable"),
        ({"package.json": json.dumps(NODE), "bun.lock": ""}, "bun install --frozen-lockfile"),
        ({"package.json": json.dumps(NODE | {"packageManager": "pnpm@9"}), "package-lock.json": ""}, "pnpm install"),
        ({"pyproject.toml": PACKAGE, "uv.lock": ""}, "uv sync --locked"),
        ({"pyproject.toml": "[tool.poetry.dependencies]\nx = '1'\n", "poetry.lock": ""},
         f"{VENV} && poetry install --no-interaction"),
        ({"pyproject.toml": PACKAGE, "pdm.lock": ""}, "pdm sync"),
        ({"Cargo.toml": "[package]\nname = 'x'\n", "Cargo.lock": ""}, ""),
        ({"Cargo.toml": "[package]\n[dependencies]\ny = '1'\n"}, "cargo fetch"),
        ({"Cargo.toml": "[package]\n[target.'cfg(unix)'.dev-dependencies]\ny = '1'\n", "Cargo.lock": ""},
         "cargo fetch --locked"),
        ({"Cargo.toml": "[workspace]\nmembers = ['a']\n", "Cargo.lock": ""}, "cargo fetch --locked"),
        ({"go.mod": "module x\n"}, ""),
        ({"go.mod": "module x\n\nrequire (\n\ty v1\n)\n"}, "go mod download"),
        ({"Gemfile": ""}, "bundle config set --local path vendor/bundle && bundle install"),
        ({"composer.json": '{"require-dev": {"phpunit/phpunit": "^10"}}'}, "composer install --no-interaction"),
        ({"composer.json": "{}"}, ""),
        ({"mix.exs": 'defp deps, do: [{:jason, "~> 1"}]', "mix.lock": ""}, "mix deps.get --check-locked"),
        ({"mix.exs": "defp deps, do: []"}, ""),
        ({"a.csproj": ""}, "dotnet restore"),
        ({"a.csproj": "", "packages.lock.json": ""}, "dotnet restore --locked-mode"),
        ({"pom.xml": ""}, "mvn -B dependency:go-offline"),
        ({"pom.xml": "", "mvnw": ""}, "./mvnw -B dependency:go-offline"),
        ({"package.json": "{}"}, ""),
        ({"pyproject.toml": "[project", "package.json": "[1]", "tox.ini": "no section"}, ""),
        ({"pyproject.toml": "tool = 1\nproject = 2\ndependency-groups = 3"}, f"{VENV} && pip install -e ."),
    ],
)  # fmt: skip
def test_a_setup_is_proposed_from_files(tmp_path: Path, files: dict[str, str], setup: str) -> None:
    put(tmp_path, files)
    assert line_of(propose_setup(tmp_path)) == setup


def test_the_last_run_of_a_line_is_kept(tmp_path: Path) -> None:
    runs = ProjectRuns(tmp_path / "data", lambda: 1_795_000_000)
    assert runs.last("setup", "make") is None
    runs.record("setup", "make", 1, "FAILED a\n== \x1b1 failed, 2 passed ==\n\n")
    assert str(runs.last("setup", "make")) == "2026-11-18 11:06 UTC, exit status 1 (1 failed, 2 passed)"
    assert runs.last("setup", "make all") is None, "the last run was of another line"
    (tmp_path / "data/workspace-runs/last.json").write_text("{")
    assert runs.last("setup", "make") is None
    runs.record("setup", "make", None, "")
    assert str(runs.last("setup", "make")) == "2026-11-18 11:06 UTC, stopped before its end"


def test_what_a_command_needs_is_looked_for_in_the_environment(root: Path) -> None:
    put(
        root,
        {".venv/bin/python": "", ".venv/lib/python3.12/site-packages/pytest/x": "", "tools/check": "", "own.py": ""},
    )
    (root / ".venv/bin/python").chmod(0o755)
    project = ProjectEnvironment(root)
    words = ["sh", "nothing-such", "tools/check", "tools/gone", *(f"python -m {name}" for name in
             ("pytest", "own", "unittest", "absent"))]  # fmt: skip
    missing = [missing_program(project, tuple(line.split())) for line in words]
    assert missing == ["", "nothing-such", "", "tools/gone", "", "", "", "the module absent"]


def test_modules_of_the_system_count_where_the_workspace_has_no_environment_or_shares_them(root: Path) -> None:
    put(root, {"system/bin/python3": "", "system/lib/python3.12/site-packages/pytest/x": ""})
    (root / "system/bin/python3").chmod(0o755)
    project = ProjectEnvironment(root / "own", (root / "system/bin",))
    command = ("python3", "-m", "pytest")
    assert missing_program(project, command) == ""
    put(root, {"own/.venv/bin/python": "", "own/.venv/bin/python3": "", "own/.venv/pyvenv.cfg": "home = x\n"})
    for name in ("python", "python3"):
        (root / "own/.venv/bin" / name).chmod(0o755)
    assert missing_program(project, command) == "the module pytest"
    shared = f"home = {root}/system/bin\ninclude-system-site-packages = true\n"
    (root / "own/.venv/pyvenv.cfg").write_text(shared)
    assert missing_program(project, command) == ""
