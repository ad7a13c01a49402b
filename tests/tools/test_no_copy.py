"""Nothing is removed or overwritten of which no copy exists: what a checkpoint could not keep stays, and is named."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenex.tools import restore, snapshots
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.workspace import Workspace
from tests.programs import needs_git

from . import conftest as kit
from .conftest import contents, every_tool, git, put
from .undo_kit import REF, Work
from .undo_kit import work as work  # a fixture

pytestmark = needs_git

BIG = "b" * 200
LARGE = b"row\n" * (11 * 1024 * 1024 // 4)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files over 100 bytes are not kept."""
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 100)


def listed(folder: Path, commit: str = REF) -> dict[str, str]:
    """What a checkpoint says that it does not hold, with the reasons."""
    lines = git(folder, "show", f"{commit}:{os.fsdecode(snapshots.NOT_KEPT)}").splitlines()
    return {entry["path"]: entry["why"] for entry in map(json.loads, lines) if "path" in entry}


def bytes_below(root: Path) -> set[bytes]:
    return {path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def test_what_a_person_writes_after_the_snapshot_stays(work: Work, root: Path) -> None:
    put(root, dict.fromkeys(("edited", "gone"), "1"))
    before = work.checkpoints.take()
    put(root, {"edited": "2", "new": "2", "goes": "2"})
    (root / "gone").unlink()
    after = work.checkpoints.take()
    put(root, {"edited": "mine", "new": "mine", "gone": "mine"})
    left = work.checkpoints.put_back(work.checkpoints.changes(before, after), before, after, {b"new", b"goes"})
    assert left == dict.fromkeys((b"edited", b"gone", b"new"), "changed since the checkpoint")
    assert contents(root) == dict.fromkeys(("edited", "gone", "new"), "mine")


def test_a_file_of_12_mb_that_was_replaced_is_named_by_a_rollback(root: Path, work: Work) -> None:
    put(root, {"a.csv": LARGE})
    before = work.calls(x="1")
    work.calls(**{"a.csv": "tiny\n"})
    work.calls(x="2")
    for expected in (("x",), ()):  # a second time too
        done = work.goes_back(before)
        assert done.left == {"a.csv": "was 12 MB and is not in the checkpoints"}
        assert done.files == expected
        assert (root / "a.csv").read_text() == "tiny\n"


@pytest.mark.parametrize("at", ["rename", "link"])
@pytest.mark.parametrize("wanted", ["1", None])
def test_what_an_editor_saves_in_the_middle_of_putting_back_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, at: str, wanted: str | None
) -> None:
    """It replaces the file by another after it was compared, or makes one while its name is free."""
    put(root, {"f": "2", "draft": "mine"})
    real = getattr(os, at)

    def saves(*args: Any, **kwargs: Any) -> None:
        with suppress(FileNotFoundError):
            (root / "draft").replace(root / "f")
        real(*args, **kwargs)

    monkeypatch.setattr(os, at, saves)
    there = restore.Copy(0o644, b"2")
    with suppress(OSError):
        if wanted is None:
            restore.remove(root, b"f", there)
        else:
            restore.replace(root, b"f", restore.Copy(0o644, b"1"), there)
    assert b"mine" in bytes_below(root)
    if (root / "draft").exists():  # the call during which it would have been saved was not needed
        assert (at, wanted) == ("link", None)


async def test_what_is_changed_without_a_checkpoint_is_said_after(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """They cannot be kept where they shall lie, as on a full disk."""
    put(root, {"a": "1", "b": "2"})
    put(folder.parent, {folder.name: "a file"})
    tools = every_tool(workspace, folder)
    said = "[There is no checkpoint of what was there before: what this changed cannot be brought back.]"
    assert said in (await tools.run("rm a")).content
    assert said in (await tools.do("move_file", path="b", to="c")).content
    assert said not in (await tools.do("move_file", path="b", to="c")).content, "it has changed nothing"
    assert contents(root) == {"c": "2"}


def test_a_full_disk_leaves_every_file_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, {"f": "2"})
    monkeypatch.setattr(os, "fchmod", kit.fails(28))
    with pytest.raises(OSError, match="No space"):
        restore.replace(root, b"f", restore.Copy(0o644, b"1"), restore.Copy(0o644, b"2"))
    assert contents(root) == {"f": "2"}


def test_a_rollback_gives_no_more_permissions_than_a_file_has(root: Path, work: Work) -> None:
    put(root, {"private": "1", "tool": "1"})
    for name, mode in (("private", 0o600), ("tool", 0o750)):
        (root / name).chmod(mode)
    before = work.calls(x="1")
    work.calls(private="2", tool="2")
    work.goes_back(before)
    assert (root / "private").stat().st_mode & 0o777 == 0o600
    assert (root / "tool").stat().st_mode & 0o777 == 0o750


def test_a_checkpoint_names_what_it_does_not_hold_and_why(
    root: Path, work: Work, folder: Path, small_limit: None
) -> None:
    put(root, {"large": BIG, ".gitignore": "*.log\nbuild/\n", "x.log": "1", "build/out": "1", "node_modules/m": "1"})
    put(root, {"mixed/large": BIG, "mixed/y.log": "1", "mixed/build/f": "1", "mixed/in/large": BIG})
    put(root, {"\udcff\n": BIG, "nested/f": "1", snapshots.NOT_KEPT.decode(): "a person's"})
    (root / "empty/er").mkdir(parents=True)
    git(root, "init", "-q", "nested")
    work.calls(a="1")
    assert listed(folder) == {
        "large": "200 bytes",
        "\udcff\n": "200 bytes",
        snapshots.NOT_KEPT.decode(): "its name is reserved",
        "x.log": "ignored",
        "mixed/large": "200 bytes",
        "mixed/in/large": "200 bytes",
        "mixed/y.log": "ignored",
        "mixed/build/": "ignored",
        "build/": "ignored",
        "node_modules/": "ignored",
        "empty": "empty folder",
        "empty/er": "empty folder",
    }
    assert git(folder, "ls-tree", "-r", "--name-only", REF).split() == [
        ".gitignore",
        ".tenex-not-kept",
        "a",
        "nested/f",
    ]
    (held,) = Checkpoints(folder, root).read(git(folder, "rev-parse", f"{REF}^{{tree}}").strip())
    assert held.empty == {b"empty", b"empty/er"}
    assert held.ignored == {b"x.log", b"build/", b"node_modules/", b"mixed/y.log", b"mixed/build/"}
    assert held.unkept.keys() == {b"large", b"mixed/large", b"mixed/in/large", b"\xff\n", snapshots.NOT_KEPT}


def test_of_many_ignored_paths_the_list_says_how_many_it_leaves_out(
    root: Path, work: Work, folder: Path, monkeypatch: pytest.MonkeyPatch, small_limit: None
) -> None:
    monkeypatch.setattr(snapshots, "MOST_NAMED", 2)
    put(root, {".gitignore": "*.log\n", "large": BIG, **{f"{number}.log": "1" for number in range(5)}})
    work.calls(a="1")
    lines = git(folder, "show", f"{REF}:.tenex-not-kept").splitlines()
    assert [json.loads(line).get("path") for line in lines] == [None, "large", "0.log", "1.log", None]
    assert json.loads(lines[-1]) == {"more": 3}
    (held,) = work.checkpoints.read(f"{REF}^{{tree}}")
    assert held.unkept.keys() == {b"large"}
    assert held.is_cut
