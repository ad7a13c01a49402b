"""Which files and folders of the workspace its `.gitignore` files name, as git itself reads them.

Git is run on an empty repository of ours, so nothing in the workspace decides what it does, and a pattern that takes
for ever ends with its process. Where git is missing or too slow nothing is ignored. A file that is ignored though it
was committed counts as ignored.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tenex.log import get_logger

from .daemon_programs import find_program
from .git_config import GIT_ALONE

DEADLINE: Final = 5.0
"""Seconds: a tree of 100,000 files takes about one."""

_log = get_logger(__name__)


def ignored_below(root: Path, start: Path, deadline: float = DEADLINE) -> frozenset[str]:
    """The paths, relative to the workspace, of what is ignored below a folder; a whole folder is only named itself.

    Nothing is, if the folder itself is ignored: who asks for it wants to see it. `deadline` is in seconds.
    """
    program = find_program("git", root)
    if program is None:
        return frozenset()
    below = start.relative_to(root).as_posix()
    question = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", below]
    try:
        with _empty_repository() as repository:
            done = subprocess.run(
                [program, f"--git-dir={repository}", f"--work-tree={root}", *question],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=deadline,
                check=True,
                cwd=root,
                env={**GIT_ALONE, "LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1"},
                start_new_session=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        _log.info("ignored.unknown", reason=type(error).__name__)
        return frozenset()
    paths = frozenset(os.fsdecode(path).removesuffix("/") for path in done.stdout.split(b"\0") if path)
    is_inside = below in paths or any(below.startswith(f"{path}/") for path in paths)
    return frozenset() if is_inside or "." in paths else paths


@contextmanager
def _empty_repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tenex-ignored-") as name:
        folder = Path(name)
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "objects").mkdir()
        (folder / "refs").mkdir()
        yield folder
