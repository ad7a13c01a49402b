"""What the daemon reports to a service manager, and what signals do to it."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tenex.service.notify import Notifier
from tests.kits.service_manager import Manager

from . import person
from .kit import PATIENCE, ROOT, TENEX, Folder, daemon, environment, ordered, orders_for, running, tenex

WATCHDOG = 0.4
"""Seconds: it is petted every 0.2 s, so that a second of silence is five pets that did not come."""


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


def usec(seconds: float) -> str:
    return str(int(seconds * 1e6))


@pytest.mark.parametrize(
    ("env", "is_connected", "watchdog"),
    [
        ({}, False, None),
        ({"NOTIFY_SOCKET": ""}, False, None),
        ({"NOTIFY_SOCKET": "@notify"}, True, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, False, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "60000000"}, True, 60.0),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, True, 0.5),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, True, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "0"}, True, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "soon"}, True, None),
        ({"WATCHDOG_USEC": "60000000"}, False, None),
    ],
)
def test_the_environment_names_the_listener(env: dict[str, str], is_connected: bool, watchdog: float | None) -> None:
    notifier = Notifier.from_environment(env, os.getpid())
    assert (notifier.is_connected, notifier.watchdog) == (is_connected, watchdog)


async def test_every_change_of_state_is_reported_to_the_service_manager(folder: Folder, manager: Manager) -> None:
    async with daemon(folder, NOTIFY_SOCKET=manager.address, WATCHDOG_USEC=usec(WATCHDOG)) as process:
        first = await manager.next()
        assert first["READY"] == "1", "no notification before it serves"
        assert "relays connected: " in first["STATUS"]
        began = time.monotonic()
        for _ in range(3):
            await manager.expect(WATCHDOG="1")
        assert time.monotonic() - began < 3 * WATCHDOG, "petted at half of its time"
        while not any(message.get("STATUS", "").endswith("relays connected: 1 of 1") for message in manager.received):
            await manager.next()

        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        process.signal(signal.SIGHUP)
        reloading = await manager.expect(RELOADING="1")
        assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        await manager.expect(READY="1")
        for _ in range(20):  # one at a time, whatever signals come
            process.signal(signal.SIGHUP)
        process.signal(signal.SIGTERM)
        stopping = await manager.expect(STOPPING="1")
        assert int(stopping["EXTEND_TIMEOUT_USEC"]) > 8_000_000, "more than the deadline of shutdown"
        assert await process.ended() == 0
    turns = [next(iter(m)) for m in manager.received if "READY" in m or "RELOADING" in m][1:]
    pairs = list(zip(turns[::2], turns[1::2], strict=False))
    assert pairs == [("RELOADING", "READY")] * len(pairs) != []
    assert not any("READY" in message for message in manager.received[manager.received.index(stopping) :])


async def test_an_abstract_address_and_a_watchdog_of_somebody_else(folder: Folder) -> None:
    with closing(Manager(f"@tenex-test-{os.getpid()}")) as manager:
        env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": usec(0.02), "WATCHDOG_PID": "1"}
        async with daemon(folder, **env) as process:
            await process.until("relay.connected")
        manager.drain()
    assert manager.received[0]["READY"] == "1"
    assert any("STOPPING" in message for message in manager.received)
    assert not any("WATCHDOG" in message for message in manager.received)


async def test_a_loop_that_hangs_is_silent_and_logs_where_when_it_is_ended(folder: Folder, manager: Manager) -> None:
    words = [sys.executable, "-m", *orders_for(folder, model="stuck")]
    async with running(words, NOTIFY_SOCKET=manager.address, WATCHDOG_USEC=usec(WATCHDOG)) as process:
        await process.until("runtime.ready")
        await manager.expect(WATCHDOG="1")
        name = await folder.write("Create hello.py that prints hello")
        await folder.held()
        manager.drain()
        with pytest.raises(TimeoutError):  # a pet that was on its way has been drained
            await manager.next(patience=2.5 * WATCHDOG)
        process.signal(signal.SIGABRT)
        assert await process.ended() == -signal.SIGABRT
        assert "Fatal Python error: Aborted" in process.stderr
        assert "scripted_models.py" in process.stderr
    async with daemon(folder) as process:
        await folder.until(name, "ended")


async def test_a_manager_that_is_gone_changes_nothing_and_a_crash_would_leave_no_keys_in_a_core(
    folder: Folder, tmp_path: Path
) -> None:
    async with daemon(folder, NOTIFY_SOCKET=str(tmp_path / "absent"), WATCHDOG_USEC=usec(0.05)) as process:
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(r"Max core file size +0 ", limits)
        name = await folder.write("Create hello.py that prints hello")
        await folder.until(name, "ended")
    assert process.events().count("notify.failed") == 1


async def test_a_stop_in_stages_is_reported_while_steps_end(folder: Folder, manager: Manager) -> None:
    env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": usec(WATCHDOG)}
    async with ordered(folder, "model", 2, env, hold=True) as process:
        name = await folder.write("Create hello.py that prints hello")
        await folder.held()
        before = len(folder.records(name))
        process.signal(signal.SIGTERM)
        await manager.expect(STOPPING="1", STATUS="stopping in stages")
        for _ in range(3):
            await manager.expect(WATCHDOG="1")
        folder.let_go()
        assert await process.ended() == 0
    assert len(folder.records(name)) > before


async def test_a_broken_configuration_is_refused_whole_and_shown(folder: Folder, manager: Manager) -> None:
    whole = folder.file.read_text()
    async with daemon(folder, NOTIFY_SOCKET=manager.address) as process:
        await manager.expect(READY="1")
        folder.edit("", "[nonsense]\nx = 1\n[limits]\nsteps_per_run = 'many'\n")
        process.signal(signal.SIGHUP)
        await manager.expect(RELOADING="1")
        await manager.expect(READY="1")
        refused = await process.until("configuration.refused")
        assert len(refused["faults"]) == 2
        assert all(name in str(refused["faults"]) for name in ("nonsense", "steps_per_run"))
        code, out, err = await tenex("status", "--data", folder.data, "--json")
        assert code == 0
        assert "steps_per_run" in err, "the file on disk is broken, and `tenex status` reports it"
        assert json.loads(out)["configuration"]["refused"] == refused["faults"]
        folder.file.write_text(whole)
        await process.reload()
        assert (await folder.facts("status"))["configuration"]["refused"] == []


@asynccontextmanager
async def in_terminal(
    folder: Folder, *before: str, log: Path | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """`tenex run` as the only program of a terminal, once it listens; and our end of that."""
    ours, theirs = pty.openpty()
    errors = theirs if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    process = await asyncio.create_subprocess_exec(
        *(*before, *TENEX, "run", "--data", str(folder.data)),
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
        stdin=theirs,
        stdout=errors,
        stderr=errors,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        for descriptor in {theirs, errors}:
            os.close(descriptor)
        await person.until((folder.data / "tenex.sock").exists)
        yield process, ours
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_terminal_that_is_closed_stops_it_in_stages_wherever_its_log_goes(
    folder: Folder, tmp_path: Path, *, has_log: bool
) -> None:
    log = tmp_path / "log" if has_log else None
    async with in_terminal(folder, log=log) as (process, terminal):
        os.close(terminal)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    assert not (folder.data / "tenex.sock").exists()
    assert log is None or "runtime.stopped" in log.read_text()


async def test_a_hang_up_reloads_while_the_terminal_is_open_and_under_nohup_when_it_is_closed(
    folder: Folder, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def reloads() -> int:
        return log.read_text().count("configuration.reloaded")

    async with in_terminal(folder, "nohup", log=log) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        await person.until(lambda: reloads() == 1)
        os.close(terminal)
        await person.until(lambda: reloads() == 2)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    async with in_terminal(folder, log=log) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        await person.until(lambda: reloads() == 1)
        os.close(terminal)
        assert await process.wait() == 0
