"""The disk under the conversations: room, kind, and whether a flush works and how long it takes."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenex.core.errors import StoreError

from .findings import Case, Finding, fault, ok, warning
from .format import size

TOO_LITTLE: Final = 50_000_000
"""Bytes: an hour of busy agents fills more."""
LITTLE: Final = 1_000_000_000
PROBE: Final = ".doctor."
"""How the name of the file begins that is flushed for a look; another doctor may meet it."""
FLUSHES: Final = 5
SLOW: Final = 0.05
"""Seconds of one flush; a turn takes three or four, and nobody is answered before them."""
_FLEETING: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_DISTANT: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.s3fs"})


def disk(case: Case) -> Iterator[Finding]:
    """Where journals are kept."""
    where = case.places
    if where is None:
        return
    folder = where.conversations if where.conversations.is_dir() else case.data
    if not folder.is_dir():
        return
    yield from _room(folder)
    for other in (where.workspace, where.checkpoints):
        if other.is_dir() and other.stat().st_dev != folder.stat().st_dev:
            yield from _room_for_work(other)
    yield from _kind(folder)
    yield from _flush(folder)


def _room(folder: Path) -> Iterator[Finding]:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < TOO_LITTLE:
        yield fault(
            f"only {size(free)} are free",
            folder,
            "make room: what cannot be written stops every conversation",
            StoreError,
        )
    elif free < LITTLE:
        yield warning(f"only {size(free)} are free", folder, "make room before it stops the conversations")
    elif found.f_files and not found.f_favail:
        yield fault("no more files can be made", folder, "remove some: the file system is out of inodes", StoreError)
    else:
        yield ok(f"{size(free)} are free", folder)


def _room_for_work(folder: Path) -> Iterator[Finding]:
    """On a disk of its own, where agents work or where what they change is kept."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < TOO_LITTLE or (found.f_files and not found.f_favail):
        what = "no more files can be made" if free >= TOO_LITTLE else f"only {size(free)} are free"
        yield warning(what, folder, "make room: agents cannot change files, or what they change cannot be put back")
    else:
        yield ok(f"{size(free)} are free", folder)


def _kind(folder: Path) -> Iterator[Finding]:
    kind = kind_of(folder)
    if kind in _FLEETING:
        yield warning(f"this is a {kind}: everything is gone when the machine stops", folder, "use a folder on a disk")
    elif kind in _DISTANT:
        yield warning(
            f"this is on the network ({kind}): locks and flushes may not hold there",
            folder,
            "use a local disk, and copy to the network for a backup",
        )
    elif kind == "overlay":
        yield warning("this is a container's own layer, and goes with the container", folder, "mount a volume there")


def kind_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system a folder lies on; empty where that cannot be told."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        here = folder.resolve()
    except OSError:
        return ""
    best = ("", "")
    for line in lines:
        words = line.split()
        if len(words) < 3:
            continue
        place = words[1].replace("\\040", " ")
        if here.is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, words[2])
    return best[1]


def _flush(folder: Path) -> Iterator[Finding]:
    try:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=PROBE, suffix=".tmp")
        try:
            took = [_timed(descriptor) for _ in range(FLUSHES)]
        finally:
            os.close(descriptor)
            Path(name).unlink()
    except OSError as error:
        yield fault(
            f"nothing can be written here ({error.strerror})",
            folder,
            "make room, mend the disk, or give the folder to the user who runs tenex",
            StoreError,
        )
        return
    typical = statistics.median(took)
    if typical > SLOW:
        yield warning(
            f"a flush to this disk takes {typical * 1000:.0f} ms",
            folder,
            "every answer waits for several; use a faster disk",
        )
    else:
        yield ok(f"a flush takes {typical * 1000:.2f} ms", folder)


def _timed(descriptor: int) -> float:
    began = time.perf_counter()
    os.write(descriptor, b"x" * 700)
    os.fdatasync(descriptor)
    return time.perf_counter() - began
