"""Background commands go on after their call, are bounded, and end with the run and with the daemon."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.config import Role
from tenex.core.ids import ConversationId, RunId
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools import background_shell
from tenex.tools.background import MOST_RUNNING, BackgroundCommands, OutputRing
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.process import DiskReserve
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell_runner import ShellRules
from tenex.tools.standard import standard_tools
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap, needs_git

from . import conftest as kit
from .conftest import FAMILY, Bench, KeptLessons, contents, make_context, processes_in, put, subjects
from .undo_kit import Work

pytestmark = needs_git

GONE = "was ignored by git and is not in the checkpoints"
CHANGED = "changed, and is ignored by git: what it was is not in the checkpoints"

RUN = RunId("turn-1.executor")
OTHER = ConversationId("d" * 64)


def at(call: int = 7, phase: Phase = Phase.EXECUTE, **more: Any) -> ExecutionContext:
    """The context of a call of the run."""
    return make_context(phase, idempotency_key=f"{'c' * 64}:{call}", **{"run": RUN, **more})


@pytest.fixture
async def commands() -> Any:
    commands = BackgroundCommands()
    yield commands
    await commands.close()


@pytest.fixture
def shell(workspace: Workspace, folder: Path, policy: RunPolicy, commands: BackgroundCommands) -> Bench:
    """The built-in tools, with checkpoints."""
    views = TurnViews(workspace.root.with_name("views"), workspace)
    turns = Transactions(workspace, Checkpoints(folder, workspace.root), commands, views)
    parts = ToolDependencies(
        workspace=workspace,
        lessons=KeptLessons(),
        shell=ShellRules(policy=policy, timeout=30),
        transactions=turns,
        views=views,
        background=commands,
    )
    return Bench(standard_tools(parts), turns)


async def read(shell: Bench, **arguments: Any) -> ToolResult:
    return await shell.do("shell_read", at(8), **{"id": "bg-7", **arguments})


async def read_until(shell: Bench, words: str) -> str:
    """Read from the beginning until it has printed these words."""
    async with asyncio.timeout(60):
        offset, text = 0, ""
        while words not in text:
            text = (await read(shell, offset=offset, wait=10)).content
    return text


async def test_it_goes_on_after_its_call_and_its_output_is_read_by_place(
    shell: Bench, root: Path, policy: RunPolicy
) -> None:
    line = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo made > made; echo two; exec sleep 600"
    started = await shell.do("shell_start", at(), command=line)
    assert started.ok
    assert "bg-7 (`echo one; while" in started.content
    assert started.has_outside_effect, "what it will change is not known"
    assert dict(started.background or {}) == {"bg-7": line}
    assert "Output:\none" in await read_until(shell, "one")

    put(root, {"go": ""})
    later = await read(shell, offset=4, wait=30)
    assert "Bytes 4 to 8 of 8; next: 8. Output:\ntwo" in later.content
    assert later.touched == ()
    assert "is running, for " in later.content

    stopped = await shell.do("shell_stop", at(9), id="bg-7")
    assert "bg-7" in stopped.content
    assert "was stopped, with everything it had started." in stopped.content
    seen = {"made"} if policy is RunPolicy.SANDBOXED else {"go", "made"}  # outside the sandbox there is no witness
    assert set(stopped.touched) == seen
    assert stopped.background == {}
    assert processes_in(root) == []
    assert (await read(shell)).touched == stopped.touched, "as often as it is read"
    assert subjects(root.parent / "checkpoints")[-1] == "before shell_start"


async def test_one_that_ends_at_once_says_how_and_is_no_evidence(
    shell: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_shell, "FIRST_LOOK", 30.0)  # a busy machine needs longer than usual
    result = await shell.do("shell_start", at(), command="echo no >&2; touch a; exit 3")
    assert (
        "ended with exit status 3. Changed since its start: a.\nBytes 0 to 3 of 3; next: 3. Output:\nno"
        in result.content
    )
    assert (result.ok, result.exit_status, result.touched) == (True, None, ("a",))
    assert "ended with exit status 3" in (await read(shell, wait=30)).content


async def test_a_wait_ends_with_the_command(shell: Bench, root: Path) -> None:
    await shell.do("shell_start", at(), command="while [ ! -e go ]; do sleep 0.01; done")
    waiting = asyncio.create_task(read(shell, wait=30))
    put(root, {"go": ""})
    async with asyncio.timeout(20):
        assert "ended with exit status 0" in (await waiting).content


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (at(phase=Phase.CHORES), "The tool shell_start may not be used by executor in the chores phase"),
        (at(role=Role.GUEST), "are for owners and members"),
        (at(run=RunId("")), "belong to an agent's part in a turn"),
    ],
)
async def test_it_is_for_execute_and_for_members(
    shell: Bench, root: Path, context: ExecutionContext, words: str
) -> None:
    assert words in await shell.refused("shell_start", context, command="touch ran")
    assert contents(root) == {}
    assert "no folder gone" in await shell.refused("shell_start", at(), command="true", cwd="gone")


async def test_what_has_ended_can_be_read_up_to_a_number(shell: Bench) -> None:
    for call in range(10):
        await shell.do("shell_start", at(call), command=f"echo {call}")
    assert "bg-2 (`echo 2`) ended" in (await read(shell, id="bg-2")).content
    assert "There is no background command bg-1 " in await shell.refused("shell_read", at(20), id="bg-1")


async def test_what_cannot_be_started_is_refused(
    workspace: Workspace, policy: RunPolicy, commands: BackgroundCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=1_000_000)
    monkeypatch.setattr("tenex.tools.process.os.statvfs", lambda _: full)
    reserve = DiskReserve(size=1024**2, folders={"the workspace": workspace.root})
    parts = ToolDependencies(
        workspace=workspace,
        lessons=KeptLessons(),
        shell=ShellRules(policy=policy, reserve=reserve),
        background=commands,
    )
    sentence = await Bench(standard_tools(parts)).refused("shell_start", at(), command="true")
    assert sentence.startswith("Nothing was run: ")


async def test_there_are_at_most_four_in_a_run(shell: Bench) -> None:
    for call in range(MOST_RUNNING):
        assert (await shell.do("shell_start", at(call), command="exec sleep 600")).ok
    sentence = await shell.refused("shell_start", at(50), command="exec sleep 600")
    assert sentence == "4 background commands run already: bg-0, bg-1, bg-2, bg-3. Stop one first."
    held = [link for link in Path("/proc/self/fd").iterdir() if "tenex-witness" in os.path.realpath(link)]
    assert len(held) == 4, "the refused one holds no descriptor"
    await shell.do("shell_stop", at(51), id="bg-2")
    assert (await shell.do("shell_start", at(52), command="exec sleep 600")).ok


async def test_the_end_of_its_run_ends_everything_it_started(
    shell: Bench, root: Path, commands: BackgroundCommands
) -> None:
    await shell.do("shell_start", at(), command=FAMILY + "wait")
    await kit.until((root / "born").exists, "the family is born")
    here: Any = SimpleNamespace(id=make_context().conversation_id, work=SimpleNamespace(runs={RUN: None}, turn=None))
    elsewhere: Any = SimpleNamespace(id=OTHER, work=SimpleNamespace(runs={}, turn=None))
    for conversation in (here, elsewhere):
        commands.on_records(conversation, [])
    assert [command["id"] for command in commands.running()] == ["bg-7"]

    here.work.runs = {}
    commands.on_records(here, [])
    assert commands.running() == []
    await shell.do("shell", replace(at(20, Phase.VERIFICATION), conversation_id=OTHER), command="true")
    assert processes_in(root) == [], "a call that runs waits until they are gone"
    sentence = await shell.refused("shell_read", at(21), id="bg-7")
    assert "There is no background command bg-7" in sentence
    assert "when the daemon restarts" in sentence


async def test_a_conversation_with_which_another_worker_goes_on_leaves_no_program(
    shell: Bench, root: Path, commands: BackgroundCommands
) -> None:
    await shell.do("shell_start", at(), command=FAMILY + "wait")
    await kit.until((root / "born").exists, "the family is born")
    commands.end(OTHER)
    assert [command["id"] for command in commands.running()] == ["bg-7"]
    commands.end(make_context().conversation_id)
    await commands.settled()
    assert (commands.running(), processes_in(root)) == ([], [])


@needs_bubblewrap
async def test_a_background_command_writes_on_while_others_verify(shell: Bench, root: Path) -> None:
    line = "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.01; done"
    await shell.do("shell_start", at(), command=line)
    await kit.until((root / "count").exists, "it writes")
    verification = replace(at(30, Phase.VERIFICATION, run=RunId("turn-9.executor")), conversation_id=OTHER)
    result = await shell.do("shell", verification, command="cat count; touch mine; ls")
    assert result.ok
    assert "mine" in result.content
    assert not (root / "mine").exists()
    before = (root / "count").read_text()
    await kit.until(lambda: (root / "count").read_text() not in ("", before), "it writes on")


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 400), st.integers(0, 50))
def test_a_ring_holds_the_newest_bytes_by_their_place(chunks: list[bytes], offset: int, most: int) -> None:
    ring, whole = OutputRing(64), b"".join(chunks)
    for chunk in chunks:
        ring.add(chunk)
    begin, shown = ring.read(offset, most)
    assert (ring.begin, ring.end) == (max(0, len(whole) - 64), len(whole))
    assert begin == min(max(offset, ring.begin), ring.end)
    assert shown == whole[begin : begin + most]


async def test_output_that_is_not_kept_any_more_is_counted(shell: Bench) -> None:
    await shell.do("shell_start", at(), command="yes 123456789 | head -c 1000000; echo end")
    await read_until_end(shell)
    first = await read(shell, offset=0)
    kept = 256 * 1024
    assert f"Bytes {1_000_004 - kept} to " in first.content
    assert f"{1_000_004 - kept} bytes before that are not kept." in first.content
    assert (await read(shell)).content.endswith("end")


async def read_until_end(shell: Bench) -> None:
    async with asyncio.timeout(60):
        while "is running" in (await read(shell, wait=10)).content:
            pass


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.conftest import every_tool, make_context
from tenex.core.ids import RunId
from tenex.tools.sandbox import RunPolicy
from tenex.tools.workspace import Workspace
root, checkpoints, policy, command = sys.argv[1:]
tools = every_tool(Workspace(Path(root)), Path(checkpoints), RunPolicy(policy), 600)
async def main():
    result = await tools.do("shell_start", make_context(run=RunId("turn-1.executor")), command=command)
    assert result.ok, result.content
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_it_dies_with_a_daemon_that_is_killed(root: Path, folder: Path, policy: RunPolicy) -> None:
    line = [sys.executable, "-c", DAEMON, str(root), str(folder), policy, FAMILY + "wait"]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2])
    await kit.until((root / "born").exists, "the command works")
    daemon.kill()
    await daemon.wait()
    await kit.until(lambda: not processes_in(root), "the command is gone too")


BUILDS = """
echo x > build/out; mv build/secret app.py; cp build/copied src.py; rm build/copied; echo 1 > build/new
touch done; exec sleep 600
"""


@needs_bubblewrap
@pytest.mark.parametrize("policy", [RunPolicy.SANDBOXED])
async def test_what_one_took_away_in_an_ignored_folder_is_named_by_an_undo(
    root: Path, folder: Path, shell: Bench, commands: BackgroundCommands
) -> None:
    put(root, {".gitignore": "build/\ndone\n", "app.py": "1\n", "src.py": "1\n"})
    put(root, {"build/out": "out\n", "build/secret": "secret\n", "build/copied": "copied\n"})
    work = Work(Checkpoints(folder, root), root)
    work.turn()
    seq = work.begins("shell_start")
    result = await shell.do("shell_start", at(seq), command=BUILDS)
    work.ends(seq, result)
    await kit.until((root / "done").exists, "it has written")
    other = work.begins("shell")
    work.ends(other, await shell.do("shell", at(other), command="echo 2 > mine.py"))
    await commands.ended(make_context().conversation_id)
    lost = {"build/copied": GONE, "build/out": CHANGED, "build/secret": GONE}
    listed = await asyncio.to_thread(work.lists)
    assert listed.left.items() >= lost.items(), "and `build/new` is the work's own"
    assert "build/new" not in listed.left
    done = await asyncio.to_thread(work.undoes)
    assert done.left == listed.left
    back = await asyncio.to_thread(work.goes_back, 1)
    assert back.left.items() >= lost.items(), "a rollback names the same"
    assert not (await asyncio.to_thread(work.goes_back, len(work.records))).left.keys() & lost.keys(), "it was before"
    assert (contents(root)["app.py"], contents(root)["src.py"]) == ("secret\n", "copied\n")
