"""Changes are whole, seen before they are overwritten, moved or deleted, and in chores kept to what chores are for."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace, digest

from .conftest import fails, make_context, names_in


async def write(registry: ToolRegistry, path: str, content: str, context: ExecutionContext | None = None) -> ToolResult:
    return await registry.call("write_file", {"path": path, "content": content}, context or make_context())


async def edit(registry: ToolRegistry, context: ExecutionContext, **arguments: Any) -> ToolResult:
    return await registry.call("edit_file", {"path": "a", **arguments}, context)


def having_read(workspace: Workspace, *paths: str, **more: Any) -> ExecutionContext:
    return make_context(read={path: digest((workspace.root / path).read_bytes()) for path in paths}, **more)


async def test_a_new_file_is_written_with_its_folders(registry: ToolRegistry, workspace: Workspace) -> None:
    result = await write(registry, "./src/app.py", "print('ü')\n")
    assert (workspace.root / "src/app.py").read_text() == "print('ü')\n"
    assert result == ToolResult(
        ok=True,
        content="Created src/app.py (12 bytes).",
        touched=("src/app.py",),
        read={"src/app.py": digest("print('ü')\n".encode())},
    )


@pytest.mark.parametrize("touched", [frozenset(), frozenset({"a"})], ids=["", "written by another agent of the cycle"])
async def test_only_a_file_that_was_read_is_overwritten(
    registry: ToolRegistry, workspace: Workspace, touched: frozenset[str]
) -> None:
    (workspace.root / "a").write_text("mine")
    result = await write(registry, "a", "yours", make_context(touched=touched))
    assert not result.ok
    assert "read it first" in result.content
    assert (workspace.root / "a").read_text() == "mine"
    assert not result.touched
    result = await write(registry, "a", "yours", having_read(workspace, "a"))
    assert result.content == "Replaced a (5 bytes)."
    assert (workspace.root / "a").read_text() == "yours"
    edited = await edit(registry, make_context(read=result.read), old="yours", new="ours")
    assert edited.content == "Changed a in 1 place."
    assert edited.read == {"a": digest(b"ours")}
    assert edited.touched == ("a",)


@pytest.mark.parametrize("touched", [frozenset(), frozenset({"a"})])
async def test_a_file_changed_since_is_left_alone(
    registry: ToolRegistry, workspace: Workspace, touched: frozenset[str]
) -> None:
    (workspace.root / "a").write_text("mine")
    context = having_read(workspace, "a", touched=touched)
    (workspace.root / "a").write_text("a person's")
    written = await write(registry, "a", "yours", context)
    edited = await edit(registry, context, old="person", new="x")
    for result in (written, edited):
        assert not result.ok
        assert "has changed since you read it" in result.content
    assert (workspace.root / "a").read_text() == "a person's"


async def test_a_write_repeated_after_a_crash_succeeds(registry: ToolRegistry, workspace: Workspace) -> None:
    """The result was lost, so the context is as it was before: the same call again succeeds and changes nothing."""
    (workspace.root / "a").write_text("old")
    context = having_read(workspace, "a")
    first = await write(registry, "a", "new", context)
    inode = (workspace.root / "a").stat().st_ino
    again = await write(registry, "a", "new", context)
    assert (again.ok, again.touched, dict(again.read)) == (True, first.touched, dict(first.read))
    assert (workspace.root / "a").stat().st_ino == inode
    fresh = await write(registry, "b", "new")
    assert fresh.ok
    assert (await write(registry, "b", "new")).ok


async def test_two_agents_do_not_overwrite_each_other(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("base")
    context = having_read(workspace, "a")
    results = await asyncio.gather(*(write(registry, "a", f"from {n}", context) for n in range(6)))
    assert [result.ok for result in results].count(True) == 1
    winner = next(n for n, result in enumerate(results) if result.ok)
    assert (workspace.root / "a").read_text() == f"from {winner}"


@pytest.mark.parametrize(
    ("was", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\ny", b"x\ny\r\n"),  # what is written out is taken at its word
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\nb\n", "a\nb", "x", b"x\n"),
        (b"one\r\ntwo\r\n", "one", "1", b"1\r\ntwo\r\n"),
    ],
)
async def test_an_edit_of_several_lines_has_the_line_ends_of_the_file(
    registry: ToolRegistry, workspace: Workspace, was: bytes, old: str, new: str, after: bytes
) -> None:
    """A model is shown both kinds alike, and would look for its passage in vain."""
    (workspace.root / "a").write_bytes(was)
    (workspace.root / "a").chmod(0o755)
    assert (await edit(registry, having_read(workspace, "a"), old=old, new=new)).ok
    assert (workspace.root / "a").read_bytes() == after
    assert (workspace.root / "a").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"old": "x", "new": "y"}, "does not contain `old`"),
        ({"old": "b", "new": "c"}, "contains `old` 2 times"),
        ({"old": "a", "new": "a"}, "are the same"),
        ({"old": "", "new": "a"}, "`old` must satisfy `minLength: 1`"),
        ({"old": "a", "new": "\ud800"}, "half of a pair"),
        ({"old": "a", "new": "x" * (1024 * 1024)}, "Split it"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(
    registry: ToolRegistry, workspace: Workspace, arguments: dict[str, str], message: str
) -> None:
    (workspace.root / "a").write_text("abb")
    result = await edit(registry, having_read(workspace, "a"), **arguments)
    assert not result.ok
    assert message in result.content
    assert (workspace.root / "a").read_text() == "abb"
    result = await edit(registry, having_read(workspace, "a"), old="b", new="", all=True)
    assert result.content == "Changed a in 2 places."
    assert (workspace.root / "a").read_text() == "a"


async def test_an_edit_needs_the_file_to_be_there_read_and_text(registry: ToolRegistry, workspace: Workspace) -> None:
    missing = await edit(registry, make_context(), old="a", new="b")
    assert "There is no file a" in missing.content
    (workspace.root / "a").write_bytes(b"a\0")
    unread = await edit(registry, make_context(touched=frozenset({"a"})), old="a", new="b")
    assert "read it first" in unread.content
    binary = await edit(registry, having_read(workspace, "a"), old="a", new="b")
    assert "binary" in binary.content


async def test_too_much_and_what_is_no_text_is_not_written(registry: ToolRegistry, workspace: Workspace) -> None:
    over = await write(registry, "a", "é" * (512 * 1024 + 1))
    assert "1024 KiB is the most" in over.content
    assert "half of a pair" in (await write(registry, "a", "x\ud800")).content
    assert names_in(workspace.root) == []
    assert (await write(registry, "a", "é" * (512 * 1024))).ok


@pytest.mark.parametrize("path", ["out/a", "../outside/a", "dir", ".git/config", "file/below"])
async def test_only_files_inside_are_written(
    registry: ToolRegistry, workspace: Workspace, tmp_path: Path, path: str
) -> None:
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    (workspace.root / "dir").mkdir()
    (workspace.root / "file").write_text("x")
    result = await write(registry, path, "x")
    assert not result.ok
    assert names_in(tmp_path / "outside") == ["secret.txt"]


async def test_a_full_disk_is_reported_and_nothing_has_changed(registry: ToolRegistry, workspace: Workspace) -> None:
    """On /dev/full the write itself fails as on a full disk."""
    real_open = os.open

    def open_full(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        return real_open("/dev/full", os.O_WRONLY) if flags & os.O_EXCL else real_open(path, flags, *args, **kwargs)

    (workspace.root / "a").write_text("before")
    context = having_read(workspace, "a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_full)
        patch.setattr(os, "fchmod", lambda *args: None)
        result = await write(registry, "a", "after", context)
    assert not result.ok
    assert "a cannot be used: the disk is full" in result.content
    assert (workspace.root / "a").read_text() == "before"


CHORES_TOUCHED = frozenset({"src/app.py"})


@pytest.mark.parametrize(
    ("path", "permitted"),
    [
        ("src/app.py", True),
        ("README.md", True),
        ("docs/new/page.txt", True),
        ("CHANGELOG", True),
        ("src/other.py", False),
        ("src/new.py", False),
        ("docs-link/other.py", False),
    ],
)
async def test_chores_change_only_what_they_may(
    registry: ToolRegistry, workspace: Workspace, path: str, permitted: bool
) -> None:
    """By the real path: a link in a folder of documents does not open the sources."""
    (workspace.root / "src").mkdir()
    for name in ("src/app.py", "src/other.py", "README.md"):
        (workspace.root / name).write_text("old")
    (workspace.root / "docs-link").symlink_to("src")
    known = having_read(workspace, "src/app.py", "src/other.py", "README.md").read
    context = make_context(Phase.CHORES, read=known, touched=CHORES_TOUCHED)
    written = await write(registry, path, "new", context)
    assert written.ok is permitted
    if not permitted:
        assert "may not be changed in the chores phase" in written.content
        assert "src/app.py" in written.content
        edited = await registry.call("edit_file", {"path": path, "old": "old", "new": "new"}, context)
        assert "may not be changed in the chores phase" in edited.content
    assert (await write(registry, "src/free.py", "new", make_context(Phase.EXECUTE))).ok


# ---- moving and deleting -------------------------------------------------------------------------------------------


async def move(registry: ToolRegistry, path: str, to: str, context: ExecutionContext | None = None) -> ToolResult:
    return await registry.call("move_file", {"path": path, "to": to}, context or make_context())


async def delete(registry: ToolRegistry, path: str, context: ExecutionContext | None = None) -> ToolResult:
    return await registry.call("delete_file", {"path": path}, context or make_context())


async def test_a_file_is_moved_with_the_folders_it_needs(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_bytes(b"\0binary")
    (workspace.root / "a").chmod(0o755)
    result = await move(registry, "a", "x/y/b")
    assert result == ToolResult(ok=True, content="Moved a to x/y/b.", touched=("a", "x/y/b"))
    assert names_in(workspace.root) == ["x"]
    assert (workspace.root / "x/y/b").read_bytes() == b"\0binary"
    assert (workspace.root / "x/y/b").stat().st_mode & 0o777 == 0o755


async def test_a_moved_file_counts_as_read_under_its_new_name(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("one")
    result = await move(registry, "a", "b", having_read(workspace, "a"))
    edited = await registry.call(
        "edit_file", {"path": "b", "old": "one", "new": "two"}, make_context(read=dict(result.read))
    )
    assert edited.ok
    (workspace.root / "c").write_text("other")
    context = having_read(workspace, "c")
    (workspace.root / "c").write_text("changed since")
    moved = await move(registry, "c", "d", context)
    refused = await registry.call("write_file", {"path": "d", "content": "x"}, make_context(read=dict(moved.read)))
    assert "has changed since you read it" in refused.content


async def test_no_place_that_is_taken_is_taken(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("a")
    (workspace.root / "b").write_text("b")
    (workspace.root / "folder").mkdir()
    (workspace.root / "link").symlink_to("nowhere")
    for to in ("b", "folder", "link", "a"):
        result = await move(registry, "a", to)
        assert (result.ok, "exists already" in result.content) == (False, True)
    assert (workspace.root / "a").read_text() == "a"
    assert (workspace.root / "b").read_text() == "b"
    assert (workspace.root / "link").is_symlink()


async def test_a_disk_without_second_names_is_moved_on_too(
    registry: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fails(errno.EPERM))
    (workspace.root / "a").write_text("a")
    assert (await move(registry, "a", "b")).ok
    assert names_in(workspace.root) == ["b"]


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ("gone", "b", "no file gone"),
        ("folder", "b", "is a folder"),
        ("a", "../b", "`..`"),
        ("../outside/secret.txt", "b", "`..`"),
        ("out/secret.txt", "b", "outside the workspace"),
        ("a", "out/b", "outside the workspace"),
        ("a", "/etc/b", "outside the workspace"),
        ("a", ".git/hooks/x", "`.git`"),
        ("a", ".git", "belongs to git"),
        ("a", ".", "own folder"),
        ("a", "a/b", "a part of its path is a file"),
        ("pipe", "b", "neither a file nor a folder"),
    ],
)
async def test_what_cannot_be_moved_is_refused_with_a_sentence(
    registry: ToolRegistry, workspace: Workspace, tmp_path: Path, path: str, to: str, message: str
) -> None:
    (workspace.root / "a").write_text("a")
    (workspace.root / "folder").mkdir()
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    os.mkfifo(workspace.root / "pipe")
    result = await move(registry, path, to)
    assert not result.ok
    assert message in result.content
    assert names_in(workspace.root) == ["a", "folder", "out", "pipe"]
    assert names_in(tmp_path / "outside") == ["secret.txt"]


async def test_a_link_is_moved_and_deleted_itself(registry: ToolRegistry, workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "target").write_text("t")
    (workspace.root / "link").symlink_to("target")
    (workspace.root / "away").symlink_to(tmp_path / "outside/secret.txt")
    assert (await move(registry, "link", "other")).ok
    assert (workspace.root / "other").readlink() == Path("target")
    assert (await delete(registry, "other")).ok
    assert (await delete(registry, "away")).ok
    assert names_in(workspace.root) == ["target"]
    assert (tmp_path / "outside/secret.txt").read_text() == "the secret\n"


async def test_a_text_file_is_deleted_only_as_it_was_seen(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("a person's")
    assert "read it first" in (await delete(registry, "a")).content
    context = having_read(workspace, "a")
    (workspace.root / "a").write_text("a person's, with more")
    assert "has changed since you read it" in (await delete(registry, "a", context)).content
    result = await delete(registry, "a", having_read(workspace, "a"))
    assert result == ToolResult(ok=True, content="Deleted a.", touched=("a",))
    assert names_in(workspace.root) == []
    assert "no file a" in (await delete(registry, "a")).content


async def test_what_no_tool_can_show_may_be_deleted_unseen(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "image").write_bytes(b"\0\1\2")
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert (await delete(registry, "image")).ok
    assert (await delete(registry, "huge")).ok


async def test_only_empty_folders_are_deleted(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "full/er").mkdir(parents=True)
    result = await delete(registry, "full")
    assert not result.ok
    assert "not empty" in result.content
    assert (await delete(registry, "full/er")).content == "Deleted the empty folder full/er."
    assert (await delete(registry, "full")).ok
    assert not (await delete(registry, ".")).ok
    assert workspace.root.exists()


async def test_chores_move_and_delete_only_what_they_may_change(registry: ToolRegistry, workspace: Workspace) -> None:
    def context(**more: Any) -> ExecutionContext:
        return make_context(Phase.CHORES, touched=frozenset({"mine.py"}), **more)

    for name in ("mine.py", "other.py", "NOTES.md"):
        (workspace.root / name).write_text(name)
    read = {name: digest(name.encode()) for name in ("mine.py", "other.py", "NOTES.md")}
    for path, to in (("other.py", "x.py"), ("other.py", "docs/x.md"), ("NOTES.md", "notes.py")):
        assert "chores" in (await move(registry, path, to, context())).content
    assert "chores" in (await delete(registry, "other.py", context(read=read))).content
    assert (await move(registry, "NOTES.md", "docs/notes.md", context())).ok
    assert (await move(registry, "mine.py", "renamed.py", context())).ok
    (workspace.root / "mine.py").write_text("mine.py")
    assert (await delete(registry, "mine.py", context(read=read))).ok
    assert names_in(workspace.root) == ["docs", "other.py", "renamed.py"]
