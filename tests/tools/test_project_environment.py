"""Programs of agents find the workspace's own interpreter and programs, and nothing of the daemon's."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.daemon_programs import find_program
from tenex.tools.ignored import ignored_below
from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import check_tool, python_tool, shell_tool
from tenex.tools.shell_runner import Programs
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from .conftest import SANDBOXED, Bench, make_context, put

BASE = Path(getattr(sys, "_base_executable", sys.executable))
WHERE = "import sys, only_here; print(sys.prefix, sys.path[-1] in only_here.__file__)"


def make_venv(folder: Path, modules: Mapping[str, str]) -> Path:
    """A real virtual environment, made as a person makes one, with modules installed."""
    subprocess.run([BASE, "-I", "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    put(packages, modules)
    return folder


def script(file: Path, says: str) -> None:
    put(file.parent, {file.name: f"#!/bin/sh\necho {says}\n"})
    file.chmod(0o755)


@pytest.fixture
def tools(workspace: Workspace, policy: RunPolicy, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The tools that run programs, of a daemon that was started from an active environment."""
    for name, value in {
        "VIRTUAL_ENV": sys.prefix,
        "PYTHONPATH": str(Path.cwd()),
        "PYTHONHOME": sys.base_prefix,
    }.items():
        monkeypatch.setenv(name, value)
    programs = Programs(workspace, replace(SANDBOXED, policy=policy))
    return Bench([shell_tool(programs), python_tool(programs), check_tool(workspace, policy)])


@pytest.mark.parametrize("name", [".venv", "venv"])
async def test_python_is_that_of_the_workspace(tools: Bench, root: Path, name: str) -> None:
    venv = make_venv(root / name, {"only_here.py": ""})
    script(venv / "bin/pytest", "the pytest of the workspace")
    script(root / "node_modules/.bin/tsc", "the tsc of the workspace")

    result = await tools.run(f'python -c "{WHERE}"; python3 -c "{WHERE}"; echo $VIRTUAL_ENV; pytest; tsc; env')
    lines = result.content.split("\n")[1:]
    assert lines[:5] == [f"{venv} True"] * 2 + [str(venv), "the pytest of the workspace", "the tsc of the workspace"]
    assert f"PATH={venv}/bin:{root}/node_modules/.bin:/usr/local/bin:/usr/bin:/bin" in lines
    assert not any(line.startswith("PYTHON") or sys.prefix in line for line in lines)
    assert (await tools.do("python", program=WHERE)).content.endswith(f"Output:\n{venv} True")


async def test_an_environment_that_is_made_later_counts_at_once(tools: Bench, root: Path) -> None:
    made = await tools.run("python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'")
    assert made.ok, made.content
    assert (await tools.run("command -v python")).content.endswith(f"{root}/.venv/bin/python")


@needs_bubblewrap
async def test_the_daemons_own_environment_is_not_seen_in_the_sandbox(sandboxed: Bench, root: Path) -> None:
    make_venv(root / ".venv", {})
    ours = Path(__file__).parents[2] / "tenex"
    for command in (f"ls {sys.prefix}", f"ls {ours}", "python -c 'import tenex'", "python -c 'import pydantic'"):
        assert not (await sandboxed.run(command)).ok, command


@needs_bubblewrap
async def test_what_an_agent_writes_into_an_environment_opens_no_folder(
    sandboxed: Bench, root: Path, outside: Path, tmp_path: Path
) -> None:
    """Settings and links of `.venv` are data of agents: only an installation of Python is shown for them."""
    put(outside, {"bin/python3": "", "lib/secret.txt": "the secret", "share/x": ""})
    put(root, {".venv/pyvenv.cfg": f"home = {outside}/bin\nversion = 3.12.1\n"})
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python").symlink_to(BASE)
    result = await sandboxed.run(f"cat {outside}/lib/secret.txt; ls {outside}")
    assert "the secret" not in result.content

    shutil.rmtree(root / ".venv")
    elsewhere = make_venv(tmp_path / "environment", {})
    (root / ".venv").symlink_to(elsewhere)
    assert ProjectEnvironment(root).venv() is None
    assert "environment" not in (await sandboxed.run("echo $PATH; ls")).content


