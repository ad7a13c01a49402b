"""`check` runs one file of this cycle, and nothing else."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools import sandbox
from tenex.tools.check import CheckPolicy, check_tool
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import ShellPolicy
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, make_context, names_in, needs_bubblewrap
from .test_process import is_alive, until


@pytest.fixture
def checks(workspace: Workspace, scratch: Path, policy: ShellPolicy) -> ToolRegistry:
    return ToolRegistry([check_tool(workspace, CheckPolicy(policy), deadline=5, scratch=scratch)], ROSTER.get)


async def check(registry: ToolRegistry, root: Path, code: str, name: str = "a.py", **more: Any) -> ToolResult:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(code)
    return await registry.call("check", {"path": name}, make_context(touched=frozenset({name}), **more))


@pytest.mark.parametrize("phase", [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES])
async def test_a_program_is_reported_with_its_output(checks: ToolRegistry, workspace: Workspace, phase: Phase) -> None:
    result = await check(checks, workspace.root, "print('hällo')", "src/a.py", phase=phase)
    with pytest.raises(InternalError):
        check_tool(workspace, CheckPolicy.OFF)
    assert result == ToolResult(ok=True, content="src/a.py ended with exit status 0. Output:\nhällo")


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("print('before')\n1/0", ("a.py ended with exit status 1. Output:\n", "before", "ZeroDivisionError")),
        ("", ("a.py ended with exit status 0. No output.",)),
        ("print('x' * 1_000_000)", ("a.py ended with exit status 0. Output:\n", "bytes left out")),
    ],
)
async def test_the_result_has_the_exit_status_and_the_capped_output(
    checks: ToolRegistry, workspace: Workspace, code: str, parts: tuple[str, ...]
) -> None:
    result = await check(checks, workspace.root, code)
    assert result.ok is ("status 0" in parts[0])
    assert result.content.startswith(parts[0])
    assert all(part in result.content for part in parts)
    assert len(result.content) < 33 * 1024


async def test_a_program_that_does_not_end_is_stopped(workspace: Workspace, policy: ShellPolicy) -> None:
    registry = ToolRegistry([check_tool(workspace, CheckPolicy(policy), deadline=1)], ROSTER.get)
    result = await check(registry, workspace.root, "print('on', flush=True)\nwhile True: pass")
    assert not result.ok
    assert result.content == "a.py was still running after 1 s and was stopped. Output:\non"


async def test_a_program_starts_in_the_workspace_and_knows_nothing_of_us(
    checks: ToolRegistry, workspace: Workspace, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENEX_SECRET", "nsec1secret")
    code = (
        "import os, pathlib\nprint(os.getcwd())\nprint(sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))\n"
        "print(os.environ['LANG'])\npathlib.Path.home().joinpath('x').write_text('y')\nprint(pathlib.Path.home())"
    )
    lines = (await check(checks, workspace.root, code)).content.split("\n")[1:]
    assert lines[:3] == [str(workspace.root), "['HOME', 'LANG', 'PATH', 'TMPDIR']", "C.UTF-8"]
    assert lines[3] == sandbox.HOME or Path(lines[3]).parent == scratch
    assert names_in(scratch) == []  # emptied again


async def test_cancelling_kills_the_real_process(checks: ToolRegistry, workspace: Workspace, scratch: Path) -> None:
    """The program is found by a mark in its command line, since a sandbox gives it another number inside."""
    task = asyncio.create_task(check(checks, workspace.root, "import time\ntime.sleep(600)", "marked_sleeper.py"))
    found: list[int] = []

    def runs() -> bool:
        found[:] = [pid for pid in processes(str(workspace.root / "marked_sleeper.py")) if is_alive(pid)]
        return any(b"supervisor.py" not in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found)

    await until(runs, "the program runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not [pid for pid in found if is_alive(pid)], "it is gone")
    assert names_in(scratch) == []


def processes(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry.name))
    return found


@needs_bubblewrap
async def test_the_sandbox_hides_the_world_and_protects_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    registry = ToolRegistry([check_tool(workspace, CheckPolicy.SANDBOXED)], ROSTER.get)
    code = f"""
import os, socket
def tried(what, act):
    try: print(what, act())
    except OSError as error: print(what, 'refused')
tried('write', lambda: open('new.txt', 'w'))
tried('change', lambda: open('a.py', 'a'))
tried('system', lambda: open('/usr/new', 'w'))
tried('secret', lambda: open({str(tmp_path / "outside/secret.txt")!r}).read())
tried('home', lambda: os.listdir({str(Path.home() / ".ssh")!r}))
tried('network', lambda: socket.create_connection(('127.0.0.1', 1), 1))
print('interfaces', [name for _, name in socket.if_nameindex()])
print('processes', len([p for p in os.listdir('/proc') if p.isdigit()]) < 4)
"""
    result = await check(registry, workspace.root, code)
    assert result.content.split("\n")[1:] == [
        "write refused",
        "change refused",
        "system refused",
        "secret refused",
        "home refused",
        "network refused",
        "interfaces ['lo']",
        "processes True",
    ]
    assert names_in(workspace.root) == ["a.py"]


async def test_a_missing_sandbox_is_reported(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ToolRegistry([check_tool(workspace, CheckPolicy.SANDBOXED)], ROSTER.get)
    monkeypatch.setenv("PATH", str(workspace.root))
    result = await check(registry, workspace.root, "open('ran', 'w')")
    assert "The operator has to fix that" in result.content
    assert not (workspace.root / "ran").exists()


async def test_only_python_files_of_this_cycle_are_run(registry: ToolRegistry, workspace: Workspace) -> None:
    for name in ("old.py", "a.sh", "mine.py"):
        (workspace.root / name).write_text("open('ran', 'w')")
    (workspace.root / "dir.py").mkdir()
    (workspace.root / "link.py").symlink_to("old.py")
    context = make_context(touched=frozenset({"a.sh", "dir.py", "link.py", "gone.py", "mine.py"}))
    for path, message in (
        ("old.py", "has not been changed in this cycle"),
        ("link.py", "old.py has not been changed in this cycle"),
        ("a.sh", "not a Python file"),
        ("dir.py", "is a folder"),
        ("gone.py", "no file gone.py"),
        ("../x.py", "`..`"),
    ):
        result = await registry.call("check", {"path": path}, context)
        assert not result.ok
        assert message in result.content
    assert not (workspace.root / "ran").exists()
    assert (await registry.call("check", {"path": "mine.py"}, context)).ok
    assert (workspace.root / "ran").exists()


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
