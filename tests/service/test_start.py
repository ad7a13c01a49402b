"""A start: signals that come before it has ended, folders it must not make, agents that were there before it."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.nostr.keys import KeyRing

from . import person
from .kit import TENEX, Folder, Process, daemon, environment, ordered, running, tenex

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
        await person.until((folder.marks / "held").exists)
        yield process


async def test_a_stop_before_it_is_ready_is_a_clean_end(folder: Folder, starting: Process) -> None:
    starting.signal(signal.SIGTERM)
    await starting.until("runtime.stopped")
    (folder.marks / "go").touch()
    assert await starting.ended() == 0
    assert "runtime.ready" not in starting.events()
    assert not (folder.data / "tenex.sock").exists()


async def test_a_hang_up_before_it_is_ready_is_a_reload_after_it(folder: Folder, starting: Process) -> None:
    starting.signal(signal.SIGHUP)
    (folder.marks / "go").touch()
    await starting.until("configuration.reloaded")
    assert starting.events().index("runtime.ready") < starting.events().index("configuration.reloaded")
    assert await starting.stop() == 0


async def test_a_folder_that_was_mistyped_is_not_made(tmp_path: Path) -> None:
    code, _, err = await tenex("run", "--data", tmp_path / "typo")
    assert code == 3
    assert "people.owners: no one may talk here" in err
    assert "project.nsec: there is no key for project" in err
    assert not (tmp_path / "typo").exists()


async def test_no_agent_speaks_with_the_key_of_somebody_else(folder: Folder) -> None:
    file = folder.data / "agents" / "owner.md"
    async with daemon(folder) as process:
        file.write_text(HELPER)
        process.signal(signal.SIGHUP)
        refused = await process.until("configuration.refused")
        assert str(file) in str(refused["faults"])
    code, _, err = await tenex("run", "--data", folder.data)
    assert (code, "owner cannot be an agent's slug" in err) == (3, True)


async def test_what_an_agent_had_begun_is_sent_though_it_has_been_removed(folder: Folder) -> None:
    (folder.data / "agents" / "helper.md").write_text(HELPER)
    async with ordered(folder, "model", hold=True) as process:
        helper = KeyRing(folder.data / "keys").get("helper")
        asked = person.note(folder.owner, f"nostr:{helper.npub} hello", ["p", helper.public])
        await person.publish(folder.url, asked)
        await person.until((folder.marks / "held").exists)  # its model may be asked before its run is durable
        await person.until(lambda: folder.state(asked["id"]).runs)
        assert [run.agent for run in folder.state(asked["id"]).runs.values()] == ["helper"]
        process.signal(signal.SIGKILL)
        await process.ended()
    (folder.data / "agents" / "helper.md").unlink()
    async with daemon(folder) as process:
        await folder.until(asked["id"], "waiting")
    sent = await person.stored(folder.url, kinds=[1], authors=[helper.public])
    assert len(sent) == 1
