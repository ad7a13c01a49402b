"""What an agent is shown of the workspace before it begins: file names, environment, commands, and its `AGENTS.md`.

It is made while a conversation waits, so it looks at a bounded number of entries, however large the workspace is.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath
from typing import Final

from tenex.log import get_logger

from .bounded_read import beginning
from .files_read import summed_up
from .ignored import ignored_below
from .project_commands import (
    NOTES,
    UNKNOWN,
    Command,
    ProjectCommands,
    line_of,
    missing_program,
    packages_wanted,
    propose,
)
from .project_environment import ProjectEnvironment
from .project_runs import LastRun
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
PATIENCE: Final = 0.5
"""Seconds that git may take to say what is ignored, for a conversation waits meanwhile."""

_log = get_logger(__name__)


def overview(
    workspace: Path,
    *,
    runs: bool,
    commands: ProjectCommands = UNKNOWN,
    last: Callable[[Sequence[Command]], LastRun | None] = lambda _: None,
    path: tuple[Path, ...] = (),
) -> str:
    """The files of the workspace in a line, those of its own folder first; `runs` adds what a shell needs to know.

    Where they are too many for it, like files become one entry. Whether files were changed since the last run of its
    tests is seen by the times of those that were looked at.

    Args:
        workspace: the folder.
        runs: adds the interpreter, and the commands of the project.
        commands: those that the operator has set; for tests, what the project's files name plainly is named without.
        last: gives the last run of its tests, which are the steps of a command.
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
        project = ProjectEnvironment(workspace.resolve(), path)
        lines += _of_environment(project)
        lines += _of_commands(project, commands, last, lambda moment: _is_changed_since(project.root, found, moment))
    return "\n".join(lines)


def _fitting(names: Sequence[str]) -> int:
    """How many of these names may be shown, from the first on."""
    ends = accumulate(len(name) + len(", ") for name in names[:NAMED])
    return sum(end <= CHARACTERS for end in ends)


def _of_environment(project: ProjectEnvironment) -> Iterator[str]:
    """A sentence on the interpreter, where the workspace is one of Python."""
    venv = project.venv()
    python = project.python()
    version = f" {found}" if (found := project.python_version()) else ""
    if venv is not None:
        yield f"`python` is that of its environment {venv.name}{version} (not listed above)."
    elif asking := packages_wanted(project.root):
        system = f"; `{Path(python).name}` is the system's{version}" if python else ""
        yield f"It has no environment, and {asking} asks for packages{system}."


def _of_commands(
    project: ProjectEnvironment,
    commands: ProjectCommands,
    last: Callable[[Sequence[Command]], LastRun | None],
    is_changed_since: Callable[[int], bool],
) -> Iterator[str]:
    """Sentences on the commands of the project; one that cannot run there is not recommended."""
    test = commands.test or propose(project.root).test
    if test:
        run = last(test)
        since = "; files changed since" if run is not None and is_changed_since(run.at) else ""
        when = f" Last run: {run}{since}." if run is not None else ""
        yield f"Its tests are run by `{line_of(test)}`.{when}"
    others = [
        f"`{line_of(steps)}` {does}"
        for steps, does in ((commands.lint, "checks"), (commands.build, "builds"))
        if steps and not any(missing_program(project, step) for step in steps)
    ]
    if others:
        yield f"{' and '.join(others)} it."


def _is_changed_since(root: Path, names: Sequence[str], moment: int) -> bool:
    """Whether one of these files was written after that second, in which a run of tests that ends may still write.

    What git ignores does not count: reports of a later run of some tests are no change of the work.
    """
    newer = [PurePosixPath(name) for name in names if _written_at(root / name) > moment]
    if not newer:
        return False
    ignored = ignored_below(root, root, PATIENCE)
    return any(not any(str(part) in ignored for part in (path, *path.parents)) for path in newer)


def _written_at(file: Path) -> int:
    try:
        return int(file.lstat().st_mtime)
    except OSError:
        return 0


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
