"""Moving loses nothing and takes no place that is taken; deleting asks to have seen what goes."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace, digest

from .conftest import make_context, names_in


async def move(registry: ToolRegistry, path: str, to: str, context: ExecutionContext | None = None) -> ToolResult:
    return await registry.call("move_file", {"path": path, "to": to}, context or make_context())


async def delete(registry: ToolRegistry, path: str, context: ExecutionContext | None = None) -> ToolResult:
    return await registry.call("delete_file", {"path": path}, context or make_context())


def seen(workspace: Workspace, path: str, **more: Any) -> ExecutionContext:
    return make_context(read={path: digest((workspace.root / path).read_bytes())}, **more)


async def test_a_file_is_moved_with_the_folders_it_needs(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_bytes(b"\0binary")
    (workspace.root / "a").chmod(0o755)
    result = await move(registry, "a", "x/y/b")
    assert result == ToolResult(ok=True, content="Moved a to x/y/b.", touched=("a", "x/y/b"))
    assert names_in(workspace.root) == ["x"]
    assert (workspace.root / "x/y/b").read_bytes() == b"\0binary"
    assert (workspace.root / "x/y/b").stat().st_mode & 0o777 == 0o755


async def test_what_was_read_under_the_old_name_counts_as_read_under_the_new(
    registry: ToolRegistry, workspace: Workspace
) -> None:
    (workspace.root / "a").write_text("one")
    result = await move(registry, "a", "b", seen(workspace, "a"))
    edited = await registry.call(
        "edit_file", {"path": "b", "old": "one", "new": "two"}, make_context(read=dict(result.read))
    )
    assert edited.ok
    (workspace.root / "c").write_text("other")
    context = seen(workspace, "c")
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
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    (workspace.root / "a").write_text("a")
    assert (await move(registry, "a", "b")).ok
    assert names_in(workspace.root) == ["b"]


@pytest.mark.parametrize(
    ("path", "to", "words"),
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
    registry: ToolRegistry, workspace: Workspace, tmp_path: Path, path: str, to: str, words: str
) -> None:
    (workspace.root / "a").write_text("a")
    (workspace.root / "folder").mkdir()
    (workspace.root / "out").symlink_to(tmp_path / "outside")
    os.mkfifo(workspace.root / "pipe")
    result = await move(registry, path, to)
    assert not result.ok
    assert words in result.content
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
    context = seen(workspace, "a")
    (workspace.root / "a").write_text("a person's, with more")
    assert "has changed since you read it" in (await delete(registry, "a", context)).content
    result = await delete(registry, "a", seen(workspace, "a"))
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
