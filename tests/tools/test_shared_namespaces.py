"""Commands of one turn reach each other's ports, and nothing else reaches them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tenex.core.phases import Phase
from tenex.tools import background_shell, namespaces, sandbox, shared_namespaces, turn_views, workspace_view
from tenex.tools.shared_namespaces import CannotShare, SharedNamespaces
from tenex.tools.tool import Refusal
from tenex.tools.workspace import Workspace
from tenex.tools.workspace_view import Way
from tests.programs import needs_bubblewrap, needs_git, newer_bubblewrap

from . import conftest as kit
from .conftest import contents, processes_in, put
from .dev_server_kit import ASK_ONCE, ASK_PYTHON, OTHER, SERVE, Daemon, at

pytestmark = [needs_bubblewrap, needs_git]

LEAVE = "python3 -c 'import socket; socket.create_connection((\"192.0.2.7\", 80), 3)'"
"""Tries to reach an address outside."""


@pytest.fixture
async def daemon(workspace: Workspace, folder: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(workspace, folder)
    yield daemon
    await daemon.close()
    assert processes_in(workspace.root) == []


def open_namespaces() -> list[str]:
    """Namespaces that this process holds open."""
    links = (os.path.realpath(link).rpartition("/")[2] for link in Path("/proc/self/fd").iterdir())
    return [link for link in links if link.startswith(("net:[", "user:[", "mnt:["))]


def refuses(port: int) -> bool:
    """Whether nothing listens on a port of this machine."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) != 0


async def test_later_commands_reach_the_server_and_nobody_else_does(daemon: Daemon, root: Path) -> None:
    put(root, {"name.txt": "mine"})
    assert "is running" in await daemon.start(at())
    assert "got mine" in await daemon.ask(at(8))
    by_python = await daemon.tools.do("python", at(9), program=ASK_PYTHON)
    assert "got mine" in by_python.content

    assert refuses(8000), "of the machine"
    assert "got" not in await daemon.ask(at(11, conversation_id=OTHER), ASK_ONCE), "another conversation"
    assert "got" not in await daemon.ask(at(12, turn="turn-2"), ASK_ONCE), "another turn"

    daemon.end_turn(at().conversation_id)
    await daemon.commands.settled()
    assert open_namespaces() == []
    assert processes_in(root) == []
    assert "got" not in await daemon.ask(at(13), ASK_ONCE)


async def test_two_conversations_serve_at_one_port(daemon: Daemon, root: Path) -> None:
    put(root, {"a/name.txt": "first", "b/name.txt": "second"})
    other = at(8, conversation_id=OTHER)
    await daemon.start(at(), cwd="a")
    await daemon.start(other, cwd="b")
    assert "got first" in await daemon.ask(at(9))
    assert "got second" in await daemon.ask(at(10, conversation_id=OTHER))


async def test_a_server_that_ends_at_once_says_so_with_its_output(
    daemon: Daemon, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"name.txt": "mine"})
    await daemon.start(at())
    assert "got mine" in await daemon.ask(at(8))
    monkeypatch.setattr(background_shell, "FIRST_LOOK", 30.0)  # a busy machine needs longer than usual
    second = await daemon.start(at(9))
    assert "ended with exit status 1." in second
    assert "Address already in use" in second, "within a turn there is one network"
    assert "got mine" in await daemon.ask(at(10))


async def test_no_network_is_made_before_a_command_goes_on(daemon: Daemon) -> None:
    await daemon.ask(at(), "true")
    assert open_namespaces() == []
    await daemon.start(at(8), "exec sleep 600")
    assert len(open_namespaces()) == 2, "of the user and of the network"
    await daemon.start(at(9), "exec sleep 600")
    assert len(open_namespaces()) == 2


async def test_a_verifier_serves_in_its_view(daemon: Daemon, root: Path) -> None:
    put(root, {"name.txt": "mine"})
    before = contents(root)
    verifying = at(7, Phase.VERIFICATION)
    await daemon.ask(verifying, "echo changed > name.txt")
    started = await daemon.tools.do("shell_start", verifying, command=f"echo x > left; {SERVE}")
    assert started.ok
    assert not started.has_outside_effect, "what it writes is kept apart"
    assert "got changed" in await daemon.ask(at(8, Phase.VERIFICATION))
    assert "more" in await daemon.ask(at(9, Phase.VERIFICATION), "cat left && echo more > name.txt && cat name.txt")
    assert "got more" in await daemon.ask(at(10, Phase.VERIFICATION)), "both see one view"
    assert (await daemon.tools.do("read_file", at(11, Phase.VERIFICATION), path="left")).content.endswith("x")
    stopped = await daemon.tools.do("shell_stop", at(12, Phase.VERIFICATION), id="bg-7")
    assert "was stopped, with everything it had started." in stopped.content
    assert stopped.touched == ()
    assert "got" not in await daemon.ask(at(13, Phase.VERIFICATION), ASK_ONCE)
    assert contents(root) == before

    daemon.end_turn(verifying.conversation_id)
    await daemon.views.settled()
    assert open_namespaces() == []
    assert list(root.with_name("views").iterdir()) == []


