"""Changes in the workspace's repository are reported by the real git, which runs nothing the repository names."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Phase
from tenex.tools.git_tools import git_diff_tool, git_status_tool
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from .conftest import Bench, contents, git, make_context, put, shell_only

pytestmark = [needs_bubblewrap, needs_git]

PLAN = make_context(Phase.PLAN)


@pytest.fixture
def tools(workspace: Workspace) -> Bench:
    return Bench([git_status_tool(workspace), git_diff_tool(workspace)])


@pytest.fixture
def repository(root: Path) -> Path:
    """With one commit."""
    put(root, {"a.py": "one\ntwo\n", "src/grün b.py": "three\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


async def status(tools: Bench) -> str:
    return (await tools.do("git_status", PLAN)).content


async def diff(tools: Bench, **arguments: Any) -> str:
    result = await tools.do("git_diff", PLAN, **arguments)
    assert result.ok, result.content
    return result.content


async def test_changes_are_shown_staged_or_not(tools: Bench, repository: Path) -> None:
    assert await status(tools) == "## main\nNothing has changed."
    assert (await diff(tools)).startswith("Nothing differs.")
    put(repository, {"a.py": "one\n2\n", "new.py": ""})
    git(repository, "add", "a.py")
    (repository / "src/grün b.py").unlink()
    assert (await status(tools)).split("\n") == ["## main", "M  a.py", ' D "src/grün b.py"', "?? new.py"]
    shown = await diff(tools)
    assert "-two\n+2" in shown
    assert "-three" in shown
    assert "new.py" not in shown
    only = await diff(tools, path="src")
    assert "-three" in only
    assert "a.py |" not in only
    put(repository, {"a.py": "".join(f"{number}\n" for number in range(50_000))})
    capped = await diff(tools)
    assert len(capped) < 66 * 1024
    assert "bytes left out" in capped


async def test_another_commit_may_be_compared_with(tools: Bench, repository: Path) -> None:
    git(repository, "tag", "v1")
    put(repository, {"a.py": "changed\n"})
    git(repository, "commit", "-q", "-am", "second")
    for against in ("HEAD~1", "v1", "main^", "main@{1}", git(repository, "rev-parse", "v1").strip()):
        assert "+changed" in await diff(tools, against=against), against
    assert (await diff(tools, against="main")).startswith("Nothing differs.")
    unknown = await tools.refused("git_diff", PLAN, against="unknown-branch")
    assert unknown.startswith("git failed: fatal: ")


@pytest.mark.parametrize(
    "against", ["--output=/tmp/x", "-O/etc/passwd", "a..b", "HEAD:a.py", "main other", "$(touch x)", "x\ny", "^x"]
)
async def test_what_names_no_single_commit_is_refused(tools: Bench, repository: Path, against: str) -> None:
    assert "must name one commit" in await tools.refused("git_diff", PLAN, against=against)


async def test_a_path_is_a_name_in_the_workspace_and_not_a_pattern(tools: Bench, repository: Path) -> None:
    put(repository, {"a.py": "changed\n"})
    for path in ("*.py", ":!x"):
        assert (await diff(tools, path=path)).startswith("Nothing differs.")
    for path in ("../outside", "/etc", ".git/config"):
        await tools.refused("git_diff", PLAN, path=path)


async def test_without_a_repository_or_a_commit_that_is_reported(tools: Bench, root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")  # one around it is not the workspace's
    for tool in ("git_status", "git_diff"):
        assert await tools.refused(tool, PLAN) == (
            f"The workspace is a folder of the repository {tmp_path}; a person can set `paths.workspace` to that. "
            "`read_file` and `list_files` show what there is."
        )
    (tmp_path / ".git").rename(tmp_path / "other")
    assert "is no git repository" in await tools.refused("git_status", PLAN)
    git(root, "init", "-q", "-b", "main")
    put(root, {"a": ""})
    assert await status(tools) == "## No commits yet on main\n?? a"
    assert "no commit yet" in await tools.refused("git_diff", PLAN)


@pytest.mark.parametrize("parts", [(), ("HEAD",), ("objects", "refs")], ids=["empty", "HEAD", "no HEAD"])
async def test_a_folder_that_git_takes_for_no_repository_is_none(
    tools: Bench, root: Path, tmp_path: Path, parts: tuple[str, ...]
) -> None:
    for part in parts:
        (tmp_path / ".git" / part).mkdir(parents=True)
    (tmp_path / ".git").mkdir(exist_ok=True)
    assert "The workspace is no git repository. " in await tools.refused("git_status", PLAN)
    (tmp_path / ".git").rename(root / ".git")
    said = await tools.refused("git_status", PLAN)
    assert (
        "The workspace is no git repository: its folder .git is none, since it lacks HEAD or objects or refs." in said
    )


async def test_a_missing_git_is_reported(tools: Bench, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "git is not installed" in await tools.refused("git_status", PLAN)


async def test_a_repository_elsewhere_is_not_followed(tools: Bench, repository: Path, outside: Path) -> None:
    (repository / ".git").rename(outside / "repository")
    (repository / ".git").write_text(f"gitdir: {outside}/repository\n")
    assert "lies elsewhere" in await tools.refused("git_status", PLAN)
    (repository / ".git").unlink()
    (repository / ".git").symlink_to(outside / "repository")
    assert "main" not in await tools.refused("git_status", PLAN)


def linked(root: Path, outside: Path) -> Path:
    """Make the workspace a linked worktree of a repository outside; returns that."""
    main = outside / "main"
    git(outside, "init", "-q", "-b", "main", str(main))
    put(main, {"a.py": "first\n"})
    git(main, "add", ".")
    git(main, "commit", "-qm", "first")
    root.rmdir()
    git(main, "worktree", "add", "-q", "-b", "mine", str(root))
    return main


def submodule(root: Path, outside: Path) -> Path:
    """Make the workspace a submodule of a repository that is around it."""
    other, around = outside / "other", root.parent
    git(outside, "init", "-q", "-b", "mine", str(other))
    put(other, {"a.py": "first\n"})
    git(other, "add", ".")
    git(other, "commit", "-qm", "first")
    git(around, "init", "-q")
    root.rmdir()
    git(around, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), root.name)
    return around


ELSEWHERE = {"linked worktree": linked, "submodule": submodule}


@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_git_works_in_a_linked_worktree_and_a_submodule_and_changes_nothing_there(
    workspace: Workspace, root: Path, outside: Path, kind: str
) -> None:
    """In the tools and in the shell, as in a workspace with its repository in it."""
    main = ELSEWHERE[kind](root, outside)
    put(root, {"a.py": "second\n"})
    shell, tools = shell_only(workspace), Bench([git_status_tool(workspace), git_diff_tool(workspace)])
    assert (await status(tools)).split("\n")[0].startswith("## mine")
    assert "+second" in await diff(tools)
    for command in ("git status --short", "git log --oneline", "git diff", "git show HEAD:a.py"):
        assert (await shell.run(command)).ok, command
    before = contents(main)
    folder = (await shell.run("git rev-parse --absolute-git-dir")).content.split("\n")[-1]
    shared = (await shell.run("git rev-parse --path-format=absolute --git-common-dir")).content.split("\n")[-1]
    for command in (
        "git config core.fsmonitor ./evil",
        "git commit -am x",
        f"echo x > {folder}/config.worktree",
        f"echo x > {shared}/hooks/pre-commit",
        "echo 'gitdir: /tmp' > .git",
        "mv .git old",
    ):
        assert not (await shell.run(command)).ok, command
    assert contents(main) == before
    assert not (await shell.run(f"cat {outside}/secret.txt")).ok


async def test_a_file_that_names_a_folder_of_others_shows_nothing_of_it(
    workspace: Workspace, root: Path, outside: Path
) -> None:
    """It may have come with files from anywhere; git's own worktrees and submodules are named by both sides."""
    git(outside, "init", "-q", str(outside / "main"))
    put(root, {".git": f"gitdir: {outside}/main/.git\n"})
    shell = shell_only(workspace)
    assert not (await shell.run(f"ls {outside}/main/.git")).ok
    assert "lies elsewhere" in (await shell.run("git status")).content
    put(
        root,
        {"fake/HEAD": "x", "fake/commondir": f"{outside}\n", "fake/gitdir": f"{root}/.git\n", ".git": "gitdir: fake"},
    )
    assert not (await shell.run(f"cat {outside}/secret.txt")).ok


