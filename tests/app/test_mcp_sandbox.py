"""A server in the sandbox changes what the phase permits; what it wrote is known, and nothing of it outlives it."""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.core.port_values import QuestionReply
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import is_bare_repository
from tenex.tools.workspace_view import Way
from tests.fakes import mcp_server
from tests.kits.mcp_sandbox import opened, server
from tests.programs import needs_bubblewrap, needs_git
from tests.tools.conftest import (
    CHORES,
    VERIFICATION,
    contents,
    fill,
    git,
    having_read,
    make_context,
    processes_in,
    until,
)

pytestmark = [needs_git, needs_bubblewrap]


# ---- phases that permit no changes ----


async def test_in_verification_the_workspace_stays_and_the_programs_of_the_turn_see_what_the_server_wrote(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        was = fill(bench.root)
        written = await bench.run("echo changed > app.py; echo new > new.py; rm mine.py; cat app.py", VERIFICATION)
        assert (written.content, written.touched) == ("0 changed", ())
        assert contents(bench.root) == was
        shown = await bench.do("shell", VERIFICATION, command="cat app.py new.py; ls mine.py; echo more >> new.py")
        assert "changed\nnew" in shown.content
        assert "cannot access 'mine.py'" in shown.content
        assert (await bench.do("read_file", VERIFICATION, path="new.py")).content.endswith("more")
        again = await bench.run("cat new.py", VERIFICATION)
        assert again.content == "0 new\nmore", "a new process, in the same view"
        another = replace(VERIFICATION, turn="turn-2")
        assert "cat: new.py: No such file" in (await bench.run("cat app.py new.py", another)).content
        assert contents(bench.root) == was


async def test_calls_in_a_row_are_made_by_one_process_and_another_program_ends_it(tmp_path: Path) -> None:
    async with opened(tmp_path, server(), server("second")) as bench:
        first = await bench.pid(VERIFICATION)
        assert await bench.pid(VERIFICATION) == first
        await bench.run("true", VERIFICATION, "second")
        second = await bench.pid(VERIFICATION)
        assert second != first
        await bench.do("shell", VERIFICATION, command="true")
        assert await bench.pid(VERIFICATION) not in (first, second)
        assert first.startswith("0 ")
        calls = {connection.config.name: connection.counters.calls for connection in bench.servers.connections}
        assert calls == {"faulty": 4, "second": 1}


async def test_the_process_ends_with_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        ordinary = len(processes_in(bench.root))
        await bench.run("sleep 600 >/dev/null 2>&1 &", VERIFICATION)
        assert len(processes_in(bench.root)) > ordinary
        bench.views.end(VERIFICATION.conversation_id)
        await bench.views.settled()
        assert len(processes_in(bench.root)) == ordinary


async def test_in_chores_what_is_permitted_is_applied_and_the_rest_is_kept_apart(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        fill(bench.root)
        await bench.pid(CHORES)
        for text in ("once", "twice"):
            done = await bench.run(f"echo {text} > README.md; echo {text} > app.py; echo {text} > mine.py", CHORES)
            assert done.touched == ("README.md", "mine.py")
            assert (bench.root / "README.md").read_text() == f"{text}\n"
            assert (bench.root / "mine.py").read_text() == f"{text}\n"
            assert (bench.root / "app.py").read_text() == "print(1)\n"
        assert done.reverted == ()
        assert (await bench.run("cat app.py", CHORES)).content == "0 twice"
        first = await bench.pid(CHORES)
        assert await bench.pid(CHORES) == first, "it is ended only where something was applied"


async def test_in_chores_no_repository_is_applied_and_nothing_that_git_runs(tmp_path: Path) -> None:
    """Not even where documentation is."""
    async with opened(tmp_path) as bench:
        git(bench.root, "init", "-q")
        git(bench.root, "config", "core.hooksPath", "docs/checks")
        for command in (
            "mkdir docs; git init -q docs; echo x > docs/.git/hooks/pre-commit",
            "mkdir -p docs/b/objects docs/b/refs; for f in HEAD objects/x refs/x; do echo x > docs/b/$f; done",
            "mkdir -p docs/checks; echo x > docs/checks/pre-commit",
            "echo x > .git/notes.md",
        ):
            assert (await bench.run(f"{command}; echo fine > docs/fine.md", CHORES)).ok
        assert (bench.root / "docs" / "fine.md").is_file()
        assert not is_bare_repository(bench.root / "docs" / "b")
        assert not {".git", "checks"} & {entry.name for entry in (bench.root / "docs").iterdir()}
        assert not (bench.root / ".git" / "notes.md").exists()


async def test_a_server_sees_what_a_tool_has_changed_in_chores(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        fill(bench.root)
        shown = await bench.run("cat README.md; echo kept > app.py", CHORES)
        assert shown.content.startswith("0 read me\n[Not applied")
        read = having_read(bench.root, "README.md", phase=Phase.CHORES)
        assert (await bench.do("write_file", read, path="README.md", content="ours\n")).ok
        assert (await bench.run("cat README.md app.py", CHORES)).content == "0 ours\nkept"


async def test_a_tool_that_only_reads_sees_the_view_once_there_is_one(tmp_path: Path) -> None:
    words = ("-I", "-S", mcp_server.__file__, "--runs", "--page", str(tmp_path.resolve() / "workspace" / "app.py"))
    async with opened(tmp_path, server(args=words, trust=True)) as bench:
        fill(bench.root)
        assert (await bench.do("faulty__page", VERIFICATION)).content == "print(1)"
        await bench.run("echo seen > app.py", VERIFICATION)
        assert (await bench.do("faulty__page", VERIFICATION)).content == "seen"
        assert (await bench.do("faulty__page")).content == "print(1)"


async def test_where_the_view_is_read_only_the_server_reads_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.tools.turn_views._fault", lambda *_, **__: "not here")
    monkeypatch.setattr("tenex.tools.turn_views.is_at_most", lambda *_: False)
    async with opened(tmp_path) as bench:
        fill(bench.root)
        done = await bench.run("cat app.py; echo x > app.py", VERIFICATION)
        assert "print(1)" in done.content
        assert "Read-only file system" in done.content
        assert "[The workspace was read-only to it: there is no overlay here" in done.content


@pytest.mark.parametrize("way", [Way.OVERLAY, Way.COPY])
async def test_every_way_of_a_view_keeps_apart_what_a_server_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setattr(TurnViews, "way", lambda *_, **__: (way, ()))
    async with opened(tmp_path) as bench:
        was = fill(bench.root)
        assert (await bench.run("git init -q . && echo x > app.py; cat app.py", VERIFICATION)).content == "0 x"
        assert contents(bench.root) == was
        assert not (bench.root / ".git").exists()


@pytest.mark.parametrize("is_ended", [False, True], ids=["it goes on", "it has ended"])
async def test_a_question_is_answered_by_the_process_in_the_view_that_has_asked(
    tmp_path: Path, *, is_ended: bool
) -> None:
    async with opened(tmp_path) as bench:
        asked = await bench.do("faulty__order", VERIFICATION, text="tea")
        assert asked.question.startswith("The MCP server faulty asks: How many?")
        if is_ended:
            await bench.do("shell", VERIFICATION, command="true")
        answers = (QuestionReply(question=asked.question, text="7"),)
        done = await bench.do("faulty__order", replace(VERIFICATION, answers=answers), text="tea")
        if is_ended:
            assert done.content == (
                "unknown: faulty, or the daemon, ended while this waited for an answer; check before repeating"
            )
        else:
            assert json.loads(done.content) == {"action": "accept", "content": {"count": 7}}
            assert bench.servers.connections[0].counters.calls == 1


async def test_a_server_that_ends_in_a_view_is_there_for_the_next_call_with_what_it_wrote(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        fill(bench.root)
        await bench.run("echo kept > new.py", VERIFICATION)
        lost = await bench.do("faulty__die", VERIFICATION)
        assert lost.content == "unknown: faulty ended while this ran; check before repeating"
        assert (await bench.run("cat new.py", VERIFICATION)).content == "0 kept"


# ---- execute ----


async def test_in_execute_what_somebody_else_changes_meanwhile_is_told_apart(tmp_path: Path) -> None:
    """By call: a file may be written by the server in one call, and by a person in the next one."""
    async with opened(tmp_path) as bench:
        fill(bench.root)
        go = bench.root / "go"
        for ours, theirs in (("app.py", "mine.py"), ("app.py", "mine.py"), ("mine.py", "app.py")):
            go.unlink(missing_ok=True)
            wait = f"echo again >> {ours}; touch begun; while [ ! -e go ]; do sleep 0.01; done; rm begun"
            call = asyncio.create_task(bench.run(wait))
            await until((bench.root / "begun").exists, "the call has begun")
            with (bench.root / theirs).open("a") as file:
                file.write("of a person\n")
            go.touch()
            done = await call
            assert done.touched == (ours,), done.content
            names = ", ".join(sorted(["go", theirs]))
            assert f"Changed by somebody else while it ran: {names}." in done.content


async def test_where_the_process_was_replaced_every_change_counts_as_one_of_the_call(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        fill(bench.root)
        lost = await bench.run("echo x > app.py; kill -9 $PPID")
        assert lost.content.startswith("unknown: faulty ended while this ran")
        assert lost.touched == ("app.py",)
        assert "somebody else" not in lost.content
        assert (await bench.run("echo y > app.py")).touched == ("app.py",)


async def test_a_server_protects_the_repositories_that_came_after_its_start(tmp_path: Path) -> None:
    plant = "echo 'touch /tmp/planted' > {folder}/hooks/pre-commit; ls {folder}/hooks/pre-commit"
    async with opened(tmp_path) as bench:
        first = await bench.pid(make_context())
        assert await bench.pid(make_context()) == first
        git(bench.root, "init", "-q")
        git(bench.root, "init", "-q", "inner")
        for folder in (".git", "inner/.git"):
            refused = await bench.run(plant.format(folder=folder))
            assert "Read-only file system" in refused.content
            assert not (bench.root / folder / "hooks" / "pre-commit").exists()
        second = await bench.pid(make_context())
        assert second != first
        connection = bench.servers.connections[0]
        assert (connection.counters.starts, connection.counters.losses) == (2, 0)

        shutil.rmtree(bench.root / ".git")
        git(bench.root, "init", "-q")  # another one in its place, often with the number of its inode
        assert "Read-only file system" in (await bench.run(plant.format(folder=".git"))).content
        git(bench.root, "config", "core.hooksPath", "checks")
        (bench.root / "checks").mkdir()
        assert "Read-only" in (await bench.run("echo x > checks/pre-commit")).content
        assert (await bench.run("echo x > free.txt")).touched == ("free.txt",)
        assert connection.counters.starts == 4


async def test_a_repository_that_comes_in_a_call_is_renamed(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        done = await bench.run("git init -q .; echo x > .git/hooks/pre-commit")
        assert "[Taken away: .git. It is renamed" in done.content
        assert not (bench.root / ".git").exists()


# ---- the supervisor ----


@pytest.mark.parametrize("is_sandboxed", [True, False])
async def test_a_server_with_too_many_processes_is_ended_and_the_reason_says_so(
    tmp_path: Path, *, is_sandboxed: bool
) -> None:
    threads = "[_thread.start_new_thread(time.sleep, (60,)) for _ in range(600)]; time.sleep(60)"
    program = f"import _thread, time; _thread.stack_size(65536); {threads}"
    async with opened(tmp_path, server(sandbox=is_sandboxed, env={"PATH": os.environ["PATH"]})) as bench:
        bomb = f"{sys.executable} -I -S -c '{program}' & {sys.executable} -I -S -c '{program}' & wait"
        done = await bench.run(bomb)
        assert done.content.startswith(
            "unknown: faulty was ended while this ran: it had more than 1,024 processes and threads at once; check"
        )
        assert (await bench.run("echo back")).content == "0 back"


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.kits.mcp_sandbox import opened, server
from tests.tools.conftest import VERIFICATION

async def main():
    async with opened(Path(sys.argv[1]), server(sandbox=sys.argv[2] == "True")) as bench:
        sleeps = "setsid sleep 600 >/dev/null 2>&1 & echo started"
        await bench.run(f"cd {bench.root}; {sleeps}")
        if sys.argv[2] == "True":
            await bench.run(sleeps, VERIFICATION)
        (bench.root / "working").touch()
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("is_sandboxed", [True, False])
async def test_a_daemon_that_is_killed_leaves_no_process_of_a_server(tmp_path: Path, *, is_sandboxed: bool) -> None:
    root = tmp_path / "workspace"
    line = [sys.executable, "-c", DAEMON, str(tmp_path), str(is_sandboxed)]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2])
    await until((root / "working").exists, "the servers work")
    assert processes_in(root)
    daemon.kill()
    await daemon.wait()
    await until(lambda: not processes_in(root), "the servers are gone too")
