"""A start: signals that come before it has ended, folders it must not make or share, agents that were there before."""

import asyncio
import re
import shlex
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.core.rollback.whole import RolledBack
from tenex.nostr.keys import KeyRing
from tests.kits.damage import sums

from . import person
from .kit import TENEX, Folder, Process, daemon, environment, of_kind, ordered, running, tenex, tenex_here

HELPER = """---
name: Helper
role: helps
kind: worker
use_when: always
---
You help.
"""


@pytest.fixture
async def starting(folder: Folder) -> AsyncIterator[Process]:
    """A daemon held in the middle of its start, while it tries the sandbox; it goes on once there is a file `go`."""
    programs = folder.marks / "bin"
    programs.mkdir()
    (programs / "bwrap").write_text(
        f"#!/bin/sh\n: >{folder.marks}/held\nwhile ! [ -e {folder.marks}/go ]; do :; done\n"
    )
    (programs / "bwrap").chmod(0o755)
    path = f"{programs}:{environment()['PATH']}"
    async with running([*TENEX, "run", "--data", str(folder.data)], PATH=path) as process:
        await folder.held()
        yield process


async def test_a_stop_before_it_is_ready_is_a_clean_end(folder: Folder, starting: Process) -> None:
    starting.signal(signal.SIGTERM)
    await starting.until("runtime.stopped")
    folder.let_go()
    assert await starting.ended() == 0
    assert "runtime.ready" not in starting.events()
    assert not (folder.data / "tenex.sock").exists()


async def test_a_hang_up_before_it_is_ready_is_a_reload_after_it(folder: Folder, starting: Process) -> None:
    starting.signal(signal.SIGHUP)
    folder.let_go()
    await starting.until("configuration.reloaded")
    assert starting.events().index("runtime.ready") < starting.events().index("configuration.reloaded")
    assert await starting.stop() == 0


async def test_a_folder_that_was_mistyped_is_not_made(tmp_path: Path) -> None:
    """`config check` reports the same faults as `run`."""
    for command in (["run"], ["config", "check"]):
        code, _, err = await tenex(*command, "--data", tmp_path / "typo")
        assert code == 3
        assert "people.owners: no one may talk here" in err
        assert "project.nsec: there is no key for project" in err
    assert not (tmp_path / "typo").exists()


async def test_no_agent_speaks_with_the_key_of_somebody_else(folder: Folder) -> None:
    file = folder.data / "agents" / "owner.md"
    async with daemon(folder) as process:
        file.write_text(HELPER)
        process.signal(signal.SIGHUP)
        disabled = await process.until("agent.disabled")
        assert str(file) in str(disabled["faults"])
        assert folder.owner.public not in str(await folder.facts("agents", "list"))
    async with daemon(folder) as process:
        disabled = await process.until("agent.disabled")
        assert "owner cannot be an agent's slug" in str(disabled["faults"])
        assert "owner" not in (await folder.facts("status"))["configuration"].get("disabledAgents", {})


async def test_what_an_agent_had_begun_is_sent_though_it_has_been_removed(folder: Folder) -> None:
    (folder.data / "agents" / "helper.md").write_text(HELPER)
    async with ordered(folder, "model", hold=True) as process:
        helper = KeyRing(folder.data / "keys").get("helper")
        asked = person.note(folder.owner, f"nostr:{helper.npub} hello", ["p", helper.public])
        await person.publish(folder.url, asked)
        await folder.held()  # its model may be asked before its run is durable
        await person.until(lambda: folder.state(asked["id"]).work.runs)
        assert [run.agent for run in folder.state(asked["id"]).work.runs.values()] == ["helper"]
        await process.die()
    (folder.data / "agents" / "helper.md").unlink()
    async with daemon(folder) as process:
        await folder.until(asked["id"], "waiting")
    assert len(await folder.sent(authors=[helper.public])) == 1


async def test_a_daemon_that_is_stopped_keeps_its_folder_and_one_that_was_killed_does_not(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer would have the stopped one write over it as it goes on; and it is left no order to carry out."""
    monkeypatch.setattr("tenex.cli.shared.daemon.ALIVE", 0.2)
    async with daemon(folder) as first:
        name = await folder.write("Create hello.py that prints hello")
        await folder.until(name, "ended")
        packed = tmp_path / "packed"
        packed.write_text("{}")
        first.signal(signal.SIGSTOP)
        stat = Path(f"/proc/{first.pid}/stat")
        await person.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        before = sums(folder.data / "conversations")
        started = await asyncio.gather(
            tenex("run", "--data", folder.data), tenex("demo", "--message", "hello", "--data", folder.data)
        )
        rebuild = ("conversations", "rebuild", name, "--from", "conversation.json", "--force")
        both = (rebuild, ("conversations", "import", packed))
        refused = [await tenex_here(*words, "--data", folder.data) for words in both]
        for code, out, err in [*started, *refused]:
            rest = re.sub(
                r"^(?:Model|Folder): .*\n", "", out, flags=re.MULTILINE
            )  # the demo's first lines name its own
            assert (code, rest) == (4, ""), err
            assert f"is in use by process {first.pid}. Stop that one" in err
        for words in (("rollback", name, "--to", "5", "--yes"), ("fork", name, "--at", "5")):
            code, out, err = await tenex_here("conversations", *words, "--data", folder.data)
            assert (code, out) == (1, ""), err
            assert "no answer within 0.2 s. Nothing was done." in err
        assert sums(folder.data / "conversations") == before

        first.signal(signal.SIGCONT)
        await folder.write("Create bye.py that prints bye", to=name)
        await folder.until(name, "ended", cycle=2)
        assert len(list((folder.data / "conversations").glob("[0-9a-f]*"))) == 1
        assert not of_kind(folder.records(name), RolledBack)
        await first.die()
    async with daemon(folder):
        await folder.write("Create again.py that prints again", to=name)
        await folder.until(name, "ended", cycle=3)
    assert {path.name for path in folder.workspace.glob("*.py")} == {"hello.py", "bye.py", "again.py"}


@pytest.mark.parametrize("place", [".", "keys", "conversations", "tenex.toml"])
async def test_a_daemon_refuses_a_folder_that_others_may_change_and_names_the_command_that_repairs_it(
    folder: Folder, place: str
) -> None:
    """What others may write there is believed or run: `doctor` says the same."""
    path = folder.data / place
    if place == "conversations":
        path.mkdir(mode=0o700, exist_ok=True)
    mode = path.stat().st_mode & 0o7777
    path.chmod(mode | 0o022)
    code, _, err = await tenex("run", "--data", folder.data)
    assert code == 3, err
    assert "others may change this" in err
    (command,) = re.findall(r"`(chmod [^`]+)`", err)
    findings = (await folder.facts("doctor", code=3))["findings"]
    assert [one["fix"] for one in findings if one["level"] == "fault"] == [f"run `{command}`"]
    program, wanted, changed = shlex.split(command)
    assert program == "chmod"
    assert changed == str(path.resolve())
    path.chmod(int(wanted, 8) if wanted.isdigit() else path.stat().st_mode & ~0o022)
    async with daemon(folder):
        await folder.until(await folder.write("hello"), "waiting")
