"""Putting files back, without following a link and without losing what has no copy.

A command may have left links where folders were. Every folder on the way is opened from the workspace's root without
following one. Paths are relative to the workspace, as the system names them.

`replace` is the one place where a file of the workspace is removed or overwritten. A person may edit the same file at
the same moment, and what a checkpoint has seen may be an older state. So the order is:

    write the new file beside ─► compare what is there with its copy ─► rename it ─► compare its inode ─► remove it
                                             │                                            │
                                             └── not the same: it stays                   └── another file: renamed back

A file that an editor replaces at any moment keeps its name or gets it back. Only what is written through a handle that
was opened before, after the comparison, goes with the old file. What has no copy stays.
"""

import errno
import os
import secrets
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .workspace import FILE, FOLDER, HALF_WRITTEN, NEW, open_below, rename_to_free

LINK: Final = 0o120000
"""The mode by which git knows a symbolic link."""

Stamp = tuple[int, int, int]
"""What would show that a file has changed: mode, size, time in nanoseconds."""

_LONGEST_NAME: Final = 200  # bytes of it that are kept in a new one: with the rest a name may have 255


class NotKept(OSError):
    """What has a name is not what was kept of it, so it must not be removed."""

    def __init__(self) -> None:
        super().__init__(errno.EEXIST, "it is not what the checkpoint holds")


@dataclass(frozen=True, slots=True)
class Copy:
    """What was kept of a file or link."""

    mode: int
    """`LINK`, or its permissions."""
    content: bytes
    """Its bytes; where a link leads, if it is one."""


def remove(root: Path, path: bytes, there: Copy | None) -> None:
    """Remove a file or link of which there is a copy; what is gone already is fine.

    Raises:
        NotKept: something else than its copy is there; it stays.
        OSError: the system does not permit it.
    """
    name = _name(path)
    with suppress(FileNotFoundError, NotADirectoryError), _parent(root, path, create=False) as folder:
        if _is_folder(name, folder):
            raise NotKept
        with _taken_away(name, folder, there):
            pass


def replace(root: Path, path: bytes, wanted: Copy, there: Copy | None) -> None:
    """Put a file or link where something may be; folders without files are removed.

    Args:
        root: the workspace.
        path: relative to it.
        wanted: what is to be there.
        there: the copy of what is there now, if there is one.

    Raises:
        NotKept: something else than its copy is there; it stays.
        OSError: the system does not permit it, or files are in the way.
    """
    name = _name(path)
    with _parent(root, path, create=True) as folder:
        if not _holds(name, folder, wanted):
            with _written(folder, wanted) as beside, _taken_away(name, folder, there):
                rename_to_free(beside, name, folder, folder)
            return
    if wanted.mode != LINK:
        permit(root, path, wanted.mode)


def rename_away(root: Path, path: bytes) -> bytes:
    """Give a path another name, which no program looks for; returns the new path.

    Raises:
        OSError: the system does not permit it.
    """
    name = _name(path)
    new = path[: -len(name)] + _replaced(name)
    rename(root, path, new)
    return new


def remove_empty_folders(root: Path, path: bytes, stay: Container[bytes]) -> None:
    """Remove a folder and those it lies in as far as they are empty, up to one that shall stay."""
    while path and path not in stay:
        try:
            with _parent(root, path, create=False) as folder:
                os.rmdir(_name(path), dir_fd=folder)
        except OSError:  # not empty, or gone
            return
        path = _above(path)


@contextmanager
def readable(name: bytes, folder: int | None = None) -> Iterator[None]:
    """Make a file of ours that no one may read readable for its owner, for as long as the block runs.

    Raises:
        OSError: it is gone, or belongs to somebody else.
    """
    opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        place = Path(f"/proc/self/fd/{opened}")
        mode = stat.S_IMODE(os.fstat(opened).st_mode)
        place.chmod(mode | stat.S_IRUSR)
        try:
            yield
        finally:
            place.chmod(mode)
    finally:
        os.close(opened)


def rename(root: Path, path: bytes, target: bytes) -> None:
    """Rename a path; nothing is replaced but an empty folder.

    Raises:
        OSError: the system does not permit it, or something is there.
    """
    with _parent(root, path, create=False) as folder, _parent(root, target, create=True) as other:
        rename_to_free(_name(path), _name(target), folder, other)


def remove_special(root: Path, path: bytes) -> None:
    """Remove a pipe, socket or device, which holds no bytes; what is gone already is fine.

    Raises:
        NotKept: a file, link or folder is there.
        OSError: the system does not permit it.
    """
    remove(root, path, None)


def clear_away(folder: Path) -> None:
    """Remove a folder of ours that a program could write to; what the system does not permit stays."""
    with suppress(OSError):
        clear_below(folder.parent, os.fsencode(folder.name))


def clear_below(folder: Path, path: bytes) -> None:
    """Remove whatever has a path in a folder of ours; what is gone already is fine.

    Raises:
        OSError: the system does not permit it, or the path leads through a link.
    """
    with suppress(FileNotFoundError), _parent(folder, path, create=False) as parent:
        _remove_whole(_name(path), parent)


