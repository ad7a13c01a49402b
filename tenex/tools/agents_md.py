"""The workspace's own notes to agents: `AGENTS.md`, read as data."""

import os
import stat
from pathlib import Path
from typing import Final

import structlog

NAME: Final = "AGENTS.md"
LARGEST: Final = 128 * 1024
"""Bytes read; prompts show less."""

_log = structlog.get_logger(__name__)


def read_notes(workspace: Path) -> str | None:
    """The notes; a sentence instead where they cannot be read, and None where there are none.

    A link is not followed, because it may lead out of the workspace, and a pipe or device is not waited for.
    """
    try:
        descriptor = os.open(workspace / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        is_link = (workspace / NAME).is_symlink()
        return _unread("it is a symbolic link" if is_link else os.strerror(error.errno or 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            return _unread("it is a folder" if stat.S_ISDIR(mode) else "it is a pipe, socket or device")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError as error:
        return _unread(os.strerror(error.errno or 0))
    finally:
        os.close(descriptor)


def _unread(reason: str) -> str:
    _log.warning("notes.unread", file=NAME, reason=reason)
    return f"{NAME} was not read: {reason}. Make it a plain text file."
