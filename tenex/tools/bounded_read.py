"""Reading a file of the workspace that may be anything."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def opened_file(file: Path) -> Iterator[BinaryIO]:
    """A file that is open for reading; a link is not followed, and a pipe or device not waited for.

    Raises:
        OSError: it is no file, or cannot be opened.
    """

    def opened(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    with open(file, "rb", opener=opened) as one:
        if not stat.S_ISREG(os.fstat(one.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, socket or device")
        yield one


def beginning(file: Path, most: int) -> str:
    """The text of a file's first bytes; a link is not followed, and a pipe or device not waited for.

    Raises:
        OSError: it is no file, or cannot be read.
    """
    with opened_file(file) as opened:
        return opened.read(most).decode("utf-8", "replace")


def text_or_nothing(file: Path, most: int) -> str:
    """The text of a file's first bytes; empty where there is none that can be read."""
    try:
        return beginning(file, most)
    except OSError:
        return ""
