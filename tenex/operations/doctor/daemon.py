"""Whether a daemon runs on this folder: the lock, the control socket, and problems in the daemon's own status."""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import (
    ConfigurationError,
    ModelUnavailable,
    RelayUnavailable,
    StoreError,
    TenexError,
    TransientError,
)
from tenex.service.address import reachable
from tenex.service.client import ask
from tenex.store.lock import NAME

from .findings import Case, DaemonProcess, Finding, Repair, fault, ok, url_text, warning
from .runner import run_in_thread

CONNECT_TIMEOUT: Final = 3.0
"""Seconds a daemon on this machine has to accept a connection."""
STATUS_TIMEOUT: Final = 8.0
"""Seconds a busy daemon has to answer with its status."""


def daemon(case: Case) -> Iterator[Finding]:
    """Report which process holds the folder, and put it into the case."""
    if case.paths is None or not case.paths.conversations.is_dir():
        return
    path = case.paths.conversations / NAME
    try:
        case.daemon = lock_holder(path)
    except FileNotFoundError:
        pass
    except PermissionError:
        yield fault(
            "this user may not see whether a daemon runs here",
            path,
            "run this as the user the daemon runs as, or as root",
            StoreError,
        )
        return
    except OSError as error:
        yield fault(
            f"cannot be opened ({error.strerror})",
            path,
            "move it away while no daemon runs; the next start creates it",
            StoreError,
        )
        return
    if not case.daemon.running:
        yield ok("no daemon runs here", path.parent)
        return
    process = f"process {case.daemon.pid}" if case.daemon.pid else "a process that cannot be seen from here"
    yield ok(f"a daemon runs: {process}", path.parent)


def lock_holder(path: Path) -> DaemonProcess:
    """The process that holds a lock file, found without disturbing it.

    First the process whose number is in the file is looked at, then the kernel's list. Only if neither names a holder
    the lock is tried, shared and for an instant: it may be held from another container.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        text = os.read(descriptor, 32).decode("ascii", "replace").strip()
        pid = int(text) if text.isdecimal() else None
        if pid is not None and _has_open(pid, path):
            return DaemonProcess(running=True, pid=pid)
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with suppress(OSError, ValueError, IndexError):
            for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == device:
                    return DaemonProcess(running=True, pid=max(int(fields[4]), 0) or None)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return DaemonProcess(running=True)
        return DaemonProcess()
    finally:
        os.close(descriptor)


def _has_open(pid: int, path: Path) -> bool:
    wanted = str(path.resolve())
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.readlink(entry.path) == wanted:  # noqa: PTH115 not a path: a name the kernel made up
                    return pid != os.getpid()
    return False


async def control(case: Case) -> AsyncIterator[Finding]:
    """Report the state of the control socket, and through it what the daemon could not write or reach."""
    if case.paths is None:
        return
    path, runs = case.paths.socket, case.daemon.running
    state = await run_in_thread(lambda: _connect(path), 2 * CONNECT_TIMEOUT)
    if state == "answers":
        try:
            status = await ask(path, "status", patience=STATUS_TIMEOUT)
        except (OSError, TenexError) as error:  # TimeoutError is an OSError
            yield fault(
                f"the daemon does not answer with its status: {str(error) or f'timeout of {STATUS_TIMEOUT:g} s'}",
                path,
                "look at the daemon's logs; if it hangs or is older than this program, restart it",
                TransientError,
            )
            return
        yield ok("the daemon answers", path)
        for finding in problems_in_status(status):
            yield finding
    elif state == "missing" and runs:
        yield warning(
            "a daemon runs, but its control socket is missing",
            path,
            "restart the daemon, so that `tenex status` can ask it",
        )
    elif state == "stale" and runs:
        yield fault(
            "a daemon runs, but does not answer at its control socket",
            path,
            "look at its logs; if it hangs, restart it",
            TransientError,
        )
    elif state == "stale":
        repair = Repair(run=lambda: _remove_socket(path), needs_lock=True)
        yield warning("this was left by a daemon that has ended", path, "the next start replaces it", repair)
    elif state != "missing":
        yield fault(state, path, "move it away; the daemon listens there", ConfigurationError)


def _connect(path: Path) -> str:
    """`answers`, `missing`, `stale`, or why it cannot be used."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"cannot be examined ({error.strerror})"
    if stat.S_ISLNK(mode) and not path.exists():
        return "stale"
    if not stat.S_ISSOCK(path.stat().st_mode):
        return "this is not a socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(CONNECT_TIMEOUT)
        try:
            with reachable(path) as address:
                client.connect(address)
        except (ConnectionRefusedError, FileNotFoundError, TimeoutError):
            return "stale"
        except OSError as error:
            return f"cannot be opened ({error.strerror or error})"
    return "answers"


def _remove_socket(path: Path) -> str:
    if _connect(path) != "stale":
        return "left alone: a process listens there now"
    path.unlink()
    return "removed"


def problems_in_status(status: Any) -> Iterator[Finding]:
    """Report what a daemon's status says is wrong (`operations.status` has the shape); of another shape nothing."""
    status = _dict(status)
    configuration = _dict(status.get("configuration"))
    file = configuration.get("file") or "the settings"
    if refused := _list(configuration.get("refused")):
        yield warning(
            f"the configuration was refused at the last reload ({len(refused)} faults); the one before it is in force",
            file,
            "fix the faults that the check `settings` reports, then send SIGHUP or restart",
        )
    if needs := _list(configuration.get("needsRestart")):
        yield warning(f"changes that need a restart: {', '.join(map(str, needs))}", file, "restart the daemon")
    for relay in map(_dict, _list(status.get("relays"))):
        match relay.get("state", "connected"):
            case "connected":
                continue
            case "unresponsive":
                reasons = "; ".join(map(str, _list(relay.get("refused"))))
                since = _since(relay.get("unresponsiveSince"))
                message = f"the daemon is connected, but not served{since}: "
                message += f"it refuses {reasons}" if reasons else "it does not answer"
            case _:
                message = f"the daemon is not connected: {relay.get('fault') or 'the reason is not known'}"
        yield fault(
            message,
            url_text(str(relay.get("url", ""))),
            "see what the check `relays` reports; the daemon keeps trying",
            RelayUnavailable,
        )
    conversations = _dict(status.get("conversations"))
    for one in map(_dict, _list(conversations.get("suspended"))):
        yield fault(
            f"suspended{_since(one.get('since'))}: {one.get('why', 'its journal could not be written')}",
            f"conversation {one.get('id', '')}",
            "make room or repair the disk; the daemon keeps trying",
            StoreError,
        )
    for one in map(_dict, _list(conversations.get("quarantined"))):
        yield fault(
            f"in quarantine: {one.get('why', 'its journal is damaged')}",
            f"conversation {one.get('id', '')}",
            "see what the check `conversations` reports about its journal",
            StoreError,
        )
    reason = _dict(_dict(status.get("models")).get("lastFailure")).get("why")
    for one in map(_dict, _list(conversations.get("open"))):
        if one.get("kind") == "held":
            yield fault(
                f"on hold, because a model cannot be reached{f'; the last failure: {reason}' if reason else ''}",
                f"conversation {one.get('id', '')}",
                "fix what the check `models` reports with --probe; the daemon keeps trying",
                ModelUnavailable,
            )


def _since(at: Any) -> str:
    return f" since {at}" if at else ""


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