async def test_a_failed_git_of_the_shell_is_explained(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    shell = shell_only(workspace)
    assert "is no git repository" in (await shell.run("git status")).content
    git(tmp_path, "init", "-q")
    assert f"is a folder of the repository {tmp_path}" in (await shell.run("git log")).content
    assert "repository" not in (await shell.run("git --version")).content


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to others")
async def test_a_repository_of_another_user_can_be_read(workspace: Workspace, repository: Path) -> None:
    """As of a person whose folder is mounted into a container in which the daemon is root."""
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 12345, 12345)
    assert (await shell_only(workspace).run("git log --oneline")).ok


RUN_BY_GIT = (
    "core.fsmonitor core.pager core.editor core.sshCommand diff.external diff.evil.command diff.evil.textconv "
    "pager.diff pager.status interactive.diffFilter alias.status alias.diff"
)


async def test_nothing_planted_in_the_repository_runs(tools: Bench, repository: Path, tmp_path: Path) -> None:
    """Neither by settings nor by attributes or files of `.git`; and a filter can write nowhere."""
    planted = repository / "planted"
    planted.write_text(f"#!/bin/sh\necho PLANTED\necho PLANTED >&2\ntouch ran ../ran /tmp/ran {tmp_path}/ran\ncat\n")
    planted.chmod(0o755)
    for name in RUN_BY_GIT.split():
        git(repository, "config", name, str(planted))
    git(repository, "config", "core.hooksPath", str(repository))
    for hook in ("post-index-change", "pre-auto-gc", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(planted, repository / ".git/hooks" / hook)
        shutil.copy(planted, repository / hook)
    put(repository, {".gitattributes": "* diff=evil\n", "a.py": "changed\n"})
    for shown in (await status(tools), await diff(tools)):
        assert "a.py" in shown
        assert "PLANTED" not in shown
    git(repository, "config", "filter.evil.clean", str(planted))
    put(repository, {".gitattributes": "* filter=evil\n", "a.py": "changed again\n"})
    before = (repository / ".git/index").read_bytes()
    assert "+changed again" in await diff(tools)
    assert sorted(tmp_path.rglob("ran")) == []
    assert (repository / ".git/index").read_bytes() == before
