"""What an agent is shown of the workspace before it begins: names of files, checks, and `AGENTS.md`."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tenex.main import main
from tenex.tools.overview import LARGEST_NOTES, LOOKED_AT, NAMED, overview, workspace_notes
from tenex.tools.project_checks import ProjectCheck, checks_of
from tenex.tools.project_commands import NOTES
from tenex.tools.project_environment import ProjectEnvironment

from .conftest import put


def test_the_files_of_the_root_come_before_those_of_folders(tmp_path: Path) -> None:
    """Without what other programs wrote, links to folders and names that cannot be printed."""
    assert overview(tmp_path, runs=True) == overview(tmp_path / "none", runs=True) == "It is empty."
    named = ("z.py", "a/b/c.py", "a/x.py", "README.md")
    others = (".git/config", "node_modules/x.js", "a/__pycache__/x.pyc", ".tenex-1", "two\nlines.py", "\udcff.py")
    put(tmp_path, dict.fromkeys((*named, *others), ""))
    (tmp_path / "elsewhere").symlink_to("/etc")
    assert overview(tmp_path, runs=False) == "Its files: README.md, elsewhere, z.py, a/x.py, a/b/c.py."


def test_many_files_are_counted_and_very_many_are_not_looked_at(tmp_path: Path) -> None:
    put(tmp_path, {f"{number:04}.py": "" for number in range(NAMED + 20)})
    assert overview(tmp_path, runs=False).endswith(f"{NAMED - 1:04}.py and 20 more.")
    put(tmp_path / "below", {f"{number}.py": "" for number in range(LOOKED_AT)})
    assert overview(tmp_path, runs=False).endswith(" and more.")


def test_like_files_that_do_not_fit_are_one_entry(tmp_path: Path) -> None:
    """Translations filled the list, and sources after them were not named."""
    names = [f"src/locale/{number:02}/{kind}" for number in range(NAMED) for kind in ("app.mo", "app.po")]
    put(tmp_path, dict.fromkeys((*names, "src/a.py", "src/z/deep/below/b.py"), ""))
    assert overview(tmp_path, runs=False) == (
        "Its files: src/a.py, src/locale/*/app.mo (100 files), src/locale/*/app.po (100 files), src/z/deep/below/b.py."
    )


def test_caches_are_not_listed(tmp_path: Path) -> None:
    put(tmp_path, dict.fromkeys((".pytest_cache/CACHEDIR.TAG", ".pytest_cache/v/nodeids", "target/CACHEDIR.TAG"), ""))
    put(tmp_path, {"CACHEDIR.TAG": "", "a.py": ""})
    assert overview(tmp_path, runs=False) == "Its files: CACHEDIR.TAG, a.py."


def test_the_checks_of_the_project_are_named(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": ""})
    checks = [ProjectCheck(name="test", run="pytest -x && node 'a b.js'"), ProjectCheck(name="lint", run="./lint .")]
    assert overview(tmp_path, runs=False, checks=checks) == "Its files: a.py."
    assert overview(tmp_path, runs=True, checks=checks).partition("\n")[2] == (
        "Its checks: test (`pytest -x && node 'a b.js'`), lint (`./lint .`). The daemon runs them itself after a turn "
        "that changed files."
    )


def test_an_environment_is_named_and_not_listed(tmp_path: Path) -> None:
    put(tmp_path, {"pyproject.toml": '[project]\ndependencies = ["x"]\n'})
    assert "It has no environment, and pyproject.toml asks for packages" in overview(tmp_path, runs=True)
    put(tmp_path, {"venv/bin/python": "", "venv/pyvenv.cfg": "version = 3.12.1\n", "venv/lib/python3.12/x.py": ""})
    (tmp_path / "venv/bin/python").chmod(0o755)
    shown = overview(tmp_path, runs=True)
    assert shown == "Its files: pyproject.toml.\n`python` is that of its environment venv 3.12.1 (not listed above)."
    assert overview(tmp_path, runs=False) == "Its files: pyproject.toml."


def listening(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is a pipe, socket or device"),
        (listening, "No such device or address"),
        (lambda place: place.symlink_to("/etc/passwd"), "it is a symbolic link"),
        (lambda place: place.symlink_to(NOTES), "it is a symbolic link"),
    ],
)
def test_notes_that_are_no_file_are_reported_and_closed(
    tmp_path: Path, make: Callable[[Path], None], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace").mkdir()
    make(tmp_path / "workspace" / NOTES)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    with capture_logs() as logged:
        assert workspace_notes(tmp_path / "workspace") == f"AGENTS.md was not read: {why}. Make it a plain text file."
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
    assert [entry["reason"] for entry in logged] == [why]
    os.mkfifo(tmp_path / "workspace" / "Makefile")  # nor does this one wait
    assert checks_of((), ProjectEnvironment(tmp_path / "workspace")) == ()
    assert main(["--data", str(tmp_path), "agents", "show", "executor", "--prompt"]) == 0
    assert f"AGENTS.md was not read: {why}. Make it a plain text file." in capsys.readouterr().out


def test_notes_are_read_up_to_a_size_and_none_is_none(tmp_path: Path) -> None:
    assert workspace_notes(tmp_path) is None
    (tmp_path / NOTES).write_bytes(b"Use tabs.\xff" + b"x" * LARGEST_NOTES)
    read = workspace_notes(tmp_path)
    assert read is not None
    assert read.startswith("Use tabs.\ufffdx")
    assert len(read) == LARGEST_NOTES
