"""Hides from a check what Python has compiled of files as they were before.

Python takes a compiled file for that of its source if length and second of both agree: not so where a file was
compiled and changed within one second, or got its old time back. The system notes each change more exactly (`ctime`).
A compiled file that is older than the last change of its source is empty in the view: Python then compiles the source.
"""

import os
from collections.abc import Iterator
from typing import Final

from .project_environment import VENVS
from .workspace_view import WorkspaceView

_CACHE: Final = b"__pycache__"
_NOT_LOOKED_AT: Final = frozenset({*map(os.fsencode, VENVS), b"node_modules", b".git"})
"""Folders of installed packages, whose files are not worked on, and of git."""


def hide(view: WorkspaceView) -> None:
    """Hide them in a view in which nothing has run; blocks.

    Raises:
        OSError: the disk does not take it.
    """
    if not view.can_write:
        return
    root = os.fsencode(view.root)
    upper = os.fsencode(view.upper)
    for folder, name in _older_than_source(root):
        place = upper + b"/" + os.path.relpath(folder, root)
        os.makedirs(place, exist_ok=True)  # noqa: PTH103 - bytes
        os.close(os.open(place + b"/" + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))


def _older_than_source(root: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The compiled files below a folder that are older than their source: folder and name."""
    for folder, folders, names in os.walk(root):
        if os.path.basename(folder) == _CACHE:  # noqa: PTH119 - bytes
            folders.clear()
            for name in names:
                source = os.path.dirname(folder) + b"/" + name.partition(b".")[0] + b".py"  # noqa: PTH120 - bytes
                if _is_older(folder + b"/" + name, source):
                    yield folder, name
        else:
            folders[:] = [name for name in folders if name not in _NOT_LOOKED_AT]


def _is_older(compiled: bytes, source: bytes) -> bool:
    try:
        return os.lstat(compiled).st_mtime_ns <= os.lstat(source).st_ctime_ns
    except OSError:  # without a source nothing is compiled, so the compiled file is all there is
        return False
