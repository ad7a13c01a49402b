"""The workspace: one folder, and the only way in and out of it.

A path is checked twice. `resolve` follows links and refuses whatever ends outside; then each file is opened folder by
folder from the root without following any link, so one that is slipped in between is refused by the kernel.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import sys
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from .git_config import read_by_git, repositories_around
from .tool import Refusal
from .turn_queue import TurnQueue
from .umask import NEW_FILE, NEW_FOLDER, give_rights, process_umask
from .witness import OwnWrites

LONGEST_PATH: Final = 1_000
"""Characters: deep enough for any project, and it bounds the folders one call can make."""

HIDDEN: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})
"""Folders that are never listed or searched: other programs wrote them, and they drown what people wrote."""

REPOSITORY_PARTS: Final = ("HEAD", "commondir", "objects", "refs")
"""By these entries git knows a folder as a repository, without a `.git`."""

HALF_WRITTEN: Final = ".tenex-"
"""How the names of files begin that are being written; they are never listed, and nothing of them is kept."""

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder, and a new file, are opened: never through a link."""
_HIDDEN_KINDS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are not seen, and halves of pairs."""
_JOINERS: Final = "\u200c\u200d"
"""Parts of words in some scripts, and of emoji."""
_NOTATION: Final = re.compile(
    r"~|\$\{?[A-Z_][A-Z0-9_]*\}?|%\w+%"  # the home folder, variables of a shell and of Windows
    r"|.*(?:\$\(|%[0-9A-Fa-f]{2}|[\\`\"]).*"  # commands, URLs, other separators, quotes
    r"|\s.*|.*\s",
    re.DOTALL,
)
_NOTATION_AT_START: Final = re.compile(r"~.*|['<].*|[A-Za-z][A-Za-z0-9+.-]*:", re.DOTALL)
"""Another user's home folder, quotes, and the schemes of URLs or drives of Windows."""
_Name = TypeVar("_Name", str, bytes)
# a pipe that took a file's place must fail the check below, not wait for a writer
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DOCUMENT_SUFFIXES: Final = frozenset({".md", ".rst", ".adoc"})
_DOCUMENT_NAME: Final = re.compile(r"(readme|changelog|contributing|licen[sc]e|notice|authors|security)([-_.].*)?")


def digest(content: bytes) -> str:
    """The sha256 by which a file's content is known, in hex."""
    return hashlib.sha256(content).hexdigest()


def is_documentation(path: str) -> bool:
    """Whether a path, relative to the workspace, is documentation by its name or its folder."""
    pure = PurePosixPath(path.lower())
    if pure.suffix in _DOCUMENT_SUFFIXES or (len(pure.parts) > 1 and pure.parts[0] in ("doc", "docs")):
        return True
    return pure.suffix in ("", ".txt") and _DOCUMENT_NAME.fullmatch(pure.name) is not None


def is_venv(folder: Path) -> bool:
    """Whether a folder is a virtual environment of Python, whatever it is called."""
    return os.path.lexists(folder / "pyvenv.cfg")


def makes_repository(names: Collection[str]) -> bool:
    """Whether git takes a folder with these entries for a repository, whatever it is called (git's `setup.c`).

    What kind they are does not count: git takes links and files for most of them too.
    """
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def is_bare_repository(folder: Path, also: str = "") -> bool:
    """Whether git takes a folder for a repository by what it holds, or would with an entry of the name `also`."""
    there = {name for name in REPOSITORY_PARTS if name.lower() == also.lower() or os.path.lexists(folder / name)}
    return makes_repository(there)


