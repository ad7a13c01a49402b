"""Whether a daemon runs on this folder: the lock, the control socket, and what comes through it."""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError, StoreError, TenexError, TransientError
from tenex.service.address import reachable
from tenex.service.client import ask
from tenex.store.lock import NAME

from .daemon_status import complaints
from .findings import Case, Daemon, Finding, Fix, fault, ok, warning
from .runner import in_thread

KNOCK: Final = 3.0
"""Seconds a daemon on this machine has to take a connection."""
ANSWER: Final = 8.0
"""Seconds it has to tell its status, busy as it may be."""


def daemon(case: Case) -> Iterator[Finding]:
    """Who holds the folder; noted in the case."""
    where = case.places
    if where is None or not where.conversations.is_dir():
        return
    path = where.conversations / NAME
    try:
        case.daemon = holder(path)
    except FileNotFoundError:
        pass
    except PermissionError:
        yield fault(
            "we may not see whether a daemon runs here",
            path,
            "ask as the user the daemon runs as, or as root",
            StoreError,
        )
        return
    except OSError as error:
        yield fault(
            f"cannot be opened ({error.strerror})",
            path,
            "move it away while no daemon runs; the next start makes it",
            StoreError,
        )
        return
    if not case.daemon.running:
        yield ok("no daemon runs here", where.conversations)
        return
    who = f"process {case.daemon.pid}" if case.daemon.pid else "a process that cannot be seen from here"
    yield ok(f"a daemon runs: {who}", where.conversations)


def holder(path: Path) -> Daemon:
    """Who holds a lock file, found without disturbing a holder.

    First the process that wrote its number there is looked at, then the kernel's list. Only if nobody is found the
    lock is tried, shared and for an instant: it may be held from another container.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        written = os.read(descriptor, 32).decode("ascii", "replace").strip()
        pid = int(written) if written.isdecimal() else None
        if pid is not None and _has_open(pid, path):
            return Daemon(running=True, pid=pid)
        listed = _listed(os.fstat(descriptor))
        if listed is not None:
            return Daemon(running=True, pid=listed or None)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Daemon(running=True)
        return Daemon()
    finally:
        os.close(descriptor)


def _has_open(pid: int, path: Path) -> bool:
    wanted = str(path.resolve())
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    if os.readlink(entry.path) == wanted:  # noqa: PTH115 no path, a name the kernel made up
                        return pid != os.getpid()
    except OSError:
        return False
    return False


def _listed(found: os.stat_result) -> int | None:
    """The process the kernel names as the holder of a file's lock; None where it names none."""
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5] == place:
                return max(int(words[4]), 0)
    return None


async def control(case: Case) -> AsyncIterator[Finding]:
    """The control socket, and through it what the daemon holds, has frozen or cannot reach."""
    where = case.places
    if where is None:
        return
    path = where.socket
    state = await in_thread(lambda: _knock(path), 2 * KNOCK)
    if state == "answers":
        async for finding in _asked(path):
            yield finding
    elif state == "missing" and case.daemon.running:
        yield warning(
            "a daemon runs, and its control socket is not there",
            path,
            "restart the daemon, so that `tenex status` can ask it",
        )
    elif state == "stale" and case.daemon.running:
        yield fault(
            "a daemon runs, and does not answer at its control socket",
            path,
            "look at its logs; if it hangs, restart it",
            TransientError,
        )
    elif state == "stale":
        yield warning(
            "this was left by a daemon that has ended",
            path,
            "the next start replaces it",
            Fix(act=lambda: _removed(path), needs_rest=True),
        )
    elif state not in ("missing", "stale"):
        yield fault(state, path, "move it away; the daemon wants to listen there", ConfigurationError)


def _knock(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if stat.S_ISLNK(mode) and not path.exists():
        return "stale"
    if not stat.S_ISSOCK(path.stat().st_mode):
        return "this is no socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
        knocking.settimeout(KNOCK)
        try:
            with reachable(path) as address:
                knocking.connect(address)
        except (ConnectionRefusedError, FileNotFoundError, TimeoutError):
            return "stale"
        except OSError as error:
            return f"cannot be opened ({error.strerror or error})"
    return "answers"


async def _asked(path: Path) -> AsyncIterator[Finding]:
    try:
        status = await ask(path, "status", patience=ANSWER)
    except (OSError, TenexError) as failure:  # TimeoutError is an OSError
        why = str(failure) or f"no answer within {ANSWER:g} s"
        yield fault(
            f"somebody listens here and does not tell its status: {why}",
            path,
            "look at the daemon's logs; if it hangs or is older than this program, restart it",
            TransientError,
        )
        return
    yield ok("the daemon answers", path)
    for finding in complaints(status):
        yield finding


def _removed(path: Path) -> str:
    if _knock(path) != "stale":
        return "left alone: somebody listens there now"
    path.unlink()
    return "removed"
