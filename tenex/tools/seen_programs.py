"""Programs on the path, looked up as they are in the sandbox: a link counts if what it leads to is seen there too.

Of a mounted folder the sandbox has the entries. Above one it has empty folders of its own, also where the machine has
links. So a link is followed name by name, and each place that it leads through has to be one of these two. The
interpreter that a script names has to be there too.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LINKS: Final = 40  # as many as the kernel follows
_LONGEST_FIRST_LINE: Final = 256  # as long as the kernel reads
LINKS_OF_SYSTEM: Final = Path("/etc/alternatives")
"""Where Debian and Fedora lead from a program to the one that is chosen."""


class SeenPrograms:
    """The programs that are found on a path."""

    def __init__(self, path: str, shown: Iterable[Path] | None) -> None:
        """Look up on this path.

        Args:
            path: a value of `PATH`.
            shown: all that is mounted, in its own place; None where nothing is hidden.
        """
        self._folders = [Path(folder) for folder in path.split(os.pathsep)]
        self._shown = None if shown is None else [*shown, LINKS_OF_SYSTEM]

    def find(self, name: str) -> str | None:
        """The first program of this name; None where there is none."""
        for folder in self._folders:
            place = folder / name
            if place.is_file() and os.access(place, os.X_OK) and self.hidden_of(place) is None:
                return str(place)
        return None

    def hidden_of(self, program: Path) -> Path | None:
        """The file that a program needs and that is not seen: what it is a link to, or its interpreter; else None."""
        interpreter = _interpreter(program)
        for place in (program, *((interpreter,) if interpreter is not None else ())):
            if not self._is_seen(place):
                return Path(os.path.realpath(place))
        return None

    def _is_seen(self, place: Path) -> bool:
        """Whether every place that a path leads through, and its end, is there in the sandbox."""
        if self._shown is None:
            return True
        here = Path("/")
        rest = [*reversed(place.parts[1:])]
        links = 0
        while rest:
            here = Path(os.path.normpath(here / rest.pop()))
            if self._is_above_mounts(here):
                continue
            if not any(here.is_relative_to(folder) for folder in self._shown):
                return False
            if here.is_symlink():
                links += 1
                if links > _LINKS:
                    return False
                target = here.readlink()
                here = Path("/") if target.is_absolute() else here.parent
                rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        return True

    def _is_above_mounts(self, place: Path) -> bool:
        assert self._shown is not None
        return any(folder.is_relative_to(place) for folder in self._shown)


def _interpreter(program: Path) -> Path | None:
    """The program that a script names in its first line; None for any other file, and for one that cannot be read."""
    try:
        with program.open("rb") as file:
            line = file.read(_LONGEST_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return None
    words = line[2:].split() if line.startswith(b"#!") else []
    named = Path(os.fsdecode(words[0])) if words else Path()
    return named if named.is_absolute() else None
