"""Reading and searching show text, report what was left out, and record what was seen; neither can stop the daemon."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ports import ToolResult
from tenex.tools import files_read
from tenex.tools.files_read import search_files_tool
from tenex.tools.workspace import Workspace

from .conftest import Bench, put


async def read(tools: Bench, path: str = "a", **more: Any) -> str:
    result = await tools.do("read_file", path=path, **more)
    assert result.ok
    return result.content


async def test_a_file_is_shown_as_it_is_with_its_hash(tools: Bench, root: Path) -> None:
    put(root, {"a.txt": "eins\r\nzwei ü\n", "empty": ""})
    seen = {"a.txt": hashlib.sha256("eins\r\nzwei ü\n".encode()).hexdigest()}
    assert await tools.do("read_file", path="./a.txt") == ToolResult(ok=True, content="eins\r\nzwei ü", read=seen)
    part = await tools.do("read_file", path="a.txt", limit=1)
    assert (part.content, dict(part.read)) == ("eins\r\n[Lines 1 to 1 of 2; read on with offset 2.]", seen)
    assert await read(tools, "empty") == "(The file is empty.)"
    assert await read(tools, "a.txt", offset=2) == "zwei ü\n[Lines 2 to 2 of 2; this is the end.]"


async def test_reading_on_by_the_remarks_gives_the_whole_file(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut by size, a file can still be read to its end, and no line is lost or shown twice."""
    monkeypatch.setattr(files_read, "SHOWN_AT_ONCE", 100)
    lines = [f"{n:04} {'é' * (n % 30)}" for n in range(60)]
    put(root, {"a": "\n".join(lines) + "\n"})
    seen: list[str] = []
    while len(seen) < len(lines):
        body = (await read(tools, offset=len(seen) + 1)).rpartition("\n[")[0]
        assert 0 < len(body.encode()) <= 100
        seen += body.split("\n")
    assert seen == lines


async def test_a_long_line_is_cut_between_characters(tools: Bench, root: Path) -> None:
    put(root, {"a": "x" + "é" * 200_000 + "\nnext\n"})
    body, _, remark = (await read(tools)).rpartition("\n[")
    assert len(body.encode()) == 256 * 1024 - 1
    assert remark == "Line 1 is longer than 256 KiB and was cut. Lines 1 to 1 of 2; read on with offset 2.]"


TREE = {
    "z.py": "import os\nx = f(1)\r\n",
    "a.md": "",
    "src/app.py": "def f(n):\n    return n\n",
    "src/deep/test_x.py": "F(1) is called\n",
    "src/deep/data.json": "",
    ".git/HEAD": "f(1)\n",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": ""}, "a.md src/app.py src/deep/data.json src/deep/test_x.py z.py"),
        ({"path": "src"}, "src/app.py src/deep/data.json src/deep/test_x.py"),
        ({"pattern": "*.py"}, "src/app.py src/deep/test_x.py z.py"),
        ({"pattern": "src/**/*.py"}, "src/app.py src/deep/test_x.py"),
        ({"pattern": "**/test_*"}, "src/deep/test_x.py"),
        ({"path": "src", "pattern": "*.md"}, "No file fits."),
    ],
)
async def test_files_are_listed_sorted_and_by_pattern(
    tools: Bench, root: Path, arguments: dict[str, Any], expected: str
) -> None:
    put(root, TREE)
    assert (await tools.do("list_files", **arguments)).content.replace("\n", " ") == expected


async def test_a_listing_is_bounded_in_order_and_reports_what_it_left_out(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await tools.do("list_files")).content == "There are no files here."
    put(root, dict.fromkeys(("0000caf\udce9", *(f"{n:04}" for n in range(509))), ""))
    *lines, remark = (await tools.do("list_files")).content.split("\n")
    assert lines == ["0000", "0000caf?", *(f"{n:04}" for n in range(1, 499))]
    assert remark == "[10 more are not shown; narrow it down with `path` or `pattern`.]"
    monkeypatch.setattr(files_read, "VISITED", 3)
    assert (await tools.do("list_files")).content == (
        "0000\n0000caf?\n0001\n[Only the first 3 files were looked at; name a folder in `path`.]"
    )


# ---- searching -----------------------------------------------------------------------------------------------------


async def search(tools: Bench, pattern: str, **more: Any) -> list[str]:
    result = await tools.do("search_files", pattern=pattern, **more)
    assert result.ok
    return result.content.split("\n")


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["z.py:2: x = f(1)"]),
        ({"ignore_case": True}, ["src/deep/test_x.py:1: F(1) is called", "z.py:2: x = f(1)"]),
        ({"ignore_case": True, "path": "src"}, ["src/deep/test_x.py:1: F(1) is called"]),
        ({"ignore_case": True, "glob": "z*"}, ["z.py:2: x = f(1)"]),
        ({"path": "z.py"}, ["z.py:2: x = f(1)"]),
        ({"path": "src/app.py"}, ["Nothing was found."]),
    ],
)
async def test_lines_are_found_by_text_and_by_expression_alike(
    tools: Bench, root: Path, regex: bool, more: dict[str, Any], expected: list[str]
) -> None:
    put(root, TREE)
    assert await search(tools, r"f\(1\)" if regex else "f(1)", regex=regex, **more) == expected
    assert await search(tools, r"^\s+return \w$", regex=True) == ["src/app.py:2:     return n"]


async def test_a_catastrophic_expression_is_stopped_and_the_loop_never_waits(workspace: Workspace) -> None:
    put(workspace.root, {"a": "a" * 60 + "!\n"})
    tools = Bench([search_files_tool(workspace, deadline=0.5)])
    turns = 0
    task = asyncio.create_task(tools.refused("search_files", pattern="(a|aa)+$", regex=True))
    while not task.done():
        await asyncio.wait([task], timeout=0.01)
        turns += 1
    assert "The expression took too long." in task.result()
    assert turns > 5


@pytest.mark.parametrize("regex", [False, True])
async def test_finds_are_capped_and_long_lines_cut(tools: Bench, root: Path, regex: bool) -> None:
    put(root, {"a": ("x" * 2_000 + "\n") * 250})
    lines = await search(tools, "x", regex=regex)
    assert len(lines) == files_read.MOST_FOUND + 1
    assert lines[0] == "a:1: " + "x" * 300 + " [cut]"
    assert lines[-1] == "[There are more than these 200; narrow it down.]"


async def test_what_is_not_searched_is_counted(tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = b"secret\n" + b"x" * files_read.LARGEST_SEARCHED
    put(root, {"a": "no secret here\n", "bin": b"secret\0", "latin": b"secret\xe9", "big": big})
    (root / "link").symlink_to("../outside/secret.txt")
    assert await search(tools, "secret") == [
        "a:1: no secret here",
        "[4 files were left out: binary, larger than 1 MiB, a link, or not readable.]",
    ]
    monkeypatch.setattr(files_read, "SEARCHED", 20)
    put(root, {"b": "secret\n", "c": "secret\n"})
    lines = await search(tools, "secret")
    assert lines[0] == "a:1: no secret here"
    assert lines[-1].startswith("[There was too much")
