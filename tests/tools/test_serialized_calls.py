"""Calls take turns; what a program changes is known, and beyond what the phase permits nothing of it stays."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Access, Phase
from tenex.core.ports import ToolResult
from tenex.tools import serialized_calls as module
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.pending_revert import NAME, PendingReverts
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.snapshots import Snapshot
from tenex.tools.workspace import Workspace, digest
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import CHORES, VERIFICATION, Bench, contents, every_tool, fill, git, make_tool, put

pytestmark = needs_git

REF = f"refs/tenex/{'c' * 64}"


@pytest.fixture
def tools(workspace: Workspace, folder: Path, policy: RunPolicy) -> Bench:
    return every_tool(workspace, folder, policy)


async def test_in_execute_changes_are_reported_and_stay(tools: Bench, root: Path, folder: Path) -> None:
    """The parent of the commit that names a call is how it was before, so that a turn can be taken back."""
    fill(root)
    looked = await tools.run("cat app.py; touch app.py")
    assert (looked.touched, kit.subjects(folder)) == ((), ["before shell"])
    result = await tools.run(
        "echo more >> app.py; rm src/other.py; mkdir n; echo new > n/ew; touch x.log; chmod +x mine.py"
    )
    assert result.ok
    assert result.touched == ("app.py", "mine.py", "n/ew", "src/other.py")
    assert result.reverted == ()
    assert result.content.endswith("[Changed: app.py, mine.py, n/ew, src/other.py.]")
    assert (root / "n/ew").read_text() == "new\n"
    assert kit.subjects(folder) == ["after shell", "before shell"]
    body = git(folder, "log", "-1", "--format=%b", REF).splitlines()
    for line in (f"conversation: {'c' * 64}", "turn: turn-1", "call: k1", "agent: executor", "phase: execute"):
        assert line in body
    assert git(folder, "show", f"{REF}:app.py") == "print(1)\nmore\n"
    assert git(folder, "show", f"{REF}~1:app.py") == "print(1)\n"


@pytest.mark.parametrize(
    "command",
    [
        "mv app.py renamed.py",
        "echo 1 > new.py; mkdir n; echo 2 > n/e",
        "rm mine.py; chmod +x app.py",
        "echo x > README.md; echo x > mine.py",
        "echo '*' > .gitignore; echo 1 > hidden.py",
        "printf '*\\n' > src/.gitignore; echo 1 > src/hidden.py",
        "rm .gitignore; echo 1 > y.log.py",
    ],
)
async def test_in_verification_no_change_stays(tools: Bench, root: Path, folder: Path, command: str) -> None:
    """Not even to documentation, or to files this cycle has changed; what was put back can still be found."""
    was = fill(root)
    result = await tools.run(command, VERIFICATION)
    assert result.ok
    assert result.touched == ()
    assert result.reverted
    assert "[Put back as it was, because nothing is changed in verification: " in result.content
    assert contents(root) == was
    assert not os.access(root / "app.py", os.X_OK)
    after = ["after shell", "after shell"] if ".gitignore" in command else ["after shell"]  # with what it had hidden
    assert kit.subjects(folder) == ["put back after shell", *after, "before shell"]
    for name in ("new.py", "hidden.py", "y.log.py"):
        if f"> {name}" in command:
            assert git(folder, "show", f"{REF}~1:{name}") == "1\n"


async def test_ignored_files_stay_in_every_phase(tools: Bench, root: Path) -> None:
    """What tests leave behind: logs, builds, compiled files, and caches that ignore themselves."""
    was = fill(root)
    command = (
        "echo log > run.log; mkdir -p build src/__pycache__ .pytest_cache/v; echo 1 > build/out; "
        "echo 1 > src/__pycache__/x.pyc; echo '*' > .pytest_cache/.gitignore; echo 1 > .pytest_cache/v/last"
    )
    for context in (VERIFICATION, CHORES):
        result = await tools.run(command, context)
        assert (result.reverted, result.touched) == ((), ())
        assert "Put back" not in result.content
    assert {*was, "run.log", "build/out", ".pytest_cache/v/last"} < set(contents(root))


async def test_in_chores_only_what_they_may_change_stays(tools: Bench, root: Path) -> None:
    fill(root)
    command = "for f in $(find . -type f); do echo '# tidy' >> $f; done; mkdir docs; echo 1 > docs/new"
    result = await tools.run(command, CHORES)
    assert result.ok
    assert result.touched == ("README.md", "docs/new", "mine.py")
    assert result.reverted == (".gitignore", "app.py", "src/other.py")
    assert "because chores change only documentation and what this cycle has changed: " in result.content
    assert (root / "mine.py").read_text() == "mine\n# tidy\n"
    assert (root / "app.py").read_text() == "print(1)\n"


async def test_in_chores_a_renamed_file_is_not_lost(tools: Bench, root: Path) -> None:
    """Its new name may not be there, its old one may go; doing both would lose it."""
    was = fill(root)
    result = await tools.run("mv mine.py src/moved.py; mv README.md notes.txt", CHORES)
    assert contents(root) == was
    assert set(result.reverted) == {"mine.py", "src/moved.py", "README.md", "notes.txt"}
    assert (await tools.run("rm mine.py; mkdir docs; mv README.md docs/", CHORES)).reverted == ()
    assert "mine.py" not in contents(root)


async def test_a_cancelled_or_stopped_command_is_reverted(
    tools: Bench, workspace: Workspace, root: Path, folder: Path
) -> None:
    was = fill(root)
    task = asyncio.create_task(tools.run("echo x > app.py; echo y > started; sleep 600", VERIFICATION))
    await kit.until((root / "started").exists, "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(root) == was
    assert (await tools.run("ls", VERIFICATION)).ok, "the turn is free again"
    result = await every_tool(workspace, folder, timeout=1).run("echo x > app.py; sleep 600", VERIFICATION)
    assert "was stopped" in result.content
    assert result.reverted == ("app.py",)
    assert contents(root) == was


async def test_check_without_a_sandbox_is_held_to_the_same(recorded: Bench, root: Path) -> None:
    was = fill(root)
    put(root, {"mine.py": "open('app.py', 'w'); open('new', 'w')"})
    result = await recorded.do("check", VERIFICATION, path="mine.py")
    assert result.ok
    assert result.reverted == ("app.py", "new")
    assert (root / "app.py").read_text() == was["app.py"]


@needs_bubblewrap
async def test_what_cannot_change_anything_is_not_blamed_for_what_others_do(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """A person who writes while `check` runs in its sandbox keeps what they wrote."""
    put(root, {"mine.py": "print('up')\n"})
    tools = every_tool(workspace, folder, RunPolicy.SANDBOXED)
    running = asyncio.create_task(tools.do("check", VERIFICATION, path="mine.py"))
    put(root, {"novel.txt": "a night of work"})
    assert (await running).reverted == ()
    assert kit.names_in(root) == ["mine.py", "novel.txt"]
    assert not folder.exists()


async def test_file_tools_make_checkpoints_too_and_notice_what_a_command_changed(tools: Bench, folder: Path) -> None:
    written = await tools.do("write_file", path="a", content="1")
    assert written == ToolResult(
        ok=True, content="Created a (1 bytes).", touched=("a",), read={"a": digest(b"1")}, lines={"a": (1, 0)}
    )
    await tools.do("move_file", path="a", to="b")
    context = kit.make_context(read={"b": digest(b"1")})
    await tools.run("echo 2 > b")
    assert "has changed since you read it" in await tools.refused("delete_file", context, path="b")
    assert kit.subjects(folder) == ["after shell", "after move_file", "after write_file", "before write_file"]
    assert git(folder, "show", f"{REF}~1:b") == "1"


async def test_names_are_cut_plain_and_can_be_recorded(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are recorded, read by a model, and shown on a terminal."""
    result = await tools.run(r"touch $'\xff\xfe' $'new\nline' $'\x1b[31mred' $'\xc2\x9b31mred'")
    assert result.touched == ("\x1b[31mred", "new\nline", "\x9b31mred", "\ufffd\ufffd")
    assert result.content.endswith("[Changed: red, new?line, \ufffd31mred, \ufffd\ufffd.]")
    result = await tools.run(r"rm $'\xff\xfe'; echo 1 > $'\xfd'", VERIFICATION)
    assert result.reverted == ("\ufffd", "\ufffd\ufffd")
    assert b"\xff\xfe" in {os.fsencode(name) for name in kit.names_in(root)}
    result = await tools.run("d=$(printf 'x%.0s' $(seq 250)); d=$d/$d/$d/$d/$d; mkdir -p $d; touch $d/f")
    assert len(result.touched[0]) == 1_000
    assert len(result.content) < 500
    monkeypatch.setattr(module, "MOST_TOUCHED", 40)
    result = await tools.run("for n in $(seq 100 199); do echo $n > f$n; done")
    assert len(result.touched) == 40
    assert "f119 and 80 more." in result.content
    assert "Only the first 40 of these paths count" in result.content


