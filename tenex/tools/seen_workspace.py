"""The workspace as the programs of one turn see it (`workspace_view`), for the tools that read it.

A path is looked up name by name. As long as the upper folder has it, what is there counts; from the first name that it
does not have, the workspace counts, unless the upper folder hides it. Nothing can be written this way.
"""

import os
import stat
from pathlib import Path
from typing import Final

from .workspace import Workspace
from .workspace_view import Way, WorkspaceView, is_opaque, is_whiteout

_MOST_LINKS: Final = 40  # as many as the kernel follows


class SeenWorkspace(Workspace):
    """Reads a view; all methods block."""

    def __init__(self, workspace: Workspace, view: WorkspaceView) -> None:
        super().__init__(workspace.root, umask=workspace.umask)
        self._upper = view.upper
        self._is_whole = view.way is Way.COPY
        self._nowhere = view.nowhere

    def _seen(self, names: tuple[str, ...]) -> tuple[bool, bool]:
        """Whether the upper folder has a path, and whether the workspace is seen there; of a folder both may be."""
        if self._is_whole:
            return True, False
        place = self._upper
        hides = False
        for depth, name in enumerate(names):
            place = place / name
            try:
                about = place.lstat()
            except OSError:
                return False, not hides
            if is_whiteout(about):
                return False, False
            if not stat.S_ISDIR(about.st_mode):
                return True, False
            below = self.root.joinpath(*names[: depth + 1])
            hides = hides or is_opaque(os.fsencode(place)) or not below.is_dir() or below.is_symlink()
        return True, not hides

    def _layer(self, names: tuple[str, ...]) -> Path:
        """The folder below which a path lies: the upper one, the workspace, or one without files."""
        is_above, is_below = self._seen(names)
        if is_above:
            return self._upper
        return self.root if is_below else self._nowhere

    def _layer_of(self, real: Path) -> Path:
        names = real.relative_to(self.root).parts
        layer = self._layer(names)
        if layer != self._nowhere or os.path.lexists(self._upper.joinpath(*names)):
            return layer
        return self._layer(names[:-1])  # what is missing is looked for in the folder that it would lie in

    def _place(self, real: Path) -> Path:
        if not real.is_relative_to(self.root):
            return real
        names = real.relative_to(self.root).parts
        return self._layer(names).joinpath(*names)

    def _exists(self, place: Path) -> bool:
        real = self._real(place.relative_to(self.root).parts)
        there = self._place(real)
        return os.path.lexists(there) and not there.is_symlink()

    def _real(self, names: tuple[str, ...]) -> Path:
        found: list[str] = []
        waiting = list(reversed(names))
        links = 0
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not found:
                    return self.root.parent
                found.pop()
                continue
            place = self._place(self.root.joinpath(*found, name))
            if not place.is_symlink() or links == _MOST_LINKS:
                found.append(name)
                continue
            links += 1
            target = place.readlink()
            if target.is_absolute():
                if not target.is_relative_to(self.root):
                    return target
                found = []
                target = target.relative_to(self.root)
            waiting += reversed(os.fspath(target).split("/"))
        return self.root.joinpath(*found)

    def _inside(self, folder: Path) -> tuple[list[str], list[str]]:
        files: list[str] = []
        folders: list[str] = []
        for name in sorted(self._names_in(folder)):
            place = self._place(folder / name)
            if place.is_symlink():
                real = self._real((folder / name).relative_to(self.root).parts)
                if not self._place(real).is_dir():
                    files.append(name)
            elif place.is_dir():
                folders.append(name)
            else:
                files.append(name)
        return files, folders

    def _names_in(self, folder: Path) -> set[str]:
        """The names of what is in a folder."""
        names = folder.relative_to(self.root).parts
        is_above, is_below = self._seen(names)
        below = {place.name for place in _within(folder)} if is_below else set()
        upper = _within(self._upper.joinpath(*names)) if is_above else []
        return (below | {place.name for place in upper}) - {place.name for place in upper if _is_deleted(place)}


def _within(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_deleted(place: Path) -> bool:
    try:
        return is_whiteout(place.lstat())
    except OSError:
        return False
