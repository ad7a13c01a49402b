"""Programs that the daemon itself runs, outside the sandbox: git, bubblewrap."""

import os
import shutil
from pathlib import Path


def find_program(name: str, workspace: Path | None = None) -> str | None:
    """The absolute path of a program on the daemon's own `PATH`; None where there is none.

    Relative entries are left out, and those that lead into the workspace: agents could put a program of theirs there.
    """
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    root = workspace.resolve() if workspace is not None else None
    folders = [folder for folder in given if Path(folder).is_absolute() and not _is_inside(Path(folder), root)]
    found = shutil.which(name, path=os.pathsep.join(folders)) if folders else None
    return None if found is None or _is_inside(Path(found), root) else found


def _is_inside(path: Path, root: Path | None) -> bool:
    return root is not None and (path.is_relative_to(root) or Path(os.path.realpath(path)).is_relative_to(root))
