"""What an agent is shown of the workspace before it begins: file names, environment, commands, and its `AGENTS.md`.

It is made while a conversation waits, so it looks at a bounded number of entries, however large the workspace is.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

from tenex.log import get_logger

from .bounded_read import beginning
from .files_read import summed_up
from .project_checks import ProjectCheck
from .project_commands import NOTES
from .project_environment import ProjectEnvironment
from .project_needs import ecosystems_found
from .workspace import HALF_WRITTEN, HIDDEN, is_venv

NAMED: Final = 100
"""Files that are named: enough for a small project, about 700 tokens at most."""
CHARACTERS: Final = 3_000
"""Of all names together."""
LOOKED_AT: Final = 1_000
"""Entries of folders: about a millisecond."""
CACHE_TAG: Final = "CACHEDIR.TAG"
"""A file that marks a folder as a cache (bford.info/cachedir): pytest, mypy, ruff and cargo write it."""
LARGEST_NOTES: Final = 128 * 1024
"""Bytes read; prompts show less."""

_log = get_logger(__name__)


def overview(workspace: Path, *, runs: bool, checks: Sequence[ProjectCheck] = (), path: tuple[Path, ...] = ()) -> str:
    """The files of the workspace in a line, those of its own folder first; `runs` adds what a shell needs to know.

    Where they are too many for it, like files become one entry.

    Args:
        workspace: the folder.
        runs: adds the interpreter, and the checks of the project.
        checks: those that the daemon runs.
        path: folders of programs that the operator names.
    """
    found, is_whole = _names(workspace)
    names = summed_up(found, "", _fitting(found))
    shown = names[: _fitting(names)]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    if not is_whole:
        more = " and more"
    lines = [f"Its files: {', '.join(shown)}{more}." if shown else "It is empty."]
    if runs:
        lines += _of_environment(ProjectEnvironment(workspace.resolve(), path))
    if runs and checks:
        listed = ", ".join(f"{check.name} (`{check.run}`)" for check in checks)
        lines.append(f"Its checks: {listed}. The daemon runs them itself after a turn that changed files.")
    return "\n".join(lines)


def _fitting(names: Sequence[str]) -> int:
    """How many of these names may be shown, from the first on."""
    ends = accumulate(len(name) + len(", ") for name in names[:NAMED])
    return sum(end <= CHARACTERS for end in ends)


def _of_environment(project: ProjectEnvironment) -> Iterator[str]:
    """Sentences on the interpreter, where the workspace is one of Python, and on what is missing."""
    venv = project.venv()
    python = project.python()
    number = project.python_version()
    version = f" {number}" if number else ""
    if venv is not None:
        yield f"`python` is that of its environment {venv.name}{version} (not listed above)."
    for kind in ecosystems_found(project):
        if kind.missing:
            yield f"{' and '.join(f'`{name}`' for name in kind.missing)} cannot be run here ({kind.kind.title})."
        if not kind.lacks_packages:
            continue
        if kind.kind.name != "python":
            yield f"It has no {kind.kind.installed.split()[0]}, and {kind.lacks_packages} asks for packages."
        elif venv is None:
            system = f"; `{Path(python).name}` is the system's{version}" if python else ""
            yield f"It has no environment, and {kind.lacks_packages} asks for packages{system}."


def _names(workspace: Path) -> tuple[list[str], bool]:
    """Paths of files, folder by folder, and whether these are all; without caches and unprintable names."""
    found: list[str] = []
    left = LOOKED_AT
    folders = deque([""])
    while folders:
        folder = folders.popleft()
        entries = sorted(islice(_entries(workspace / folder), left + 1))
        if folder and (CACHE_TAG, False) in entries:
            continue
        for name, is_folder in entries[:left]:
            path = f"{folder}/{name}" if folder else name
            is_hidden = name in HIDDEN or name.startswith(HALF_WRITTEN) or (is_folder and is_venv(workspace / path))
            if name.isprintable() and not is_hidden:
                (folders if is_folder else found).append(path)
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
