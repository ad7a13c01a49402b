"""Putting files back: removing what came, and writing what was, without following a link.

A command may have left links where folders were. Every folder on the way is opened from the workspace's root without
following one; whatever is in the way of a file that was there before is removed. Paths are relative to the workspace,
as the system names them.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .workspace import FOLDER, NEW, open_below, replacing

LINK: Final = 0o120000
"""The mode by which git knows a symbolic link."""


def remove(root: Path, path: bytes) -> None:
    """Remove a file or link, then the folders it leaves empty; what is gone already is fine.

    Raises:
        OSError: the system does not permit it.
    """
    with suppress(FileNotFoundError, NotADirectoryError), _parent(root, path, create=False) as folder:
        os.unlink(_name(path), dir_fd=folder)
    above = _above(path)
    while above:
        try:
            with _parent(root, above, create=False) as folder:
                os.rmdir(_name(above), dir_fd=folder)
        except OSError:  # not empty, or gone
            return
        above = _above(above)


def write(root: Path, path: bytes, content: bytes, mode: int) -> None:
    """Put a file there as it was, whatever has taken its place.

    Args:
        root: the workspace.
        path: relative to it.
        content: its bytes; where a link leads, if it is one.
        mode: `LINK`, or its permissions.

    Raises:
        OSError: the system does not permit it.
    """
    name = _name(path)
    with _parent(root, path, create=True) as folder, replacing(name, folder) as beside:
        if mode == LINK:
            os.symlink(content, beside, dir_fd=folder)
        else:
            with os.fdopen(os.open(beside, NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode & 0o777)
        if _is_folder(name, folder):
            _remove_whole(name, folder)


def rename(root: Path, path: bytes, target: bytes) -> None:
    """Rename a path, replacing what is at the other.

    Raises:
        OSError: the system does not permit it, or a folder that is not empty is there.
    """
    with _parent(root, path, create=False) as folder, _parent(root, target, create=True) as other:
        os.rename(_name(path), _name(target), src_dir_fd=folder, dst_dir_fd=other)


def remove_tree(root: Path, path: bytes) -> None:
    """Remove a file, a link, or a folder with all it holds; what is gone already is fine.

    Raises:
        OSError: the system does not permit it.
    """
    with suppress(FileNotFoundError, NotADirectoryError), _parent(root, path, create=False) as folder:
        _remove_whole(_name(path), folder)


def clear_away(folder: Path) -> None:
    """Remove a folder of ours that a program could write to; what the system does not permit stays."""
    with suppress(OSError):
        remove_tree(folder.parent, os.fsencode(folder.name))


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
    """The open folder a path lies in; with `create`, whatever is no folder on the way becomes one."""

    def enter(name: bytes, inside: int) -> int:
        if create and not _is_folder(name, inside):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=inside)
            os.mkdir(name, dir_fd=inside)
        return _open_folder(name, inside)

    with open_below(root, [name for name in _above(path).split(b"/") if name], enter) as opened:
        assert opened is not None
        yield opened


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
