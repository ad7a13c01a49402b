"""Files that are whole or absent: replace, keep a copy, make a folder; all durable on return.

Everything here blocks; call it from the store's threads.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

from tenex.core.ids import Millis

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700

LEFTOVER: Final = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""The name of what a write that was cut short leaves behind."""


NO_FLUSH: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a file system that cannot flush a folder."""
NO_LINK: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of a file system that has no hard links, or no more of them for a file."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however many calls it takes.

    Raises:
        OSError: some bytes may have been written.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, as far as its file system can: exFAT and SMB flush no folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno not in NO_FLUSH:
            raise
    finally:
        os.close(descriptor)


def give_second_name(path: Path, second: Path) -> None:
    """Give a file a second name that is free, or a copy of it where the file system has no second names."""
    try:
        os.link(path, second, follow_symlinks=False)
    except OSError as fault:
        if fault.errno not in NO_LINK:
            raise
        if os.path.lexists(second):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(second)) from fault
        shutil.copy2(path, second, follow_symlinks=False)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, each 0700 and durable; one that is there stays as it is.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    missing: list[Path] = []
    above = folder
    while not above.is_dir():
        missing.append(above)
        above = above.parent
    for path in reversed(missing):
        try:
            path.mkdir(mode=FOLDER_MODE)
        except FileExistsError:
            if not path.is_dir():  # somebody else's folder is as good as ours, a file is not
                raise
        sync_folder(path.parent)


def replace(path: Path, data: bytes, mode: int = FILE_MODE, modified: int | None = None) -> None:
    """Give a file a new content: a reader, and a crash, finds the old one or the new one whole.

    `modified` is its modification time in ns; None: now.

    Raises:
        OSError: the old content is there; or the new one is, and a power cut may still restore the old one.
    """
    make_folder(path.parent)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            if modified is not None:
                os.utime(descriptor, ns=(modified, modified))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(beside).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise
    sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove what `replace` left behind where a process died within it; only for the folder's one writer."""
    for name in os.listdir(folder):  # noqa: PTH208 - one call for a folder of thousands, and only names are needed
        if LEFTOVER.fullmatch(name):
            (folder / name).unlink(missing_ok=True)


def keep(path: Path, label: str, data: bytes) -> Path:
    """Write bytes that are about to go from `path` to a new file beside it, `<stem>.<label>-<n>`.

    Returns:
        The new path.

    Raises:
        OSError: the bytes are not safe; do not remove them.
    """

    def write(target: Path) -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise
        finally:
            os.close(descriptor)

    return take_name(path, label, write)


def take_name(path: Path, label: str, take: Callable[[Path], object]) -> Path:
    """The first name `<stem>.<label>-<n>` beside `path` that `take` does not find in use, durable.

    Raises:
        OSError: as `take` does, or the name may not survive a power cut.
    """
    for number in count(1):
        target = path.with_name(f"{path.stem}.{label}-{number}")
        try:
            take(target)
        except FileExistsError:
            continue
        break
    sync_folder(path.parent)
    return target


def stamp(now: Millis) -> str:
    """The time as used in the names of backups."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
