"""A file with several names keeps them: all have the new content, unless one is not for tools to change."""

import errno
import os
from pathlib import Path

import pytest

from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace

from .conftest import CHORES, Bench, contents, fails, having_read, names_in, put

KIB = 1024


async def test_both_names_have_the_new_text_and_count_as_changed(tools: Bench, root: Path) -> None:
    put(root, {"a": "one\ntwo\n", "d/other": ""})
    (root / "a").chmod(0o640)
    (root / "d/twin").hardlink_to(root / "a")
    edits = [{"old": "one", "new": "ONE"}]
    edited = await tools.do("edit_file", having_read(root, "a"), path="a", edits=edits)
    assert edited.content == "Changed a in 1 place. It is now:\n1\tONE\n2\ttwo\n[The same file (a hard link): d/twin.]"
    assert (edited.touched, set(edited.read)) == (("a", "d/twin"), {"a", "d/twin"})
    assert contents(root) == {"a": "ONE\ntwo\n", "d/twin": "ONE\ntwo\n", "d/other": ""}

    assert (await tools.do("write_file", having_read(root, "d/twin"), path="d/twin", content="1\n")).ok
    assert contents(root) == {"a": "1\n", "d/twin": "1\n", "d/other": ""}
    about = (root / "a").stat()
    assert (about.st_nlink, about.st_mode & 0o7777) == (2, 0o640)
    assert names_in(root) == ["a", "d"]
    assert names_in(root / "d") == ["other", "twin"]


@pytest.mark.parametrize("place", ["outside/twin", "workspace/.git/twin", "workspace/bare/twin"])
async def test_a_name_that_no_tool_may_change_keeps_the_old_text(
    tools: Bench, root: Path, tmp_path: Path, place: str
) -> None:
    put(root, {"a": "one\n", ".git/HEAD": "ref: refs/heads/main\n"})
    put(root, {f"bare/{name}": "" for name in ("HEAD", "objects/x", "refs/x")})
    twin = tmp_path / place
    twin.hardlink_to(root / "a")
    result = await tools.do("write_file", having_read(root, "a"), path="a", content="two\n")
    assert (result.content, result.touched) == ("Replaced a (4 bytes).", ("a",))
    assert ((root / "a").read_text(), twin.read_text()) == ("two\n", "one\n")


async def test_a_name_that_git_runs_keeps_the_old_text(tools: Bench, root: Path) -> None:
    put(root, {"a": "one\n", ".git/HEAD": "", ".git/config": "[core]\n\thooksPath = hooks\n", "hooks/other": ""})
    (root / "hooks/pre-commit").hardlink_to(root / "a")
    assert (await tools.do("write_file", having_read(root, "a"), path="a", content="two\n")).touched == ("a",)
    assert (root / "hooks/pre-commit").read_text() == "one\n"


async def test_a_name_that_the_phase_leaves_alone_protects_the_others(tools: Bench, root: Path) -> None:
    put(root, {"source.py": "one\n"})
    (root / "README.md").hardlink_to(root / "source.py")
    context = having_read(root, "README.md", phase=CHORES.phase)
    assert "source.py may not be changed" in await tools.refused("write_file", context, path="README.md", content="x")
    assert (root / "source.py").read_text() == "one\n"


@pytest.mark.parametrize("content", [b"longer than before", b"short", b""])
@pytest.mark.parametrize("good", range(4))
def test_a_full_disk_leaves_the_old_text(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, good: int, content: bytes
) -> None:
    """It is full from some write on: of the copy, of the folder, of the file, and then for the file once more."""
    put(root, {"a": "as it was"})
    (root / "b").hardlink_to(root / "a")
    real_fsync = os.fsync
    calls = 0

    def fills_up(opened: int) -> None:
        nonlocal calls
        calls += 1
        if calls == good + 1:
            fails(errno.ENOSPC)()
        real_fsync(opened)

    monkeypatch.setattr(os, "fsync", fills_up)
    if good == 3:
        workspace.update(root / "a", lambda _: content, KIB)
        assert (root / "b").read_bytes() == content
    else:
        with pytest.raises(Refusal, match="a cannot be used: the disk is full; nothing was changed"):
            workspace.update(root / "a", lambda _: content, KIB)
        assert contents(root) == {"a": "as it was", "b": "as it was"}
    assert names_in(root) == ["a", "b"]


def test_a_copy_stays_where_the_old_text_cannot_be_put_back(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"d/a": "as it was"})
    (root / "d/b").hardlink_to(root / "d/a")
    real_ftruncate = os.ftruncate
    calls = 0

    def breaks(opened: int, size: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            fails(errno.EIO)()
        real_ftruncate(opened, size)

    monkeypatch.setattr(os, "ftruncate", breaks)
    with pytest.raises(Refusal, match=r"d/a is damaged: .*What it held is in d/\.tenex-\w+;"):
        workspace.update(root / "d/a", lambda _: b"new", KIB)
    (copy,) = (root / "d").glob(".tenex-*")
    assert copy.read_text() == "as it was"
