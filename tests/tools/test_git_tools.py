"""Changes in the workspace's repository are reported by the real git, which runs nothing the repository names."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools.git_tools import git_diff_tool, git_status_tool
from tenex.tools.registry import ToolRegistry
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, anywhere, git, make_context, needs_bubblewrap, needs_git

pytestmark = [needs_bubblewrap, needs_git]


@pytest.fixture
def tools(workspace: Workspace) -> ToolRegistry:
    return ToolRegistry([git_status_tool(workspace), git_diff_tool(workspace)], ROSTER.get)


@pytest.fixture
def root(workspace: Workspace) -> Path:
    """A repository with one commit."""
    git(workspace.root, "init", "-q", "-b", "main")
    (workspace.root / "a.py").write_text("one\ntwo\n")
    (workspace.root / "src").mkdir()
    (workspace.root / "src/grün b.py").write_text("three\n")
    git(workspace.root, "add", "-A")
    git(workspace.root, "commit", "-q", "-m", "first")
    return workspace.root


async def status(tools: ToolRegistry) -> ToolResult:
    return await tools.call("git_status", {}, make_context(Phase.PLAN))


async def diff(tools: ToolRegistry, **arguments: Any) -> ToolResult:
    return await tools.call("git_diff", arguments, make_context(Phase.PLAN))


async def test_a_clean_repository_is_reported_as_clean(tools: ToolRegistry, root: Path) -> None:
    assert (await status(tools)).content == "## main\nNothing has changed."
    assert (await diff(tools)).content.startswith("Nothing differs.")


async def test_changes_are_shown_staged_or_not(tools: ToolRegistry, root: Path) -> None:
    (root / "a.py").write_text("one\n2\n")
    git(root, "add", "a.py")
    (root / "src/grün b.py").unlink()
    (root / "new.py").write_text("")
    assert (await status(tools)).content.split("\n") == ["## main", "M  a.py", ' D "src/grün b.py"', "?? new.py"]
    shown = (await diff(tools)).content
    assert "-two\n+2" in shown
    assert "-three" in shown
    assert "new.py" not in shown
    only = (await diff(tools, path="src")).content
    assert "-three" in only
    assert "a.py |" not in only


async def test_another_commit_may_be_compared_with(tools: ToolRegistry, root: Path) -> None:
    git(root, "tag", "v1")
    (root / "a.py").write_text("changed\n")
    git(root, "commit", "-q", "-am", "second")
    for against in ("HEAD~1", "v1", "main^", "main@{1}", git(root, "rev-parse", "v1").strip()):
        assert "+changed" in (await diff(tools, against=against)).content, against
    assert (await diff(tools, against="main")).content.startswith("Nothing differs.")


@pytest.mark.parametrize(
    "against",
    [
        "--output=/tmp/x",
        "-O/etc/passwd",
        "--no-index",
        "a..b",
        "HEAD:a.py",
        "main other",
        "$(touch x)",
        "a;b",
        "x\ny",
        "^x",
    ],
)
async def test_what_names_no_single_commit_is_refused(tools: ToolRegistry, root: Path, against: str) -> None:
    result = await diff(tools, against=against)
    assert not result.ok
    assert "must name one commit" in result.content


async def test_without_a_repository_or_a_commit_that_is_reported(tools: ToolRegistry, workspace: Workspace) -> None:
    git(workspace.root.parent, "init", "-q")  # one around it is not the workspace's
    for result in (await status(tools), await diff(tools)):
        assert not result.ok
        assert result.content == "The workspace is no git repository; `list_files` shows what there is."
    git(workspace.root, "init", "-q", "-b", "main")
    (workspace.root / "a").write_text("")
    assert (await status(tools)).content == "## No commits yet on main\n?? a"
    assert "no commit yet" in (await diff(tools)).content


@pytest.mark.parametrize(
    ("missing", "message"), [("git", "git is not installed"), ("bwrap", "sandbox (bubblewrap) is gone")]
)
async def test_a_missing_program_is_reported(
    tools: ToolRegistry, root: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else which(name))
    assert message in (await status(tools)).content


async def test_a_repository_elsewhere_is_not_followed(tools: ToolRegistry, root: Path, tmp_path: Path) -> None:
    (root / ".git").rename(tmp_path / "outside/repository")
    (root / ".git").write_text(f"gitdir: {tmp_path}/outside/repository\n")
    assert "lies elsewhere" in (await status(tools)).content
    (root / ".git").unlink()
    (root / ".git").symlink_to(tmp_path / "outside/repository")
    result = await status(tools)
    assert not result.ok
    assert "main" not in result.content


async def test_a_path_is_a_name_in_the_workspace_and_not_a_pattern(tools: ToolRegistry, root: Path) -> None:
    (root / "a.py").write_text("changed\n")
    for path in ("*.py", ":!x"):
        assert (await diff(tools, path=path)).content.startswith("Nothing differs.")
    for path in ("../outside", "/etc", "src/../../outside", ".git/config"):
        assert not (await diff(tools, path=path)).ok
    result = await diff(tools, against="unknown-branch")
    assert not result.ok
    assert result.content.startswith("git failed: fatal: ")
    assert "unknown-branch" in result.content


async def test_a_long_difference_is_capped(tools: ToolRegistry, root: Path) -> None:
    (root / "a.py").write_text("".join(f"{number}\n" for number in range(50_000)))
    shown = (await diff(tools)).content
    assert len(shown) < 66 * 1024
    assert "bytes left out" in shown
    assert "+0\n+1\n" in shown


async def test_nothing_planted_in_the_repository_runs(tools: ToolRegistry, root: Path, tmp_path: Path) -> None:
    """Hooks, monitors, external differences, conversions and pagers; in settings, attributes and files of `.git`."""
    planted = root / "planted"
    planted.write_text("#!/bin/sh\necho PLANTED\necho PLANTED >&2\ntouch ran ../ran /tmp/ran\n")
    planted.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "pager.diff",
        "pager.status",
        "interactive.diffFilter",
        "alias.status",
        "alias.diff",
    ):
        git(root, "config", name, str(planted))
    git(root, "config", "core.hooksPath", str(root))
    for hook in ("post-index-change", "pre-auto-gc", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(planted, root / ".git/hooks" / hook)
        shutil.copy(planted, root / hook)
    (root / ".gitattributes").write_text("* diff=evil\n")
    (root / "a.py").write_text("changed\n")
    for result in (await status(tools), await diff(tools)):
        assert result.ok
        assert "PLANTED" not in result.content
    assert not anywhere(tmp_path, "ran")


async def test_a_filter_that_git_runs_is_confined(tools: ToolRegistry, root: Path, tmp_path: Path) -> None:
    """It sees the workspace read-only, and writes nowhere."""
    planted = root / "planted"
    planted.write_text(f"#!/bin/sh\ntouch ran {tmp_path}/ran {tmp_path}/outside/ran\ncat\n")
    planted.chmod(0o755)
    git(root, "config", "filter.evil.clean", str(planted))
    (root / ".gitattributes").write_text("* filter=evil\n")
    (root / "a.py").write_text("changed\n")
    before = (root / ".git/index").read_bytes()
    assert "+changed" in (await diff(tools)).content
    assert (await status(tools)).ok
    assert not anywhere(tmp_path, "ran")
    assert (root / ".git/index").read_bytes() == before
