"""A view: the workspace as the programs of one turn see it, which may change it as they like while it stays as it is.

    workspace ─────────── below, only read ──┐
    upper, a folder of the turn ── above ────┴─► an overlay in the place of the workspace, in the sandbox of a program
    tmp, a folder of the turn ─────────────────► /tmp there

What programs write is in the upper folder: the next program of the turn sees it, and no other. Entries there have
the paths that they have in the workspace. A file that was deleted is a character device 0:0 (a whiteout), and a folder
that hides what is below it has the attribute `user.overlay.opaque`. Programs in the sandbox can make neither.

Where the system has no overlay, the view is a full copy in the place of the workspace, if it is small enough, else
the workspace itself, read-only. Which way works is found by running a program in it (`turn_views`).
"""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from . import restore
from .shared_namespaces import CannotShare, SharedNamespaces, make
from .workspace import FILE

LAUNCHER: Final = Path(__file__).with_name("namespaces.py")

COPIED_AT_ONCE: Final = 1 << 20
"""Bytes."""

COPY_DEADLINE: Final = 60.0
"""Seconds: a GiB takes about ten."""

_OPAQUE: Final = "user.overlay.opaque"
_ORIGIN: Final = "user.overlay.origin"
"""What a file that was copied from below has, and a new one has not."""


class Way(StrEnum):
    """How a view is made."""

    OVERLAY = "overlay"
    """By our own program, before bubblewrap."""
    BUBBLEWRAP = "bubblewrap"
    """By the overlay of bubblewrap itself (since 0.11), which may be permitted where ours is not."""
    COPY = "copy"
    READ_ONLY = "read-only"
    """The workspace itself, which programs cannot write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A path that programs have changed in a view, relative to the workspace."""

    path: bytes
    is_there: bool
    """Whether it exists in the view."""
    is_file: bool
    """Whether it is, or was, a plain file."""
    is_new: bool
    """Whether the workspace did not have it when it was written."""