async def test_the_end_of_the_turn_ends_a_command_of_a_view_before_the_view(daemon: Daemon, root: Path) -> None:
    verifying = at(7, Phase.VERIFICATION)
    await daemon.start(verifying, "while :; do date > now; done")
    daemon.views.end(verifying.conversation_id)
    await daemon.views.settled()
    assert daemon.commands.running() == []
    assert processes_in(root) == []
    assert list(root.with_name("views").iterdir()) == []
    assert contents(root) == {}


@pytest.mark.parametrize("way", [Way.COPY, Way.READ_ONLY, Way.BUBBLEWRAP])
async def test_views_without_our_overlay(daemon: Daemon, root: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, {"name.txt": "mine"})
    monkeypatch.setattr(workspace_view, "LAUNCHER", Path("/nonexistent"))
    if way is Way.READ_ONLY:
        monkeypatch.setattr(turn_views, "LARGEST_COPY", -1)
    if way is Way.BUBBLEWRAP:
        program = newer_bubblewrap()
        monkeypatch.setattr(sandbox, "find_program", lambda *_: program)
        sentence = await daemon.tools.refused("shell_start", at(7, Phase.VERIFICATION), command=SERVE)
        assert "only one program at a time can run in this phase. Use `shell`." in sentence
        assert "mine" in await daemon.ask(at(8, Phase.VERIFICATION), "cat name.txt")
        return
    await daemon.start(at(7, Phase.VERIFICATION))
    assert "got mine" in await daemon.ask(at(8, Phase.VERIFICATION))


