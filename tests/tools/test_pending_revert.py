"""A confined call whose end is not recorded is settled before the next one, and what a user did since stays."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.pending_revert import NAME, PendingReverts
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.snapshots import Snapshot
from tenex.tools.workspace import Workspace

from . import conftest as kit
from .conftest import CHORES, VERIFICATION, call, contents, fill, needs_git, put, recorded_tools, run, until

pytestmark = needs_git


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    ledger = PendingReverts(tmp_path)
    before = Snapshot(
        tree="t", unkept={b"\xff": (1, 2, 3)}, permissions={b"a\n": 0o644}, hidden=frozenset({b"s/.gitignore"})
    )
    context = kit.make_context(Phase.CHORES, touched=frozenset({"\udcff", "b"}))
    begun = ledger.open("shell", context, before, 30)
    assert PendingReverts(tmp_path).unfinished() == begun
    ledger.ended(begun)
    left = ledger.unfinished()
    assert left is not None
    assert begun.since <= left.until < begun.until
    ledger.close()
    assert ledger.unfinished() is None


@pytest.mark.parametrize("content", ["", "[1]", '{"tool": 1}', "\x00"])
def test_an_unreadable_record_is_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert PendingReverts(tmp_path).unfinished() is None
    assert not (tmp_path / NAME).exists()


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.conftest import VERIFICATION, recorded_tools, run
from tenex.tools.workspace import Workspace
asyncio.run(run(recorded_tools(Workspace(Path(sys.argv[1])), Path(sys.argv[2])), sys.argv[3], VERIFICATION))
"""


async def killed_within(root: Path, folder: Path, command: str) -> None:
    """Run a command in verification, and kill the daemon that runs it once the command has changed things."""
    line = [sys.executable, "-c", DAEMON, str(root), str(folder), f"{command}; touch started.log; sleep 600"]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2])
    await until((root / "started.log").exists, "the command has changed things")
    daemon.kill()
    await daemon.wait()
    await until(lambda: not kit.processes_in(root), "the command is gone too")
    (root / "started.log").unlink()


async def test_what_a_killed_daemon_left_is_put_back_before_the_next_call(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    was = fill(root)
    await killed_within(root, folder, "echo x > app.py; rm src/other.py; mkdir n; echo 1 > n/ew; chmod +x mine.py")
    assert contents(root) != was
    result = await run(recorded_tools(workspace, folder), "cat app.py", VERIFICATION)
    assert "Output:\nprint(1)\n" in result.content
    assert "[An earlier command had been cut off. What it had changed was put back now: " in result.content
    assert contents(root) == was
    assert (root / "mine.py").stat().st_mode & 0o111 == 0
    assert kit.subjects(folder) == ["put back after shell", "after shell", "before shell"]
    assert not (folder / NAME).exists()
    assert "cut off" not in (await run(recorded_tools(workspace, folder), "ls", VERIFICATION)).content


async def test_later_changes_of_users_stay(
    workspace: Workspace, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They found the daemon dead and went on by hand, or waited for hours: neither is undone."""
    fill(root)
    await killed_within(root, folder, "echo x > app.py; echo y > mine.py")
    ledger = PendingReverts(folder)
    left = ledger.unfinished()
    assert left is not None
    monkeypatch.setattr("tenex.tools.pending_revert._SLACK", 0.0)
    changed = (root / "mine.py").stat().st_ctime
    ledger._write(replace(left, until=changed))

    def now() -> float:
        put(root, {"clock.log": ""})
        return (root / "clock.log").stat().st_ctime

    await until(lambda: now() > changed, "the clock of the disk goes on")
    put(root, {"mine.py": "by hand", "novel.txt": "a night of work"})
    (root / "src/other.py").unlink()
    result = await call(recorded_tools(workspace, folder), "write_file", path="b", content="1")
    assert "What it had changed was put back now: app.py.]" in result.content
    found = contents(root)
    assert (found["app.py"], found["mine.py"], found["novel.txt"]) == ("print(1)\n", "by hand", "a night of work")
    assert "src/other.py" not in found


async def test_a_failed_revert_is_done_later(
    workspace: Workspace, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second snapshot failed: nothing else may be written in a confined phase until it has been settled."""
    was = fill(root)
    tools = recorded_tools(workspace, folder)
    real = Checkpoints.take

    def failing(self: Checkpoints, *, exact: bool = False) -> Snapshot:
        if (root / "evil.py").exists():
            raise CheckpointFailed("the disk is full")
        return real(self, exact=exact)

    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "take", failing)
        first = await run(tools, "echo x > app.py; touch evil.py", VERIFICATION)
        second = await run(tools, "echo y > mine.py", VERIFICATION)
    assert "could not be determined" in first.content
    assert "nothing here could undo" in second.content
    result = await run(tools, "true", CHORES)
    assert "was put back now: app.py, evil.py.]" in result.content
    assert contents(root) == was
    for context in (kit.make_context(), CHORES, VERIFICATION):
        await run(tools, "echo x > README.md", context)
        assert not (folder / NAME).exists(), "nothing is left to settle"


async def test_a_call_that_cannot_be_settled_does_not_block_the_next(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """What there was before it cannot be read: the next one is carried out, and is held to its phase."""
    was = fill(root)
    tools = recorded_tools(workspace, folder)
    await run(tools, "true")
    PendingReverts(folder).open("shell", VERIFICATION, Snapshot(tree="4" * 40), 30)
    result = await run(tools, "echo x > app.py", VERIFICATION)
    assert (result.ok, result.reverted) == (True, ("app.py",))
    assert "cut off" not in result.content
    assert contents(root) == was
    assert not (folder / NAME).exists()
