"""Survey: what stands in the workspace that git does not tell of, before a command and after it.

That is, above all, repositories. A hook or a setting planted in one would run when a person, or their editor, next uses
git there. So those that are there are read-only to a command in the sandbox (`sandbox`), and one that came with it is
taken away before anybody, our own git included, looks at it.

Never: what git does tell; that is for `snapshots`.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import restoring
from .snapshots import GIT_READS, GIT_READS_IN_REPOSITORIES
from .workspace import HIDDEN, is_bare_repository

_OWN: Final = b".git"
_FOREIGN: Final = frozenset(os.fsencode(name) for name in HIDDEN)

Mark = tuple[int, bytes | None]
"""By which a repository is known again: the number of its inode, and where it leads if it is a link."""


@dataclass(slots=True, kw_only=True)
class Survey:
    """What stood in the workspace. Paths are relative to it, as the system names them."""

    mode: int
    """Permissions of the workspace's own folder."""
    repositories: dict[bytes, Mark] = field(default_factory=dict)
    """Everything named `.git`: folders, and the files and links that lead to one."""
    bare: set[bytes] = field(default_factory=set)
    """Folders that are repositories without being named so."""
    shut: set[bytes] = field(default_factory=set)
    """Folders their owner may not fully use."""
    special: set[bytes] = field(default_factory=set)
    """Pipes, sockets and devices."""

    def protected(self) -> list[bytes]:
        """What a command may not write to; links are left out, as nothing can be mounted over them."""
        return sorted({path for path, (_, link) in self.repositories.items() if link is None} | self.bare)


@dataclass(slots=True, kw_only=True)
class Settled:
    """What was not left as a command had left it."""

    removed: list[bytes] = field(default_factory=list)
    """Repositories that came with it; one that stood in another's place has been given another name."""
    lost: list[bytes] = field(default_factory=list)
    """Those that are gone, and cannot be brought back."""


def take(root: Path) -> Survey:
    """Look at the whole workspace; what cannot be read is not looked into."""
    return _look(os.fsencode(root), may_open=None)


def settle(root: Path, before: Survey, *, confined: bool) -> Settled:
    """Take away what a command may not leave behind, once all its processes are gone.

    Args:
        root: the workspace.
        before: what stood there before the command.
        confined: whether nothing else may stay either: pipes go, folders it shut are opened, so that git sees what is
            in them, and repositories it moved go back.
    """
    place = os.fsencode(root)
    if stat.S_IMODE(root.lstat().st_mode) != before.mode:
        root.chmod(before.mode)
    after = _look(place, may_open=before.shut if confined else None)
    known = {mark: path for path, mark in before.repositories.items()}
    settled = Settled()
    strangers = {path: mark for path, mark in after.repositories.items() if before.repositories.get(path) != mark}
    for path, mark in strangers.items():
        if mark not in known:
            with suppress(OSError):
                if path in before.repositories:  # should it be the person's after all, it must not be lost
                    restoring.rename(root, path, path + b".replaced-" + secrets.token_hex(4).encode())
                else:
                    restoring.remove_tree(root, path)
                settled.removed.append(path)
    moved = {mark: path for path, mark in strangers.items() if mark in known}
    for mark, path in known.items():
        if after.repositories.get(path) == mark or (mark in moved and not confined):
            continue
        try:
            if mark in moved:
                restoring.rename(root, moved[mark], path)
            elif mark[1] is not None:
                restoring.write(root, path, mark[1], restoring.LINK)
            else:
                settled.lost.append(path)
        except OSError:
            settled.lost.append(path)
    for path in after.special - before.special:
        if confined or path.rpartition(b"/")[2] in GIT_READS:
            with suppress(OSError):
                restoring.remove_tree(root, path)
    return settled


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
                    restoring.remove_tree(root, os.path.relpath(entry.path, os.fsencode(root)))
                    removed += 1
    return removed


def _look(root: bytes, *, may_open: set[bytes] | None) -> Survey:
    """Walk the workspace; shut folders that are not in `may_open` are opened, unless that is None."""
    seen = Survey(mode=stat.S_IMODE(os.lstat(root).st_mode))
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        inside = list(_entries(root, folder, seen, may_open))
        names = {entry.name for entry in inside}
        if folder and b"HEAD" in names and is_bare_repository(Path(os.fsdecode(root + b"/" + folder))):
            seen.bare.add(folder)
            continue
        is_foreign = folder.rpartition(b"/")[2].lower() in _FOREIGN
        for entry in inside:
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.name.lower() == _OWN:
                with suppress(OSError):
                    seen.repositories[path] = _mark(Path(os.fsdecode(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                if not is_foreign:  # their own `.git` is looked for, because git does
                    waiting.append(path)
            elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                seen.special.add(path)
    return seen


def _mark(place: Path) -> Mark:
    link = os.fsencode(place.readlink()) if place.is_symlink() else None
    return place.lstat().st_ino, link


def _entries(root: bytes, folder: bytes, seen: Survey, may_open: set[bytes] | None) -> Iterator[os.DirEntry[bytes]]:
    place = root + b"/" + folder if folder else root
    with suppress(OSError):  # gone, not ours to open, or deeper than a path can say
        mode = stat.S_IMODE(os.lstat(place).st_mode)
        if mode & 0o700 != 0o700:
            if may_open is None or folder in may_open:
                seen.shut.add(folder)
            else:
                Path(os.fsdecode(place)).chmod(mode | 0o700)
        with os.scandir(place) as entries:
            yield from entries