async def test_where_namespaces_cannot_be_entered_each_command_has_a_network_of_its_own(
    daemon: Daemon, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter of a container may permit to make namespaces and refuse to enter them."""
    put(root, {"name.txt": "mine"})
    refusing = root.parent / "refusing.py"
    text = Path(namespaces.__file__).read_text()
    refusing.write_text(text.replace("_check(_system().setns(", "_check(-1 and _system().close(", 1))
    monkeypatch.setattr(shared_namespaces, "PROGRAM", refusing)
    started = await daemon.start(at())
    assert "Other commands cannot reach its ports: this machine does not permit that." in started
    assert open_namespaces() == []
    assert "got" not in await daemon.ask(at(8), ASK_ONCE)
    assert refuses(8000)
    in_view = await daemon.tools.refused("shell_start", at(9, Phase.VERIFICATION), command=SERVE)
    assert "only one program at a time" in in_view
    assert "mine" in await daemon.ask(at(10, Phase.VERIFICATION), "cat name.txt")


async def test_a_command_that_was_allowed_the_network_has_that_of_the_machine(daemon: Daemon, root: Path) -> None:
    put(root, {"name.txt": "mine"})
    await daemon.start(at())
    assert "got mine" in await daemon.ask(at(8))
    asking = {"command": ASK_ONCE + "exit 3", "network": True, "why": "to install"}
    outside = (await daemon.tools.do("shell", at(9), **asking)).content
    assert "got" not in outside
    assert "With the machine's network it cannot reach the ports of background commands" in outside
    beside = await daemon.start(at(10), "exec sleep 600", network=True, why="to install")
    assert "Only commands with `network: true` reach its ports." in beside


@pytest.mark.parametrize("way", [Way.OVERLAY, Way.COPY])
async def test_a_command_gets_no_handle_of_a_namespace(
    daemon: Daemon, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way is Way.COPY:
        monkeypatch.setattr(workspace_view, "LAUNCHER", Path("/nonexistent"))
    await daemon.start(at(7, Phase.VERIFICATION), "exec sleep 600")
    await daemon.start(at(8), "exec sleep 600")
    listing = {"command": "readlink /proc/self/fd/*; echo listed", "why": "to see"}
    for phase in (Phase.VERIFICATION, Phase.EXECUTE):
        for more in ({}, {"network": True}):
            said = (await daemon.tools.do("shell", at(9, phase), **listing, **more)).content
            assert "listed" in said
            assert "net:[" not in said
            assert "user:[" not in said


async def test_commands_that_are_started_at_once_share_one_network(daemon: Daemon, root: Path) -> None:
    networks = daemon.commands.networks
    assert all(await asyncio.gather(networks.open(at(), root), networks.open(at(8), root)))
    assert len(open_namespaces()) == 2, "of the user and of the network"


async def test_a_network_that_is_made_as_its_turn_ends_is_closed(daemon: Daemon, root: Path) -> None:
    networks = daemon.commands.networks
    making = asyncio.create_task(networks.open(at(), root))
    await asyncio.sleep(0)
    networks.end(at().conversation_id)
    await making
    assert networks.opened(at()) is None
    assert open_namespaces() == []


async def test_a_try_to_reach_the_network_is_seen_in_the_command_that_made_it(daemon: Daemon) -> None:
    await daemon.start(at(), "exec sleep 600")
    tried = await daemon.ask(at(8), f"{LEAVE}; exit 1")
    assert "It, or a background command, tried to reach the network and has none." in tried
    assert "tried to reach" not in await daemon.ask(at(9), "exit 3"), "the next one has not"


async def test_what_a_background_command_tries_is_not_said_of_another_alone(daemon: Daemon) -> None:
    """A development server that looks for its newest version, while a test beside it fails."""
    await daemon.start(at(), f"while [ ! -e go ]; do sleep 0.05; done; {LEAVE}; touch gone; exec sleep 600")
    failed = await daemon.ask(at(8), "touch go; while [ ! -e gone ]; do sleep 0.05; done; exit 1")
    assert "It, or a background command, tried to reach the network and has none." in failed


async def test_closed_namespaces_start_nothing(root: Path) -> None:
    made = await asyncio.to_thread(shared_namespaces.make, root, network=True)
    assert made is not None
    with made.used() as descriptors:
        made.close()
        assert [os.fstat(number).st_ino > 0 for number in descriptors] == [True, True], "one is being started"
    assert open_namespaces() == []
    with pytest.raises(Refusal, match="the turn has ended"):
        made.joining()
    with pytest.raises(Refusal, match="the turn has ended"), made.used():
        pass


async def test_the_launcher_enters_all_or_starts_nothing(root: Path) -> None:
    launcher = [sys.executable, "-I", "-S", "-B", str(shared_namespaces.PROGRAM), "join", "-1", "-1", "-1"]
    process = await asyncio.create_subprocess_exec(*launcher, "/bin/touch", str(root / "ran"))
    assert await process.wait() == namespaces.NOT_MOUNTED
    assert contents(root) == {}


KILLED = """
import asyncio, sys
from pathlib import Path
from tenex.core.phases import Phase
from tenex.tools.workspace import Workspace
from tests.tools.dev_server_kit import Daemon, at

async def main():
    daemon = Daemon(Workspace(Path(sys.argv[1])), Path(sys.argv[2]))
    for call, phase in ((7, Phase.EXECUTE), (8, Phase.VERIFICATION)):
        await daemon.start(at(call, phase, turn=phase), "setsid sleep 600 & echo x > up-%s; exec sleep 600" % call)
    print(await daemon.ask(at(9, Phase.VERIFICATION, turn=Phase.VERIFICATION), "cat up-8"), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_daemon_leaves_no_process(root: Path, folder: Path) -> None:
    line = [sys.executable, "-c", KILLED, str(root), str(folder)]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE)
    assert daemon.stdout is not None
    async with asyncio.timeout(60):
        assert b"exit status 0. Output:\n" in await daemon.stdout.readline() + await daemon.stdout.readline()
    assert processes_in(root)
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await kit.until(lambda: not processes_in(root), "all are gone")


CONNECT = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).recv(9).decode())"


def connected(shared: SharedNamespaces, port: int) -> str:
    """What a program in the network is sent at a port of its loopback."""
    with shared.used() as descriptors:
        line = [*shared.joining(), sys.executable, "-c", CONNECT, str(port)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=30, pass_fds=descriptors)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


async def test_the_daemon_listens_in_a_network_that_it_is_not_in(root: Path) -> None:
    shared = shared_namespaces.make(root, network=True)
    other = shared_namespaces.make(root, network=True)
    assert shared is not None
    assert other is not None
    first, second = shared_namespaces.listen(shared, 2)
    ports = [listening.getsockname()[1] for listening in (first, second)]
    servers = [await asyncio.start_server(answering(word), sock=of) for word, of in ((b"one", first), (b"two", second))]

    assert [await asyncio.to_thread(connected, shared, port) for port in ports] == ["one", "two"]
    assert all(refuses(port) for port in ports), "of the machine"
    assert "refused" in await asyncio.to_thread(connected, other, ports[0]), "another network"

    shared.close()
    other.close()
    for server in servers:
        server.close()
    assert open_namespaces() == []


def answering(word: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Sends a word to whom connects."""

    def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    return send


def test_nothing_listens_where_there_is_no_network_or_none_any_more(root: Path) -> None:
    shared = shared_namespaces.make(root, network=True)
    assert shared is not None
    shared.close()
    with pytest.raises(CannotShare, match="have no network"):
        shared_namespaces.listen(shared)
    busy = shared_namespaces.make(root, network=True)
    assert busy is not None
    with busy.used():
        busy.close()
        with pytest.raises(Refusal, match="the turn has ended"):
            shared_namespaces.listen(busy)
    assert open_namespaces() == []
