"""Scans the workspace for what git does not report, before a command and after it.

That is, above all, repositories. A hook or a setting planted in one would run when a person, or their editor, next uses
git there. So those that are there are read-only to a command in the sandbox (`sandbox`), and one that came with it is
renamed before anybody, our own git included, looks at it. It is not removed: a person may have made it meanwhile, or a
command may have moved their files into it.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import restore
from .git_config import read_by_git, repositories_around
from .snapshots import GIT_READS, GIT_READS_IN_REPOSITORIES
from .workspace import REPOSITORY_PARTS, makes_repository

_OWN: Final = b".git"
_HEAD: Final = b"head"  # a folder without one, in letters of any size, is no repository
_AT_FDCWD: Final = -100
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_STATX_BTIME: Final = 0x800
_PARTS: Final = frozenset(os.fsencode(name) for name in REPOSITORY_PARTS)


@dataclass(frozen=True, slots=True)
class Mark:
    """By which a repository is known again."""

    inode: int
    born: int
    """In nanoseconds; 0 where the disk does not know it. The number of an inode is given again once that is gone."""
    target: bytes | None
    """Where it leads, if it is a link."""


@dataclass(slots=True, kw_only=True)
class Survey:
    """What was in the workspace. Paths are relative to it, as the system names them."""

    mode: int
    """Permissions of the workspace's own folder."""
    repositories: dict[bytes, Mark] = field(default_factory=dict)
    """Everything named `.git`: folders, and the files and links that lead to one."""
    bare: dict[bytes, Mark] = field(default_factory=dict)
    """Folders that are repositories without being named so; the workspace itself is the empty path."""
    parts: dict[bytes, set[bytes]] = field(default_factory=dict)
    """Of each folder with an entry that belongs to a repository, those entries."""
    named: dict[bytes, Mark | None] = field(default_factory=dict)
    """What the configuration of a repository runs or reads, and what links there lead to; None where it is missing."""
    shut: set[bytes] = field(default_factory=set)
    """Folders their owner may not fully use."""
    unread: set[bytes] = field(default_factory=set)
    """Those of them that could not be looked into."""
    special: set[bytes] = field(default_factory=set)
    """Pipes, sockets and devices."""

    def protected(self) -> list[bytes]:
        """What a command may not write to; links are left out, as nothing can be mounted over them."""
        return sorted(self.protections())

    def protections(self) -> dict[bytes, Mark | None]:
        """The same, with the mark of each where it is known: one that came in its place is another one."""
        known = [*self.repositories.items(), *self.named.items()]
        unread: dict[bytes, Mark | None] = dict.fromkeys(self.unread)
        return unread | self.bare | {path: mark for path, mark in known if mark and mark.target is None}


@dataclass(slots=True, kw_only=True)
class Settled:
    """What was not left as a command had left it."""

    removed: list[bytes] = field(default_factory=list)
    """Repositories that came with it, and what configurations run; of one not named `.git` only `HEAD` is meant."""
    lost: list[bytes] = field(default_factory=list)
    """Those that are gone, and cannot be brought back."""


def take(root: Path) -> Survey:
    """Look at the whole workspace; what cannot be read is not looked into."""
    seen = _look(os.fsencode(root), lambda _folder, _mode: False)
    tops = {root / os.fsdecode(path) for path in seen.bare}
    tops |= {(root / os.fsdecode(path)).parent for path in seen.repositories}
    for place in read_by_git(root, tops.union(repositories_around(root))):
        seen.named[os.fsencode(place.relative_to(root))] = _mark_of(place)
    return seen


def settle(root: Path, before: Survey) -> Settled:
    """Take away what a command may not leave behind, once all its processes are gone; `before` is what was there."""
    if stat.S_IMODE(root.lstat().st_mode) != before.mode:
        root.chmod(before.mode)
    # git works in a folder that may be entered and not listed, so one left so is opened everywhere
    after = _look(os.fsencode(root), lambda folder, mode: folder not in before.shut and mode & 0o500 != 0o500)
    known = {mark: path for path, mark in before.repositories.items()}
    settled = Settled()
    strangers = {path: mark for path, mark in after.repositories.items() if before.repositories.get(path) != mark}
    for path, mark in strangers.items():
        if mark not in known:
            with suppress(OSError):
                _take_away(root, path)
                settled.removed.append(path)
    moved = {mark for mark in strangers.values() if mark in known}
    for mark, path in known.items():
        if after.repositories.get(path) == mark or mark in moved:
            continue
        try:
            if mark.target is not None:
                restore.replace(root, path, restore.Copy(restore.LINK, mark.target), None)
            else:
                settled.lost.append(path)
        except OSError:
            settled.lost.append(path)
    _settle_bare(root, before, after, settled)
    _settle_named(root, before, settled)
    for path in after.special - before.special:
        if path.rpartition(b"/")[2] in GIT_READS:
            with suppress(OSError):
                restore.remove_special(root, path)
    return settled


