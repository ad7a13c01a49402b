"""What files of a project say about its commands, and which command lines were a run of its tests."""

import json
from pathlib import Path

import pytest

from tenex.tools.project_commands import ProjectCommands, line_of, missing_program, propose
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.project_runs import ProjectRuns, is_whole_run
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap

from .conftest import SANDBOXED, Bench, put

VENV = "python3 -m venv .venv"
PACKAGE = "[build-system]\nrequires = []\n[project]\nname = 'x'\ndependencies = ['y']\n"
NPM = ("npm run lint", "npm run build")
NODE = {"scripts": {"test": "vitest", "lint": "eslint", "build": "vite"}, "devDependencies": {"vite": "1"}}


@pytest.mark.parametrize(
    ("files", "setup", "test", "lint", "build"),
    [
        ({}, "", "", "", ""),
        (
            {"pyproject.toml": f"{PACKAGE}[project.optional-dependencies]\ntests = ['pytest']\ndocs = ['mkdocs']\n"
             "[tool.pytest.ini_options]\n[tool.ruff]\n"},
            f"{VENV} && pip install -e '.[tests]'", "python -m pytest", "ruff check .", "",
        ),
        (
            {"pyproject.toml": "[project]\nname = 'x'\n[dependency-groups]\ndev = ['z>=1', {include-group = 'test'}]\n"
             "test = ['pytest>=8', {include-group = 'dev'}]\n", "tests/test_a.py": ""},
            f"{VENV} && pip install -e . 'pytest>=8' 'z>=1'", "python -m pytest", "", "",
        ),
        (
            {"requirements.txt": "y\n", "tests/test_a.py": ""},
            f"{VENV} && pip install -r requirements.txt pytest", "python -m pytest", "", "",
        ),
        ({"setup.py": "", "tox.ini": "[testenv]\ncommands = nose\n"}, f"{VENV} && pip install -e .", "tox", "", ""),
        ({"tox.ini": "[testenv]\ncommands = {envpython} -m pytest %(x)s\n"}, "", "python -m pytest", "", ""),
        ({"package.json": json.dumps(NODE)}, "npm install", "npm test", *NPM),
        ({"package.json": json.dumps(NODE), "package-lock.json": ""}, "npm ci", "npm test", *NPM),
        ({"Makefile": "VAR := 1\ntest lint:\n\tx\nbuild: a\n\ty\ntest: build\n"}, "", "make test", "", "make build"),
        (
            {"AGENTS.md": "Run `pytest -q tests`, not `make test`.\n```\n$ ruff check src\nnpm run build | cat\n```\n",
             "Makefile": "test:\n"},
            "", "pytest -q tests", "ruff check src", "",
        ),
        ({"AGENTS.md": 'Use `pytest $(evil)` or `pytest <file>` or `pytest "x`.', "Makefile": "test:"},
         "", "make test", "", ""),
        ({"pyproject.toml": "[project", "package.json": "[1]", "tox.ini": "no section"}, "", "", "", ""),
        ({"pyproject.toml": "tool = 1\nproject = 2\ndependency-groups = 3"}, f"{VENV} && pip install -e .", "", "", ""),
    ],
)  # fmt: skip
def test_commands_are_proposed_from_files(
    tmp_path: Path, files: dict[str, str], setup: str, test: str, lint: str, build: str
) -> None:
    put(tmp_path, files)
    found = propose(tmp_path)
    assert [line_of(found.steps(name)) for name in ("setup", "test", "lint", "build")] == [setup, test, lint, build]


@pytest.mark.parametrize(
    ("line", "is_run"),
    [
        ("python -m pytest", True),
        ("cd . && python  -m pytest -q --tb=short 2>&1", True),
        ("export X=1; python -m pytest", True),
        ("python -m pytest -q --benchmark-disable --cov=src", True),
        ("python -m pytest --lf", False),
        ("python -m pytest --ignore=tests/slow", False),
        ("python -m pytest --collect-only", False),
        ("python -m pytest --color=no; true", False),
        ("python -m pytest --color=no|tail", False),
        ("python -m pytest tests/test_a.py", False),
        ("python -m pytest -k one", False),
        ("python -m pytest | tail", False),
        ("python -m pytest; true", False),
        ("python -m pytest || python -m pytest", False),
        ("echo python -m pytest", False),
        ("python -m pytest-x", False),
        ("", False),
    ],
)
def test_only_a_whole_run_counts(line: str, is_run: bool) -> None:
    assert is_whole_run(line, [("python", "-m", "pytest")]) is is_run
    assert not is_whole_run(line, [])


@needs_bubblewrap
async def test_runs_of_the_tests_by_agents_are_recorded(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    put(root, {"Makefile": "test:\n\t@echo 3 passed; test ! -e broken\n", "src/x": ""})
    runs = ProjectRuns(tmp_path / "data")
    tools, test = Bench([shell_tool(Programs(workspace, SANDBOXED, runs=runs))]), [("make", "test")]
    await tools.run("make test", cwd="src")
    await tools.run("make test | cat")
    assert runs.last("test", test) is None
    await tools.run("ls && make test")
    assert (last := runs.last("test", test)) is not None
    assert (last.status, last.last_line) == (0, "3 passed")
    await tools.run("touch broken; make test")
    assert (last := runs.last("test", test)) is not None
    assert last.status == 2
    (tmp_path / "data/workspace-runs/last.json").write_text("{")
    assert runs.last("test", test) is None
    await tools.run("rm broken; make test")
    assert (last := runs.last("test", test)) is not None
    assert last.status == 0


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
    assert ProjectCommands().steps("test") == ()
