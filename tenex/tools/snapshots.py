"""Snapshots: the workspace at one moment, as a tree in the shadow repository.

git's index notes size and time of every file, so that only what changed is read, and git is not started where the
stamps of all files are those of the last snapshot (`file_stamps`). Not kept is what git would ignore, the
inside of folders that other programs fill, and what is too large or cannot be read: the tree has a file, `NOT_KEPT`,
that names all of it with the reason, and the permissions that git does not know. Folders that are repositories
themselves are taken like any other.
"""

import json
import os
import stat
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from . import restore
from .file_stamps import NEVER_KEPT, Stamps, folders_without_files, read_stamps
from .restore import Stamp
from .shadow_git import ShadowGit

LARGEST_KEPT: Final = 10 * 1024 * 1024
"""Bytes of one file: sources are smaller, and a copy of every build's output would fill the disk."""

NOT_KEPT: Final = b".tenex-not-kept"
"""The file in a tree with what it does not hold, a JSON object on each line. It is in no workspace."""

MOST_NAMED: Final = 10_000
"""Ignored paths and empty folders named there: a folder that is ignored as a whole is one, and each takes 50 bytes.
Of unusual permissions as many."""

UMASK: Final = 0o022
"""Of users, where none is set."""

IGNORE_FILE: Final = b".gitignore"

GIT_READS: Final = frozenset({IGNORE_FILE, b".gitattributes", b".gitmodules"})
"""Names git opens in any folder; it waits for ever if one is a pipe."""

GIT_READS_IN_REPOSITORIES: Final = frozenset({b"HEAD", b"packed-refs", b"commondir", b"config", b"index"})
"""Names git may open in folders that look like repositories; the same holds for them."""

