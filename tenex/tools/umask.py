"""The rights of new files and folders in the workspace: those that the person's own editor would give them.

The daemon runs with a umask of 077, so that all it keeps is private. What it makes in the workspace gets its rights
here instead, by the umask that it was started with. A default access control list of a folder replaces every umask, as
for any program (acl(5)).
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

NEW_FILE: Final = 0o666
NEW_FOLDER: Final = 0o777
"""What a file and a folder are made with, of which a umask takes some away."""

USUAL: Final = 0o022
"""The umask of most systems."""


def process_umask() -> int:
    """The umask of this process, read without setting it: other threads may be making files."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return USUAL
    line = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)
    return int(line[1], 8) if line else USUAL


def give_rights(new: int, folder: int, most: int, umask: int) -> None:
    """Give what has just been made the rights of a umask that is not this process's.

    Args:
        new: the open file or folder.
        folder: the open folder it is in.
        most: the rights it was made with.
        umask: takes some of them away.
    """
    mode = os.fstat(new).st_mode
    wanted = most & ~umask
    if mode & 0o777 == wanted or _has_default_list(folder):
        return
    with suppress(PermissionError):  # a disk without rights for each file
        os.fchmod(new, mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX) | wanted)


def make_folders(path: Path, umask: int) -> None:
    """Make a folder and those above it that are missing, with the rights of a umask.

    Raises:
        OSError: it cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            new = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                give_rights(new, above, NEW_FOLDER, umask)
            finally:
                os.close(new)
        finally:
            os.close(above)


def _has_default_list(folder: int) -> bool:
    try:
        return bool(os.getxattr(folder, "system.posix_acl_default"))
    except OSError:  # none, or a disk without them
        return False
