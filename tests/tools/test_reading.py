"""Reading shows text, says what it left out, and records what was seen."""

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


async def test_a_file_is_shown_as_it_is_with_the_hash_of_the_whole(
    registry: ToolRegistry, workspace: Workspace
) -> None:
    (workspace.root / "a.txt").write_bytes("eins\r\nzwei ü\n".encode())
    result = await read(registry, "./a.txt")
    assert result == ToolResult(
        ok=True, content="eins\r\nzwei ü", read={"a.txt": hashlib.sha256("eins\r\nzwei ü\n".encode()).hexdigest()}
    )


async def test_a_part_says_how_to_read_on_and_still_hashes_the_whole(
    registry: ToolRegistry, workspace: Workspace
) -> None:
    whole = "".join(f"line {n}\n" for n in range(1, 11))
    (workspace.root / "a").write_text(whole)
    first = await read(registry, "a", limit=3)
    assert first.content == "line 1\nline 2\nline 3\n[Lines 1 to 3 of 10; read on with offset 4.]"
    assert first.read == {"a": hashlib.sha256(whole.encode()).hexdigest()}
    last = await read(registry, "a", offset=9, limit=3)
    assert last.content == "line 9\nline 10\n[Lines 9 to 10 of 10; this is the end.]"


async def test_an_offset_behind_the_end_is_told(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("one\ntwo\n")
    result = await read(registry, "a", offset=3)
    assert not result.ok
    assert result.content == "a has 2 lines; there is no line 3."


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


async def test_a_line_longer_than_the_cap_is_cut_between_characters(
    registry: ToolRegistry, workspace: Workspace
) -> None:
    (workspace.root / "a").write_text("é" * 200_000 + "\nnext\n")
    result = await read(registry, "a")
    body, _, remark = result.content.rpartition("\n[")
    assert set(body) == {"é"}
    assert len(body.encode()) == 256 * 1024
    assert remark == "Line 1 is longer than 256 KiB and was cut. Lines 1 to 1 of 2; read on with offset 2.]"


async def test_an_empty_file_is_said_to_be_empty(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "a").touch()
    result = await read(registry, "a")
    assert result.ok
    assert result.content == "(The file is empty.)"


@pytest.mark.parametrize(
    ("content", "words"), [(b"a\0b", "binary"), (b"caf\xe9", "not UTF-8 text (byte 4)"), (b"\xff\xfea\0", "binary")]
)
async def test_what_is_no_text_is_refused(
    registry: ToolRegistry, workspace: Workspace, content: bytes, words: str
) -> None:
    (workspace.root / "a").write_bytes(content)
    result = await read(registry, "a")
    assert not result.ok
    assert words in result.content
    assert not result.read


async def test_a_folder_a_missing_and_a_huge_file_are_refused(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "dir").mkdir()
    with (workspace.root / "huge").open("wb") as file:
        file.truncate(files_read.LARGEST_FILE + 1)
    for path, words in (("dir", "`list_files`"), ("none", "There is no file none"), ("huge", "larger than")):
        result = await read(registry, path)
        assert not result.ok
        assert words in result.content


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


async def test_an_empty_workspace_is_said_to_be_empty(registry: ToolRegistry, workspace: Workspace) -> None:
    assert (await listing(registry)).content == "There are no files here."


async def test_a_long_listing_is_cut_in_order_and_says_so(registry: ToolRegistry, workspace: Workspace) -> None:
    for n in range(510):
        (workspace.root / f"{n:04}").touch()
    lines = (await listing(registry)).content.split("\n")
    assert lines[:-1] == [f"{n:04}" for n in range(500)]
    assert lines[-1] == "[10 more are not shown; narrow it down with `path` or `pattern`.]"


async def test_a_listing_looks_at_a_bounded_number_of_files(
    registry: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_read, "VISITED", 3)
    for name in "abcde":
        (workspace.root / name).touch()
    assert (await listing(registry)).content.startswith("a\nb\nc\n[Only the first 3 files")


async def test_a_name_that_is_no_text_can_be_listed(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "caf\udce9").touch()
    result = await listing(registry)
    assert result.content == "caf?"
    result.content.encode("utf-8")


@pytest.mark.parametrize("path", ["none", "../outside", "z.py"])
async def test_only_a_folder_of_the_workspace_is_listed(registry: ToolRegistry, tree: Workspace, path: str) -> None:
    result = await listing(registry, path=path)
    assert not result.ok
    assert "secret" not in result.content
