"""`check` runs one file of this cycle, and nothing else."""

import sys
from pathlib import Path

import pytest

from tenex.core.errors import InternalError
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools import sandbox
from tenex.tools.check import check_tool
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, call, make_context, names_in, needs_bubblewrap, put, refused


@pytest.fixture
def checks(workspace: Workspace, scratch: Path, policy: RunPolicy) -> ToolRegistry:
    return ToolRegistry([check_tool(workspace, policy, deadline=5, scratch=scratch)], ROSTER.get)


async def check(registry: ToolRegistry, root: Path, code: str, phase: Phase = Phase.EXECUTE) -> ToolResult:
    put(root, {"src/a.py": code})
    return await call(registry, "check", make_context(phase, touched=frozenset({"src/a.py"})), path="src/a.py")


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("print('hällo')", 0, "Output:\nhällo"),
        ("", 0, "No output."),
        ("print('before')\n1/0", 1, "Output:\nbefore\nTraceback"),
        ("print('x' * 1_000_000)", 0, "Output:\nxxx"),
    ],
)
async def test_a_program_is_reported_with_its_output(
    checks: ToolRegistry, workspace: Workspace, root: Path, code: str, status: int, output: str
) -> None:
    for phase in (Phase.VERIFICATION, Phase.CHORES):
        result = await check(checks, root, code, phase)
        assert result.ok is (status == 0)
        assert result.content.startswith(f"src/a.py ended with exit status {status}. {output}")
        assert len(result.content) < 33 * 1024
    with pytest.raises(InternalError):
        check_tool(workspace, RunPolicy.OFF)


@needs_bubblewrap
async def test_in_the_sandbox_it_cannot_change_the_workspace(workspace: Workspace, root: Path) -> None:
    """What else the sandbox holds back: `test_shell`."""
    registry = ToolRegistry([check_tool(workspace, RunPolicy.SANDBOXED)], ROSTER.get)
    code = """
import socket
for act in (
    lambda: open('new.txt', 'w'),
    lambda: open('src/a.py', 'a'),
    lambda: open('outside/secret.txt'),
    lambda: socket.create_connection(('127.0.0.1', 1), 1),
):
    try: print(act())
    except OSError as error: print('refused')
"""
    result = await check(registry, root, code)
    assert result.content.split("\n")[1:] == ["refused"] * 4
    assert names_in(root) == ["src"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("old.py", "has not been changed in this cycle"),
        ("link.py", "old.py has not been changed in this cycle; `check` runs only files that have: dir.py, gone.py"),
        ("a.sh", "not a Python file"),
        ("dir.py", "is a folder"),
        ("gone.py", "no file gone.py"),
        ("../x.py", "`..`"),
    ],
)
async def test_only_python_files_of_this_cycle_are_run(
    registry: ToolRegistry, root: Path, path: str, message: str
) -> None:
    put(root, dict.fromkeys(("old.py", "a.sh", "mine.py", "dir.py/x"), "open('ran', 'w')"))
    (root / "link.py").symlink_to("old.py")
    context = make_context(touched=frozenset({"a.sh", "dir.py", "link.py", "gone.py", "mine.py"}))
    assert message in await refused(registry, "check", context, path=path)
    assert not (root / "ran").exists()
    assert (await call(registry, "check", context, path="mine.py")).ok
    assert (root / "ran").exists()


@pytest.mark.parametrize(
    "script",
    [
        None,
        "raise SystemExit('bwrap: No permissions to create new namespace')",
        "print('confined')",
        """
import os, sys
i = sys.argv.index('--')
os.chdir(sys.argv[i - 1])
os.execv(sys.argv[i + 1], sys.argv[i + 1:])
""",
    ],
    ids=["missing", "forbidden", "lies", "does not confine"],
)
def test_a_bubblewrap_is_probed_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None) -> None:
    if script is not None:
        (tmp_path / "bwrap").write_text(f"#!{sys.executable}\n{script}")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.probe_bubblewrap() is False
