"""One daemon per folder: a lock that the kernel releases when its holder dies, however it dies."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenex.core.errors import StoreError, StoreLocked

from .atomic import FILE_MODE, make_folder

NAME: Final = ".lock"


class FolderLock:
    """Exclusive use of a folder by this process, from `acquire` to `release`."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._descriptor: int | None = None

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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise StoreLocked(
                f"{self.path.parent} is in use by {who}. Stop that one, or choose another folder with --data."
            ) from fault
        except OSError as fault:
            os.close(descriptor)
            raise StoreError(f"{self.path} cannot be locked: {fault.strerror}. Use a local disk.") from fault
        self._descriptor = descriptor
        with suppress(OSError):  # it is only for the sentence above: a full disk must not keep us from starting
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Release the folder; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
