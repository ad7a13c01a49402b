"""Reading shows text, reports what it left out, and records what was seen."""

import hashlib
from typing import Any

import pytest

from tenex.core.ports import ToolResult
from tenex.tools import files_read
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace

from .conftest import make_context


async def read(registry: ToolRegistry, path: str, **more: Any) -> ToolResult:
    return await registry.call("read_file", {"path": path, **more}, make_context())


async def test_a_file_is_shown_as_it_is_with_its_hash(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_bytes("eins\r\nzwei ü\n".encode())
    result = await read(registry, "./a.txt")
    assert result == ToolResult(
        ok=True, content="eins\r\nzwei ü", read={"a.txt": hashlib.sha256("eins\r\nzwei ü\n".encode()).hexdigest()}
    )


async def test_a_part_names_the_next_offset(registry: ToolRegistry, workspace: Workspace) -> None:
    whole = "".join(f"line {n}\n" for n in range(1, 11))
    (workspace.root / "a").write_text(whole)
    first = await read(registry, "a", limit=3)
    assert first.content == "line 1\nline 2\nline 3\n[Lines 1 to 3 of 10; read on with offset 4.]"
    assert first.read == {"a": hashlib.sha256(whole.encode()).hexdigest()}
    last = await read(registry, "a", offset=9, limit=3)
    assert last.content == "line 9\nline 10\n[Lines 9 to 10 of 10; this is the end.]"
    behind = await read(registry, "a", offset=11)
    assert (behind.ok, behind.content) == (False, "a has 10 lines; there is no line 11.")
    (workspace.root / "empty").touch()
    empty = await read(registry, "empty")
    assert (empty.ok, empty.content) == (True, "(The file is empty.)")


async def test_reading_on_by_the_remarks_gives_the_whole_file(
    registry: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut by size, a file can still be read to its end, and no line is lost or shown twice."""
    monkeypatch.setattr(files_read, "SHOWN_AT_ONCE", 100)
    lines = [f"{n:04} {'é' * (n % 30)}" for n in range(60)]
    (workspace.root / "a").write_text("\n".join(lines) + "\n")
    seen: list[str] = []
    while len(seen) < len(lines):
        result = await read(registry, "a", offset=len(seen) + 1)
        body, _, _ = result.content.rpartition("\n[")
        assert 0 < len(body.encode()) <= 100
        seen += body.split("\n")
    assert seen == lines


async def test_a_long_line_is_cut_between_characters(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("é" * 200_000 + "\nnext\n")
    result = await read(registry, "a")
    body, _, remark = result.content.rpartition("\n[")
    assert set(body) == {"é"}
    assert len(body.encode()) == 256 * 1024
    assert remark == "Line 1 is longer than 256 KiB and was cut. Lines 1 to 1 of 2; read on with offset 2.]"


@pytest.mark.parametrize(
    ("content", "message"), [(b"a\0b", "binary"), (b"caf\xe9", "not UTF-8 text (byte 4)"), (b"\xff\xfea\0", "binary")]
)
async def test_non_text_is_refused(registry: ToolRegistry, workspace: Workspace, content: bytes, message: str) -> None:
    (workspace.root / "a").write_bytes(content)
    result = await read(registry, "a")
    assert not result.ok
    assert message in result.content
    assert not result.read


async def test_a_folder_a_missing_and_a_huge_file_are_refused(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "dir").mkdir()
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(files_read.LARGEST_FILE + 1)
    for path, message in (("dir", "`list_files`"), ("none", "There is no file none"), ("huge", "larger than")):
        result = await read(registry, path)
        assert not result.ok
        assert message in result.content


async def listing(registry: ToolRegistry, **arguments: Any) -> ToolResult:
    return await registry.call("list_files", arguments, make_context())


@pytest.fixture
def tree(workspace: Workspace) -> Workspace:
    for path in ("z.py", "a.md", "src/app.py", "src/deep/test_x.py", "src/deep/data.json", ".git/HEAD"):
        (workspace.root / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / path).write_text("x")
    return workspace


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["a.md", "src/app.py", "src/deep/data.json", "src/deep/test_x.py", "z.py"]),
        ({"path": "src"}, ["src/app.py", "src/deep/data.json", "src/deep/test_x.py"]),
        ({"path": ""}, ["a.md", "src/app.py", "src/deep/data.json", "src/deep/test_x.py", "z.py"]),
        ({"pattern": "*.py"}, ["src/app.py", "src/deep/test_x.py", "z.py"]),
        ({"pattern": "src/**/*.py"}, ["src/app.py", "src/deep/test_x.py"]),
        ({"pattern": "**/test_*"}, ["src/deep/test_x.py"]),
        ({"path": "src", "pattern": "*.md"}, ["No file fits."]),
    ],
)
async def test_files_are_listed_sorted_and_by_pattern(
    registry: ToolRegistry, tree: Workspace, arguments: dict[str, Any], expected: list[str]
) -> None:
    result = await listing(registry, **arguments)
    assert result.ok
    assert result.content.split("\n") == expected


async def test_a_listing_is_bounded_in_order_and_reports_what_it_left_out(
    registry: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await listing(registry)).content == "There are no files here."
    (workspace.root / "0000caf\udce9").touch()
    assert (await listing(registry)).content == "0000caf?", "a name that is no text"
    for n in range(509):
        (workspace.root / f"{n:04}").touch()
    lines = (await listing(registry)).content.split("\n")
    assert lines[:-1] == ["0000", "0000caf?", *(f"{n:04}" for n in range(1, 499))]
    assert lines[-1] == "[10 more are not shown; narrow it down with `path` or `pattern`.]"
    monkeypatch.setattr(files_read, "VISITED", 3)
    assert (await listing(registry)).content == (
        "0000\n0000caf?\n0001\n[Only the first 3 files were looked at; name a folder in `path`.]"
    )


@pytest.mark.parametrize("path", ["none", "../outside", "z.py"])
async def test_only_a_folder_of_the_workspace_is_listed(registry: ToolRegistry, tree: Workspace, path: str) -> None:
    result = await listing(registry, path=path)
    assert not result.ok
    assert "secret" not in result.content