# ---- without snapshots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_checkpoints", [True, False], ids=["no git", "off"])
async def test_without_checkpoints_some_phases_are_read_only(
    workspace: Workspace,
    root: Path,
    folder: Path,
    policy: RunPolicy,
    monkeypatch: pytest.MonkeyPatch,
    has_checkpoints: bool,
) -> None:
    def missing(*_: object, **__: object) -> bytes:
        raise CheckpointFailed("git is not installed")

    monkeypatch.setattr("tenex.tools.shadow_git.ShadowGit.run", missing)
    tools = every_tool(workspace, folder if has_checkpoints else None, policy)
    assert (await tools.run("echo 1 > a")).ok
    for context in (VERIFICATION, CHORES):
        found = await tools.refused("shell", context, command="cat a; echo 2 > a")
        read_only = "The workspace was read-only to it in this phase. Output:\n1"
        assert (read_only if policy is RunPolicy.SANDBOXED else "nothing here could undo") in found
    assert (await tools.do("write_file", path="b", content="1")).ok
    assert contents(root) == {"a": "1\n", "b": "1"}


# ---- one at a time -------------------------------------------------------------------------------------------------


async def test_changing_calls_take_turns_across_registries_and_readers_do_not_wait(workspace: Workspace) -> None:
    """As after a reload: two registries over one workspace. One that is cancelled while it waits delays no other."""
    inside, ended = 0, 0
    started, release = asyncio.Event(), asyncio.Event()

    async def changes(*_: Any) -> ToolResult:
        nonlocal inside, ended
        inside += 1
        assert inside == 1
        started.set()
        await release.wait()
        inside, ended = inside - 1, ended + 1
        return ToolResult(ok=True, content="")

    async def reads(*_: Any) -> ToolResult:
        return ToolResult(ok=True, content="")

    known = [make_tool("shell", Access.RUN, changes), make_tool("write_file", Access.CHANGE, changes)]
    known.append(make_tool("read_file", Access.READ, reads))
    one, two = (Bench(known, Transactions(workspace)) for _ in range(2))
    calls = [asyncio.create_task(tools.do(name)) for tools in (one, two) for name in ("shell", "write_file")]
    await started.wait()
    assert (await one.do("read_file")).ok
    calls[2].cancel()
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, ToolResult) and result.ok for result in results] == [True, True, False, True]
    assert ended == 3


