"""`tenex doctor` and a daemon: the holder of the lock, the control socket, and the problems in a status."""

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.core.errors import StoreError
from tenex.operations.doctor import daemon as module
from tenex.operations.doctor.daemon import control, daemon, lock_holder, problems_in_status
from tenex.operations.doctor.findings import DaemonProcess, Finding, Level
from tenex.operations.doctor.runner import repair_all
from tenex.service.control import control_socket
from tenex.store.lock import FolderLock

from .doctor_kit import NO_DAEMON, bad, case_of, text_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `tenex init` leaves it."""
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data


# ---- the daemon ---------------------------------------------------------------------------------------------------


def test_the_holder_is_found_without_taking_the_lock(data: Path) -> None:
    """A pid that was left, a holder in this process, and one that wrote nothing; the lock does not change."""
    path = data / "conversations" / ".lock"
    path.write_text("1\n")  # a process that runs and is not a daemon
    assert lock_holder(path) == DaemonProcess()
    with FolderLock(data / "conversations"):
        assert lock_holder(path) == DaemonProcess(running=True, pid=os.getpid())
        case = case_of(data)
        assert not bad(daemon, case)
        assert case.daemon.running
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, 0)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert lock_holder(path).running
        with pytest.raises(BlockingIOError), path.open() as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    assert lock_holder(path) == DaemonProcess()


def test_a_lock_that_is_not_a_file_is_a_fault(data: Path) -> None:
    (data / "conversations" / ".lock").mkdir()
    (found,) = bad(daemon, case_of(data))
    assert found.error is StoreError


def test_a_lock_of_another_user_is_never_to_be_moved(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon may hold it: with the file moved away a second one could begin."""

    def refuse(path: Path) -> DaemonProcess:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(module, "lock_holder", refuse)
    (found,) = bad(daemon, case_of(data))
    assert "as the user the daemon runs as" in found.fix
    assert "move" not in found.fix


async def asked(data: Path, running: DaemonProcess = NO_DAEMON) -> list[Finding]:
    """The faults and warnings of the check of the socket."""
    return [f async for f in control(case_of(data, daemon=running)) if f.level is not Level.OK]


async def test_a_stale_socket_is_removed_by_fix_only(data: Path) -> None:
    path = data / "tenex.sock"
    with socket.socket(socket.AF_UNIX) as left:
        _bind_in(left, path)
    found = await asked(data)
    assert [f.level for f in found] == [Level.WARNING]
    assert path.exists()
    (fixed,) = await repair_all(data / "conversations", found)
    assert fixed.done == "removed"
    assert not path.exists()
    assert not await asked(data)
    assert "is missing" in text_of(await asked(data, DaemonProcess(running=True, pid=1)))


def _bind_in(server: socket.socket, path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        server.bind(path.name)
    finally:
        os.chdir(before)


async def test_a_file_in_the_place_of_the_socket_and_a_socket_without_answers(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.operations.doctor.daemon.STATUS_TIMEOUT", 0.2)
    path = data / "tenex.sock"
    path.write_text("x")
    assert "not a socket" in text_of(await asked(data))
    path.unlink()
    with socket.socket(socket.AF_UNIX) as mute:
        _bind_in(mute, path)
        mute.listen()
        (found,) = await asked(data)
    assert "does not answer with its status" in found.message
    assert found.error.exit_code == 1


async def test_a_daemon_is_asked_over_its_socket(data: Path) -> None:
    async def status(_: dict[str, Any]) -> dict[str, Any]:
        return {"conversations": {"suspended": [{"id": "f", "why": "disk full"}]}}

    async with control_socket(data / "tenex.sock", {"status": status}):
        found = [f async for f in control(case_of(data, daemon=DaemonProcess(running=True, pid=1)))]
    assert [f.message for f in found] == ["the daemon answers", "suspended: disk full"]
    assert found[1].error is StoreError


def test_problems_in_a_status_are_findings() -> None:
    status = {
        "configuration": {"file": "/x/tenex.toml", "refused": ["a", "b"], "needsRestart": ["relays.urls"]},
        "relays": [
            {
                "url": "wss://a.example?key=1",
                "state": "unresponsive",
                "unresponsiveSince": "2026-01-01T00:00:00Z",
                "fault": "x",
            },
            {"url": "wss://b.example", "state": "connected"},
        ],
        "models": {"lastFailure": {"why": "no credit left"}},
        "conversations": {
            "open": [{"id": "h", "kind": "held"}, {"id": "p", "kind": "parked"}],
            "suspended": [{"id": "f", "since": "then", "why": "disk full"}],
            "quarantined": [{"id": "q", "why": "line 3"}],
        },
    }
    found = list(problems_in_status(status))
    assert [f.level for f in found] == [Level.WARNING, Level.WARNING, *[Level.FAULT] * 4]
    text = text_of(found)
    for word in ("2 faults", "relays.urls", "wss://a.example?...", "disk full", "line 3", "no credit left"):
        assert word in text
    assert "key=1" not in text


@pytest.mark.parametrize("status", [None, 5, [], {"relays": 5, "conversations": [1], "models": {"lastFailure": 1}}])
def test_a_status_of_another_shape_gives_no_finding(status: object) -> None:
    assert not list(problems_in_status(status))
