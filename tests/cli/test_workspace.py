"""`tenex workspace`: the project's environment is made in the sandbox, and what is missing is named."""

import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.kits.commands import Tenex
from tests.programs import needs_bubblewrap

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
    }
    assert "checks" not in written
    text = (data / "tenex.toml").read_text()
    assert '# [checks.test]\n# run = "python3 -m pytest"\n# [checks.lint]\n# run = "ruff check ."\n' in text
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
    probe = ["python", "-c", program]
    set_up(tenex, data, project, f"setup = {MADE}\n[checks.test]\nrun = {json.dumps(shlex.join(probe))}")
    before = tenex(f"workspace show --data {data}").out
    assert "missing    pyproject.toml asks for packages, and there is no .venv; run `tenex workspace setup`" in before
    shown = json.loads(tenex(f"workspace setup --json --data {data}").out)
    assert (shown["status"], shown["log"]) == (0, str(data / "workspace-runs/setup.log"))
    log = (data / "workspace-runs/setup.log").read_text()
    assert log.startswith("$ python3 -m venv --without-pip .venv\n")
    assert f"\n{project}/.venv\n" in log
    assert (data / "workspace-runs/setup.log").stat().st_mode & 0o077 == 0
    assert (
        tenex(f"workspace check test --data {data}").out == f"test: 42  (log: {data}/workspace-runs/check-test.log)\n"
    )
    assert "TENEX" not in (data / "workspace-runs/check-test.log").read_text()
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
        one["message"].partition(":")[0]: one["location"]
        for one in report["findings"]
        if one["check"] == "workspace" and one["level"] == "warning"
    }
    assert found == {
        "pyproject.toml asks for packages, and there is no .venv": str(project),
        "the check test is `python3 -m pytest`, and the module pytest is not found, so it does not run": (
            f"{project}/tests/test_a.py"
        ),
        "the last setup failed": f"{data}/workspace-runs/setup.log",
    }


def test_doctor_names_a_check_whose_program_is_not_there(tenex: Tenex, tmp_path: Path, project: Path) -> None:
    data = tmp_path / "data"
    set_up(tenex, data, project, '[checks.lint]\nrun = "nothing-such ."')
    message = "the check lint is `nothing-such .`, and nothing-such is not found"
    assert message in json.loads(tenex(f"workspace show --json --data {data}").out)["missing"]
    assert 'or set `run = ""`' in tenex(f"doctor --data {data}", code=None).out


@needs_bubblewrap
def test_checks_are_shown_with_who_names_them_and_run_by_name(tenex: Tenex, tmp_path: Path, project: Path) -> None:
    data = tmp_path / "data"
    (project / "Makefile").write_text("build:\n\t@echo built; touch made\n")
    tables = (
        '[checks.docs]\nrun = "echo 1; false | cat"\nwhen = ["docs/*"]',
        '[checks.lint]\nrun = ""',
        '[checks.fast]\nrun = "echo ok"',
    )
    set_up(tenex, data, project, "\n".join(tables))
    shown = tenex(f"workspace show --data {data}").out
    assert [line for line in shown.splitlines() if line.startswith("check ")] == [
        "check      docs: echo 1; false | cat (checks.docs, where docs/* changed)",
        "check      lint: switched off (checks.lint)",
        "check      fast: echo ok (checks.fast)",
        "check      build: make build (Makefile)",
        "check      test: python3 -m pytest (tests/test_a.py); does not run: the module pytest is not found",
    ]
    facts = json.loads(tenex(f"workspace show --json --data {data}").out)["checks"]
    assert {one["name"]: one["runs"] for one in facts} == {
        "docs": True,
        "lint": False,
        "fast": True,
        "build": True,
        "test": False,
    }
    assert "There is no check fats; did you mean `fast`?" in tenex(f"workspace check fats --data {data}", code=2).err
    assert tenex(f"workspace check build --data {data}").out.startswith("build: built  (log: ")
    assert (project / "made").exists()
    ended = tenex(f"workspace check --data {data}", code=1)
    assert "docs: `echo 1; false | cat` ended with exit status 1." in ended.out
    assert "fast: ok" in ended.out
    assert "Not passed: docs." in ended.err
    assert (
        "checks that run after a turn which changed files: docs, fast, build"
        in tenex(f"doctor --data {data}", code=None).out
    )
    assert "run by hand" in tenex(f"workspace show --data {data}").out


