"""`check` runs one file of this cycle, and nothing else."""

import asyncio
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

from .conftest import ROSTER, call, make_context, names_in, needs_bubblewrap, processes_in, put, refused, until


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


async def test_a_program_that_does_not_end_is_stopped(workspace: Workspace, root: Path, policy: RunPolicy) -> None:
    registry = ToolRegistry([check_tool(workspace, policy, deadline=1)], ROSTER.get)
    result = await check(registry, root, "print('on', flush=True)\nwhile True: pass")
    assert not result.ok
    assert result.content.startswith("src/a.py was still running after 1 s and was stopped")
    assert result.content.endswith(". Output:\non")


async def test_a_program_starts_in_the_workspace_and_knows_nothing_of_us(
    checks: ToolRegistry, root: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENEX_SECRET", "nsec1secret")
    code = (
        "import os, pathlib\nprint(os.getcwd())\nprint(sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))\n"
        "print(os.environ['LANG'])\npathlib.Path.home().joinpath('x').write_text('y')\nprint(pathlib.Path.home())"
    )
    *lines, home = (await check(checks, root, code)).content.split("\n")[1:]
    assert lines == [str(root), "['HOME', 'LANG', 'PATH', 'TMPDIR']", "C.UTF-8"]
    assert home == sandbox.HOME or Path(home).parent == scratch
    assert names_in(scratch) == []  # emptied again


async def test_cancelling_kills_the_real_process(checks: ToolRegistry, root: Path, scratch: Path) -> None:
    before = processes_in(root)
    task = asyncio.create_task(check(checks, root, "import time\ntime.sleep(600)"))
    await until(lambda: len(processes_in(root)) > len(before) + 1, "the program runs below its supervisor")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: processes_in(root) == before, "it is gone")
    assert names_in(scratch) == []


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


async def test_a_missing_sandbox_is_reported(workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ToolRegistry([check_tool(workspace, RunPolicy.SANDBOXED)], ROSTER.get)
    monkeypatch.setenv("PATH", str(root))
    assert "The operator has to fix that" in (await check(registry, root, "open('ran', 'w')")).content
    assert not (root / "ran").exists()


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