@needs_bubblewrap
async def test_folders_that_the_operator_names_are_on_the_path(workspace: Workspace, tmp_path: Path) -> None:
    """With the libraries beside a `bin`, as those of Node."""
    script(tmp_path / "node/bin/npm", "$(cat $(dirname $0)/../lib/npm)")
    put(tmp_path, {"node/lib/npm": "its library", "node/keys": "a secret"})
    rules = replace(SANDBOXED, path=(tmp_path / "node/bin",))
    tools = Bench([shell_tool(Programs(workspace, rules))])
    assert (await tools.run(f"npm; ls {tmp_path}/node")).content.split("\n")[1:] == ["its library", "bin", "lib"]


@needs_bubblewrap
async def test_check_runs_tests_and_modules_with_the_workspaces_interpreter(workspace: Workspace, root: Path) -> None:
    fake = "import sys\nprint('pytest', *sys.argv[1:])\nsys.exit(5 * ('empty' in sys.argv[-1]))\n"
    make_venv(root / ".venv", {"pytest/__init__.py": "", "pytest/__main__.py": fake, "only_here.py": ""})
    package = "import sys\nfrom . import b\nfrom pkg import c\nprint(__name__, __package__, b.x + c.x)\n"
    files = {
        "tests/test_a.py": "",
        "tests/test_empty.py": "print('no tests')",
        "script.py": f"{WHERE}\nimport beside",
        "beside.py": "",
        **{f"{top}pkg/{name}.py": text for top in ("", "src/") for name, text in
           {"__init__": "", "a": package, "b": "x = 1", "c": "x = 2"}.items()},
    }  # fmt: skip
    put(root, files)
    tools = Bench([check_tool(workspace, RunPolicy.SANDBOXED)])
    context = make_context(Phase.VERIFICATION, touched=frozenset(files))
    for path, printed in {
        "tests/test_a.py": "pytest -q -p no:cacheprovider tests/test_a.py",
        "tests/test_empty.py": "no tests",
        "script.py": f"{root}/.venv True",
        "pkg/a.py": "__main__ pkg 3",
        "src/pkg/a.py": "__main__ pkg 3",
    }.items():
        result = await tools.do("check", context, path=path)
        assert result.content == f"{path} ended with exit status 0. Output:\n{printed}"


@needs_bubblewrap
async def test_a_file_of_tests_without_pytest_is_run_as_a_program(workspace: Workspace, root: Path) -> None:
    make_venv(root / ".venv", {})
    put(root, {"test_a.py": "print('as a program')"})
    tools = Bench([check_tool(workspace, RunPolicy.SANDBOXED)])
    result = await tools.do("check", make_context(touched=frozenset({"test_a.py"})), path="test_a.py")
    assert result.content.endswith("Output:\nas a program")


@needs_git
def test_the_daemon_runs_no_program_of_the_workspace(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own `PATH` may lead there, where it was started from the workspace's environment."""
    real = shutil.which("git")
    assert real is not None
    for folder in (root / ".venv/bin", root / "bin"):
        put(folder, {"git": f'#!/bin/sh\ntouch {root}/ran\nexec {real} "$@"\n'})
        (folder / "git").chmod(0o755)
    (tmp_path / "linked").symlink_to(root / "bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(root / "bin/git")
    monkeypatch.chdir(root)
    ways = (root / ".venv/bin", Path("bin"), tmp_path / "linked", Path(real).parent)
    monkeypatch.setenv("PATH", ":".join(["", *map(str, ways)]))
    assert find_program("git", root) == real
    Checkpoints(tmp_path / "shadow", root).take()
    ignored_below(root, root)
    assert not (root / "ran").exists()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_program("git", root) is None


def test_the_version_is_read_from_files(root: Path) -> None:
    put(root, {".venv/bin/python": "", ".venv/pyvenv.cfg": "home = /usr/bin\nversion_info = 3.12.4.final.0\n"})
    (root / ".venv/bin/python").chmod(0o755)
    assert ProjectEnvironment(root).python_version() == "3.12.4"
    (root / ".venv/pyvenv.cfg").unlink()
    assert ProjectEnvironment(root).python_version() == ""
