"""What an agent is shown of the workspace before it begins: file names, how its tests are run, and its `AGENTS.md`.

It is made while a conversation waits, so it looks at a bounded number of entries, however large the workspace is.
"""

import json
import os
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from .bounded_read import beginning, text_or_nothing
from .workspace import HALF_WRITTEN, HIDDEN

NAMED: Final = 100
"""Files that are named: enough for a small project, about 700 tokens at most."""
CHARACTERS: Final = 3_000
"""Of all names together."""
LOOKED_AT: Final = 1_000
"""Entries of folders: about a millisecond."""
LARGEST: Final = 64 * 1024
"""Bytes read of a file that may name a test command."""
NOTES: Final = "AGENTS.md"
LARGEST_NOTES: Final = 128 * 1024
"""Bytes read; prompts show less."""

_log = structlog.get_logger(__name__)


def overview(workspace: Path, *, runs: bool) -> str:
    """The files of the workspace in a line, those of its own folder first; `runs` adds the command for its tests."""
    names, is_whole = _names(workspace)
    shown: list[str] = []
    room = CHARACTERS
    for name in names[:NAMED]:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    if not is_whole:
        more = " and more"
    text = f"Its files: {', '.join(shown)}{more}." if shown else "It is empty."
    command = _test_command(workspace) if runs else ""
    return f"{text}\nIts tests are run by `{command}`." if command else text


def _names(workspace: Path) -> tuple[list[str], bool]:
    """Paths of files, folder by folder, and whether these are all; names that are not printable are left out."""
    found: list[str] = []
    left, folders = LOOKED_AT, deque([""])
    while folders:
        folder = folders.popleft()
        entries = sorted(islice(_entries(workspace / folder), left + 1))
        for name, is_folder in entries[:left]:
            if name.isprintable() and name not in HIDDEN and not name.startswith(HALF_WRITTEN):
                (folders if is_folder else found).append(f"{folder}/{name}" if folder else name)
        left -= len(entries)
        if left < 0:
            return found, False
    return found, True


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """The names in a folder, and which are folders; a link is none. Nothing, if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name, entry.is_dir(follow_symlinks=False)
    except OSError:
        return


def _test_command(workspace: Path) -> str:
    """The command for the tests where a file names it plainly; empty where none does."""
    if re.search(r"^test\s*:(?!=)", _text(workspace / "Makefile"), re.MULTILINE):
        return "make test"
    if "[tool.pytest" in _text(workspace / "pyproject.toml") or text_or_nothing(workspace / "pytest.ini", LARGEST):
        return "python -m pytest"
    try:
        scripts = json.loads(_text(workspace / "package.json") or "{}")["scripts"]
        has_tests = isinstance(scripts["test"], str) and "no test specified" not in scripts["test"]
    except (ValueError, LookupError, TypeError, RecursionError):
        has_tests = False
    return "npm test" if has_tests else ""


def _text(file: Path) -> str:
    return text_or_nothing(file, LARGEST)


def workspace_notes(workspace: Path) -> str | None:
    """The workspace's own notes to agents; a sentence where they cannot be read, and None where there are none."""
    try:
        return beginning(workspace / NOTES, LARGEST_NOTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = "it is a symbolic link" if (workspace / NOTES).is_symlink() else error.strerror
        _log.warning("notes.unread", file=NOTES, reason=reason)
        return f"{NOTES} was not read: {reason}. Make it a plain text file."