def permit(root: Path, path: bytes, mode: int) -> None:
    """Give a file or folder the permissions it had.

    Raises:
        OSError: it is gone, has become a link, or the system does not permit it.
    """
    with _parent(root, path, create=False) as folder:
        # by its handle: the name may have become a link; O_PATH opens what may not be read
        opened = os.open(_name(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if stat.S_IFMT(os.fstat(opened).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                Path(f"/proc/self/fd/{opened}").chmod(mode & 0o777)
        finally:
            os.close(opened)


@contextmanager
def _parent(root: Path, path: bytes, *, create: bool) -> Iterator[int]:
    """The open folder a path lies in; with `create`, those that are missing are made."""

    def enter(name: bytes, inside: int) -> int:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=inside)
        return _open_folder(name, inside)

    with open_below(root, [name for name in _above(path).split(b"/") if name], enter) as opened:
        assert opened is not None
        yield opened


@contextmanager
def _written(folder: int, copy: Copy) -> Iterator[bytes]:
    """A new file or link under a name of its own, which is free again afterwards."""
    beside = _own_name()
    try:
        if copy.mode == LINK:
            os.symlink(copy.content, beside, dir_fd=folder)
        else:
            with os.fdopen(os.open(beside, NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(copy.content)
                os.fchmod(file.fileno(), copy.mode & 0o777)
        yield beside
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)


@contextmanager
def _taken_away(name: bytes, folder: int, copy: Copy | None) -> Iterator[None]:
    """Have a name free within the block, and remove what had it; after an error that has it again."""
    about = _about(name, folder)
    if about is None:
        yield
        return
    if stat.S_ISDIR(about.st_mode):
        _remove_empty(name, folder)
        yield
        return

    has_bytes = stat.S_IFMT(about.st_mode) in (stat.S_IFREG, stat.S_IFLNK)
    if has_bytes and not _holds(name, folder, copy):
        raise NotKept

    aside = _own_name()
    os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    try:
        _expect(about, aside, folder)
        yield
    except BaseException:
        rename_to_free(aside, name, folder, folder)
        raise
    os.unlink(aside, dir_fd=folder)


def _holds(name: bytes, folder: int, copy: Copy | None) -> bool:
    """Whether what has a name is a file or link with the bytes of its copy."""
    about = _about(name, folder)
    if copy is None or about is None:
        return False
    if stat.S_ISLNK(about.st_mode):
        return copy.mode == LINK and os.readlink(name, dir_fd=folder) == copy.content
    if not stat.S_ISREG(about.st_mode) or copy.mode == LINK or about.st_size != len(copy.content):
        return False
    with os.fdopen(_open_file(name, folder), "rb") as file:
        return file.read(len(copy.content) + 1) == copy.content


def _open_file(name: bytes, folder: int) -> int:
    try:
        return os.open(name, FILE, dir_fd=folder)
    except PermissionError:
        with readable(name, folder):
            return os.open(name, FILE, dir_fd=folder)


def _expect(about: os.stat_result, name: bytes, folder: int) -> None:
    """Raise `NotKept` unless a name has the same file with the same content; a rename changes neither."""

    def identity(stated: os.stat_result | None) -> tuple[int, ...]:
        if stated is None:
            return ()
        return (stated.st_dev, stated.st_ino, stated.st_mode, stated.st_size, stated.st_mtime_ns)

    if identity(_about(name, folder)) != identity(about):
        raise NotKept


def _about(name: bytes, folder: int) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def _replaced(name: bytes) -> bytes:
    return name[:_LONGEST_NAME] + b".replaced-" + secrets.token_hex(4).encode()


def _own_name() -> bytes:
    return f"{HALF_WRITTEN}{secrets.token_hex(8)}".encode()


def _remove_empty(name: bytes, inside: int) -> None:
    """Remove a folder in which there is no file, with the folders in it.

    Raises:
        OSError: there is one, and the folder stays; or the system does not permit it.
    """
    folders = [name]
    for path in folders:
        opened = os.open(path, FOLDER, dir_fd=inside)
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
                    folders.append(path + b"/" + os.fsencode(entry.name))
        finally:
            os.close(opened)
    for path in reversed(folders):
        os.rmdir(path, dir_fd=inside)


def _remove_whole(name: bytes, inside: int) -> None:
    """Remove whatever has a name, however deep it goes: neither our stack nor our handles are as deep as a disk's."""
    if not _is_folder(name, inside):
        os.unlink(name, dir_fd=inside)
        return
    top = _open_folder(name, inside)
    try:
        while names := _listed(top):
            for inner in names:
                if not _is_folder(inner, top):
                    os.unlink(inner, dir_fd=top)
                    continue
                opened = _open_folder(inner, top)
                try:
                    for deeper in _listed(opened):
                        if not _is_folder(deeper, opened):
                            os.unlink(deeper, dir_fd=opened)
                            continue
                        os.close(_open_folder(deeper, opened))  # what is shut cannot be moved
                        # up to the top, where the next round finds it
                        os.rename(deeper, secrets.token_hex(16).encode(), src_dir_fd=opened, dst_dir_fd=top)
                finally:
                    os.close(opened)
                os.rmdir(inner, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=inside)


def _open_folder(name: bytes, inside: int) -> int:
    try:
        opened = os.open(name, FOLDER, dir_fd=inside)
    except PermissionError:
        if not _is_folder(name, inside):
            raise
        os.chmod(name, 0o700, dir_fd=inside)  # a command has shut it; it is ours to open
        opened = os.open(name, FOLDER, dir_fd=inside)
    mode = stat.S_IMODE(os.fstat(opened).st_mode)
    if mode & 0o300 != 0o300:
        with suppress(PermissionError):
            os.fchmod(opened, mode | 0o700)
    return opened


def _listed(folder: int) -> list[bytes]:
    with os.scandir(folder) as entries:
        return [os.fsencode(entry.name) for entry in entries]


def _is_folder(name: bytes, inside: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
