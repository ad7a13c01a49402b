"""Agents commit what a cycle changed, in their own name, and nothing of the repository's settings runs."""

from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext
from tenex.tools.git_commit import git_commit_tool
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from .conftest import Bench, git, make_context, put

pytestmark = [needs_git, needs_bubblewrap]


@pytest.fixture
def tools(workspace: Workspace) -> Bench:
    return Bench([git_commit_tool(workspace)])


@pytest.fixture
def repository(root: Path) -> Path:
    put(root, {"a.py": "1\n", "gone.py": "1\n", "other.py": "1\n", ".gitignore": "*.log\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def touched(*paths: str, phase: Phase = Phase.CHORES) -> ExecutionContext:
    return make_context(phase, touched=frozenset(paths))


async def test_the_files_of_the_cycle_are_committed_and_nothing_else(tools: Bench, repository: Path) -> None:
    put(repository, {"a.py": "2\n", "new/b.py": "new\n", "x.log": "", "other.py": "2\n", "staged.py": "a person's\n"})
    (repository / "new/b.py").chmod(0o755)
    (repository / "gone.py").unlink()
    git(repository, "add", "staged.py")
    context = touched("a.py", "new/b.py", "gone.py", "x.log", "was-never-there.py")
    result = await tools.do("git_commit", context, message="Fix the sum\n\n# It was wrong: 'quotes' & $HOME.\n")
    made = git(repository, "rev-parse", "--short", "HEAD").strip()
    assert result.content == f"Committed as {made}: a.py, gone.py, new/b.py."
    assert git(repository, "log", "-1", "--format=%an <%ae>|%cn <%ce>|%B").strip() == (
        "executor <executor@tenex>|tenex <tenex@localhost>|Fix the sum\n\n# It was wrong: 'quotes' & $HOME."
    )
    shown = git(repository, "show", "--format=", "--raw", "--abbrev=4").splitlines()
    assert [(line.split()[1], line.split("\t")[1]) for line in shown] == [
        ("100644", "a.py"), ("000000", "gone.py"), ("100755", "new/b.py")
    ]  # fmt: skip
    assert git(repository, "status", "--short").splitlines() == [" M other.py", "A  staged.py"]


async def test_no_hook_filter_or_signature_of_the_repository_runs(
    tools: Bench, repository: Path, tmp_path: Path
) -> None:
    program = repository / "tools/run"
    put(repository, {"tools/run": "#!/bin/sh\ntouch ran .git/ran\ncat\n", "a.py": "2\n", "hooks/pre-commit": ""})
    program.chmod(0o755)
    for hook in ("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "reference-transaction"):
        for folder in (repository / ".git/hooks", repository / "hooks"):
            put(folder, {hook: program.read_text()})
            (folder / hook).chmod(0o755)
    for name, value in {
        "core.hooksPath": "hooks", "core.fsmonitor": str(program), "commit.gpgSign": "true",
        "gpg.program": str(program),
        "core.editor": str(program), "filter.own.clean": str(program), "filter.own.required": "true",
    }.items():  # fmt: skip
        git(repository, "config", name, value)
    assert (await tools.do("git_commit", touched("a.py"), message="Change it")).ok
    put(repository, {".gitattributes": "*.py filter=own\n", "a.py": "3\n"})
    words = await tools.refused("git_commit", touched("a.py"), message="Change it again")
    assert words == "A filter of the repository applies to a.py; a person has to commit these."
    assert not (repository / "ran").exists()
    assert not (repository / ".git/ran").exists()


@pytest.mark.parametrize(
    ("paths", "message", "words"),
    [
        ((), "x", "has changed no files"),
        (("x.log",), "x", "git ignores all files"),
        (("a.py",), "x", "are committed already"),
        (("a.py",), "  ", "`message` is empty"),
    ],
)
async def test_what_cannot_be_committed_is_told(
    tools: Bench, repository: Path, paths: tuple[str, ...], message: str, words: str
) -> None:
    put(repository, {"x.log": ""})
    assert words in await tools.refused("git_commit", touched(*paths), message=message)


async def test_there_must_be_a_repository_and_a_phase_that_changes_files(
    tools: Bench, root: Path, outside: Path
) -> None:
    assert "lies elsewhere" in await tools.refused("git_commit", touched("a.py"), message="x")
    (root / ".git").symlink_to(outside)
    assert await tools.refused("git_commit", touched("a.py"), message="x")
    verifying = touched("a.py", phase=Phase.VERIFICATION)
    assert "may not be used" in await tools.refused("git_commit", verifying, message="x")
