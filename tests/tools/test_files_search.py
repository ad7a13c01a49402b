"""Searching is bounded, and no expression can stop the daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ports import ToolResult
from tenex.tools import files_search
from tenex.tools.files_search import search_files_tool
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, make_context


async def search(registry: ToolRegistry, pattern: str, **more: Any) -> ToolResult:
    return await registry.call("search_files", {"pattern": pattern, **more}, make_context())


@pytest.fixture
def tree(workspace: Workspace) -> Workspace:
    files = {
        "a.py": "import os\nx = f(1)\r\n",
        "src/b.py": "def f(n):\n    return n\n",
        "src/c.txt": "F(1) is called\n",
        ".git/x": "f(1)\n",
    }
    for path, content in files.items():
        (workspace.root / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.root / path).write_bytes(content.encode())
    return workspace


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["a.py:2: x = f(1)"]),
        ({"ignore_case": True}, ["a.py:2: x = f(1)", "src/c.txt:1: F(1) is called"]),
        ({"ignore_case": True, "path": "src"}, ["src/c.txt:1: F(1) is called"]),
        ({"ignore_case": True, "glob": "*.py"}, ["a.py:2: x = f(1)"]),
        ({"path": "a.py"}, ["a.py:2: x = f(1)"]),
        ({"path": "src/b.py"}, ["Nothing was found."]),
    ],
)
async def test_lines_are_found_by_text_and_by_expression_alike(
    registry: ToolRegistry, tree: Workspace, regex: bool, more: dict[str, Any], expected: list[str]
) -> None:
    result = await search(registry, r"f\(1\)" if regex else "f(1)", regex=regex, **more)
    assert result.ok
    assert result.content.split("\n") == expected


async def test_an_expression_is_matched_line_by_line(registry: ToolRegistry, tree: Workspace) -> None:
    result = await search(registry, r"^\s+return \w$", regex=True)
    assert result.content == "src/b.py:2:     return n"


async def test_a_broken_expression_is_explained(registry: ToolRegistry, tree: Workspace) -> None:
    result = await search(registry, "f(", regex=True)
    assert not result.ok
    assert result.content.startswith("`pattern` is not a valid regular expression: missing )")


async def test_a_catastrophic_expression_is_stopped_and_the_loop_never_waits(workspace: Workspace) -> None:
    """The event loop must go on while an expression backtracks."""
    (workspace.root / "a").write_text("a" * 60 + "!\n")
    registry = ToolRegistry([search_files_tool(workspace, deadline=0.5)], ROSTER.get)
    turns = 0
    task = asyncio.create_task(search(registry, "(a|aa)+$", regex=True))
    while not task.done():
        await asyncio.wait([task], timeout=0.01)
        turns += 1
    result = task.result()
    assert not result.ok
    assert "The expression took too long." in result.content
    assert turns > 5


@pytest.mark.parametrize("regex", [False, True])
async def test_finds_are_capped_and_long_lines_cut(registry: ToolRegistry, workspace: Workspace, regex: bool) -> None:
    (workspace.root / "a").write_text(("x" * 2_000 + "\n") * 250)
    lines = (await search(registry, "x", regex=regex)).content.split("\n")
    assert len(lines) == files_search.MOST_FOUND + 1
    assert lines[0] == "a:1: " + "x" * 300 + " [cut]"
    assert lines[-1] == "[There are more than these 200; narrow it down.]"


async def test_non_text_is_left_out_and_counted(registry: ToolRegistry, workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "bin").write_bytes(b"secret\0")
    (workspace.root / "latin").write_bytes(b"secret\xe9")
    (workspace.root / "big").write_bytes(b"secret\n" + b"x" * files_search.LARGEST_SEARCHED)
    (workspace.root / "link").symlink_to(tmp_path / "outside/secret.txt")
    (workspace.root / "a").write_text("no secret here\n")
    result = await search(registry, "secret")
    assert result.content == (
        "a:1: no secret here\n[4 files were left out: binary, larger than 1 MiB, a link, or not readable.]"
    )


async def test_a_search_reads_a_bounded_amount(
    registry: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_search, "SEARCHED", 10)
    for name in "abc":
        (workspace.root / name).write_text("1234 x\n")
    result = await search(registry, "x")
    assert result.content.startswith("a:1: 1234 x\n[There was too much")


@pytest.mark.parametrize("path", ["none", "../outside"])
async def test_only_the_workspace_is_searched(registry: ToolRegistry, workspace: Workspace, path: str) -> None:
    assert not (await search(registry, "secret", path=path)).ok
