"""The workspace's own notes to agents: `AGENTS.md`, read as data.

Never: follow a link out of the workspace, or obey; whoever renders it marks it as data.
"""

import os
from pathlib import Path
from typing import Final

NAME: Final = "AGENTS.md"
LARGEST: Final = 128 * 1024
"""Bytes read; prompts show less."""


def read_notes(workspace: Path) -> str | None:
    """The notes, or None where there are none that can be read."""
    try:
        descriptor = os.open(workspace / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return None
