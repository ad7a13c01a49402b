"""Whether a daemon runs on this folder: the lock, the control socket, and problems in the daemon's own status."""

import errno
import fcntl
import os
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
from tenex.service.client import ask
from tenex.store.lock import NAME

from .findings import Case, DaemonProcess, Finding, Repair, fault, ok, url_text, warning

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

    The kernel's list of locks is read. Only if it has none the lock is tried, shared and for an instant: it may be held
    from another container.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
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


async def control(case: Case) -> AsyncIterator[Finding]:
    """Report the state of the control socket, and through it what the daemon could not write or reach."""
    if case.paths is None:
        return
    path, runs = case.paths.socket, case.daemon.running
    if path.exists() and not path.is_socket():
        yield fault("this is not a socket", path, "move it away; the daemon listens there", ConfigurationError)
        return
    try:
        status = await ask(path, "status", patience=STATUS_TIMEOUT)
    except FileNotFoundError:
        if runs:
            fix = "restart the daemon, so that `tenex status` can ask it"
            yield warning("a daemon runs, but its control socket is missing", path, fix)
    except ConnectionRefusedError:
        if runs:
            message = "a daemon runs, but does not answer at its control socket"
            yield fault(message, path, "look at its logs; if it hangs, restart it", TransientError)
        else:
            repair = Repair(run=lambda: _remove_socket(path), needs_lock=True)
            yield warning("this was left by a daemon that has ended", path, "the next start replaces it", repair)
    except (OSError, TenexError) as error:  # TimeoutError is an OSError
        reason = str(error) or f"timeout of {STATUS_TIMEOUT:g} s"
        fix = "look at the daemon's logs; if it hangs or is older than this program, restart it"
        yield fault(f"the daemon does not answer with its status: {reason}", path, fix, TransientError)
    else:
        yield ok("the daemon answers", path)
        for finding in problems_in_status(status):
            yield finding


def _remove_socket(path: Path) -> str:
    path.unlink(missing_ok=True)  # the lock is held, so no daemon listens there
    return "removed"


def problems_in_status(status: Any) -> Iterator[Finding]:
    """Report the problems in a status of `operations.status`; nothing if it has another shape."""
    status = _dict(status)
    settings, stored = _dict(status.get("configuration")), _dict(status.get("conversations"))
    file = settings.get("file") or "the settings"
    if refused := _list(settings.get("refused")):
        message = (
            f"the configuration was refused at the last reload ({len(refused)} faults); the one before is in force"
        )
        yield warning(message, file, "fix the faults that the check `settings` reports, then send SIGHUP or restart")
    if needs := _list(settings.get("needsRestart")):
        yield warning(f"changes that need a restart: {', '.join(map(str, needs))}", file, "restart the daemon")
    for relay in map(_dict, _list(status.get("relays"))):
        if relay.get("state", "connected") == "connected":
            continue
        reason = "; ".join(map(str, _list(relay.get("refused")))) or relay.get("fault") or "it does not answer"
        message = f"the daemon is not served here{_since(relay.get('unresponsiveSince'))}: {reason}"
        fix = "see what the check `relays` reports; the daemon keeps trying"
        yield fault(message, url_text(str(relay.get("url", ""))), fix, RelayUnavailable)
    failure = _dict(_dict(status.get("models")).get("lastFailure")).get("why", "")
    held = [one for one in map(_dict, _list(stored.get("open"))) if one.get("kind") == "held"]
    for conversations, state, fix, error in (
        (stored.get("suspended"), "suspended", "make room or repair the disk; the daemon keeps trying", StoreError),
        (
            stored.get("quarantined"),
            "in quarantine",
            "see what the check `conversations` reports about its journal",
            StoreError,
        ),
        (
            held,
            "on hold, because a model cannot be reached; the last failure",
            "fix what the check `models` reports with --probe; the daemon keeps trying",
            ModelUnavailable,
        ),
    ):
        for one in map(_dict, _list(conversations)):
            message = f"{state}{_since(one.get('since'))}: {one.get('why', failure)}"
            yield fault(message, f"conversation {one.get('id', '')}", fix, error)


def _since(at: Any) -> str:
    return f" since {at}" if at else ""


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