@dataclass(slots=True, eq=False, kw_only=True)
class WorkspaceView:
    """One view. All methods block; one program at a time may use it, unless it takes several."""

    root: Path
    """The workspace, its real path."""
    folder: Path
    """Of this view alone; it is on a disk that takes the upper folder of an overlay."""
    way: Way
    began: int = 0
    """When its last program began, by `clock`."""
    shared: SharedNamespaces | None = None
    """What its programs run in from now on, where several of them may run at once."""
    takes_several: bool = False
    """Whether several programs may run in it at once."""
    _named: set[bytes] = field(default_factory=set)
    _copied: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    """Of a copy: what there was when it was made."""

    @property
    def upper(self) -> Path:
        """What programs have written; of a copy, all of it."""
        return self.folder / "upper"

    @property
    def tmp(self) -> Path:
        """What programs see as /tmp."""
        return self.folder / "tmp"

    @property
    def nowhere(self) -> Path:
        """An empty folder: where paths lie that were deleted."""
        return self.folder / "nowhere"

    @property
    def can_write(self) -> bool:
        """Whether programs can write to the workspace that they see."""
        return self.way is not Way.READ_ONLY

    def make(self) -> None:
        """Make its folders, and the copy.

        Raises:
            OSError: the disk does not take it.
            subprocess.SubprocessError: the copy was not made in time.
        """
        self.folder.mkdir(mode=0o700, parents=True)
        self.tmp.mkdir()
        (self.tmp / "home").mkdir()
        self.nowhere.mkdir()
        if self.way is Way.COPY:
            self._copy()
            self._copied = dict(_stamps(os.fsencode(self.upper)))
        else:
            self.upper.mkdir()
            shutil.copystat(self.root, self.upper)

    def _copy(self) -> None:
        """Copy the workspace; of what the daemon may not read, programs see an empty file that they may not read."""
        began = self.clock()
        line = ["cp", "-a", "--reflink=auto", "--", f"{self.root}/.", str(self.upper)]
        done = subprocess.run(line, check=False, timeout=COPY_DEADLINE, capture_output=True)
        if done.returncode == 0:
            return
        root = os.fsencode(self.root)
        upper = os.fsencode(self.upper)
        waiting = [b""]
        for folder in waiting:
            for name in _entries(root + b"/" + folder):
                path = folder + b"/" + name if folder else name
                there = _lstat(root + b"/" + path)
                copy = _lstat(upper + b"/" + path)
                if there is None:
                    continue
                if stat.S_ISDIR(there.st_mode):
                    os.makedirs(upper + b"/" + path, exist_ok=True)  # noqa: PTH103 - bytes
                    waiting.append(path)
                elif stat.S_ISREG(there.st_mode) and not os.access(root + b"/" + path, os.R_OK):
                    with suppress(FileExistsError):
                        os.close(os.open(upper + b"/" + path, os.O_CREAT | os.O_EXCL, 0))
                elif there.st_ctime_ns < began and (copy is None or copy.st_size != there.st_size):
                    done.check_returncode()

    def descriptors(self, *, network: bool = False) -> tuple[int, ...]:
        """The open files that a program gets which is started in it, or with `network` in that of the machine."""
        return self.shared.descriptors(network=not network) if self.shared is not None else ()

    def share(self, *, network: bool, is_sandboxed: bool) -> None:
        """Have several programs at once run in it from now on, in namespaces of their own.

        Args:
            network: whether these have a network, with nothing but a loopback.
            is_sandboxed: whether the programs run in bubblewrap.

        Raises:
            CannotShare: it takes one program at a time.
            OSError: the folder of an overlay's own use cannot be made again.
        """
        layers: list[Path] = []
        if self.way is Way.OVERLAY:
            work = self.folder / "work"
            _make_empty(work)
            layers = [self.upper, work]
        if self.way is Way.BUBBLEWRAP:
            raise CannotShare("each program mounts an overlay of its own")
        try:
            self.shared = make(self.root, network=network, overlay=layers, is_sandboxed=is_sandboxed)
        except CannotShare:
            if layers:
                raise
        self.takes_several = True

    def launch(self, *, can_write: bool = True, network: bool = False) -> tuple[list[str], list[str]]:
        """What is put before the command of the sandbox, and its options for the workspace; for one program.

        With `network` the program stays in the network of the machine.

        Raises:
            OSError: the folder of an overlay's own use cannot be made again.
        """
        place = str(self.root)
        self.began = self.clock()
        work = self.folder / "work"
        line: list[str] = []
        mount = ["--bind", place, place]
        if self.shared is not None:
            line = self.shared.joining(network=not network and self.shared.has_network)
        match self.way:
            case Way.OVERLAY if self.shared is None:
                _make_empty(work)  # one that a volatile overlay has used is not taken again
                line = [sys.executable, "-I", "-S", "-B", str(LAUNCHER), "overlay", place, str(self.upper), str(work)]
            case Way.BUBBLEWRAP:
                _make_empty(work)
                mount = ["--overlay-src", place, "--overlay", str(self.upper), str(work), place]
            case Way.COPY:
                mount = ["--bind", str(self.upper), place]
        if not can_write or self.way is Way.READ_ONLY:
            mount += ["--remount-ro", place]
        return line, mount

    def remove(self) -> None:
        """Remove all of it, whatever programs did to it; none runs in it any more."""
        restore.clear_away(self.folder)

    def clock(self) -> int:
        """Now, in nanoseconds, as the system notes it for files."""
        mark = self.folder / "clock"
        mark.touch()
        os.utime(mark)
        return mark.stat().st_ctime_ns

    def written(self) -> Iterator[Written]:
        """What differs from the workspace, sorted by path; what was only touched is left out."""
        if self.way is Way.READ_ONLY:
            return iter(())
        return self._of_copy() if self.way is Way.COPY else self._of_layer(b"", hides=False)

    def read(self, path: bytes, most: int) -> tuple[bytes, int]:
        """The content and the permissions of a plain file.

        Raises:
            OSError: it cannot be read, or has more bytes than `most`.
        """
        opened = os.open(os.fsencode(self.upper) + b"/" + path, FILE)
        with os.fdopen(opened, "rb") as file:
            content = file.read(most + 1)
            mode = stat.S_IMODE(os.fstat(opened).st_mode) & 0o777
        if len(content) > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return content, mode

    def has_below(self, path: bytes) -> bool:
        """Whether the workspace has something at a path."""
        return _lstat(os.fsencode(self.root) + b"/" + path) is not None

    def folder_below(self, path: bytes) -> bytes:
        """The nearest folder above a path that the workspace has."""
        folder = path.rpartition(b"/")[0]
        while folder and not self.has_below(folder):
            folder = folder.rpartition(b"/")[0]
        return folder

    def not_named(self, paths: Iterable[bytes]) -> list[bytes]:
        """Those of the paths that were not given to this before."""
        fresh = [path for path in paths if path not in self._named]
        self._named.update(fresh)
        return fresh

    def forget(self, paths: Iterable[bytes]) -> None:
        """Show these files as the workspace has them now."""
        for path in paths:
            with suppress(OSError):
                self._forget(path)

    def _forget(self, path: bytes) -> None:
        place = os.fsencode(self.upper) + b"/" + path
        if _lstat(place) is not None:
            os.unlink(place)  # noqa: PTH108 - bytes
        if self.way is Way.COPY:
            below = os.fsencode(self.root) + b"/" + path
            self._copied.pop(path, None)
            if _lstat(below) is not None:
                os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
                shutil.copy2(below, place, follow_symlinks=False)
                self._copied[path] = _stamp(os.lstat(place))

    def _of_layer(self, folder: bytes, *, hides: bool) -> Iterator[Written]:
        """What is in a folder of the upper layer; `hides` where nothing is seen below it."""
        upper = os.fsencode(self.upper)
        root = os.fsencode(self.root)
        for entry in _entries_of_ours(upper + b"/" + folder):
            path = folder + b"/" + entry if folder else entry
            there = _lstat(upper + b"/" + path)
            below = None if hides else _lstat(root + b"/" + path)
            if there is None:
                continue
            if is_whiteout(there):
                yield from self._removed(path, below)
            elif stat.S_ISDIR(there.st_mode):
                is_merged = below is not None and stat.S_ISDIR(below.st_mode)
                if not is_merged or is_opaque(upper + b"/" + path):
                    yield from (
                        gone for gone in self._removed(path, below) if not _holds_file(upper + b"/" + gone.path)
                    )
                yield from self._of_layer(path, hides=not is_merged)
            else:
                if below is not None and stat.S_ISDIR(below.st_mode):
                    yield from self._removed(path, below)
                    below = None
                if below is None or not _is_same(root + b"/" + path, below, upper + b"/" + path, there):
                    yield Written(
                        path=path,
                        is_there=True,
                        is_file=stat.S_ISREG(there.st_mode),
                        is_new=below is None and not _was_below(upper + b"/" + path),
                    )

    def _removed(self, path: bytes, below: os.stat_result | None) -> Iterator[Written]:
        """The files that were removed with a path."""
        if below is None:
            return
        if not stat.S_ISDIR(below.st_mode):
            yield Written(path=path, is_there=False, is_file=stat.S_ISREG(below.st_mode), is_new=False)
            return
        for entry in _entries(os.fsencode(self.root) + b"/" + path):
            inner = path + b"/" + entry
            yield from self._removed(inner, _lstat(os.fsencode(self.root) + b"/" + inner))

    def _of_copy(self) -> Iterator[Written]:
        now = dict(_stamps(os.fsencode(self.upper)))
        for path in sorted(now.keys() | self._copied.keys()):
            was = self._copied.get(path)
            is_ = now.get(path)
            if was != is_:
                mode = (is_ or was or (0,))[0]
                yield Written(path=path, is_there=is_ is not None, is_file=stat.S_ISREG(mode), is_new=was is None)