async def test_a_tool_that_breaks_gives_its_turn_back_in_order(workspace: Workspace, root: Path, folder: Path) -> None:
    put(root, {"app.py": "whole"})

    async def breaks(*_: Any) -> ToolResult:
        put(root, {"app.py": "half"})
        raise RuntimeError("broken")

    turns = Transactions(workspace, Checkpoints(folder, root))
    tools = Bench([make_tool("shell", Access.RUN, breaks)], turns)
    assert "failed for a reason of its own" in await tools.refused("shell", VERIFICATION)
    assert (root / "app.py").read_text() == "whole"
    assert not workspace.turn.locked()


def test_what_is_noted_is_read_again_and_removed_if_it_cannot_be_read(tmp_path: Path) -> None:
    ledger = PendingReverts(tmp_path)
    hidden = frozenset({b"s/.gitignore"})
    before = Snapshot(tree="t", unkept={b"\xff": (1, 2, 3)}, permissions={b"a\n": 0o644}, hidden=hidden)
    context = kit.make_context(Phase.CHORES, touched=frozenset({"\udcff", "b"}))
    begun = ledger.open("shell", context, before, 30)
    assert PendingReverts(tmp_path).unfinished() == begun
    ledger.ended(begun)
    left = ledger.unfinished()
    assert left is not None
    assert begun.since <= left.until < begun.until
    ledger.close()
    assert ledger.unfinished() is None
    for content in ("", "[1]", '{"tool": 1}', "\x00"):
        (tmp_path / NAME).write_text(content)
        assert ledger.unfinished() is None
        assert not (tmp_path / NAME).exists()


