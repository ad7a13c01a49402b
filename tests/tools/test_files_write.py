"""Changes are whole, seen before they are overwritten, moved or deleted, and in chores kept to what chores are for."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace, digest

from .conftest import call, fails, having_read, make_context, names_in, put, refused


async def test_a_new_file_is_written_with_its_folders(registry: ToolRegistry, root: Path) -> None:
    result = await call(registry, "write_file", path="./src/app.py", content="print('ü')\n")
    assert (root / "src/app.py").read_text() == "print('ü')\n"
    assert result == ToolResult(
        ok=True,
        content="Created src/app.py (12 bytes).",
        touched=("src/app.py",),
        read={"src/app.py": digest("print('ü')\n".encode())},
    )


@pytest.mark.parametrize("touched", [frozenset(), frozenset({"a"})], ids=["", "written by another agent of the cycle"])
async def test_only_what_was_read_and_is_unchanged_since_is_overwritten(
    registry: ToolRegistry, workspace: Workspace, root: Path, touched: frozenset[str]
) -> None:
    put(root, {"a": "mine"})
    unseen, outdated = make_context(touched=touched), having_read(workspace, "a", touched=touched)
    written = await call(registry, "write_file", outdated, path="a", content="a person's")
    assert written.content == "Replaced a (10 bytes)."
    edited = await call(registry, "edit_file", make_context(read=written.read), path="a", old="person", new="friend")
    assert (edited.content, edited.touched) == ("Changed a in 1 place.", ("a",))
    assert dict(edited.read) == {"a": digest(b"a friend's")}
    for context, message in ((unseen, "read it first"), (outdated, "has changed since you read it")):
        for tool, more in (
            ("write_file", {"content": "yours"}),
            ("edit_file", {"old": "friend", "new": "x"}),
            ("delete_file", {}),
        ):
            assert message in await refused(registry, tool, context, path="a", **more)
    assert (root / "a").read_text() == "a friend's"


async def test_a_write_repeated_after_a_crash_succeeds(
    registry: ToolRegistry, workspace: Workspace, root: Path
) -> None:
    """The result was lost, so the context is as it was before: the same call again succeeds and changes nothing."""
    put(root, {"a": "old"})
    for path, context in (("a", having_read(workspace, "a")), ("b", make_context())):
        first = await call(registry, "write_file", context, path=path, content="new")
        inode = (root / path).stat().st_ino
        again = await call(registry, "write_file", context, path=path, content="new")
        assert (again.ok, again.touched, dict(again.read)) == (True, first.touched, dict(first.read))
        assert (root / path).stat().st_ino == inode


async def test_two_agents_do_not_overwrite_each_other(registry: ToolRegistry, workspace: Workspace, root: Path) -> None:
    put(root, {"a": "base"})
    context = having_read(workspace, "a")
    writes = (call(registry, "write_file", context, path="a", content=f"from {n}") for n in range(6))
    (winner,) = (n for n, result in enumerate(await asyncio.gather(*writes)) if result.ok)
    assert (root / "a").read_text() == f"from {winner}"


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
    registry: ToolRegistry, workspace: Workspace, root: Path, was: bytes, old: str, new: str, after: bytes
) -> None:
    """A model is shown both kinds alike, and would look for its passage in vain."""
    put(root, {"a": was})
    (root / "a").chmod(0o755)
    assert (await call(registry, "edit_file", having_read(workspace, "a"), path="a", old=old, new=new)).ok
    assert (root / "a").read_bytes() == after
    assert (root / "a").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"old": "x", "new": "y"}, "does not contain `old`"),
        ({"old": "b", "new": "c"}, "contains `old` 2 times"),
        ({"old": "a", "new": "a"}, "are the same"),
        ({"old": "a", "new": "\ud800"}, "half of a pair"),
        ({"old": "a", "new": "x" * (1024 * 1024)}, "Split it"),
        ({"path": "gone", "old": "a", "new": "b"}, "There is no file gone"),
        ({"path": "binary", "old": "a", "new": "b"}, "binary"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(
    registry: ToolRegistry, workspace: Workspace, root: Path, arguments: dict[str, str], message: str
) -> None:
    put(root, {"a": "abb", "binary": b"a\0"})
    context = having_read(workspace, "a", "binary")
    assert message in await refused(registry, "edit_file", context, **{"path": "a", **arguments})
    assert (root / "a").read_text() == "abb"
    result = await call(registry, "edit_file", context, path="a", old="b", new="", all=True)
    assert result.content == "Changed a in 2 places."
    assert (root / "a").read_text() == "a"


async def test_only_files_inside_are_written(registry: ToolRegistry, root: Path, outside: Path) -> None:
    put(root, {"dir/x": "", "file": ""})
    (root / "out").symlink_to(outside)
    for path in ("out/a", "../outside/a", "dir", ".git/config", "file/below"):
        await refused(registry, "write_file", path=path, content="x")
    assert names_in(outside) == ["secret.txt"]


async def test_too_much_and_what_is_no_text_is_not_written(registry: ToolRegistry, root: Path) -> None:
    too_much = await refused(registry, "write_file", path="a", content="é" * (512 * 1024 + 1))
    assert "1024 KiB is the most" in too_much
    assert "half of a pair" in await refused(registry, "write_file", path="a", content="x\ud800")
    assert names_in(root) == []
    assert (await call(registry, "write_file", path="a", content="é" * (512 * 1024))).ok


# ---- chores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "permitted"),
    [
        ("mine.py", True),
        ("README.md", True),
        ("docs/new/page.txt", True),
        ("CHANGELOG", True),
        ("src/other.py", False),
        ("src/new.py", False),
        (".gitignore", False),
        ("docs-link/other.py", False),
    ],
)
async def test_chores_change_only_documentation_and_what_this_cycle_has_changed(
    registry: ToolRegistry, workspace: Workspace, root: Path, path: str, permitted: bool
) -> None:
    """By the real path: a link in a folder of documents does not open the sources."""
    put(root, {"src/other.py": "old", "mine.py": "old", "README.md": "old"})
    (root / "docs-link").symlink_to("src")
    known = having_read(workspace, "src/other.py", "mine.py", "README.md").read
    context = make_context(Phase.CHORES, read=known, touched=frozenset({"mine.py"}))
    if permitted:
        assert (await call(registry, "write_file", context, path=path, content="new")).ok
        return
    for tool, more in (("write_file", {"content": "new"}), ("move_file", {"to": "docs/moved.md"})):
        found = await refused(registry, tool, context, path=path, **more)
        assert "may not be changed in the chores phase" in found
        assert "mine.py" in found


async def test_chores_move_and_delete_what_they_may_change(
    registry: ToolRegistry, workspace: Workspace, root: Path
) -> None:
    put(root, {"mine.py": "", "NOTES.md": "", "other.py": "a"})
    context = having_read(workspace, "mine.py", "other.py", phase=Phase.CHORES, touched=frozenset({"mine.py"}))
    assert "chores" in await refused(registry, "move_file", context, path="NOTES.md", to="notes.py")
    assert "chores" in await refused(registry, "edit_file", context, path="other.py", old="a", new="b")
    assert "chores" in await refused(registry, "delete_file", context, path="other.py")
    assert (await call(registry, "move_file", context, path="NOTES.md", to="docs/notes.md")).ok
    assert (await call(registry, "move_file", context, path="mine.py", to="renamed.py")).ok
    put(root, {"mine.py": ""})
    assert (await call(registry, "delete_file", context, path="mine.py")).ok
    assert names_in(root) == ["docs", "other.py", "renamed.py"]


# ---- moving and deleting -------------------------------------------------------------------------------------------


async def test_a_file_is_moved_with_the_folders_it_needs_and_counts_as_read_under_its_new_name(
    registry: ToolRegistry, workspace: Workspace, root: Path
) -> None:
    put(root, {"a": "one", "c": "other"})
    (root / "a").chmod(0o755)
    context = having_read(workspace, "a", "c")
    put(root, {"c": "changed since"})
    moved = await call(registry, "move_file", context, path="a", to="x/y/b")
    assert (moved.content, moved.touched) == ("Moved a to x/y/b.", ("a", "x/y/b"))
    assert names_in(root) == ["c", "x"]
    assert (root / "x/y/b").stat().st_mode & 0o777 == 0o755
    seen = make_context(read={**moved.read, **(await call(registry, "move_file", context, path="c", to="d")).read})
    assert (await call(registry, "edit_file", seen, path="x/y/b", old="one", new="two")).ok
    assert "has changed since you read it" in await refused(registry, "write_file", seen, path="d", content="x")


async def test_a_disk_without_second_names_is_moved_on_too(
    registry: ToolRegistry, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fails(errno.EPERM))
    put(root, {"a": "a"})
    assert (await call(registry, "move_file", path="a", to="b")).ok
    assert names_in(root) == ["b"]


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ("gone", "b", "no file gone"),
        ("folder", "b", "is a folder"),
        ("pipe", "b", "neither a file nor a folder"),
        ("../outside/secret.txt", "b", "`..`"),
        ("out/secret.txt", "b", "outside the workspace"),
        ("a", "../b", "`..`"),
        ("a", "out/b", "outside the workspace"),
        ("a", ".git", "belongs to git"),
        ("a", ".", "own folder"),
        ("a", "a/b", "a part of its path is a file"),
        ("a", "b", "exists already"),
        ("a", "folder", "exists already"),
        ("a", "link", "exists already"),
        ("a", "a", "exists already"),
    ],
)
async def test_what_cannot_be_moved_is_refused_with_a_sentence(
    registry: ToolRegistry, root: Path, outside: Path, path: str, to: str, message: str
) -> None:
    put(root, {"a": "a", "folder/x": ""} | ({"b": "b"} if message == "exists already" else {}))
    (root / "out").symlink_to(outside)
    (root / "link").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    before = names_in(root)
    assert message in await refused(registry, "move_file", path=path, to=to)
    assert names_in(root) == before
    assert (root / "a").read_text() == "a"
    assert (root / "b").read_text() == "b" if "b" in before else (root / "link").is_symlink()
    assert names_in(outside) == ["secret.txt"]


async def test_a_link_is_moved_and_deleted_itself(registry: ToolRegistry, root: Path, outside: Path) -> None:
    put(root, {"target": "t"})
    (root / "link").symlink_to("target")
    (root / "away").symlink_to(outside / "secret.txt")
    assert (await call(registry, "move_file", path="link", to="other")).ok
    assert (root / "other").readlink() == Path("target")
    for path in ("other", "away"):
        assert (await call(registry, "delete_file", path=path)).ok
    assert names_in(root) == ["target"]
    assert (outside / "secret.txt").read_text() == "the secret\n"


async def test_what_was_seen_or_cannot_be_shown_is_deleted(
    registry: ToolRegistry, workspace: Workspace, root: Path
) -> None:
    put(root, {"a": "text", "image": b"\0\1\2"})
    with (root / "huge").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    result = await call(registry, "delete_file", having_read(workspace, "a"), path="a")
    assert result == ToolResult(ok=True, content="Deleted a.", touched=("a",))
    for path in ("image", "huge"):
        assert (await call(registry, "delete_file", path=path)).ok
    assert "no file a" in await refused(registry, "delete_file", path="a")
    assert names_in(root) == []


async def test_only_empty_folders_are_deleted(registry: ToolRegistry, root: Path) -> None:
    (root / "full/er").mkdir(parents=True)
    assert "not empty" in await refused(registry, "delete_file", path="full")
    assert (await call(registry, "delete_file", path="full/er")).content == "Deleted the empty folder full/er."
    assert (await call(registry, "delete_file", path="full")).ok
    await refused(registry, "delete_file", path=".")
    assert root.exists()