def _settle_bare(root: Path, before: Survey, after: Survey, settled: Settled) -> None:
    """Make what came no repository any more, which leaves other files in that folder alone."""
    known = {mark: path for path, mark in before.bare.items()}
    for path, mark in after.bare.items():
        if before.bare.get(path) == mark:
            continue
        if mark in known:
            continue
        came = after.parts[path] - before.parts.get(path, set())
        for name in [b"HEAD"] if b"HEAD" in came else sorted(came):
            with suppress(OSError):
                _take_away(root, path + b"/" + name if path else name)
        settled.removed.append(path or b".")
    there = set(after.bare.values())
    settled.lost += [path or b"." for mark, path in known.items() if mark not in there]


def _settle_named(root: Path, before: Survey, settled: Settled) -> None:
    """Take away what is at a path that a configuration names, unless it is what was there."""
    for path, mark in before.named.items():
        place = root / os.fsdecode(path)
        if _mark_of(place) in (None, mark):
            continue
        above = [folder for folder in place.parents if folder != root and folder.is_relative_to(root)]
        wrong = next((folder for folder in reversed(above) if folder.is_symlink()), place)
        with suppress(OSError):
            _take_away(root, os.fsencode(wrong.relative_to(root)))
            settled.removed.append(path)


def _take_away(root: Path, path: bytes) -> None:
    """Rename a path, and all in it by which git could take a folder for a repository.

    Raises:
        OSError: the system does not permit it.
    """
    top = restore.rename_away(root, path)
    waiting = [] if (root / os.fsdecode(top)).is_symlink() else [top]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(os.fsencode(root), folder, Survey(mode=0), lambda _folder, _mode: True):
            with suppress(OSError):
                inner = folder + b"/" + entry.name
                if entry.name.lower() in (_OWN, _HEAD):
                    inner = restore.rename_away(root, inner)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(inner)


def remove_pipes(root: Path) -> int:
    """Remove every pipe, socket or device that git would open and wait for; returns how many there were."""
    removed = 0
    waiting = [os.fsencode(root)]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    continue
                elif entry.name in GIT_READS | GIT_READS_IN_REPOSITORIES or b"/.git/" in entry.path.lower():
                    restore.remove_special(root, os.path.relpath(entry.path, os.fsencode(root)))
                    removed += 1
    return removed


def _look(root: bytes, may_open: Callable[[bytes, int], bool]) -> Survey:
    """Walk the whole workspace, folders that hide their inside from other tools included.

    `may_open` gets the path and mode of a folder that its owner may not fully use: whether to open it.
    """
    seen = Survey(mode=stat.S_IMODE(os.lstat(root).st_mode))
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        parts = set()
        for entry in _entries(root, folder, seen, may_open):
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.name in _PARTS:
                parts.add(entry.name)
            if entry.name.lower() == _OWN:
                with suppress(OSError):
                    seen.repositories[path] = _mark(Path(os.fsdecode(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                seen.special.add(path)
        if parts:
            seen.parts[folder] = parts
        if makes_repository({os.fsdecode(name) for name in parts}):
            with suppress(OSError):
                seen.bare[folder] = _mark(Path(os.fsdecode(root + b"/" + folder)))
    return seen


def _mark_of(place: Path) -> Mark | None:
    with suppress(OSError):
        return _mark(place)
    return None


def _mark(place: Path) -> Mark:
    target = os.fsencode(place.readlink()) if place.is_symlink() else None
    return Mark(inode=place.lstat().st_ino, born=_born(place), target=target)


def _born(place: Path) -> int:
    """When a file was made, by `statx(2)`, which Python does not have."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    about = ctypes.create_string_buffer(256)
    if statx is None or statx(_AT_FDCWD, os.fsencode(place), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, about) != 0:
        return 0
    mask = struct.unpack_from("I", about, 0)[0]
    seconds, nanoseconds = struct.unpack_from("qI", about, 80)
    return int(seconds) * 10**9 + int(nanoseconds) if mask & _STATX_BTIME else 0


def _entries(
    root: bytes, folder: bytes, seen: Survey, may_open: Callable[[bytes, int], bool]
) -> list[os.DirEntry[bytes]]:
    place = root + b"/" + folder if folder else root
    try:
        mode = stat.S_IMODE(os.lstat(place).st_mode)
        if mode & 0o700 != 0o700:
            if may_open(folder, mode):
                Path(os.fsdecode(place)).chmod(mode | 0o700)
            else:
                seen.shut.add(folder)
        with os.scandir(place) as entries:
            return list(entries)
    except PermissionError:
        seen.unread.add(folder)
    except OSError:  # gone, or deeper than a path can name, where git does not work either
        pass
    return []
