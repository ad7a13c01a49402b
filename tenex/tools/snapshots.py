"""Snapshots: the workspace at one moment, as a tree in the shadow repository.

git's index notes size and time of every file, so that only what changed is read. Left out is what git would ignore,
the inside of folders that other programs fill, and what is too large or cannot be read: of that, mode, size and time
are noted instead. Folders that are repositories themselves are taken like any other.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .shadow_git import ShadowGit
from .workspace import HIDDEN

LARGEST_KEPT: Final = 10 * 1024 * 1024
"""Bytes of one file: sources are smaller, and a copy of every build's output would fill the disk."""

IGNORE_FILE: Final = b".gitignore"

GIT_READS: Final = frozenset({IGNORE_FILE, b".gitattributes", b".gitmodules"})
"""Names git opens in any folder; it waits for ever if one is a pipe."""

NEVER_KEPT: Final = tuple(sorted(HIDDEN - {".git"}))
"""As patterns of git's; `.git` itself is left out by git."""

GIT_READS_IN_REPOSITORIES: Final = frozenset({b"HEAD", b"packed-refs", b"commondir", b"config", b"index"})
"""Names git may open in folders that look like repositories; the same holds for them."""

Stamp = tuple[int, int, int]
"""What would show that a file has changed: mode, size, time in nanoseconds."""

_EMPTY_BLOB: Final = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_NESTED_DEPTH: Final = 8  # repositories inside repositories; each level costs one more look, deeper ones are left out
_FILES: Final = (stat.S_IFREG, stat.S_IFLNK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the workspace held. Paths are relative to it, as the system names them."""

    tree: str
    unkept: Mapping[bytes, Stamp] = field(default_factory=dict)
    """Files that are not in the tree."""
    permissions: Mapping[bytes, int] = field(default_factory=dict)
    """Of every file in the tree and the folders they lie in; exact snapshots only."""
    hidden: frozenset[bytes] = frozenset()
    """Ignore files that were themselves ignored until this snapshot took them in; exact ones only."""


class Snapshots:
    """Takes snapshots of one workspace. Blocks; one caller at a time."""

    def __init__(self, git: ShadowGit) -> None:
        self._git = git
        self._root = os.fsencode(git.root) + b"/"
        self._written: tuple[tuple[int, ...], str] | None = None

    def take(self, *, exact: bool) -> Snapshot:
        """Take a snapshot.

        Args:
            exact: also note permissions, and take in every ignore file, so that a new one cannot hide anything.

        Raises:
            CheckpointFailed: there is none.
        """
        listed, known = self._listed(exact=exact)
        hidden = self._hidden_ignore_files(listed) if exact else frozenset()
        fresh, gone, folders = [], [], dict[bytes, bool]()
        unkept: dict[bytes, Stamp] = {}
        for path, is_known in {**dict.fromkeys(hidden, False), **listed}.items():
            stamp = self._stamp(path)
            if stamp is not None and stat.S_IFMT(stamp[0]) in _FILES and self._is_folder(_above(path), folders):
                if self._can_be_kept(path, stamp):
                    fresh.append(path)
                    continue
                unkept[path] = stamp
            if is_known:
                gone.append(path)
        if gone:
            self._index(b"0 " + b"0" * 40 + b"\t" + path for path in gone)
        if fresh:
            self._git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=_joined(fresh))
        permissions = self._permissions({*known, *fresh} - {*gone}) if exact else {}
        return Snapshot(tree=self._tree(), unkept=unkept, permissions=permissions, hidden=hidden)

    def _listed(self, *, exact: bool) -> tuple[dict[bytes, bool], set[bytes]]:
        """The paths that differ from the index, and whether they are in it; and, if exact, all that are in it."""
        known: set[bytes] = set()
        also = ["-c"] if exact else []
        never = [f"--exclude={pattern}" for pattern in NEVER_KEPT]  # as options, which no ignore file can undo
        for depth in range(_NESTED_DEPTH + 1):
            raw = self._git.run("ls-files", "-z", "-t", "-o", "-m", "-d", "--exclude-standard", *also, *never)
            lines = [line for line in raw.split(b"\0") if line]
            known = {line[2:] for line in lines if line[:1] == b"H"}
            listed = {line[2:]: line[:1] != b"?" for line in lines if line[:1] != b"H"}
            nested = [path for path in listed if path.endswith(b"/") and _is_nameable(path)]
            if not nested or depth == _NESTED_DEPTH:
                break
            # git goes into a folder with a repository of its own only where its index has a file in it already
            self._index(b"100644 " + _EMPTY_BLOB + b"\t" + path + b".tenex-nested" for path in nested)
        return {path: is_known for path, is_known in listed.items() if not path.endswith(b"/")}, known

    def _hidden_ignore_files(self, listed: Mapping[bytes, bool]) -> frozenset[bytes]:
        pattern = f":(glob)**/{IGNORE_FILE.decode()}"
        raw = self._git.run("ls-files", "-z", "-o", "-X", str(self._git.exclude), "--", pattern, literal=False)
        return frozenset(path for path in raw.split(b"\0") if path and path not in listed and not path.endswith(b"/"))

    def _permissions(self, kept: Iterable[bytes]) -> dict[bytes, int]:
        paths = dict.fromkeys(sorted(kept))
        folders = dict.fromkeys(_above(path) for path in paths)
        while folders:
            paths |= folders
            folders = dict.fromkeys(_above(path) for path in folders if _above(path) not in paths)
        stamps = ((path, self._stamp(path)) for path in paths if path)
        return {
            path: stat.S_IMODE(stamp[0])
            for path, stamp in stamps
            if stamp is not None and stat.S_IFMT(stamp[0]) in (stat.S_IFREG, stat.S_IFDIR)
        }

    def _index(self, lines: Iterable[bytes]) -> None:
        self._git.run("update-index", "-z", "--index-info", feed=_joined(lines))

    def _tree(self) -> str:
        """The index as a tree; the last one where the index is still the same file."""
        if self._written is None or self._written[0] != self._index_mark():
            tree = self._git.run("write-tree").decode().strip()
            self._written = (self._index_mark(), tree)  # now, because writing a tree writes the index too
        return self._written[1]

    def _index_mark(self) -> tuple[int, ...]:
        try:
            about = (self._git.folder / "index").stat()
        except FileNotFoundError:  # nothing has ever been kept
            return ()
        return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)

    def _stamp(self, path: bytes) -> Stamp | None:
        try:
            about = os.lstat(self._root + path)
        except OSError:  # gone, or in a folder that has been shut, which is as good
            return None
        return (about.st_mode, about.st_size, about.st_mtime_ns)

    def _is_folder(self, path: bytes, known: dict[bytes, bool]) -> bool:
        """Whether a path leads there without a link: git keeps nothing behind one."""
        if not path:
            return True
        if path not in known:
            stamp = self._stamp(path) if self._is_folder(_above(path), known) else None
            known[path] = stamp is not None and stat.S_ISDIR(stamp[0])
        return known[path]

    def _can_be_kept(self, path: bytes, stamp: Stamp) -> bool:
        if not _is_nameable(path):
            return False
        if stat.S_ISLNK(stamp[0]):
            return True
        return stamp[1] <= LARGEST_KEPT and os.access(self._root + path, os.R_OK)


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(part + b"\0" for part in parts)


def _is_nameable(path: bytes) -> bool:
    """Whether git takes a path: it wants no `.git` in one, in capitals neither."""
    return not any(name.lower() == b".git" for name in path.split(b"/"))
