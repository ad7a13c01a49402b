"""Two processes and one folder: who comes second is refused, also where the first cannot answer; unless it is dead."""

import asyncio
import hashlib
import os
import re
import signal
from pathlib import Path

import pytest

from tenex.core.state.rollback import RolledBack

from . import person
from .kit import Folder, daemon, of_kind, tenex, tenex_here

REQUEST = "Create hello.py that prints hello"


def content(folder: Folder) -> dict[str, str]:
    """Every file of the conversations, as a sum."""
    files = sorted(path for path in (folder.data / "conversations").rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped; not whether it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_a_daemon_that_is_stopped_keeps_its_folder_and_one_that_was_killed_does_not(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP is no death: a second writer would have the stopped one write over it when it goes on.

    Nor is an order left with it, which it would carry out long after the user was informed that it did not answer.
    """
    monkeypatch.setattr("tenex.cli.daemon.ALIVE", 0.2)
    async with daemon(folder) as first:
        name = await folder.write(REQUEST)
        await folder.until(name, "ended")
        packed = tmp_path / "packed"
        packed.write_text("{}")
        os.kill(first.pid, signal.SIGSTOP)
        await person.until(lambda: is_stopped(first.pid))
        before = content(folder)
        started = await asyncio.gather(
            tenex("run", "--data", folder.data), tenex("demo", "--message", "hello", "--data", folder.data)
        )
        rebuild = ("conversations", "rebuild", name, "--from", "conversation.json", "--force")
        both = (rebuild, ("conversations", "import", packed))
        refused = [await tenex_here(*words, "--data", folder.data) for words in both]
        for code, out, err in [*started, *refused]:
            assert (code, re.sub(r"^Model: .*\n", "", out)) == (4, ""), err  # the demo's first line names its model
            assert f"is in use by process {first.pid}. Stop that one" in err
        for words in (("rollback", name, "--to", "5", "--yes"), ("fork", name, "--at", "5")):
            code, out, err = await tenex_here("conversations", *words, "--data", folder.data)
            assert (code, out) == (1, ""), err
            assert "no answer within 0.2 s. Nothing was done." in err
        assert content(folder) == before

        os.kill(first.pid, signal.SIGCONT)
        await folder.write("Create bye.py that prints bye", to=name)
        await folder.until(name, "ended", cycle=2)
        assert len(list((folder.data / "conversations").glob("[0-9a-f]*"))) == 1
        assert not of_kind(folder.records(name), RolledBack)
        os.kill(first.pid, signal.SIGKILL)
        assert await first.ended() == -signal.SIGKILL
    async with daemon(folder):
        await folder.write("Create again.py that prints again", to=name)
        await folder.until(name, "ended", cycle=3)
    assert {path.name for path in folder.workspace.glob("*.py")} == {"hello.py", "bye.py", "again.py"}
