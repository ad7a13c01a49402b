"""`tenex workspace`: the project's environment is made in the sandbox, and what is missing is named."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.programs import needs_bubblewrap

from .conftest import Tenex

MADE = '[["python3", "-m", "venv", "--without-pip", ".venv"], ["python", "-c", "import sys; print(sys.prefix)"]]'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project of Python."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests/test_a.py").touch()
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\ndependencies = ['y']\n[tool.ruff]\n")
    return folder


def set_up(tenex: Tenex, data: Path, workspace: Path, lines: str) -> None:
    tenex(f"init --dir {data} --model offline")
    with (data / "tenex.toml").open("a") as file:
        file.write(f'\n[paths]\nworkspace = "{workspace}"\n[workspace]\n{lines}\n')


def test_init_proposes_commands_and_runs_nothing(tenex: Tenex, tmp_path: Path, project: Path) -> None:
    data = tmp_path / "data"
    tenex(f"init --dir {data} --workspace {project} --model offline")
    written = tomllib.loads((data / "tenex.toml").read_text())
    assert written["paths"] == {"workspace": str(project)}
    assert written["project"] == {"name": project.name}
    assert written["workspace"] == {
        "setup": [["python3", "-m", "venv", ".venv"], ["pip", "install", "-e", ".", "pytest"]],
        "setup_network": True,
        "test": ["python", "-m", "pytest"],
        "lint": ["ruff", "check", "."],
    }
    assert sorted(path.name for path in project.iterdir()) == ["pyproject.toml", "tests"]
    tenex(f"config check --data {data}")
    shown = tenex(f"init --dir {data} --workspace {tmp_path}/other", code=2).err
    assert "set paths.workspace in it" in shown


@needs_bubblewrap
def test_setup_makes_the_environment_in_the_sandbox_and_keeps_its_log(
    tenex: Tenex, tmp_path: Path, project: Path
) -> None:
    data = tmp_path / "data"
    program = f"import os; print(sorted(os.environ)); open('{tmp_path}/outside', 'w'); print(42)"
    probe = json.dumps(["python", "-c", program])
    set_up(tenex, data, project, f"setup = {MADE}\ntest = {probe}")
    before = tenex(f"workspace show --data {data}").out
    assert "missing    pyproject.toml asks for packages, and there is no .venv; run `tenex workspace setup`" in before
    shown = json.loads(tenex(f"workspace setup --json --data {data}").out)
    assert (shown["status"], shown["log"]) == (0, str(data / "workspace-runs/setup.log"))
    log = (data / "workspace-runs/setup.log").read_text()
    assert log.startswith("$ python3 -m venv --without-pip .venv\n")
    assert f"\n{project}/.venv\n" in log
    assert (data / "workspace-runs/setup.log").stat().st_mode & 0o077 == 0
    assert tenex(f"workspace test --data {data}").out == "test: 42\n"
    assert "TENEX" not in (data / "workspace-runs/test.log").read_text()
    assert not (tmp_path / "outside").exists()

    facts = json.loads(tenex(f"workspace show --json --data {data}").out)
    assert (facts["python"], facts["missing"]) == (f"{project}/.venv/bin/python", [])
    assert "exit status 0 (42)" in tenex(f"workspace show --data {data}").out
    tenex(f"workspace setup --data {data}")  # again, with the environment's own interpreter on the path


@needs_bubblewrap
def test_a_step_that_fails_ends_the_setup_and_doctor_names_the_log(tenex: Tenex, tmp_path: Path, project: Path) -> None:
    data = tmp_path / "data"
    set_up(tenex, data, project, 'setup = [["sh", "-c", "echo reason; exit 3"], ["touch", "ran"]]')
    shown = tenex(f"workspace setup --data {data}", code=1).err
    assert "  reason\n" in shown
    assert f"ended with exit status 3. Its log: {data}/workspace-runs/setup.log" in shown
    assert not (project / "ran").exists()
    report = json.loads(tenex(f"doctor --json --data {data}", code=None).out)
    found = {
        one["message"].partition(":")[0]: one["location"] for one in report["findings"] if one["check"] == "workspace"
    }
    assert found == {
        "pyproject.toml asks for packages, and there is no .venv": str(project),
        "the tests are run by `python -m pytest`, and python is not found": "workspace.test",
        "the last setup failed": f"{data}/workspace-runs/setup.log",
    }


@pytest.mark.parametrize("name", ["lint", "build"])
def test_doctor_names_a_command_whose_program_is_not_there(
    tenex: Tenex, tmp_path: Path, project: Path, name: str
) -> None:
    data = tmp_path / "data"
    set_up(tenex, data, project, f'{name} = ["nothing-such", "."]')
    message = f"the command {name} is `nothing-such .`, and nothing-such is not found"
    assert message in json.loads(tenex(f"workspace show --json --data {data}").out)["missing"]
    assert f"install it there, or set {name} = []" in tenex(f"doctor --data {data}", code=None).out


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "No command is set for setup"),
        ('setup = ["nothing-such"]', "nothing-such is not found in the workspace or on its path"),
        ('setup = ["./gone"]', "./gone is not found"),
    ],
)
@needs_bubblewrap
def test_what_cannot_be_run_is_told(tenex: Tenex, tmp_path: Path, project: Path, lines: str, words: str) -> None:
    set_up(tenex, tmp_path / "data", project, lines)
    assert words in tenex(f"workspace setup --data {tmp_path}/data", code=2).err


@pytest.mark.parametrize("value", ['"make test"', "[[]]", '["a", ["b"]]', "[1]", '[""]', '["a\\u0000"]'])
def test_a_command_is_a_list_of_arguments(tenex: Tenex, tmp_path: Path, project: Path, value: str) -> None:
    set_up(tenex, tmp_path / "data", project, f"test = {value}")
    assert "workspace.test: must" in tenex(f"config check --data {tmp_path}/data", code=3).err


def test_nothing_runs_without_a_sandbox_unless_the_operator_says_so(
    tenex: Tenex, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(tenex, tmp_path / "data", project, f"setup = {MADE}")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "there is no sandbox" in tenex(f"workspace setup --data {tmp_path}/data", code=2).err
    monkeypatch.setenv("TENEX_TOOLS__SHELL__SANDBOX", "none")
    shown = tenex(f"workspace setup --data {tmp_path}/data").out
    assert shown == f"setup: {project}/.venv\n"
    line = [str(project / ".venv/bin/python"), "-c", "print(1)"]
    assert subprocess.run(line, check=True, capture_output=True).stdout == b"1\n"
