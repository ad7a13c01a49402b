"""Shows an earlier tree of the workspace in a view, before a program runs there.

Only what differs is written: the files of then, and the absence of those that are new. What git ignores, such as
installed packages and what was built, is as it is today. So the times decide: what was built from the files of today
must look older than the files of then, or `make`, cargo and Python would take the object code of today. A file of then
therefore gets the time of now, or of two seconds after that of today's file, and never its own.
"""

import os
import shutil
import stat
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import restore
from .checkpoints import Change, Checkpoints
from .snapshots import Snapshot, folders_of
from .workspace_view import Way, WorkspaceView, is_whiteout

_NEWER: Final = 2 * 10**9
"""Nanoseconds: Python compares whole seconds, and some disks keep every other one."""


class NotShown(OSError):
    """The earlier tree cannot be shown, because there is no copy of a file of it."""


def show(view: WorkspaceView, checkpoints: Checkpoints, earlier: Snapshot, today: Snapshot) -> None:
    """Show an earlier tree in a view in which nothing has run; `today` is what the workspace holds. Blocks.

    Raises:
        NotShown: a file of it was not kept.
        CheckpointFailed: git failed.
        OSError: the disk does not take it.
    """
    changes = checkpoints.changes(earlier, today)
    for change in changes:
        if change.has_lost:
            raise NotShown(f"{os.fsdecode(change.path)} as it was then is not in the checkpoints")
    new = [change.path for change in changes if change.is_new]
    if view.way is Way.COPY:
        for path in [change.path for change in changes if not change.is_of_permissions]:
            restore.clear_below(view.upper, path)
        for path in new:
            restore.remove_empty_folders(view.upper, path.rpartition(b"/")[0], earlier.empty)
    _write(view, checkpoints, changes)
    if view.way is not Way.COPY:
        _hide(view, new, earlier.empty)
        _give_rights(view)


def _write(view: WorkspaceView, checkpoints: Checkpoints, changes: Sequence[Change]) -> None:
    for path, copy in checkpoints.earlier_copies(changes):
        restore.replace(view.upper, path, copy, None)
        moment = time.time_ns()
        with suppress(OSError):
            moment = max(moment, os.lstat(os.fsencode(view.root) + b"/" + path).st_mtime_ns + _NEWER)
        os.utime(os.fsencode(view.upper) + b"/" + path, ns=(moment, moment), follow_symlinks=False)


def _hide(view: WorkspaceView, new: Sequence[bytes], stay: Container[bytes]) -> None:
    """Hide what is new by whiteouts in the upper layer; a folder in which nothing else is, as a whole."""
    upper = os.fsencode(view.upper)
    hidden = [path for path in new if not _is_covered(upper, path)]
    for path in hidden:
        os.makedirs(os.path.dirname(upper + b"/" + path), exist_ok=True)  # noqa: PTH103, PTH120 - bytes
        _make_whiteout(upper + b"/" + path)

    folders = {folder for path in hidden for folder in folders_of(path)}
    for folder in sorted(folders, key=len, reverse=True):  # from the inside
        below = os.fsencode(view.root) + b"/" + folder
        whiteouts = {entry.name for entry in _entries(upper + b"/" + folder) if is_whiteout(_stat(entry))}
        is_empty = len(whiteouts) == sum(1 for _ in _entries(upper + b"/" + folder))
        if is_empty and folder not in stay and all(entry.name in whiteouts for entry in _entries(below)):
            restore.clear_below(view.upper, folder)
            _make_whiteout(upper + b"/" + folder)


def _is_covered(upper: bytes, path: bytes) -> bool:
    """Whether the upper layer already has something at a path, or a file where a folder of it was."""
    if os.path.lexists(upper + b"/" + path):
        return True
    above = (upper + b"/" + folder for folder in folders_of(path))
    return any(os.path.lexists(folder) and not os.path.isdir(folder) for folder in above)  # noqa: PTH112 - bytes


def _make_whiteout(place: bytes) -> None:
    os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))  # needs no privilege since Linux 5.8


def _give_rights(view: WorkspaceView) -> None:
    """Give the folders of the upper layer the rights and times that they have in the workspace."""
    for folder, _, _ in os.walk(view.upper, topdown=False):
        below = view.root / Path(folder).relative_to(view.upper)
        if below.is_dir() and not below.is_symlink():
            shutil.copystat(below, folder)


def _entries(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _stat(entry: os.DirEntry[bytes]) -> os.stat_result:
    return entry.stat(follow_symlinks=False)
