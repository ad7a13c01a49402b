"""Calls take turns; what a program changes is known, and beyond what the phase permits nothing of it stays."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Replay
from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools import serialized_calls as module
from tenex.tools.check import CheckPolicy
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.registry import ToolRegistry
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shadow_git import CheckpointFailed, ShadowGit
from tenex.tools.shell import ShellPolicy, ShellRules
from tenex.tools.standard import ToolDependencies, standard_tools
from tenex.tools.tool import Tool, object_schema
from tenex.tools.workspace import Workspace, digest

from .conftest import ROSTER, KeptLessons, git, make_context, names_in, needs_bubblewrap, needs_git
from .test_process import until

pytestmark = needs_git

REF = f"refs/tenex/{'c' * 64}"


@pytest.fixture
def tools(workspace: Workspace, folder: Path, policy: ShellPolicy) -> ToolRegistry:
    return registry_of(workspace, folder, policy)


def registry_of(
    workspace: Workspace, folder: Path | None, policy: ShellPolicy = ShellPolicy.UNSANDBOXED, timeout: float = 60
) -> ToolRegistry:
    turns = Transactions(workspace, Checkpoints(folder, workspace.root) if folder else None)
    tools = standard_tools(
        ToolDependencies(
            workspace=workspace,
            lessons=KeptLessons(),
            check=CheckPolicy(policy),
            shell=ShellRules(policy=policy, timeout=timeout),
            transactions=turns,
        )
    )
    return ToolRegistry(tools, ROSTER.get, turns)


async def shell(tools: ToolRegistry, command: str, context: ExecutionContext | None = None) -> ToolResult:
    return await tools.call("shell", {"command": command}, context or make_context())


def fill(root: Path) -> dict[str, str]:
    files = {
        "app.py": "print(1)\n",
        "src/other.py": "other\n",
        "README.md": "read me\n",
        "mine.py": "mine\n",
        ".gitignore": "*.log\nbuild/\n",
        "test_app.py": "def test_it(): pass\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    return files


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(errors="replace")
        for path in root.rglob("*")
        if path.is_file()
    }


def subjects(folder: Path) -> list[str]:
    return git(folder, "log", "--format=%s", REF).splitlines()


VERIFICATION = make_context(Phase.VERIFICATION, touched=frozenset({"mine.py"}))
CHORES = make_context(Phase.CHORES, touched=frozenset({"mine.py"}))


async def test_in_execute_changes_are_reported_and_stay(
    tools: ToolRegistry, workspace: Workspace, folder: Path
) -> None:
    fill(workspace.root)
    result = await shell(
        tools, "echo more >> app.py; rm src/other.py; mkdir n; echo new > n/ew; touch x.log; chmod +x mine.py"
    )
    assert result.ok
    assert result.touched == ("app.py", "mine.py", "n/ew", "src/other.py")
    assert result.reverted == ()
    assert result.content.endswith("[Changed: app.py, mine.py, n/ew, src/other.py.]")
    assert (workspace.root / "n/ew").read_text() == "new\n"
    assert subjects(folder) == ["after shell", "before shell"]


async def test_a_checkpoint_names_its_call(tools: ToolRegistry, workspace: Workspace, folder: Path) -> None:
    """So that a turn can be taken back: the parent of the commit that names a call is how it was before."""
    (workspace.root / "a").write_text("before")
    await shell(tools, "printf after > a")
    body = git(folder, "log", "-1", "--format=%b", REF)
    for line in (f"conversation: {'c' * 64}", "turn: turn-1", "call: k1", "agent: executor", "phase: execute"):
        assert line in body.splitlines()
    assert git(folder, "show", f"{REF}:a") == "after"
    assert git(folder, "show", f"{REF}~1:a") == "before"


async def test_a_command_without_changes_leaves_no_trace(
    tools: ToolRegistry, workspace: Workspace, folder: Path
) -> None:
    fill(workspace.root)
    first = await shell(tools, "ls")
    assert first.touched == ()
    assert "Changed" not in first.content
    await shell(tools, "cat app.py; touch app.py")
    assert subjects(folder) == ["before shell"]


@pytest.mark.parametrize(
    "command",
    [
        "echo more >> app.py",
        "rm app.py mine.py",
        "mv app.py renamed.py",
        "echo 1 > new.py; mkdir n; echo 2 > n/e",
        "chmod +x app.py",
        "chmod 600 app.py",
        "rm -rf src; echo x > src",
        "rm app.py; ln -s /etc/passwd app.py",
        "echo x > README.md",
        "echo x > mine.py",
        "echo '*' > .gitignore; echo 1 > hidden.py",
        "printf '*\\n' > src/.gitignore; echo 1 > src/hidden.py",
        "rm .gitignore; echo 1 > y.log.py",
        "find . -type f -delete",
        "cp -r src copy; sed -i s/print/exit/ app.py",
    ],
)
async def test_in_verification_no_change_stays(tools: ToolRegistry, workspace: Workspace, command: str) -> None:
    """Not even to documentation, or to files this cycle has changed."""
    was = fill(workspace.root)
    modes = {name: (workspace.root / name).stat().st_mode for name in was}
    result = await shell(tools, command, VERIFICATION)
    assert result.ok
    assert result.touched == ()
    assert result.reverted
    assert "[Put back as it was, because nothing is changed in verification: " in result.content
    assert contents(workspace.root) == was
    assert {name: (workspace.root / name).stat().st_mode for name in was} == modes
    assert "could not be put back" not in result.content.lower()


async def test_what_was_put_back_can_still_be_found(tools: ToolRegistry, workspace: Workspace, folder: Path) -> None:
    """A person may have been writing in the workspace at the same time."""
    fill(workspace.root)
    await shell(tools, "echo a night of work > novel.txt", VERIFICATION)
    assert not (workspace.root / "novel.txt").exists()
    assert subjects(folder) == ["put back after shell", "after shell", "before shell"]
    assert git(folder, "show", f"{REF}~1:novel.txt") == "a night of work\n"


async def test_ignored_files_stay_in_every_phase(tools: ToolRegistry, workspace: Workspace) -> None:
    """What tests leave behind: logs, builds, compiled files, and caches that ignore themselves."""
    was = fill(workspace.root)
    command = (
        "echo log > run.log; mkdir -p build src/__pycache__ .pytest_cache/v; echo 1 > build/out; "
        "echo 1 > src/__pycache__/x.pyc; echo '*' > .pytest_cache/.gitignore; echo 1 > .pytest_cache/v/last"
    )
    for context in (VERIFICATION, CHORES):
        result = await shell(tools, command, context)
        assert (result.reverted, result.touched) == ((), ())
        assert "Put back" not in result.content
    assert {*was, "run.log", "build/out", ".pytest_cache/v/last"} < set(contents(workspace.root))


async def test_in_chores_only_what_they_may_change_stays(tools: ToolRegistry, workspace: Workspace) -> None:
    fill(workspace.root)
    result = await shell(
        tools, "for f in $(find . -type f); do echo '# tidy' >> $f; done; mkdir docs; echo 1 > docs/new", CHORES
    )
    assert result.ok
    assert result.touched == ("README.md", "docs/new", "mine.py")
    assert set(result.reverted) == {".gitignore", "app.py", "src/other.py", "test_app.py"}
    assert "because chores change only documentation and what this cycle has changed: " in result.content
    assert (workspace.root / "mine.py").read_text() == "mine\n# tidy\n"
    assert (workspace.root / "app.py").read_text() == "print(1)\n"


async def test_in_chores_a_renamed_file_is_not_lost(tools: ToolRegistry, workspace: Workspace) -> None:
    """Its new name may not be there, its old one may go; doing both would lose it."""
    was = fill(workspace.root)
    result = await shell(tools, "mv mine.py src/moved.py; mv README.md notes.txt", CHORES)
    assert contents(workspace.root) == was
    assert set(result.reverted) == {"mine.py", "src/moved.py", "README.md", "notes.txt"}
    assert (await shell(tools, "rm mine.py; mkdir docs; mv README.md docs/", CHORES)).reverted == ()
    assert "mine.py" not in contents(workspace.root)


async def test_failed_reverts_are_reported(
    tools: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.tools.snapshots.LARGEST_KEPT", 100)
    (workspace.root / "big").write_text("x" * 500)
    (workspace.root / "small").write_text("x")
    result = await shell(tools, "echo y > big; echo z > small", VERIFICATION)
    assert result.reverted == ("small",)
    assert result.touched == ("big",)
    assert "Could not be put back: big; name this in your summary." in result.content


async def test_a_cancelled_or_stopped_command_is_reverted(
    tools: ToolRegistry, workspace: Workspace, folder: Path
) -> None:
    was = fill(workspace.root)
    task = asyncio.create_task(shell(tools, "echo x > app.py; echo y > started; sleep 600", VERIFICATION))
    await until((workspace.root / "started").exists, "the command runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(workspace.root) == was
    assert (await shell(tools, "ls", VERIFICATION)).ok  # and the turn is free again
    result = await shell(registry_of(workspace, folder, timeout=1), "echo x > app.py; sleep 600", VERIFICATION)
    assert "was stopped" in result.content
    assert result.reverted == ("app.py",)
    assert contents(workspace.root) == was


async def test_check_without_a_sandbox_is_held_to_the_same(workspace: Workspace, folder: Path) -> None:
    was = fill(workspace.root)
    (workspace.root / "mine.py").write_text("open('app.py', 'w'); open('new', 'w')")
    tools = registry_of(workspace, folder, ShellPolicy.UNSANDBOXED)
    result = await tools.call("check", {"path": "mine.py"}, VERIFICATION)
    assert result.ok
    assert result.reverted == ("app.py", "new")
    assert (workspace.root / "app.py").read_text() == was["app.py"]


@needs_bubblewrap
async def test_what_cannot_change_anything_is_not_blamed_for_what_others_do(workspace: Workspace, folder: Path) -> None:
    """A person who writes while `check` runs in its sandbox keeps what they wrote."""
    (workspace.root / "mine.py").write_text("print('up')\n")
    tools = registry_of(workspace, folder, ShellPolicy.SANDBOXED)
    running = asyncio.create_task(tools.call("check", {"path": "mine.py"}, VERIFICATION))
    (workspace.root / "novel.txt").write_text("a night of work")
    result = await running
    assert result.reverted == ()
    assert names_in(workspace.root) == ["mine.py", "novel.txt"]
    assert "checkpoints" not in names_in(folder.parent)


async def test_file_tools_make_checkpoints_too(tools: ToolRegistry, workspace: Workspace, folder: Path) -> None:
    written = await tools.call("write_file", {"path": "a", "content": "1"}, make_context())
    assert written == ToolResult(ok=True, content="Created a (1 bytes).", touched=("a",), read={"a": digest(b"1")})
    await tools.call("move_file", {"path": "a", "to": "b"}, make_context())
    await tools.call("delete_file", {"path": "b"}, make_context(read={"b": digest(b"1")}))
    assert subjects(folder) == ["after delete_file", "after move_file", "after write_file", "before write_file"]
    assert git(folder, "show", f"{REF}~1:b") == "1"


async def test_a_file_changed_by_a_command_has_to_be_read_again(tools: ToolRegistry, workspace: Workspace) -> None:
    fill(workspace.root)
    seen = {"app.py": digest(b"print(1)\n")}
    await shell(tools, "echo more >> app.py")
    for name, more in (
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "print", "new": "exit"}),
        ("delete_file", {}),
    ):
        result = await tools.call(name, {"path": "app.py", **more}, make_context(read=seen))
        assert "has changed since you read it" in result.content


async def test_names_that_are_no_text_can_be_recorded(tools: ToolRegistry, workspace: Workspace) -> None:
    result = await shell(tools, r"touch $'\xff\xfe' $'new\nline'")
    assert result.touched == ("new\nline", "\ufffd\ufffd")
    "".join([*result.touched, result.content]).encode("utf-8")
    result = await shell(tools, r"rm $'\xff\xfe'; echo 1 > $'\xfd'", VERIFICATION)
    assert result.reverted == ("\ufffd", "\ufffd\ufffd")
    assert {os.fsencode(name) for name in names_in(workspace.root)} == {b"\xff\xfe", b"new\nline"}


async def test_many_paths_are_shortened(
    tools: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOUCHED", 40)
    result = await shell(tools, "for n in $(seq 100 199); do echo $n > f$n; done")
    assert len(result.touched) == 40
    assert "f119 and 80 more." in result.content
    assert "Only the first 40 of these paths count" in result.content


@needs_bubblewrap
async def test_without_git_some_phases_are_read_only(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = registry_of(workspace, folder, ShellPolicy.SANDBOXED)

    def missing(*_: object, **__: object) -> bytes:
        raise CheckpointFailed("git is not installed")

    monkeypatch.setattr(ShadowGit, "run", missing)
    assert (await shell(tools, "echo 1 > a")).ok
    for context in (VERIFICATION, CHORES):
        result = await shell(tools, "cat a; echo 2 > a", context)
        assert not result.ok
        assert "The workspace was read-only to it in this phase. Output:\n1" in result.content
    written = await tools.call("write_file", {"path": "b", "content": "1"}, make_context())
    assert written.ok
    assert contents(workspace.root) == {"a": "1\n", "b": "1"}


async def test_without_checkpoints_at_all_it_is_the_same(workspace: Workspace) -> None:
    tools = registry_of(workspace, None)
    assert (await shell(tools, "echo 1 > a")).ok
    assert "nothing here could undo" in (await shell(tools, "echo 2 > a", VERIFICATION)).content
    assert contents(workspace.root) == {"a": "1\n"}


async def test_a_failed_snapshot_is_reported(
    tools: ToolRegistry, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = Checkpoints.take, []

    def once(self: Checkpoints, *, exact: bool = False) -> object:
        seen.append(exact)
        if len(seen) > 1:
            raise CheckpointFailed("the disk is full")
        return real(self, exact=exact)

    monkeypatch.setattr(Checkpoints, "take", once)
    result = await shell(tools, "echo 1 > a", VERIFICATION)
    assert result.ok
    assert "could not be determined" in result.content
    assert seen == [True, True]


async def test_long_or_hostile_names_are_cut_and_made_plain(tools: ToolRegistry, workspace: Workspace) -> None:
    """They are recorded, read by a model, and shown on a terminal."""
    result = await shell(tools, "d=$(printf 'x%.0s' $(seq 250)); d=$d/$d/$d/$d/$d; mkdir -p $d; touch $d/f")
    assert len(result.touched[0]) == 1_000
    assert len(result.content) < 500
    result = await shell(tools, r"touch $'\x1b[31mred' $'\xc2\x9b31mred'")
    assert result.content.endswith("[Changed: red, \ufffd31mred.]")


# ---- one at a time -------------------------------------------------------------------------------------------------


def tool_that(body: Any, access: Access, name: str = "shell") -> Tool:
    return Tool(name=name, description="", parameters=object_schema({}), access=access, replay=Replay.ONCE, body=body)


async def test_changing_calls_take_turns_across_registries_and_readers_do_not_wait(workspace: Workspace) -> None:
    """As after a reload: two registries over one workspace, two conversations; and one that is reading."""
    inside, most, has_read = 0, 0, False
    started, release = asyncio.Event(), asyncio.Event()

    async def changes(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        started.set()
        await release.wait()
        inside -= 1
        return ToolResult(ok=True, content="")

    async def reads(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        nonlocal has_read
        has_read = True
        return ToolResult(ok=True, content="")

    tools = [
        tool_that(changes, Access.RUN),
        tool_that(changes, Access.CHANGE, "write_file"),
        tool_that(reads, Access.READ, "read_file"),
    ]
    one, two = (ToolRegistry(tools, ROSTER.get, Transactions(workspace)) for _ in range(2))
    async with asyncio.TaskGroup() as group:
        for registry in (one, two):
            for name in ("shell", "write_file"):
                group.create_task(registry.call(name, {}, make_context()))
        await started.wait()
        await one.call("read_file", {}, make_context())
        assert has_read
        assert inside == 1
        release.set()
    assert most == 1


async def test_a_call_cancelled_while_waiting_does_nothing_and_delays_no_other(workspace: Workspace) -> None:
    started: list[str] = []
    release = asyncio.Event()

    async def changes(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        started.append(context.call_id)
        await release.wait()
        return ToolResult(ok=True, content="")

    registry = ToolRegistry([tool_that(changes, Access.RUN)], ROSTER.get, Transactions(workspace))
    calls = [asyncio.create_task(registry.call("shell", {}, make_context())) for _ in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()
    release.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, ToolResult) for result in results] == [True, False, True]
    assert len(started) == 2


@needs_git
async def test_a_tool_that_breaks_gives_its_turn_back_in_order(workspace: Workspace) -> None:
    (workspace.root / "app.py").write_text("whole")

    async def breaks(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        (workspace.root / "app.py").write_text("half")
        raise RuntimeError("broken")

    turns = Transactions(workspace, Checkpoints(workspace.root.parent / "checkpoints", workspace.root))
    registry = ToolRegistry([tool_that(breaks, Access.RUN)], ROSTER.get, turns)
    result = await registry.call("shell", {}, make_context(Phase.VERIFICATION))
    assert "failed for a reason of its own" in result.content
    assert (workspace.root / "app.py").read_text() == "whole"
    assert not workspace.turn.locked()
