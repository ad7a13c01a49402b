"""One daemon per folder: a lock that the kernel releases when its holder dies, however it dies."""

import fcntl
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenex.core.errors import FolderMoved, StoreError, StoreLocked

from .atomic import FILE_MODE, make_folder

NAME: Final = ".lock"
HIDDEN: Final = 0
"""In place of the process id of a holder that cannot be seen from here, as in another container."""


CHILD_ENDS: Final = 2.0
"""Seconds for which the lock of a dead holder is waited for: a child that it had forked and that has not become another
program yet keeps it, some ms, and longer where the machine is busy."""
AGAIN: Final = 0.01
"""Seconds between two tries."""
_EXITING: Final = 0x4
"""`PF_EXITING` of the kernel."""
_KILL: Final = 1 << (signal.SIGKILL - 1)
"""SIGKILL in a mask of pending signals."""


def anywhere() -> None:
    """In place of `FolderLock.check` where no folder is locked."""


class FolderLock:
    """Exclusive use of a folder by this process, from `acquire` to `release`."""

    __slots__ = ("_descriptor", "_folder", "path")

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._descriptor: int | None = None
        self._folder: int | None = None
        """The folder itself, wherever it is: its inode is not used again while this is open."""

    def acquire(self) -> None:
        """Take the folder, made if missing; a second call does nothing.

        Raises:
            StoreLocked: another process, or another lock of this one, has it.
            StoreError: the folder cannot be locked at all.
        """
        if self._descriptor is not None:
            return
        try:
            make_folder(self.path.parent)
            # close-on-exec, as Python opens everything: a tool we start must not keep the folder when we are gone
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
        except OSError as fault:
            raise StoreError(f"{self.path} cannot be opened: {fault.strerror}. Check the folder's owner.") from fault
        try:
            _lock(descriptor, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY)
        with suppress(OSError):  # it is only for the sentence above: a full disk must not keep us from starting
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def check(self) -> None:
        """Return if the folder is where it was locked; called from any thread.

        Raises:
            FolderMoved: it was moved or removed, or another folder is in its place.
        """
        held = self._folder
        if held is None:
            return
        folder = self.path.parent
        with suppress(OSError):
            if os.path.samestat(folder.stat(), os.fstat(held)):
                return
        now = Path(f"/proc/self/fd/{held}").readlink()
        is_gone = not now.exists()
        where = "was removed" if is_gone else f"was moved to {now}"
        remedy = (
            "Stop this daemon and restore the folder"
            if is_gone
            else "Move it back, or stop this daemon and start one there"
        )
        raise FolderMoved(f"{folder} {where} while this process has it, so nothing is written. {remedy}.")

    def release(self) -> None:
        """Release the folder, with no process named in the file; a second call does nothing."""
        descriptor = self._descriptor
        self._descriptor = None
        if descriptor is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _lock(descriptor: int, path: Path) -> None:
    """Lock a file exclusively, once a child of a dead holder has let it go.

    Raises:
        StoreLocked: another process, or another lock of this one, has it.
        StoreError: the file system cannot lock.
    """
    until = time.monotonic() + CHILD_ENDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            is_dead = holder.isdigit() and not _is_alive(int(holder))
            if is_dead and time.monotonic() < until:
                time.sleep(AGAIN)
                continue
            if is_dead:
                raise StoreLocked(
                    f"{path.parent} is in use: process {holder}, which locked it, cannot be seen and something keeps "
                    f"the lock: a process that it started, or another container. Look with `lsof {path}`."
                ) from fault
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise StoreLocked(
                f"{path.parent} is in use by {who}. Stop that one, or choose another folder with --data."
            ) from fault
        except OSError as fault:
            raise StoreError(f"{path} cannot be locked: {fault.strerror}. Use a local disk.") from fault
        else:
            return


def _is_alive(pid: int) -> bool:
    """Whether a process of that number runs here, and neither ends nor has been killed."""
    place = Path("/proc") / str(pid)
    try:
        stat = (place / "stat").read_bytes().rpartition(b")")[2].split()
        status = (place / "status").read_bytes()
    except OSError:
        return False
    has_ended = stat[0] in (b"Z", b"X")
    is_ending = bool(int(stat[6]) & _EXITING)
    pending = re.findall(rb"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
    was_killed = any(int(signals, 16) & _KILL for signals in pending)
    return not (has_ended or is_ending or was_killed)


def locked_at(folder: Path) -> float:
    """When the lock of a folder was taken or released last, in seconds since 1970.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    return (folder / NAME).lstat().st_mtime


def find_holder(folder: Path) -> int | None:
    """The id of the process that holds the lock of a folder, found without disturbing it; None where none does.

    The kernel's list of locks is read. Only if it has none the lock is tried, shared and for an instant: it may be held
    from another container.

    Raises:
        OSError: the lock cannot be read.
    """
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        file = os.fstat(descriptor)
        device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        with suppress(OSError, ValueError, IndexError):
            for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == device:
                    return max(int(fields[4]), HIDDEN)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return HIDDEN
        return None
    finally:
        os.close(descriptor)
