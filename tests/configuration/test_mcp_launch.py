"""Servers of others run in the sandbox: they see the workspace and themselves, and nothing of ours."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.configuration.mcp_launch import Launcher
from tenex.core.errors import ConfigurationError
from tenex.mcp.connection import ServerConnection
from tests.fakes import mcp_server
from tests.mcp.conftest import config, running, text_of
from tests.programs import needs_bubblewrap, needs_git

GIT = Path(sys.executable).with_name("mcp-server-git")
TIME = Path(sys.executable).with_name("mcp-server-time")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a key, and its workspace with a repository."""
    data = tmp_path.resolve() / "data"
    (data / "keys").mkdir(parents=True)
    (data / "keys" / "project.nsec").write_text("the key")
    root = data / "workspace"
    root.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "The first"]):
        alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "-C", str(root), *who, *words], check=True, env=alone)
    return data


def launcher(data: Path, *, has_sandbox: bool = True) -> Launcher:
    return Launcher(data / "workspace", data, has_sandbox)


@asynccontextmanager
async def started(data: Path, *words: object, **more: Any) -> AsyncIterator[ServerConnection]:
    command, *args = map(str, words)
    server = config(command=command, args=tuple(args), sandbox=True, **more)
    connection = ServerConnection(server, launcher(data), lambda: None, ready=30)
    async with running(connection):
        yield connection


@needs_git
@needs_bubblewrap
async def test_the_git_server_reads_the_repository_and_cannot_change_it(data: Path) -> None:
    root = data / "workspace"
    async with started(data, GIT, "--repository", root) as connection:
        log = text_of(await connection.call("git_log", {"repo_path": str(root)}))
        assert "The first" in log
        assert connection.protocol == "2026-07-28"
        (root / "new.txt").write_text("x")
        assert "new.txt" in text_of(await connection.call("git_status", {"repo_path": str(root)}))
        added = await connection.call("git_add", {"repo_path": str(root), "files": ["new.txt"]})
        assert added.is_error


@needs_git
@needs_bubblewrap
async def test_the_time_server_answers(data: Path) -> None:
    async with started(data, TIME, "--local-timezone", "UTC") as connection:
        assert '"timezone": "UTC"' in text_of(await connection.call("get_current_time", {"timezone": "UTC"}))


@needs_git
@needs_bubblewrap
async def test_in_the_sandbox_a_server_writes_to_the_workspace_and_sees_no_key_and_no_network(data: Path) -> None:
    """A script that is an argument is seen by itself, without the folder it lies in."""
    probe = data.parent / "probe.py"
    key = data / "keys" / "project.nsec"
    probe.write_text(
        "import os, socket, sys\n"
        f"seen = [os.path.exists({str(key)!r}), os.path.exists({str(data.parent / 'probe.py')!r}), "
        "sorted(os.environ), len(socket.if_nameindex())]\n"
        "open('seen', 'w').write(repr(seen))\n"
        f"exec(open({mcp_server.__file__!r}).read())\n"
    )
    fakes = Path(mcp_server.__file__).parent
    async with started(data, sys.executable, "-I", "-S", probe, folders=(str(fakes),), env={"K": "v"}) as connection:
        assert text_of(await connection.call("echo", {"text": "hello"})) == "hello"
        await connection.call("write", {"text": "from the server"})
    seen = eval((data / "workspace" / "seen").read_text())
    assert seen[:2] == [False, True]
    assert {"K", "PATH"} <= set(seen[2]) <= {"HOME", "K", "LANG", "PATH", "PWD", "TMPDIR"}
    assert seen[3] == 1, "there is the loopback of its own alone"
    assert (data / "workspace" / "written.txt").read_text() == "from the server"


@needs_git
@needs_bubblewrap
async def test_a_sandboxed_server_that_is_killed_leaves_no_process(data: Path) -> None:
    """The group of bubblewrap is killed, and with it all that it has started."""
    mark = data / "workspace" / "state"
    others = _descendants()
    fakes = Path(mcp_server.__file__).parent
    words = (sys.executable, "-I", "-S", mcp_server.__file__, "--state", str(mark))
    async with started(data, *words, folders=(str(fakes),)) as connection:
        await connection.call("echo", {})
        before = _descendants() - others
        assert before
    assert not before & _descendants()


def _descendants() -> set[int]:
    """All processes that this one has started, directly or not."""
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(place.name)] = int(fields[1])
    family = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return family - {os.getpid()}
        family |= more


def test_what_may_not_be_started_is_refused_with_a_sentence(data: Path) -> None:
    root = data / "workspace"
    planted = root / "server"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    makes = launcher(data)
    for server, sentence in (
        (config(command=str(planted), sandbox=False), "is in the workspace, where agents write. Set sandbox = true."),
        (config(command="no-such-program-here"), "there is no program no-such-program-here. Install it"),
        (config(cwd="missing"), "there is no folder"),
        (config(sandbox=True, folders=(str(data.parent),)), "has the data folder with its keys. Name others."),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            makes(server)
    with pytest.raises(ConfigurationError, match="there is no sandbox here"):
        launcher(data, has_sandbox=False)(config(sandbox=True))


def test_without_a_sandbox_it_gets_a_few_variables_and_those_that_are_configured(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "x")
    program = launcher(data)(config(env={"K": "v"}))
    assert program.environment["K"] == "v"
    assert program.folder.name == "mcp", "no program loads what agents write"
    assert program.environment["PATH"] == os.environ["PATH"]
    assert "SECRET_API_KEY" not in program.environment
    assert program.command[0] == sys.executable


@pytest.mark.parametrize("given", [{"cwd": "."}, {"args": ["{workspace}/server.py"]}], ids=str)
def test_without_a_sandbox_nothing_of_the_workspace_is_run(data: Path, given: dict[str, Any]) -> None:
    start = launcher(data)
    (start.root / "server.py").write_text("print()")
    settled: dict[str, Any] = dict(given)
    if "args" in settled:
        settled["args"] = [word.format(workspace=start.root) for word in settled["args"]]
    with pytest.raises(ConfigurationError, match="is in the workspace, where agents write"):
        start(config(**settled))