async def killed_within(root: Path, folder: Path, command: str) -> None:
    """Run a command in verification, and kill the daemon that runs it once the command has changed things."""
    await kit.killed_daemon(root, f"{command}; touch started.log; sleep 600", "started.log", checkpoints=folder)
    (root / "started.log").unlink()


async def test_what_a_killed_daemon_left_is_put_back_before_the_next_call(
    recorded: Bench, root: Path, folder: Path
) -> None:
    was = fill(root)
    await killed_within(root, folder, "echo x > app.py; rm src/other.py; mkdir n; echo 1 > n/ew; chmod +x mine.py")
    assert contents(root) != was
    result = await recorded.run("cat app.py", VERIFICATION)
    assert "Output:\nprint(1)\n" in result.content
    assert "[An earlier command had been cut off. What it had changed was put back now: " in result.content
    assert contents(root) == was
    assert (root / "mine.py").stat().st_mode & 0o111 == 0
    assert kit.subjects(folder) == ["put back after shell", "after shell", "before shell"]
    assert not (folder / NAME).exists()
    assert "cut off" not in (await recorded.run("ls", VERIFICATION)).content


async def test_later_changes_of_users_stay(
    recorded: Bench, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
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

    await kit.until(lambda: now() > changed, "the clock of the disk goes on")
    put(root, {"mine.py": "by hand", "novel.txt": "a night of work"})
    (root / "src/other.py").unlink()
    result = await recorded.do("write_file", path="b", content="1")
    assert "What it had changed was put back now: app.py.]" in result.content
    found = contents(root)
    assert (found["app.py"], found["mine.py"], found["novel.txt"]) == ("print(1)\n", "by hand", "a night of work")
    assert "src/other.py" not in found


async def test_a_failed_revert_is_done_later(
    recorded: Bench, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second snapshot failed: nothing else may be written in a confined phase until it has been settled."""
    was = fill(root)
    real = Checkpoints.take

    def failing(self: Checkpoints, *, exact: bool = False) -> Snapshot:
        if (root / "evil.py").exists():
            raise CheckpointFailed("the disk is full")
        return real(self, exact=exact)

    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "take", failing)
        first = await recorded.run("echo x > app.py; touch evil.py", VERIFICATION)
        second = await recorded.run("echo y > mine.py", VERIFICATION)
    assert "could not be determined" in first.content
    assert "nothing here could undo" in second.content
    result = await recorded.run("true", CHORES)
    assert "was put back now: app.py, evil.py.]" in result.content
    assert contents(root) == was
    for context in (kit.make_context(), CHORES, VERIFICATION):
        await recorded.run("echo x > README.md", context)
        assert not (folder / NAME).exists(), "nothing is left to settle"


async def test_a_call_that_cannot_be_settled_does_not_block_the_next(recorded: Bench, root: Path, folder: Path) -> None:
    """What there was before it cannot be read: the next one is carried out, and is held to its phase."""
    was = fill(root)
    await recorded.run("true")
    PendingReverts(folder).open("shell", VERIFICATION, Snapshot(tree="4" * 40), 30)
    result = await recorded.run("echo x > app.py", VERIFICATION)
    assert (result.ok, result.reverted) == (True, ("app.py",))
    assert "cut off" not in result.content
    assert contents(root) == was
    assert not (folder / NAME).exists()


@needs_git
async def test_what_a_cycle_changed_is_shown_with_new_files_and_without_those_of_others(
    root: Path, workspace: Workspace, folder: Path
) -> None:
    put(root, {"old.py": "one\n", "other.py": "1\n"})
    tools = every_tool(workspace, folder, policy=RunPolicy.UNSANDBOXED)
    second = replace(kit.make_context(), cycle=2, idempotency_key="c:2")
    await tools.do("write_file", kit.make_context(), path="before.py", content="x\n")
    await tools.do("write_file", second, path="new/new.py", content="new\n")
    put(root, {"other.py": "2\n"})
    await tools.run("echo two >> old.py", replace(second, idempotency_key="c:3"))
    context = replace(second, touched=frozenset({"new/new.py", "old.py"}))
    shown = (await tools.do("git_diff", context, cycle=True)).content
    assert "+new\n" in shown
    assert " one\n+two" in shown
    assert not any(name in shown for name in ("other.py", "before.py"))
    assert "old.py" not in (await tools.do("git_diff", context, cycle=True, path="new")).content
    nothing = (await tools.do("git_diff", replace(context, cycle=3), cycle=True)).content
    assert nothing == "This cycle has changed nothing there."


async def test_lines_are_counted_from_the_beginning_of_the_cycle(
    root: Path, workspace: Workspace, folder: Path
) -> None:
    """A file that two calls change has their sum, by whatever tool, and after a restart too."""
    put(root, {"a.py": "1\n2\n3\n", "gone.py": "1\n2\n", "picture": b"\0\1", "same.py": "1\n"})
    tools = every_tool(workspace, folder)
    first = kit.make_context()
    assert (await tools.do("write_file", first, path="before.py", content="x\n")).lines == {"before.py": (1, 0)}
    second = replace(first, cycle=2)
    assert (await tools.run("echo 4 >> a.py; sed -i 1d a.py", second)).lines == {"a.py": (1, 1)}
    assert (await every_tool(workspace, folder).run("echo 5 >> a.py", second)).lines == {"a.py": (2, 1)}
    read = replace(second, read={"a.py": digest((root / "a.py").read_bytes())})
    assert (await tools.do("write_file", read, path="a.py", content="1\n2\n3\n")).lines == {"a.py": (0, 0)}
    result = await tools.run(
        "rm gone.py; printf '\\0\\2' > picture; mkdir n; echo y > n/ew.py; echo x >> before.py", second
    )
    assert result.lines == {"gone.py": (0, 2), "picture": (0, 0), "n/ew.py": (1, 0), "before.py": (1, 0)}
    assert (await tools.do("move_file", second, path="n/ew.py", to="m.py")).lines == {"n/ew.py": (0, 0), "m.py": (1, 0)}


async def test_lines_of_what_no_snapshot_holds_and_of_many_files_are_not_counted(
    root: Path, workspace: Workspace, folder: Path
) -> None:
    put(root, {"large.txt": "x\n" * 1_500_000})
    tools = every_tool(workspace, folder)
    assert (await tools.run("echo y >> large.txt")).lines == {"large.txt": (0, 0)}
    result = await tools.run("for n in $(seq 300); do echo $n > $n.txt; done")
    assert len(result.touched) == 300
    assert len(result.lines) == 100


async def test_a_call_whose_lines_cannot_be_counted_counts_as_any_other(
    tools: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise CheckpointFailed("no such tree")

    monkeypatch.setattr(Checkpoints, "lines_of", fails)
    result = await tools.run("echo 1 > a")
    assert (result.ok, result.touched, result.lines) == (True, ("a",), {})
