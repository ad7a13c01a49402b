"""A confined call whose end is not recorded is settled before the next one, and what a user did since stays."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.pending_revert import NAME, PendingReverts
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.snapshots import Snapshot
from tenex.tools.workspace import Workspace

from .conftest import make_context, needs_git
from .test_process import until
from .test_serialized_calls import CHORES, VERIFICATION, contents, fill, registry_of, shell, subjects
from .test_shell import sleepers

pytestmark = needs_git


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    ledger = PendingReverts(tmp_path)
    before = Snapshot(
        tree="t", unkept={b"\xff": (1, 2, 3)}, permissions={b"a\n": 0o644}, hidden=frozenset({b"s/.gitignore"})
    )
    context = make_context(Phase.CHORES, touched=frozenset({"\udcff", "b"}))
    begun = ledger.open("shell", context, before, 30)
    assert PendingReverts(tmp_path).unfinished() == begun
    ledger.ended(begun)
    left = ledger.unfinished()
    assert left is not None
    assert begun.since <= left.until < begun.until
    ledger.close()
    assert ledger.unfinished() is None


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"tool": 1}', "\x00"])
def test_an_unreadable_record_is_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert PendingReverts(tmp_path).unfinished() is None
    assert not (tmp_path / NAME).exists()


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.test_pending_revert import registry_of, shell, VERIFICATION
from tenex.tools.workspace import Workspace
asyncio.run(shell(registry_of(Workspace(Path(sys.argv[1])), Path(sys.argv[2])), sys.argv[3], VERIFICATION))
"""


async def killed_within(workspace: Workspace, folder: Path, command: str) -> None:
    """Run a command in verification, and kill the daemon that runs it once the command has changed things."""
    daemon = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        DAEMON,
        str(workspace.root),
        str(folder),
        f"{command}; touch started.log; sleep 600",
        cwd=Path(__file__).parents[2],
    )
    await until((workspace.root / "started.log").exists, "the command has changed things")
    daemon.kill()
    await daemon.wait()
    await until(lambda: not sleepers(workspace.root), "the command is gone too")
    (workspace.root / "started.log").unlink()


async def test_what_a_killed_daemon_left_is_put_back_before_the_next_call(workspace: Workspace, folder: Path) -> None:
    was = fill(workspace.root)
    await killed_within(workspace, folder, "echo x > app.py; rm src/other.py; mkdir n; echo 1 > n/ew; chmod +x mine.py")
    assert contents(workspace.root) != was
    result = await shell(registry_of(workspace, folder), "cat app.py", VERIFICATION)
    assert "Output:\nprint(1)\n" in result.content
    assert "[An earlier command had been cut off. What it had changed was put back now: " in result.content
    assert contents(workspace.root) == was
    assert os.stat(workspace.root / "mine.py").st_mode & 0o111 == 0  # noqa: PTH116
    assert subjects(folder) == ["put back after shell", "after shell", "before shell"]
    assert not (folder / NAME).exists()
    assert "cut off" not in (await shell(registry_of(workspace, folder), "ls", VERIFICATION)).content


async def test_later_changes_of_users_stay(workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They found the daemon dead and went on by hand, or waited for hours: neither is undone."""
    fill(workspace.root)
    await killed_within(workspace, folder, "echo x > app.py; echo y > mine.py")
    ledger = PendingReverts(folder)
    left = ledger.unfinished()
    assert left is not None
    monkeypatch.setattr("tenex.tools.pending_revert._SLACK", 0.0)
    changed = os.stat(workspace.root / "mine.py").st_ctime  # noqa: PTH116
    ledger._write(type(left)(tool="shell", context=left.context, before=left.before, since=left.since, until=changed))
    await until(lambda: _now(workspace.root) > changed, "the clock of the disk goes on")
    (workspace.root / "mine.py").write_text("by hand")
    (workspace.root / "novel.txt").write_text("a night of work")
    (workspace.root / "src/other.py").unlink()
    result = await registry_of(workspace, folder).call("write_file", {"path": "b", "content": "1"}, make_context())
    assert "What it had changed was put back now: app.py.]" in result.content
    now = contents(workspace.root)
    assert (now["app.py"], now["mine.py"], now["novel.txt"]) == ("print(1)\n", "by hand", "a night of work")
    assert "src/other.py" not in now


def _now(root: Path) -> float:
    (root / "clock.log").write_text("")
    return (root / "clock.log").stat().st_ctime


async def test_a_failed_revert_is_done_later(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second snapshot failed: nothing else may be written in a confined phase until it has been settled."""
    was = fill(workspace.root)
    tools = registry_of(workspace, folder)
    real = Checkpoints.take
    results: list[ToolResult] = []
    with monkeypatch.context() as broken:

        def failing(self: Checkpoints, *, exact: bool = False) -> Snapshot:
            if (workspace.root / "evil.py").exists():
                raise CheckpointFailed("the disk is full")
            return real(self, exact=exact)

        broken.setattr(Checkpoints, "take", failing)
        results.append(await shell(tools, "echo x > app.py; touch evil.py", VERIFICATION))
        results.append(await shell(tools, "echo y > mine.py", VERIFICATION))
    assert "could not be determined" in results[0].content
    assert "nothing here could undo" in results[1].content
    result = await shell(tools, "true", CHORES)
    assert "was put back now: app.py, evil.py.]" in result.content
    assert contents(workspace.root) == was


async def test_a_call_that_cannot_be_settled_does_not_block_the_next(workspace: Workspace, folder: Path) -> None:
    """What there was before it cannot be read: the next one is carried out, and is held to its phase."""
    was = fill(workspace.root)
    tools = registry_of(workspace, folder)
    await shell(tools, "true")
    PendingReverts(folder).open("shell", VERIFICATION, Snapshot(tree="4" * 40), 30)
    result = await shell(tools, "echo x > app.py", VERIFICATION)
    assert result.ok
    assert result.reverted == ("app.py",)
    assert "cut off" not in result.content
    assert contents(workspace.root) == was
    assert not (folder / NAME).exists()


async def test_a_call_where_all_may_change_leaves_nothing_to_settle(workspace: Workspace, folder: Path) -> None:
    fill(workspace.root)
    tools = registry_of(workspace, folder)
    for context in (make_context(), CHORES, VERIFICATION):
        await shell(tools, "echo x > README.md", context)
        assert not (folder / NAME).exists()