class Workspace:
    """A folder that paths of a model cannot leave. All methods block; call them off the loop."""

    def __init__(self, root: Path, *, umask: int | None = None) -> None:
        """Take a folder that the settings' check has passed; the umask is the process's unless given."""
        self._given = root.absolute()
        self.root: Final = root.resolve()
        self.umask: Final = process_umask() if umask is None else umask
        """For all that is made in it, also by the programs that run in it."""
        self.turn: Final = TurnQueue()
        """Held by a call that changes or runs, for as long as it does; the methods here do not ask for it."""
        prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
        self._ours = [prefix for prefix in prefixes if prefix.is_relative_to(self.root)]
        self._changing = threading.Lock()  # two agents of one turn may change the same file
        self._writes: OwnWrites | None = None

    @contextmanager
    def watched(self) -> Iterator[OwnWrites]:
        """Note what the methods here write within the block; for who has the turn."""
        self._writes = OwnWrites(self.root)
        try:
            yield self._writes
        finally:
            self._writes = None

    def resolve(self, path: str) -> Path:
        """The real path of what a model calls a path, links followed; it need not exist.

        Raises:
            Refusal: it is no path, leads outside or into `.git`, or is neither file nor folder.
        """
        names = self._names(path)
        with _refusing(path):
            real = self._real(names)
            if not real.is_relative_to(self.root):
                raise Refusal(f"{path} leads outside the workspace; only files inside it can be used.")
            if any(name.lower() == ".git" for name in real.relative_to(self.root).parts):
                raise Refusal(f"{path} lies in `.git`, which belongs to git; leave it alone.")
            for folder in (real, *real.parents[: len(real.relative_to(self.root).parts)]):
                if is_bare_repository(self._place(folder)):
                    raise Refusal(f"{path} lies in a repository of git's without a work tree; leave it alone.")
            place = self.root
            for name in names:
                place = place / name
                if self._place(place).is_symlink() and not self._exists(place):
                    raise Refusal(f"{path} goes through a link that leads nowhere; name the file itself.")
            with suppress(FileNotFoundError, NotADirectoryError):
                mode = self._place(real).lstat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise Refusal(f"{path} is neither a file nor a folder (a device, pipe or socket); leave it alone.")
        return real

    def entry(self, path: str) -> Path:
        """Turn what a model calls a path into the real place of that name; a link there is not followed.

        Raises:
            Refusal: as `resolve`, or it is the workspace itself.
        """
        names = self._names(path)
        if not names:
            raise Refusal("That is the workspace's own folder; name a file in it.")
        if names[-1].lower() == ".git":
            raise Refusal(f"{path} belongs to git; leave it alone.")
        return self.resolve(PurePosixPath(*names[:-1]).as_posix()) / names[-1]

    def _real(self, names: tuple[str, ...]) -> Path:
        """The path below the root without links; it leads elsewhere if a link does."""
        return Path(os.path.realpath(self.root.joinpath(*names)))

    def _place(self, real: Path) -> Path:
        """Where a path of the workspace lies on disk."""
        return real

    def _names_in(self, folder: Path) -> Collection[str]:
        """The names of what is in a folder; none where it is missing or cannot be read."""
        try:
            return os.listdir(folder)  # noqa: PTH208 - names are all that is asked
        except OSError:
            return ()

    def _exists(self, place: Path) -> bool:
        """Whether there is something at a path, links followed."""
        return os.access(place, os.F_OK)

    def _names(self, path: str) -> tuple[str, ...]:
        shown = path[:80]
        if not path.strip():
            raise Refusal("The path is empty; name a file relative to the workspace, such as `src/app.py`.")
        if len(path) > LONGEST_PATH:
            raise Refusal(f"The path is longer than {LONGEST_PATH} characters; choose a shorter one.")
        if hidden := [char for char in path if unicodedata.category(char) in _HIDDEN_KINDS and char not in _JOINERS]:
            code = f"U+{ord(hidden[0]):04X}"
            raise Refusal(f"The path holds a character that no file name should have (the control character {code}).")
        pure = PurePosixPath(path)
        if ".." in pure.parts:
            raise Refusal(f"{shown} contains `..`; name the file by its path from the workspace's root.")
        if pure.is_absolute():
            inside = next((root for root in (self.root, self._given) if pure.is_relative_to(root)), None)
            if inside is None:
                raise Refusal(f"{shown} lies outside the workspace; name a file relative to it, {self.root}.")
            pure = pure.relative_to(inside)
        names = self._as_on_disk(pure.parts, shown)
        self._refuse_other_notations(names, shown)
        return names

    def _as_on_disk(self, names: tuple[str, ...], shown: str) -> tuple[str, ...]:
        """The names as their folders spell them: `é` may be one character or two, and they look the same.

        Raises:
            Refusal: there are several spellings, and none is that of the path.
        """
        spelled: list[str] = []
        for name in names:
            alike = [name]
            folder = self._real(tuple(spelled))
            if folder.is_relative_to(self.root) and not os.path.lexists(self._place(folder / name)):
                alike = _spellings(name, self._names_in(folder))
            if len(alike) > 1:
                both = ", ".join(map(json.dumps, alike))
                raise Refusal(f"{shown} could be any of {both}, which look the same; write it as one of these.")
            spelled += alike or [name]
        return tuple(spelled)

    def _refuse_other_notations(self, names: tuple[str, ...], shown: str) -> None:
        """Refuse what a shell, a browser or another system would take for something else, unless it is there."""
        place = self.root
        for depth, name in enumerate(names):
            place = place / name
            is_odd = _NOTATION.fullmatch(name) or (depth == 0 and _NOTATION_AT_START.fullmatch(name))
            if is_odd and not os.path.lexists(self._place(place)):
                raise Refusal(
                    f"{shown}: `{name[:40]}` is no plain name, and nothing is expanded or decoded here. Give the path "
                    f"from the workspace's folder, {self.root}."
                )

    def relative(self, real: Path) -> str:
        """The path as it is shown and recorded: from the root, with `/`; the root itself is `.`."""
        return real.relative_to(self.root).as_posix()

    def shown(self, real: Path) -> str:
        """The path as a model is shown it, and as a record names what was read."""
        return self.relative(real)

    def read(self, real: Path, most: int) -> bytes:
        """The content of a file.

        Args:
            real: what `resolve` gave.
            most: bytes; a longer file is refused.

        Raises:
            Refusal: it is missing, a folder, too long, unreadable, or has become a link since.
        """
        shown = self._file(real)
        with _refusing(shown):
            with self._folder(real) as folder:
                content = _content(folder, real.name, shown, most) if folder is not None else None
            if content is None:
                raise Refusal(f"There is no file {shown}; `list_files` shows what there is.")
            return content

    def update(self, real: Path, make: Callable[[bytes | None], bytes], most: int, mode: int | None = None) -> bytes:
        """Change a file as a whole: `make` gets its content, or None where there is no file, and gives the new one.

        The file is replaced by rename, keeps its permissions, and is durable on return. One with further names (hard
        links) in the workspace is written in place, so that all have the new content; should the machine stop in
        between, what it held is beside it, in a file whose name begins with `HALF_WRITTEN`. Updates wait for one
        another. `make` may refuse by raising; then nothing has changed. Missing folders are made. What is new has the
        rights that `umask` leaves. Where a mode is given, the file has its rights from the moment it has the content.

        Raises:
            Refusal: as `read`, or the disk does not take it; the file is as it was, or the refusal names the copy of
                what it held.
        """
        shown = self._file(real, to_change=True)
        with self._changing, _refusing(shown):
            with self._folder(real) as folder:
                current = _content(folder, real.name, shown, most) if folder is not None else None
            content = make(current)
            if content != current:
                names = self.names_of(real)
                self._note(*names)
                with self._folder(real, create=True) as folder:
                    assert folder is not None
                    if current is not None and len(names) > 1:
                        _permit(folder, real.name, mode)
                        _overwrite(folder, real.name, shown, current, content)
                    else:
                        _replace(folder, real.name, content, self.umask, mode)
            else:
                with self._folder(real) as folder:
                    assert folder is not None
                    _permit(folder, real.name, mode)
            return content

    def names_of(self, real: Path) -> tuple[str, ...]:
        """The paths of all names of a file (hard links), its own first.

        It is the only one where another lies outside the workspace, in `.git`, or in what no tool may change: then an
        update leaves that one alone.
        """
        shown = self.relative(real)
        about = None
        with suppress(OSError):
            about = real.lstat()
        if about is None or not stat.S_ISREG(about.st_mode) or about.st_nlink < 2:
            return (shown,)

        shut = [*self._ours, *read_by_git(self.root, {*repositories_around(self.root), *self._repositories()})]
        others: list[str] = []
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            with suppress(OSError), os.scandir(folder) as opened:
                entries = list(opened)
                is_shut = any(folder.is_relative_to(place) for place in shut)
                if is_shut or makes_repository({entry.name for entry in entries}):
                    continue
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [folder / entry.name] if entry.name.lower() != ".git" else []
                    elif entry.inode() == about.st_ino:
                        place = folder / entry.name
                        if place not in (real, *shut) and place.samefile(real):
                            others.append(self.relative(place))
        return (shown, *sorted(others)) if len(others) + 1 == about.st_nlink else (shown,)

    def move(self, real: Path, target: Path) -> None:
        """Give a file or link another name, with the folders that needs; both are what `entry` gave.

        It is durable on return. Should the machine stop in between, the file has both names.

        Raises:
            Refusal: there is no such file, the place is taken, or the disk does not take it; nothing has changed.
        """
        shown = self._file(real, to_change=True)
        wanted = self._file(target, to_change=True)
        with self._changing, _refusing(f"{shown} or {wanted}"), self._folder(real) as folder:
            about = _about(folder, real.name)
            if folder is None or about is None:
                raise Refusal(f"There is no file {shown}; `list_files` shows what there is.")
            if stat.S_ISDIR(about.st_mode):
                raise Refusal(f"{shown} is a folder; move the files in it one by one.")
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
                raise Refusal(f"{shown} is neither a file nor a folder (a device, pipe or socket); leave it alone.")
            with self._folder(target, create=True) as other:
                assert other is not None
                if _about(other, target.name) is not None:
                    raise Refusal(f"{wanted} exists already; choose another name, or delete it first.")
                if self._writes is not None:
                    self._writes.note_move(os.fsencode(shown), os.fsencode(wanted))
                rename_to_free(real.name, target.name, folder, other)
                _sync(other)
            _sync(folder)

    def remove(self, real: Path, check: Callable[[bytes | None], None], most: int) -> None:
        """Remove a file or link; `check` may refuse by raising, and then nothing has changed.

        Args:
            real: what `entry` gave.
            check: gets the file's content, or None for a link and for what is longer than `most`.
            most: bytes.

        Raises:
            Refusal: there is no such file, it is a folder, or the disk does not take it.
        """
        shown = self._file(real, to_change=True)
        with self._changing, _refusing(shown), self._folder(real) as folder:
            about = _about(folder, real.name)
            if folder is None or about is None:
                raise Refusal(f"There is no file {shown}; `list_files` shows what there is.")
            is_read = stat.S_ISREG(about.st_mode) and about.st_size <= most
            check(_content(folder, real.name, shown, most) if is_read else None)
            self._note(shown)
            os.unlink(real.name, dir_fd=folder)
            _sync(folder)

    def remove_folder(self, real: Path) -> None:
        """Remove an empty folder; `real` is what `entry` gave.

        Raises:
            Refusal: it is not empty, or the disk does not take it.
        """
        shown = self._file(real, to_change=True)
        with self._changing, _refusing(shown), self._folder(real) as folder:
            if folder is not None:
                os.rmdir(real.name, dir_fd=folder)

    def walk(self, start: Path, skipped: Collection[str], left_out: list[str]) -> Iterator[str]:
        """The paths of all files below a folder, relative to the workspace; links are not followed.

        What programs make is left out, and what `skipped` names; both are added to `left_out`. So are folders whose
        path is longer than any path may be, without being named.
        """
        base = self.relative(start)
        with _refusing(base), self._folder(start / "_") as opened:
            if opened is None:
                raise Refusal(f"There is no folder {base}; `list_files` without `path` shows what there is.")
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            files, folders = self._inside(folder)
            shown = PurePosixPath(self.relative(folder))
            for name in files:
                path = (shown / name).as_posix()
                if path in skipped:
                    left_out.append(path)
                elif not name.startswith(HALF_WRITTEN):
                    yield path
            inner: list[Path] = []
            for name in folders if len(str(shown)) < LONGEST_PATH else ():
                path = (shown / name).as_posix()
                if path in skipped or name.lower() in HIDDEN or is_venv(self._place(folder / name)):
                    left_out += [f"{path}/"] if name.lower() != ".git" else []
                else:
                    inner.append(folder / name)
            waiting += reversed(inner)

    def _inside(self, folder: Path) -> tuple[list[str], list[str]]:
        """The names of files and of folders in a folder, sorted; none in one that is gone or shut."""
        files: list[str] = []
        folders: list[str] = []
        with suppress(OSError), self._folder(folder / "_") as opened:
            if opened is not None:
                with os.scandir(opened) as entries:
                    for entry in entries:
                        if entry.is_dir():
                            folders += [] if entry.is_symlink() else [entry.name]
                        else:
                            files.append(entry.name)
        return sorted(files), sorted(folders)

    def _note(self, *paths: str) -> None:
        """Note what is there, which is written next."""
        if self._writes is None:
            return
        for path in paths:
            self._writes.note(os.fsencode(path))

    def _file(self, real: Path, *, to_change: bool = False) -> str:
        if real == self.root:
            raise Refusal("That is the workspace's own folder; name a file in it.")
        shown = self.relative(real)
        if to_change and any(real.is_relative_to(folder) for folder in self._ours):
            raise Refusal(f"{shown} belongs to the Python that runs this daemon; leave it alone.")
        names = real.relative_to(self.root).parts
        for depth, name in enumerate(names if to_change else ()):
            if is_bare_repository(self.root.joinpath(*names[:depth]), name):
                raise Refusal(f"{shown} would make its folder a repository of git's; only a person may make one.")
        if to_change:
            self._refuse_what_git_runs(real, shown)
        return shown

    def _refuse_what_git_runs(self, real: Path, shown: str) -> None:
        tops = {*repositories_around(self.root), *self._repositories()}
        for path in read_by_git(self.root, tops):
            if real.is_relative_to(path):
                raise Refusal(f"{shown} is run or read by git, as it is configured here; only a person may change it.")

    def _repositories(self) -> Iterator[Path]:
        for folder, folders, files in os.walk(self.root):
            if ".git" in folders or ".git" in files or makes_repository({*folders, *files}):
                yield Path(folder)
            folders[:] = [name for name in folders if name != ".git"]

    @contextmanager
    def _folder(self, real: Path, *, create: bool = False) -> Iterator[int | None]:
        """The open folder a path lies in; None if it is missing and not to be made."""

        def enter(name: str, inside: int) -> int | None:
            is_new = False
            with suppress(FileNotFoundError):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, NEW_FOLDER, dir_fd=inside)
                        is_new = True
                opened = os.open(name, FOLDER, dir_fd=inside)
                if is_new:
                    give_rights(opened, inside, NEW_FOLDER, self.umask)
                return opened
            return None

        with open_below(self._layer_of(real), real.relative_to(self.root).parts[:-1], enter) as opened:
            yield opened

    def _layer_of(self, real: Path) -> Path:
        """The folder below which a path is opened."""
        del real
        return self.root