def test_without_a_sandbox_only_checks_that_are_set_run(
    tenex: Tenex, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "Makefile").write_text("build:\n")
    set_up(tenex, tmp_path / "data", project, '[checks.fast]\nrun = "echo ok"')
    monkeypatch.setenv("TENEX_TOOLS__SHELL__SANDBOX", "none")
    shown = tenex(f"workspace show --data {tmp_path}/data").out
    assert "build: make build (Makefile); does not run: there is no sandbox\n" in shown
    assert tenex(f"workspace check --data {tmp_path}/data").out.startswith("fast: ok  (log: ")
    monkeypatch.setenv("TENEX_TOOLS__SHELL__SANDBOX", "off")
    assert "No check of the project can run." in tenex(f"workspace check --data {tmp_path}/data", code=2).err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "No command is set for setup"),
        ('setup = ["nothing-such"]', "The sandbox has no nothing-such: install it"),
        ('setup = ["./gone"]', "./gone is not found"),
    ],
)
@needs_bubblewrap
def test_what_cannot_be_run_is_told(tenex: Tenex, tmp_path: Path, project: Path, lines: str, words: str) -> None:
    set_up(tenex, tmp_path / "data", project, lines)
    assert words in tenex(f"workspace setup --data {tmp_path}/data", code=2).err


@pytest.mark.parametrize("value", ['"make test"', "[[]]", '["a", ["b"]]', "[1]", '[""]', '["a\\u0000"]'])
def test_a_step_is_a_list_of_arguments(tenex: Tenex, tmp_path: Path, project: Path, value: str) -> None:
    set_up(tenex, tmp_path / "data", project, f"setup = {value}")
    assert "workspace.setup: must" in tenex(f"config check --data {tmp_path}/data", code=3).err


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


@needs_bubblewrap
def test_a_program_that_is_outside_is_named_with_the_line_that_shows_it(
    tenex: Tenex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `init` to doctor; the line works as it is printed."""
    home = tmp_path / "home"
    for place in (".cargo/bin/rustup", ".cargo/bin/zig-like"):
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text("#!/bin/sh\necho works\n")
        (home / place).chmod(0o755)
    (home / ".cargo/bin/cargo").symlink_to("zig-like")
    (home / ".cargo/bin/rustc").symlink_to("zig-like")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Cargo.toml").write_text('[package]\nname = "x"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tenex.tools.project_environment.SYSTEM_PATH", ("/bin",))
    monkeypatch.setenv("PATH", "/bin")
    data = tmp_path / "data"
    line = 'path = ["~/.cargo"]'
    made = tenex(f"init --dir {data} --workspace {folder} --model offline").err
    needed = f"Rust needs cargo: it is {home}/.cargo/bin/cargo outside the sandbox: write {line} under [workspace]."
    assert needed in made
    shown = tenex(f"workspace show --data {data}").out
    assert "rust       no cargo, no rustc, /bin/cc (Cargo.toml)" in shown
    assert f"Rust needs cargo, which the sandbox does not have; it is {home}/.cargo/bin/cargo outside" in shown
    report = tenex(f"doctor --data {data}", code=None).out
    assert line in report
    assert "nothing is missing" not in report

    with (data / "tenex.toml").open("a") as file:
        file.write(f"\n[workspace]\n{line}\n")
    shown = tenex(f"workspace show --data {data}").out
    assert f"rust       {home}/.cargo/bin/cargo, {home}/.cargo/bin/rustc, /bin/cc (Cargo.toml)" in shown
    assert "missing" not in shown
    assert tenex(f"workspace check test --data {data}").out.startswith("test: works")
    facts = json.loads(tenex(f"workspace show --json --data {data}").out)["ecosystems"]
    assert facts[0]["programs"]["cargo"] == f"{home}/.cargo/bin/cargo"
    report = tenex(f"doctor --data {data}", code=None).out
    assert "nothing is missing of what the project's files name: Rust (cargo, rustc, cc)" in report


def test_doctor_says_where_no_file_tells_what_a_project_needs(tenex: Tenex, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "project").mkdir()
    (tmp_path / "nothing").mkdir()
    set_up(tenex, data, tmp_path / "project", f'path = ["{tmp_path}/nothing"]')
    assert f"there is no program in {tmp_path}/nothing" in tenex(f"doctor --data {data}", code=None).out
    (tmp_path / "nothing").rmdir()
    assert f"there is no folder {tmp_path}/nothing" in tenex(f"doctor --data {data}", code=None).out
    text = (data / "tenex.toml").read_text()
    (data / "tenex.toml").write_text(text.replace(f'path = ["{tmp_path}/nothing"]', ""))
    assert "no file of a known kind tells what the project needs" in tenex(f"doctor --data {data}", code=None).out
