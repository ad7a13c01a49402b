"""Whatever a server does, its caller gets an answer in bounded time, the next call works, and no process is left."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenex.mcp.connection import CallFailed, CallTimedOut, ServerConnection, ServerLost, ServerUnavailable
from tests.fakes import mcp_http
from tests.service.person import until

from .conftest import config, connection_to, running, text_of


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def pid_of(connection: ServerConnection) -> int:
    return int(text_of(await connection.call("pid", {})))


async def test_a_server_is_started_called_and_ended(tmp_path: Path) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        assert text_of(await connection.call("echo", {"text": "hello"})) == "hello"
        assert (connection.state, connection.protocol) == ("ready", "2025-11-25")
        assert next(tool for tool in connection.tools if tool.name == "echo").reads_only
        pid = await pid_of(connection)
    assert not is_alive(pid)
    assert connection.state == "stopped"


async def test_calls_of_many_tasks_run_at_the_same_time_and_one_may_be_cancelled(tmp_path: Path) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        pid = await pid_of(connection)
        hanging = asyncio.create_task(connection.call("hang", {}))
        texts = await asyncio.gather(*(connection.call("echo", {"text": str(number)}) for number in range(20)))
        assert [text_of(text) for text in texts] == [str(number) for number in range(20)]
        hanging.cancel()
        assert await asyncio.gather(hanging, return_exceptions=True)
        assert hanging.cancelled()
        assert await pid_of(connection) == pid


@pytest.mark.parametrize("way", ["it ends", "it is killed"])
async def test_a_server_that_ends_in_a_call_loses_that_call_and_no_other(tmp_path: Path, way: str) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        before = await pid_of(connection)
        call = asyncio.create_task(connection.call("die" if way == "it ends" else "hang", {}))
        if way == "it is killed":
            await until(lambda: connection.counters.calls == 2)
            os.kill(before, signal.SIGKILL)
        with pytest.raises(ServerLost, match="ended while this ran"):
            await call
        assert await pid_of(connection) != before
        assert (connection.counters.starts, connection.counters.losses) == (2, 1)


async def test_one_that_ended_between_two_calls_is_back_for_the_next(tmp_path: Path) -> None:
    """Its tools stay known meanwhile: they are in requests of work that goes on."""
    async with running(connection_to(config(), tmp_path)) as connection:
        before, tools = await pid_of(connection), connection.tools
        os.kill(before, signal.SIGKILL)
        await until(lambda: connection.state != "ready")
        assert connection.tools == tools
        assert await pid_of(connection) != before


async def test_a_frozen_server_is_replaced_and_a_slow_one_is_not(tmp_path: Path) -> None:
    async with running(connection_to(config(timeout=1.5), tmp_path)) as connection:
        before = await pid_of(connection)
        with pytest.raises(CallTimedOut, match=r"within 1\.5 s"):
            await connection.call("hang", {})
        assert await pid_of(connection) == before
        os.kill(before, signal.SIGSTOP)
        with pytest.raises(CallTimedOut):
            await connection.call("echo", {})
        assert await pid_of(connection) != before
        assert not is_alive(before)


async def test_a_message_of_twenty_megabytes_ends_the_connection(tmp_path: Path) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        with pytest.raises(ServerLost):
            await connection.call("big", {})
        assert text_of(await connection.call("echo", {"text": "back"})) == "back"


async def test_one_that_never_answers_at_its_start_is_given_up_and_leaves_no_process(tmp_path: Path) -> None:
    state = tmp_path / "state"
    silent = connection_to(config("silent", "--silent", "--state", str(state)), tmp_path, start=1, ready=0.2)
    async with running(silent):
        with pytest.raises(ServerUnavailable, match="silent does not run"):
            await silent.call("echo", {})
        await silent.is_settled.wait()
        assert "did not answer within 1 s" in silent.why
    assert not any(is_alive(int(pid)) for pid in state.read_text().split())


@pytest.mark.parametrize(
    ("command", "args", "reason"),
    [
        ("/nowhere/at/all", (), "it ended: /nowhere/at/all cannot be started: [Errno 2] No such file or directory"),
        (sys.executable, ("-c", "import sys; sys.exit('no licence')"), "it ended: no licence"),
    ],
)
async def test_one_that_cannot_start_is_named_with_the_reason(
    tmp_path: Path, command: str, args: tuple[str, ...], reason: str
) -> None:
    broken = connection_to(config(command=command, args=args), tmp_path, ready=0.2)
    async with running(broken):
        await broken.is_settled.wait()
        assert broken.why == reason
        with pytest.raises(ServerUnavailable, match=r"faulty does not run: "):
            await broken.call("echo", {})


async def test_text_on_its_output_that_is_no_message_is_skipped(tmp_path: Path) -> None:
    async with running(connection_to(config("noisy", "--noise"), tmp_path)) as connection:
        assert text_of(await connection.call("echo", {"text": "clear"})) == "clear"


async def test_a_list_that_changes_is_read_again(tmp_path: Path) -> None:
    changes: list[None] = []
    async with running(connection_to(config(), tmp_path, lambda: changes.append(None))) as connection:
        await connection.call("grow", {})
        await until(lambda: any(tool.name == "grown" for tool in connection.tools))
    assert len(changes) == 2


async def test_only_the_tools_that_are_configured_are_known(tmp_path: Path) -> None:
    chosen = config(tools=frozenset({"echo"}))
    async with running(connection_to(chosen, tmp_path)) as connection:
        await connection.wait()
        assert [tool.name for tool in connection.tools] == ["echo"]


async def test_fifteen_starts_leave_nothing_open(tmp_path: Path) -> None:
    async def once() -> None:
        async with running(connection_to(config(), tmp_path)) as connection:
            await connection.call("echo", {})

    await once()
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(15):
        await once()
    assert len([*Path("/proc/self/fd").iterdir()]) <= before
    assert len(asyncio.all_tasks()) == 1


# ---- at an address ----


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def at_address() -> Iterator[tuple[int, Callable[[], None]]]:
    """A port, and what starts the server there."""
    port = _free_port()
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        script = str(Path(mcp_http.__file__))
        quiet = subprocess.DEVNULL
        started.append(subprocess.Popen([sys.executable, "-I", script, str(port)], stdout=quiet, stderr=quiet))

    yield port, start
    for process in started:
        process.kill()
        process.wait()


async def test_a_server_at_an_address_that_ends_in_a_call_and_comes_back_is_used_again(
    tmp_path: Path, at_address: tuple[int, Callable[[], None]]
) -> None:
    port, start = at_address
    start()
    server = config("api", url=f"http://127.0.0.1:{port}/mcp")
    connection = connection_to(server, tmp_path, ready=60)
    async with running(connection):
        before = await pid_of(connection)
        with pytest.raises(ServerLost):
            await connection.call("die", {})
        start()
        assert await pid_of(connection) != before


async def test_a_server_at_an_address_says_when_its_tools_change(
    tmp_path: Path, at_address: tuple[int, Callable[[], None]]
) -> None:
    port, start = at_address
    start()
    connection = connection_to(config("api", url=f"http://127.0.0.1:{port}/mcp"), tmp_path, ready=60)
    async with running(connection):
        assert text_of(await connection.call("grow", {})) == "grown"
        assert connection.protocol == "2026-07-28"
        await until(lambda: "grown" in {tool.name for tool in connection.tools})
        assert text_of(await connection.call("grown", {})) == "new"


async def test_an_error_of_the_server_is_an_answer(tmp_path: Path) -> None:
    async with running(connection_to(config(), tmp_path)) as connection:
        assert (await connection.call("fail", {})).is_error
        with pytest.raises(CallFailed, match="there is no tool nothing"):
            await connection.call("nothing", {})
        assert text_of(await connection.call("echo", {"text": "fine"})) == "fine"


async def test_a_frozen_server_that_reads_nothing_is_replaced_before_the_call_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into the pipe would hold up every call after it."""
    monkeypatch.setattr("tenex.mcp.stdio.READ_WITHIN", 0.3)
    async with running(connection_to(config(), tmp_path)) as connection:
        before = await pid_of(connection)
        os.kill(before, signal.SIGSTOP)
        with pytest.raises(ServerLost):
            await connection.call("echo", {"text": "x" * 1_000_000})
        assert await pid_of(connection) != before
