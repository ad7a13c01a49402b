"""A snapshot that trusts stamps is the one that git would take, and starts git only for what has changed."""

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.tools import file_stamps, shadow_git
from tenex.tools.checkpoints import Checkpoints
from tests.programs import needs_git

from .conftest import put

pytestmark = needs_git

EXPECTED: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "nothing": (lambda root: None, []),
    "a file": (lambda root: put(root, {"a": "2"}), ["update-index", "write-tree"]),
    "two files": (lambda root: put(root, {"a": "2", "src/b": "two"}), ["update-index", "write-tree"]),
    "a file of a folder that is never kept": (lambda root: put(root, {"node_modules/m/new.js": "1"}), []),
    "the workspace's own repository": (lambda root: put(root, {".git/index": "1"}), []),
}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of git that were run on the shadow repository."""
    names: list[str] = []
    run = subprocess.run

    def noted(arguments: list[str], *others: Any, **options: Any) -> Any:
        names.append(arguments[5])  # after the program and two options with their values
        return run(arguments, *others, **options)

    monkeypatch.setattr("tenex.tools.shadow_git.subprocess.run", noted)
    return names


def fill(root: Path) -> None:
    put(root, {"a": "1", "src/b": "one", "src/deep/c": "1", "x.log": "1", ".gitignore": "*.log\nbuild/\n"})
    put(root, {"build/out": "1", "node_modules/m/i.js": "1", ".git/HEAD": "ref: refs/heads/main"})
    (root / "link").symlink_to("a")
    (root / "empty").mkdir()


@pytest.mark.parametrize("change", EXPECTED)
def test_git_is_started_for_changed_files_alone(folder: Path, root: Path, commands: list[str], change: str) -> None:
    fill(root)
    checkpoints = Checkpoints(folder, root)
    checkpoints.take()
    commands.clear()
    action, expected = EXPECTED[change]
    action(root)
    snapshot = checkpoints.take()
    assert commands == expected
    assert snapshot == Checkpoints(folder, root).take()


OTHER_CHANGES: dict[str, Callable[[Path], Any]] = {
    "the last file of a folder that is never kept": lambda root: (root / "__pycache__/a.pyc").unlink(),
    "the first file of a folder that is never kept": lambda root: put(root, {"src/__pycache__/b.pyc": "1"}),
    "what git ignores": lambda root: put(root, {".gitignore": "*.lo_\nbuild/\n"}),
    "an ignored file": lambda root: put(root, {"x.log": "2"}),
    "a file that becomes too large": lambda root: put(root, {"a": "1" * 200}),
    "permissions": lambda root: (root / "a").chmod(0o600),
    "a link": lambda root: _link(root, "b"),
    "a folder without files": lambda root: (root / "empty").rmdir(),
}


@pytest.mark.parametrize("change", OTHER_CHANGES)
def test_git_looks_at_everything_where_more_than_content_has_changed(
    tmp_path: Path, folder: Path, root: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.tools.snapshots.LARGEST_KEPT", 100)
    fill(root)
    put(root, {"__pycache__/a.pyc": "1"})
    (root / "src/__pycache__").mkdir()
    checkpoints = Checkpoints(folder, root)
    before = checkpoints.take()
    OTHER_CHANGES[change](root)
    snapshot = checkpoints.take()
    assert snapshot != before
    assert snapshot == Checkpoints(tmp_path / "anew", root).take()


def test_what_git_says_of_trees_is_asked_once(folder: Path, root: Path, commands: list[str]) -> None:
    put(root, {"a": "1"})
    checkpoints = Checkpoints(folder, root)
    before = checkpoints.take()
    put(root, {"a": "2"})
    after = checkpoints.take()
    commands.clear()
    assert checkpoints.changes(before, after) == checkpoints.changes(before, after)
    assert checkpoints.files(after.tree) == checkpoints.files(after.tree)
    assert commands == ["diff-tree", "ls-tree"]


def _rewrite(root: Path, path: str) -> None:
    """Write other bytes, of the same number, and put the time of the content back."""
    file = root / path
    if not file.is_file() or file.is_symlink():
        return
    about = file.stat()
    file.write_text("".join(random.choices("xyz", k=about.st_size)))
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def _remove(root: Path, path: str) -> None:
    (root / path).unlink(missing_ok=True)


def _move(root: Path, path: str, to: str) -> None:
    if (root / path).exists() and (root / to).parent.is_dir() and not (root / to).exists():
        (root / path).rename(root / to)


def _link(root: Path, target: str) -> None:
    (root / "link").unlink(missing_ok=True)
    (root / "link").symlink_to(target)


def _mode(root: Path, path: str, mode: int) -> None:
    if (root / path).exists():
        (root / path).chmod(mode)


def _empty_folder(root: Path, path: str) -> None:
    (root / path).mkdir(parents=True, exist_ok=True)


def _repository(root: Path, path: str) -> None:
    _empty_folder(root, path)
    subprocess.run(["git", "init", "-q", str(root / path)], check=True)


FILES = ("a", "src/b", "src/deep/c", "new/d", "x.log", "build/out", "node_modules/m/i.js", "src/__pycache__/b.pyc")

ACTIONS: tuple[Callable[[Path, random.Random], None], ...] = (
    lambda root, chance: put(root, {chance.choice(FILES): str(chance.random())}),
    lambda root, chance: put(root, {chance.choice(FILES): "y" * chance.randrange(30)}),
    lambda root, chance: _rewrite(root, chance.choice(FILES)),
    lambda root, chance: _rewrite(root, chance.choice(FILES)),
    lambda root, chance: _remove(root, chance.choice(FILES)),
    lambda root, chance: _move(root, chance.choice(FILES), chance.choice(("src/moved", "build/moved", "a"))),
    lambda root, chance: _link(root, chance.choice(("a", "src", "nowhere"))),
    lambda root, chance: _mode(root, chance.choice((*FILES, "src", "build")), chance.choice((0o755, 0o700))),
    lambda root, chance: _mode(root, chance.choice(FILES), chance.choice((0o644, 0o600, 0o755))),
    lambda root, chance: _empty_folder(root, chance.choice(("empty", "e/m/p/t/y", "src/__pycache__", "node_modules"))),
    lambda root, chance: put(root, {".gitignore": chance.choice(("", "*.log\n", "build/\nsrc/\n", "*\n!a\n"))}),
    lambda root, chance: put(root, {"src/.gitignore": chance.choice(("", "b\n", "!*.log\n"))}),
    lambda root, chance: _repository(root, chance.choice(("sub", "sub/in", "build/sub"))),
    lambda root, chance: put(root, {chance.choice(("sub/f", "sub/in/g", "build/sub/h")): "1"}),
    lambda root, chance: put(root, {"large": "z" * chance.choice((90, 110))}),
    lambda root, chance: None,
)


@pytest.mark.parametrize("seed", range(6))
def test_after_whatever_changes_the_snapshot_is_that_of_one_who_looks_anew(
    tmp_path: Path, folder: Path, root: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where files are too large to be kept, or appear in folders that are ignored."""
    monkeypatch.setattr("tenex.tools.snapshots.LARGEST_KEPT", 100)
    chance = random.Random(seed)
    fill(root)
    checkpoints = Checkpoints(folder, root)
    for _ in range(10):
        for _ in range(chance.choice((1, 1, 2))):
            chance.choice(ACTIONS)(root, chance)
        snapshot = checkpoints.take()
        assert snapshot == Checkpoints(tmp_path / "anew", root).take()
        assert checkpoints.read(snapshot.tree) == [snapshot]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system whose clock stands still."""
    moment = time.time_ns() + 10**12

    def stamp(about: os.stat_result) -> tuple[int, ...]:
        return (about.st_mode, about.st_size, about.st_ino, moment, moment)

    monkeypatch.setattr(file_stamps, "_stamp", stamp)


@pytest.mark.usefixtures("slow_clock")
def test_a_file_that_was_written_twice_within_a_step_of_the_clock_is_read_again(folder: Path, root: Path) -> None:
    put(root, {"a": "1", "b": "1"})
    (root / "link").symlink_to("a")
    checkpoints = Checkpoints(folder, root)
    first = checkpoints.take()
    assert checkpoints.take() == first
    put(root, {"a": "2"})
    second = checkpoints.take()
    assert [change.path for change in checkpoints.changes(first, second)] == [b"a"]
    (root / "link").unlink()
    (root / "link").symlink_to("b")
    assert [change.path for change in checkpoints.changes(second, checkpoints.take())] == [b"link"]


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(("name", "most"), [("MOST_DIGESTED", 1), ("LARGEST_DIGESTED", 10)])
def test_too_much_that_was_written_just_now_is_left_to_git(
    folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(file_stamps, name, most)
    put(root, {"a": "1" * 11, "b": "1"})
    checkpoints = Checkpoints(folder, root)
    first = checkpoints.take()
    put(root, {"a": "2" * 11})
    assert checkpoints.take().tree != first.tree


def test_a_workspace_with_too_many_files_is_left_to_git(
    folder: Path, root: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a": "1", "b": "1"})
    monkeypatch.setattr(file_stamps, "MOST_STAMPED", 1)
    checkpoints = Checkpoints(folder, root)
    checkpoints.take()
    commands.clear()
    checkpoints.take()
    assert "ls-files" in commands


def test_a_repository_that_git_cannot_open_is_noticed_though_nothing_has_changed(folder: Path, root: Path) -> None:
    put(root, {"a": "1"})
    checkpoints = Checkpoints(folder, root)
    checkpoints.take()
    (folder / "HEAD").write_text("")
    with pytest.raises(shadow_git.CheckpointFailed, match="not a git repository"):
        checkpoints.take()