_EMPTY_BLOB: Final = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_NESTED_DEPTH: Final = 8  # repositories inside repositories; each level costs one more look, deeper ones are left out
_NAMED_AT_ONCE: Final = 200  # folders in one command line, of at most 4096 bytes each
_AT_ONCE: Final = 100  # unreadable files that are open at the same time
_IGNORED: Final = "ignored"
_EMPTY: Final = "empty folder"
_PERMISSIONS: Final = "permissions"
_FILES: Final = (stat.S_IFREG, stat.S_IFLNK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the workspace held. Paths are relative to it, as the system names them."""

    tree: str
    unkept: Mapping[bytes, Stamp] = field(default_factory=dict)
    """Files that are not in the tree, and are watched."""
    ignored: frozenset[bytes] = frozenset()
    """What git ignores; a folder of which nothing else is known is one path, which ends with a slash."""
    ignored_files: Mapping[bytes, Stamp] = field(default_factory=dict)
    """Of the files among that: what would show that one was changed."""
    is_cut: bool = False
    """Whether more is ignored than is named here."""
    empty: frozenset[bytes] = frozenset()
    """Folders without files, and those in them."""
    permissions: Mapping[bytes, int] = field(default_factory=dict)
    """Of files in the tree and the folders they lie in, where they are not what the umask gives."""
    umask: int | None = None
    """None of an older version's: nothing is known of permissions then."""

    def permissions_of(self, path: bytes, mode: int) -> int | None:
        """Those of a file or folder that git knows by this mode; None where they are not known."""
        if self.umask is None or stat.S_ISLNK(mode):
            return None
        return self.permissions.get(path, usual_permissions(mode, self.umask))

    def was_ignored(self, path: bytes) -> bool:
        """Whether a path, or a folder it lies in, was ignored."""
        return is_covered(path, self.ignored)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The last snapshot, and by what it is known whether it still holds."""

    stamps: Stamps
    """Of before it was taken."""
    snapshot: Snapshot
    in_index: frozenset[bytes]
    """The paths in git's index."""


def usual_permissions(mode: int, umask: int) -> int:
    """Those that a new file or folder with this mode has."""
    is_program = bool(mode & 0o100)
    return (0o777 if is_program or stat.S_ISDIR(mode) else 0o666) & ~umask


def is_covered(path: bytes, listed: Container[bytes]) -> bool:
    """Whether a path is listed itself, or below a folder that is."""
    if path in listed:
        return True
    return any(folder + b"/" in listed for folder in folders_of(path))


def folders_of(path: bytes) -> Iterator[bytes]:
    """The folders a path lies in, from the inside."""
    folder = _above(path.removesuffix(b"/"))
    while folder:
        yield folder
        folder = _above(folder)


def reason(path: bytes, stamp: Stamp) -> str:
    """Why a file that is watched is not kept."""
    if path == NOT_KEPT or not _is_nameable(path):
        return "its name is reserved"
    if stat.S_ISREG(stamp[0]) and stamp[1] > LARGEST_KEPT:
        return size(stamp[1])
    return "unreadable"


def size(count: int) -> str:
    """A number of bytes as people read it."""
    units = ((1_000_000, "MB"), (1_000, "kB"))
    return next((f"{count / unit:.0f} {name}" for unit, name in units if count >= unit), f"{count} bytes")


class Snapshots:
    """Takes snapshots of one workspace. Blocks; one caller at a time."""

    def __init__(self, git: ShadowGit, umask: int = UMASK) -> None:
        self._git = git
        self._umask = umask
        self._root = os.fsencode(git.root) + b"/"
        self._written: tuple[tuple[int, ...], str] | None = None
        self._list = b""  # as the index has it, where it has one
        self._last: _Taken | None = None

    def take(self) -> Snapshot:
        """Take a snapshot. Where only contents of files have changed since the last one, git is told which.

        Raises:
            CheckpointFailed: there is none.
        """
        if self._written is None or self._written[0] != self._index_mark():
            self._list = b""  # another object over the same folder may have written it
            self._last = None
        last = self._last
        self._last = None  # as long as it is not known whether git succeeds
        stamps = read_stamps(self._root)  # before git looks: what changes meanwhile differs at the next snapshot
        changed = last.stamps.changed_files(stamps) if last is not None and stamps is not None else None

        if last is not None and changed is not None and all(self._is_simple(path, last.in_index) for path in changed):
            self._add(changed)
            snapshot = replace(last.snapshot, tree=self._tree())
            in_index = last.in_index
        else:
            snapshot, in_index = self._whole(stamps)
        if stamps is not None and not (stamps.closed and stamps.closed & _all_folders(in_index)):
            self._last = _Taken(stamps=stamps, snapshot=snapshot, in_index=in_index)
        return snapshot

    def _is_simple(self, path: bytes, in_index: Container[bytes]) -> bool:
        """Whether a change of a file's content changes nothing but the blob of its path."""
        if path not in in_index or path.rpartition(b"/")[2] in GIT_READS:
            return False
        stamp = self._stamp(path)
        is_file = stamp is not None and stat.S_ISREG(stamp[0]) and self._can_be_kept(path, stamp)
        return is_file and os.access(self._root + path, os.R_OK, follow_symlinks=False)

    def _whole(self, stamps: Stamps | None) -> tuple[Snapshot, frozenset[bytes]]:
        """A snapshot of all that git finds, and the paths in the index afterwards."""
        listed, known = self._listed()
        listed.pop(NOT_KEPT, None)
        fresh: list[bytes] = []
        shut: list[bytes] = []
        gone: list[bytes] = []
        folders: dict[bytes, bool] = {}
        unkept: dict[bytes, Stamp] = {}
        for path, is_in_index in listed.items():
            stamp = self._stamp(path)
            if stamp is not None and stat.S_IFMT(stamp[0]) in _FILES and self._is_folder(_above(path), folders):
                if self._can_be_kept(path, stamp):
                    is_readable = os.access(self._root + path, os.R_OK, follow_symlinks=False)
                    (fresh if is_readable else shut).append(path)
                    continue
                unkept[path] = stamp
            if is_in_index:
                gone.append(path)
        own_list = self._stamp(NOT_KEPT)
        if own_list is not None:
            unkept[NOT_KEPT] = own_list
        if gone:
            self._index(_no_entry(path) for path in gone)
        self._add(fresh)
        for start in range(0, len(shut), _AT_ONCE):
            fresh += self._add_shut(shut[start : start + _AT_ONCE], unkept)
        in_index = frozenset((*known, *fresh)).difference(gone, [NOT_KEPT], unkept)
        permissions = self._unusual_permissions(in_index, stamps)
        is_known = len(permissions) <= MOST_NAMED  # of a list that is cut nothing follows for what is not on it
        umask = self._umask if is_known else None
        permissions = permissions if is_known else {}
        ignored, empty = self._untracked(unkept)
        files = sorted(path for path in ignored if not path.endswith(b"/"))[:MOST_NAMED]
        about_files = ((path, self._stamp(path)) for path in files)
        ignored_files = {path: stamp for path, stamp in about_files if stamp is not None}
        listing = _listing(unkept, ignored, ignored_files, empty, permissions, umask)
        if listing != self._list:
            self._keep_list(listing)
        snapshot = Snapshot(
            tree=self._tree(),
            unkept=unkept,
            ignored=ignored,
            ignored_files=ignored_files,
            empty=empty,
            permissions=permissions,
            umask=umask,
        )
        return snapshot, in_index

    def read(self, trees: Sequence[str]) -> list[Snapshot]:
        """Snapshots that were taken earlier; of an older version's, what it did not keep is not known.

        Raises:
            CheckpointFailed: git failed.
        """
        if not trees:
            return []
        name = NOT_KEPT.decode()
        raw = self._git.run("cat-file", "--batch", feed="".join(f"{tree}:{name}\n" for tree in trees).encode())
        found = []
        at = 0
        for tree in trees:
            end = raw.index(b"\n", at)
            about = raw[at:end].split()
            at = end + 1
            if about[-1] == b"missing":
                found.append(Snapshot(tree=tree))
                continue
            size_of_list = int(about[-1])
            found.append(_with_list(tree, raw[at : at + size_of_list]))
            at += size_of_list + 1
        return found

    def drop_ignored(self, paths: Iterable[bytes]) -> set[bytes]:
        """Which of these paths are ignored now, though the last snapshot took them in; no later one does.

        Raises:
            CheckpointFailed: git failed.
        """
        raw = self._git.run("ls-files", "-z", "-c", "-i", "--exclude-standard")
        ignored = {path for path in raw.split(b"\0") if path.rpartition(b"/")[2] != IGNORE_FILE}.intersection(paths)
        if ignored:
            self._index(_no_entry(path) for path in ignored)
        return ignored

    def _listed(self) -> tuple[dict[bytes, bool], list[bytes]]:
        """The paths that differ from the index, and whether they are in it; and all that are in it."""
        known: list[bytes] = []
        never = [f"--exclude={pattern}" for pattern in NEVER_KEPT]  # as options, which no ignore file can undo
        for depth in range(_NESTED_DEPTH + 1):
            raw = self._git.run("ls-files", "-z", "-t", "-c", "-o", "-m", "-d", "--exclude-standard", *never)
            lines = [line for line in raw.split(b"\0") if line]
            known = [line[2:] for line in lines if line[:1] == b"H"]
            listed = {line[2:]: line[:1] != b"?" for line in lines if line[:1] != b"H"}
            nested = [path for path in listed if path.endswith(b"/") and _is_nameable(path)]
            if not nested or depth == _NESTED_DEPTH:
                break
            # git goes into a folder with a repository of its own only where its index has a file in it already
            self._index(b"100644 " + _EMPTY_BLOB + b"\t" + path + b".tenex-nested" for path in nested)
        return {path: is_known for path, is_known in listed.items() if not path.endswith(b"/")}, known

    def _untracked(self, unkept: Mapping[bytes, Stamp]) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """What is neither in the index nor watched: files and folders that hold some, and folders without files."""
        raw = self._git.run("ls-files", "-z", "-o", "--directory")
        ignored = {path for path in raw.split(b"\0") if path and path not in unkept}
        empty: set[bytes] = set()
        ignored -= self._take_empty(ignored, empty)

        # git names a folder whole here, though only a part of it is ignored or too large
        whole = {path for path in ignored if path.endswith(b"/")}
        if whole:
            options = ("--directory", "--exclude-standard", *(f"--exclude={pattern}" for pattern in NEVER_KEPT))
            named = [os.fsdecode(path) for path in whole] if len(whole) <= _NAMED_AT_ONCE else []
            raw = self._git.run("ls-files", "-z", "-o", "-i", *options, "--", *named)
            parts = {path for path in raw.split(b"\0") if path and path not in unkept}
            parts -= self._take_empty(parts, empty)
            ignored |= parts
            ignored -= {folder + b"/" for path in (*parts, *unkept) for folder in folders_of(path)}
        return frozenset(ignored), frozenset(empty)

    def _take_empty(self, paths: Iterable[bytes], empty: set[bytes]) -> set[bytes]:
        """Which of these are folders without files; they are added to the empty ones, with those in them."""
        taken = set()
        for path in paths:
            folders = folders_without_files(self._root, path) if path.endswith(b"/") else []
            empty.update(folders)
            if folders:
                taken.add(path)
        return taken

    def _keep_list(self, listing: bytes) -> None:
        blob = self._git.run("hash-object", "-w", "--no-filters", "--stdin", feed=listing).strip()
        self._index([b"100644 " + blob + b"\t" + NOT_KEPT])
        self._list = listing

    def _add(self, paths: Sequence[bytes]) -> None:
        if paths:
            self._git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", feed=_joined(paths))

    def _add_shut(self, paths: Iterable[bytes], unkept: dict[bytes, Stamp]) -> list[bytes]:
        """Add files that no one may read, as a command may leave them; those that are not ours are not kept."""
        added = []
        with ExitStack() as stack:
            for path in paths:
                try:
                    stack.enter_context(restore.readable(self._root + path))
                    added.append(path)
                except OSError:
                    stamp = self._stamp(path)
                    unkept |= {path: stamp} if stamp is not None else {}
                    self._index([_no_entry(path)])
            self._add(added)
        return added

    def _unusual_permissions(self, kept: Collection[bytes], stamps: Stamps | None) -> dict[bytes, int]:
        """Those of files and of the folders they lie in, where they are not what the umask gives."""
        kinds = (stat.S_IFREG, stat.S_IFREG | 0o100, stat.S_IFDIR)
        usual = {stat.S_IFMT(kind) | usual_permissions(kind, self._umask) for kind in kinds}
        unusual = {}
        for path in (*kept, *_all_folders(kept)):
            stamp = stamps.entries.get(path) if stamps is not None else None
            if stamp is None:
                stamp = self._stamp(path)
            if stamp is None:
                continue
            mode = stamp[0]
            if mode not in usual and path and stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR):
                unusual[path] = stat.S_IMODE(mode)
        return dict(sorted(unusual.items()))

    def _index(self, lines: Iterable[bytes]) -> None:
        self._git.run("update-index", "-z", "--index-info", feed=_joined(lines))

    def _tree(self) -> str:
        """The index as a tree; the last one where the index is still the same file."""
        if self._written is None or self._written[0] != self._index_mark():
            tree = self._git.run("write-tree").decode().strip()
            self._written = (self._index_mark(), tree)  # now, because writing a tree writes the index too
        return self._written[1]

    def _index_mark(self) -> tuple[int, ...]:
        """What shows that somebody else has written the index, or that git can no longer open the repository."""
        folder = self._git.folder
        marks: list[int] = []
        for name in ("index", "HEAD"):
            try:
                about = (folder / name).stat()
            except FileNotFoundError:  # nothing has ever been kept, or it was removed
                marks.append(0)
            else:
                marks += (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        return (*marks, (folder / "objects").is_dir(), (folder / "refs").is_dir())

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
        return stamp[1] <= LARGEST_KEPT


def _all_folders(paths: Iterable[bytes]) -> set[bytes]:
    """The folders that these paths lie in; the workspace itself is the empty path."""
    folders = {_above(path) for path in paths}
    above = folders
    while above:
        above = {_above(path) for path in above} - folders
        folders |= above
    return folders


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _listing(
    unkept: Mapping[bytes, Stamp],
    ignored: Iterable[bytes],
    ignored_files: Mapping[bytes, Stamp],
    empty: Iterable[bytes],
    permissions: Mapping[bytes, int],
    umask: int | None,
) -> bytes:
    """The content of `NOT_KEPT`."""
    lines: list[dict[str, object]] = [{"umask": umask}]
    for path, mode in permissions.items():
        lines.append({"path": os.fsdecode(path), "why": _PERMISSIONS, "mode": mode})
    for path, stamp in sorted(unkept.items()):
        lines.append({"path": os.fsdecode(path), "why": reason(path, stamp), **_about(stamp)})
    others = [*((path, _IGNORED) for path in sorted(ignored)), *((path, _EMPTY) for path in sorted(empty))]
    for path, why in others[:MOST_NAMED]:
        about = _about(ignored_files[path]) if path in ignored_files else {}
        lines.append({"path": os.fsdecode(path), "why": why, **about})
    if len(others) > MOST_NAMED:
        lines.append({"more": len(others) - MOST_NAMED})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _about(stamp: Stamp) -> dict[str, object]:
    return {"bytes": stamp[1], "mode": stamp[0], "time": stamp[2]}


def _with_list(tree: str, listing: bytes) -> Snapshot:
    unkept: dict[bytes, Stamp] = {}
    ignored = set()
    ignored_files: dict[bytes, Stamp] = {}
    empty = set()
    permissions = {}
    umask = None
    is_cut = False
    for line in listing.splitlines():
        entry = json.loads(line)
        if "path" not in entry:
            umask = entry.get("umask", umask)
            is_cut = is_cut or "more" in entry
            continue
        path = os.fsencode(entry["path"])
        why = entry["why"]
        if why == _EMPTY:
            empty.add(path)
        elif why == _IGNORED:
            ignored.add(path)
            if "time" in entry:
                ignored_files[path] = (entry["mode"], entry["bytes"], entry["time"])
        elif why == _PERMISSIONS:
            permissions[path] = entry["mode"]
        else:
            unkept[path] = (entry["mode"], entry["bytes"], entry["time"])
    # older versions named a folder so whose files are only too large
    watched = {folder + b"/" for path in unkept for folder in folders_of(path)}
    return Snapshot(
        tree=tree,
        unkept=unkept,
        ignored=frozenset(ignored - watched),
        ignored_files=ignored_files,
        is_cut=is_cut,
        empty=frozenset(empty),
        permissions=permissions,
        umask=umask,
    )


def _no_entry(path: bytes) -> bytes:
    return b"0 " + b"0" * 40 + b"\t" + path


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(part + b"\0" for part in parts)


def _is_nameable(path: bytes) -> bool:
    """Whether git takes a path: it wants no `.git` in one, in capitals neither."""
    return not any(name.lower() == b".git" for name in path.split(b"/"))
