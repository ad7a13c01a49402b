"""Commands leave room on the disk: none begins below the reserve, and one that comes below it is stopped."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenex.settings import load
from tenex.tools.process import DiskReserve
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import ShellPolicy, ShellRules, shell_tool
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, needs_bubblewrap
from .test_process import is_alive
from .test_shell import run

MB = 1024**2
SLOWLY = "while true; do head -c 1000000 /dev/zero >> big; sleep 0.01; done"


@pytest.fixture
def disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk of 1000 MB, of which the workspace's files and `used` are taken."""
    disk = SimpleNamespace(used=0, size=1000)

    def statvfs(folder: Path) -> SimpleNamespace:
        if not folder.exists():
            raise FileNotFoundError(folder)
        taken = sum(path.lstat().st_size for path in workspace.root.rglob("*")) // MB + disk.used
        return SimpleNamespace(f_frsize=MB, f_blocks=disk.size, f_bavail=max(0, disk.size - taken))

    monkeypatch.setattr("tenex.tools.process.os.statvfs", statvfs)
    return disk


def shell(workspace: Workspace, policy: ShellPolicy = ShellPolicy.SANDBOXED, size: int = 40 * MB) -> ToolRegistry:
    folders = {"the workspace": workspace.root, "the checkpoints": workspace.root.parent / "missing"}
    rules = ShellRules(policy=policy, timeout=60, reserve=DiskReserve(size=size, folders=folders))
    return ToolRegistry([shell_tool(workspace, rules)], ROSTER.get)


@pytest.mark.parametrize(
    "policy", [pytest.param(ShellPolicy.SANDBOXED, marks=needs_bubblewrap), ShellPolicy.UNSANDBOXED]
)
async def test_a_command_filling_the_disk_is_stopped(
    workspace: Workspace, disk: SimpleNamespace, policy: ShellPolicy
) -> None:
    disk.used = 955
    registry = shell(workspace, policy)
    result = await run(registry, f"echo begun; sleep 1000 & echo $! > pid; {SLOWLY}")
    assert not result.ok
    assert "The command was stopped, with everything it had started: " in result.content
    assert "MB are free on the disk of the workspace, and 40 MB are kept free" in result.content
    assert result.content.endswith("begun")
    if policy is ShellPolicy.UNSANDBOXED:  # else the number is the sandbox's own
        assert not is_alive(int((workspace.root / "pid").read_text()))
    size = (workspace.root / "big").stat().st_size
    await asyncio.sleep(0.1)
    assert (workspace.root / "big").stat().st_size == size
    again = await run(registry, "rm big")
    assert again.content.startswith("Nothing was run: ")
    (workspace.root / "big").unlink()
    assert (await run(registry, "true")).ok


@needs_bubblewrap
async def test_below_the_reserve_no_command_begins(workspace: Workspace, disk: SimpleNamespace) -> None:
    disk.used = 961
    result = await run(shell(workspace), "touch ran")
    assert result.content == (
        "Nothing was run: 39 MB are free on the disk of the workspace, and 40 MB are kept free. Delete large files "
        "with `delete_file`, or ask for room."
    )
    assert not (workspace.root / "ran").exists()


@needs_bubblewrap
async def test_a_command_that_ends_or_has_no_reserve_runs(workspace: Workspace, disk: SimpleNamespace) -> None:
    assert (await run(shell(workspace), "sleep 0.5; touch ran")).ok
    disk.used = 999
    assert (await run(shell(workspace, size=0), "sleep 0.3")).ok


@needs_bubblewrap
async def test_on_a_small_disk_a_share_is_kept_and_not_all_of_it(workspace: Workspace, disk: SimpleNamespace) -> None:
    disk.used = 940
    assert (await run(shell(workspace, size=5000 * MB), "true")).ok
    disk.used = 951
    assert (
        "49 MB are free on the disk of the workspace, and 50 MB are kept"
        in (await run(shell(workspace, size=5000 * MB), "true")).content
    )


async def test_cancelling_leaves_nothing_that_looks_at_the_disk(workspace: Workspace, disk: SimpleNamespace) -> None:
    task = asyncio.create_task(run(shell(workspace, ShellPolicy.UNSANDBOXED), "touch begun; sleep 1000"))
    async with asyncio.timeout(60):
        while not (workspace.root / "begun").exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one for one in asyncio.all_tasks() if one.get_name().startswith("disk of")] == []


def test_the_reserve_is_a_setting(tmp_path: Path) -> None:
    assert load(None, tmp_path, env={}).tools.disk_reserve_mb == 1024
    assert load(None, tmp_path, env={"TENEX_TOOLS__DISK_RESERVE_MB": "0"}).tools.disk_reserve_mb == 0
