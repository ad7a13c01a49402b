"""Calls take turns; what a program changes is known, and told apart from what somebody else changes meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.phases import Access
from tenex.core.ports import ToolResult
from tenex.tools import serialized_calls as module
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shadow_git import CheckpointFailed
from tenex.tools.workspace import Workspace, digest
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import VERIFICATION, Bench, every_tool, fill, git, make_tool, put

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


@needs_bubblewrap
async def test_what_cannot_change_anything_is_not_blamed_for_what_others_do(
    workspace: Workspace, root: Path, folder: Path
) -> None:
    """A person who writes while `check` runs in its sandbox keeps what they wrote."""
    put(root, {"mine.py": "print('up')\n"})
    tools = every_tool(workspace, folder, RunPolicy.SANDBOXED)
    running = asyncio.create_task(tools.do("check", VERIFICATION, path="mine.py"))
    put(root, {"novel.txt": "a night of work"})
    assert (await running).touched == ()
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
    result = await tools.run("d=$(printf 'x%.0s' $(seq 250)); d=$d/$d/$d/$d/$d; mkdir -p $d; touch $d/f")
    assert len(result.touched[0]) == 1_000
    assert len(result.content) < 500
    monkeypatch.setattr(module, "MOST_TOUCHED", 40)
    result = await tools.run("for n in $(seq 100 199); do echo $n > f$n; done")
    assert len(result.touched) == 40
    assert "f119 and 80 more." in result.content
    assert "Only the first 40 of these paths count" in result.content


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
    assert await tools.refused("shell") == (
        "shell failed; it may have done a part, so check before repeating. The error: RuntimeError: broken"
    )
    assert git(folder, "show", f"{REF}:app.py") == "half"
    assert git(folder, "show", f"{REF}~1:app.py") == "whole"
    assert not workspace.turn.locked()


@needs_git
async def test_what_a_cycle_changed_is_shown_with_new_files_and_without_those_of_others(
    root: Path, workspace: Workspace, folder: Path
) -> None:
    put(root, {"old.py": "one\n", "other.py": "1\n"})
    put(root, {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/here": "", ".git/refs/here": ""})
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


async def test_what_is_as_the_cycle_has_found_it_is_known_by_its_content(
    tools: Bench, root: Path, folder: Path, workspace: Workspace
) -> None:
    """The same bytes, what was made and removed, and what was put back, unless rights differ or nothing is kept."""
    put(root, {"a.py": "1\n", "picture": "\0", ".gitignore": "*.log\n", "old.log": "x", "f/b.py": "2\n"})
    context = kit.make_context(read={"a.py": digest(b"1\n")})
    assert (await tools.do("write_file", context, path="a.py", content="1\n")).unchanged == ("a.py",)
    assert (await tools.do("write_file", context, path="a.py", content="2\n")).unchanged == ()
    assert (await tools.run("echo 1 > a.py; touch new; rm picture", context)).unchanged == ("a.py",)
    assert (await tools.run("rm new; printf '\\0' > picture; mv f g", context)).unchanged == ("new", "picture")
    assert (await every_tool(workspace, folder).run("mv g f", context)).unchanged == ("f/b.py", "g/b.py")
    assert (await tools.run("chmod 600 a.py; rm old.log", context)).unchanged == ()
    later = replace(context, cycle=2)
    assert (await tools.run("chmod 644 a.py; echo 3 > f/b.py", later)).unchanged == ()


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

    monkeypatch.setattr(Checkpoints, "since_beginning", fails)
    result = await tools.run("echo 1 > a")
    assert (result.ok, result.touched, result.lines) == (True, ("a",), {})