def is_changed_since(root: Path, path: bytes, moment: int) -> bool:
    """Whether a file was changed at or after a moment of `WorkspaceView.clock`: a program cannot set its ctime."""
    about = _lstat(os.fsencode(root) + b"/" + path)
    return about is not None and about.st_ctime_ns >= moment


def unmapped(root: Path, most: int = 1_000_000) -> Path | None:
    """A file that cannot be written in an overlay of a plain user, because its owner or group is another one.

    Root maps all ids, and then there is none. It looks at `most` files.
    """
    user = os.geteuid()
    if user == 0:
        return None
    group = os.getegid()
    waiting = [root]
    for folder in waiting:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                most -= 1
                about = entry.stat(follow_symlinks=False)
                if about.st_uid != user or about.st_gid != group:
                    return Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
        if most < 0:
            return None
    return None


def is_at_most(root: Path, most_bytes: int, most_files: int) -> bool:
    """Whether a folder has at most so many bytes and files."""
    waiting = [root]
    for folder in waiting:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                most_files -= 1
                most_bytes -= entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
        if most_bytes < 0 or most_files < 0:
            return False
    return True


def _make_empty(folder: Path) -> None:
    restore.clear_away(folder)
    folder.mkdir()


def _entries(folder: bytes) -> list[bytes]:
    """The names in a folder; none in one that is gone, or that the daemon may not read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - bytes
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _entries_of_ours(folder: bytes) -> list[bytes]:
    """The names in a folder of a view, which is opened where a program has shut it."""
    if not os.access(folder, os.R_OK | os.X_OK):
        with suppress(OSError):
            os.chmod(folder, 0o700)  # noqa: PTH101 - bytes
    return _entries(folder)


def _lstat(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def is_whiteout(about: os.stat_result) -> bool:
    """Whether an entry of an upper folder means that the path was deleted."""
    return stat.S_ISCHR(about.st_mode) and about.st_rdev == 0


def is_opaque(folder: bytes) -> bool:
    """Whether a folder in an upper folder hides what the workspace has in it."""
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _was_below(path: bytes) -> bool:
    try:
        os.getxattr(path, _ORIGIN, follow_symlinks=False)
    except OSError:
        return False
    return True


def _holds_file(path: bytes) -> bool:
    about = _lstat(path)
    return about is not None and not stat.S_ISDIR(about.st_mode) and not is_whiteout(about)


def _stamp(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)


def _stamps(root: bytes) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """What there is of each file below a folder of a view, links and pipes too."""
    waiting = [b""]
    for folder in waiting:
        for name in _entries_of_ours(root + b"/" + folder):
            path = folder + b"/" + name if folder else name
            about = _lstat(root + b"/" + path)
            if about is None:
                continue
            if stat.S_ISDIR(about.st_mode):
                waiting.append(path)
            else:
                yield path, _stamp(about)


def _is_same(one: bytes, a: os.stat_result, other: bytes, b: os.stat_result) -> bool:
    if a.st_mode != b.st_mode:
        return False
    if stat.S_ISLNK(a.st_mode):
        return os.readlink(one) == os.readlink(other)  # noqa: PTH115
    if not stat.S_ISREG(a.st_mode):
        return True
    if a.st_size != b.st_size:
        return False
    try:
        with open(one, "rb") as first, open(other, "rb") as second:  # noqa: PTH123
            while block := first.read(COPIED_AT_ONCE):
                if block != second.read(COPIED_AT_ONCE):
                    return False
    except OSError:  # gone meanwhile, or the daemon may not read it
        return False
    return True