def _spellings(name: str, entries: Iterable[str]) -> list[str]:
    """The entries of a folder that Unicode takes for the same as a name, sorted."""
    wanted = unicodedata.normalize("NFC", name)
    return sorted(entry for entry in entries if unicodedata.normalize("NFC", entry) == wanted)


@contextmanager
def open_below(root: Path, names: Iterable[_Name], enter: Callable[[_Name, int], int | None]) -> Iterator[int | None]:
    """The folder at the end of the names, each opened by `enter` in the one before it; None once that gives None."""
    opened = os.open(root, FOLDER)
    try:
        for name in names:
            inner = enter(name, opened)
            if inner is None:
                yield None
                return
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


@contextmanager
def replacing(name: str | bytes, folder: int) -> Iterator[str]:
    """A name for a new file that then replaces the one of that name; after an error nothing of it is left."""
    beside = f"{HALF_WRITTEN}{secrets.token_hex(8)}"
    try:
        yield beside
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def rename_to_free(name: str | bytes, target: str | bytes, folder: int, other: int) -> None:
    """Rename what is in one open folder to a name in another, if that is free; for a folder, an empty one may have it.

    Raises:
        OSError: it is not, or the system does not permit it.
    """
    try:  # a second name, because that takes no place that is taken
        os.link(name, target, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        about = _about(other, target)
        if about is not None and not stat.S_ISDIR(about.st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=other)  # a folder, or a disk without second names
    else:
        os.unlink(name, dir_fd=folder)


def _sync(folder: int) -> None:
    """Make the names in an open folder durable, as far as its file system can: exFAT and SMB flush no folder."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise


def _content(folder: int, name: str, shown: str, most: int) -> bytes | None:
    """A file's bytes; None where there is none."""
    try:
        opened = os.open(name, FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        mode = os.fstat(opened).st_mode
        if stat.S_ISDIR(mode):
            raise Refusal(f"{shown} is a folder; `list_files` shows what it holds.")
        if not stat.S_ISREG(mode):
            raise Refusal(f"{shown} is neither a file nor a folder (a device, pipe or socket); leave it alone.")
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(opened)
    if len(content) > most:
        raise Refusal(f"{shown} is larger than {most // 1024} KiB, the most this tool takes; `search_files` may help.")
    return content


def _about(folder: int | None, name: str | bytes) -> os.stat_result | None:
    """What the system knows of a file or link; None where there is none."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False) if folder is not None else None
    return None


def _overwrite(folder: int, name: str, shown: str, current: bytes, content: bytes) -> None:
    """Write into a file as it is open, so that each of its names has the new content.

    A copy of what it holds is on disk before it is touched. After an error the file has its content back; where even
    that fails, the copy stays.

    Raises:
        Refusal: the content could not be put back; it names the copy.
    """
    beside = f"{HALF_WRITTEN}{secrets.token_hex(8)}"
    opened = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    is_needed = False
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise Refusal(f"{shown} is neither a file nor a folder (a device, pipe or socket); leave it alone.")
        copy = os.open(beside, NEW, 0o600, dir_fd=folder)
        try:
            _write_whole(copy, current)
        finally:
            os.close(copy)
        _sync(folder)
        try:
            _write_whole(opened, content)
        except OSError as error:
            try:
                _write_whole(opened, current)
            except OSError:
                is_needed = True
                copied = str(PurePosixPath(shown).with_name(beside))
                raise Refusal(
                    f"{shown} is damaged: the disk failed while it was written ({error.strerror}). What it held is in "
                    f"{copied}; somebody has to copy that back."
                ) from error
            raise
    finally:
        os.close(opened)
        if not is_needed:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)


def _write_whole(opened: int, content: bytes) -> None:
    mode = os.fstat(opened).st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID):  # never setuid: the content is a model's
        with suppress(PermissionError):  # another's file, from which the kernel takes it as we write
            os.fchmod(opened, stat.S_IMODE(mode) & 0o777)
    os.lseek(opened, 0, os.SEEK_SET)
    left = memoryview(content)
    while left:
        left = left[os.write(opened, left) :]
    os.ftruncate(opened, len(content))
    os.fsync(opened)


def _permit(folder: int, name: str, mode: int | None) -> None:
    """Give a file the rights of a mode, if there is one."""
    if mode is None:
        return
    opened = os.open(name, FILE, dir_fd=folder)
    try:
        os.fchmod(opened, mode & 0o777)
    finally:
        os.close(opened)


def _replace(folder: int, name: str, content: bytes, umask: int, mode: int | None) -> None:
    old = _about(folder, name)
    with replacing(name, folder) as beside, os.fdopen(os.open(beside, NEW, NEW_FILE, dir_fd=folder), "wb") as file:
        if old is None:
            give_rights(file.fileno(), folder, NEW_FILE, umask)
        else:
            with suppress(OSError):  # only root may give a file away, and others only to a group of theirs
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) & 0o777)  # never setuid: the content is a model's
        if mode is not None:
            os.fchmod(file.fileno(), mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)


_SENTENCES: Final = {
    errno.ENOSPC: "the disk is full; nothing was changed. Somebody has to make room",
    errno.EDQUOT: "the quota of the disk is used up; nothing was changed. Somebody has to make room",
    errno.EROFS: "the disk is read-only; nothing was changed",
    errno.EACCES: "the system does not permit it; somebody has to change the file's permissions",
    errno.EPERM: "the system does not permit it; somebody has to change the file's permissions",
    errno.ELOOP: "it has become a link while it was being opened; look again",
    errno.ENOTDIR: "a part of its path is a file or a link, not a folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "it exists already; choose another name, or delete it first",
    errno.ENOTEMPTY: "the folder is not empty; delete the files in it first",
    errno.ENAMETOOLONG: "a name in it is too long; choose a shorter one",
    errno.ENOENT: "it vanished while it was being used, or the workspace's folder is missing",
}


@contextmanager
def _refusing(shown: str) -> Iterator[None]:
    """Turn what the system refuses into a sentence for the model."""
    try:
        yield
    except OSError as error:
        reason = _SENTENCES.get(error.errno or 0, os.strerror(error.errno) if error.errno else "an unknown fault")
        raise Refusal(f"{shown} cannot be used: {reason}.") from error
