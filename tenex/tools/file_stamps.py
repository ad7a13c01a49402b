"""Stamps of the whole workspace, by which a snapshot knows without git which files have changed since the last one.

A stamp of a file is its mode, size, inode and times. No program can set the time at which an inode was changed, so a
file with an equal stamp has equal content, with one exception: the clock of a file system moves in steps, and a file
that is written twice within one step has one stamp for two contents. git calls such a file racy, and reads it again.
The same is done here: of a file that was changed within a step before its stamp was read, a digest of its content is
kept with the stamps, and its content is compared.

Of folders the names in them count, and the mode: git keeps no more. The content of a folder that no snapshot takes in
does not count, but whether it has a file does, and of a repository inside the workspace count the entries of `.git`.
"""

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .bounded_read import opened_file
from .workspace import HIDDEN

MOST_STAMPED: Final = 20_000
"""Files and folders. The stamps of so many are read in about 100 ms, as long as git takes to look at them."""

CLOCK_STEP: Final = 20_000_000
"""Nanoseconds: twice the longest step of Linux' clock of files, 10 ms."""

COARSE_STEP: Final = 2_000_000_000
"""The same where a file system keeps milliseconds or less: the coarsest keep every other second."""

MOST_DIGESTED: Final = 32
"""Files that are read because they have just been changed; a call of a file tool changes one."""

LARGEST_DIGESTED: Final = 1024 * 1024
"""Bytes of each of them."""

NEVER_KEPT: Final = tuple(sorted(HIDDEN - {".git"}))
"""Names of folders whose content no snapshot takes in. As patterns of git's; `.git` itself is left out by git."""

_CLOSED: Final = frozenset(os.fsencode(name) for name in NEVER_KEPT)
_REPOSITORY: Final = b".git"
_MILLISECOND: Final = 1_000_000

FileStamp = tuple[int, ...]
"""Mode, size, inode, time of the content and time of the inode; of a folder the mode alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """The stamps of a workspace at one moment. Paths are relative to it, as the system names them."""

    root: bytes
    """The workspace, with a slash at its end."""
    entries: Mapping[bytes, FileStamp]
    closed: frozenset[bytes]
    """Folders with files that no snapshot takes in."""
    recent: Mapping[bytes, bytes] | None
    """Digests of the files and links that have just been changed; None where those are too many or too large."""

    def changed_files(self, now: "Stamps") -> list[bytes] | None:
        """The files and links whose content may have changed since; None where more than that has changed."""
        if self.recent is None or self.entries.keys() != now.entries.keys() or self.closed != now.closed:
            return None
        changed = {path for path, _ in self.entries.items() ^ now.entries.items()}
        if any(self.entries[path][0] != now.entries[path][0] for path in changed):
            return None
        rewritten = [path for path in self.recent.keys() - changed if self._is_rewritten(path)]
        return [*changed, *rewritten]

    def _is_rewritten(self, path: bytes) -> bool:
        """Whether a file that had just been changed then was changed once more, though its stamp is the same."""
        return self.recent is None or _digest(self.root, path, self.entries[path]) != self.recent[path]


def read_stamps(root: bytes) -> Stamps | None:
    """The stamps of a workspace; None where it is too large, or not all of it can be read. A link is not followed."""
    began = time.time_ns()
    entries: dict[bytes, FileStamp] = {}
    closed: set[bytes] = set()
    try:
        folders = [b""]
        for folder in folders:
            is_repository = folder.endswith(b"/" + _REPOSITORY + b"/")
            with os.scandir(root + folder) as names:
                for entry in names:
                    path = folder + entry.name
                    about = entry.stat(follow_symlinks=False)
                    if path == _REPOSITORY:
                        continue
                    if not stat.S_ISDIR(about.st_mode):
                        entries[path] = _stamp(about)
                        continue
                    entries[path] = (about.st_mode,)
                    if entry.name in _CLOSED:
                        empty = folders_without_files(root, path + b"/")
                        entries |= dict.fromkeys(empty, (about.st_mode,))
                        closed.update([] if empty else [path])
                    elif not is_repository:
                        folders.append(path + b"/")
            if len(entries) > MOST_STAMPED:
                return None
    except OSError:  # a folder is shut, or something has just been removed
        return None
    return Stamps(root=root, entries=entries, closed=frozenset(closed), recent=_recent(root, entries, began))


def folders_without_files(root: bytes, folder: bytes) -> list[bytes]:
    """A folder and all those in it; none if there is a file that is no part of a repository's own, or may be."""
    folders = [folder]
    for path in folders:
        try:
            with os.scandir(root + path) as entries:
                for entry in entries:
                    if entry.name.lower() == _REPOSITORY:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path + entry.name + b"/")
                    elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                        return []
        except OSError:  # shut, or deeper than a path can name
            return []
    return [path[:-1] for path in folders]


def _stamp(about: os.stat_result) -> FileStamp:
    return (about.st_mode, about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns)


def _recent(root: bytes, entries: Mapping[bytes, FileStamp], began: int) -> dict[bytes, bytes] | None:
    """The digests of what was changed so short a time ago that its next change may leave the stamp as it is."""
    paths = []
    for path, stamp in entries.items():
        changed = stamp[-1]
        if changed >= began - COARSE_STEP and len(stamp) > 1:
            is_fine = changed % _MILLISECOND != 0
            if not is_fine or changed >= began - CLOCK_STEP:
                paths.append(path)
    if len(paths) > MOST_DIGESTED:
        return None
    digests = {}
    for path in paths:
        digest = _digest(root, path, entries[path])
        if digest is None:
            return None
        digests[path] = digest
    return digests


def _digest(root: bytes, path: bytes, stamp: FileStamp) -> bytes | None:
    """Of the content of a file, or of where a link leads; None where it cannot be read, or is too large."""
    try:
        if stat.S_ISLNK(stamp[0]):
            return os.readlink(root + path)  # noqa: PTH115 - bytes
        if not stat.S_ISREG(stamp[0]):
            return b""
        with opened_file(Path(os.fsdecode(root + path))) as file:
            content = file.read(LARGEST_DIGESTED + 1)
    except OSError:
        return None
    return None if len(content) > LARGEST_DIGESTED else hashlib.sha256(content).digest()
