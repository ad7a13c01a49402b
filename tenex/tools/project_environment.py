"""The environment of the programs that agents run: the workspace's own, and never the daemon's.

`PATH` begins with the workspace's virtual environment and `node_modules/.bin`; then come the folders that the operator
names, and the system's. An interpreter that lies elsewhere, as those of pyenv and uv do, is seen in the sandbox where
the workspace's virtual environment was made with it. Agents can write `.venv`, so what it names counts only if it is an
installation of Python, and of that only the folders of programs and libraries are seen.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .bounded_read import beginning
from .seen_programs import SeenPrograms
from .toolchains import PARTS, Toolchain, toolchain_of

SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""Folders of the system that every program in the sandbox sees."""

VENVS: Final = (".venv", "venv")
"""Where virtual environments lie, the first that is there counts."""

_LINKS: Final = 40  # as many as the kernel follows
_LARGEST: Final = 64 * 1024  # bytes of a `pyvenv.cfg`, which has some hundred
_VERSION: Final = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class ProjectEnvironment:
    """What programs find in a workspace. All methods look at the disk, so that a new environment counts at once."""

    root: Path
    """The workspace, its real path."""
    more: tuple[Path, ...] = ()
    """Folders of programs and of toolchains that the operator names."""
    is_sandboxed: bool = True
    """Whether programs see only what the sandbox shows."""

    def toolchains(self) -> tuple[Toolchain, ...]:
        """What the folders bring that the operator names."""
        return tuple(toolchain_of(folder, self.root) for folder in self.more)

    def venv(self) -> Path | None:
        """The workspace's virtual environment; one that is a link out of the workspace is none."""
        for name in VENVS:
            folder = self.root / name
            if os.access(folder / "bin" / "python", os.X_OK) and _is_within(folder, self.root):
                return folder
        return None

    def search_path(self) -> str:
        """The value of `PATH`."""
        venv = self.venv()
        modules = self.root / "node_modules" / ".bin"
        own = [*([venv / "bin"] if venv else []), *([modules] if _is_within(modules, self.root) else [])]
        named = [folder for toolchain in self.toolchains() for folder in toolchain.programs]
        return os.pathsep.join(map(str, dict.fromkeys([*own, *named, *map(Path, SYSTEM_PATH)])))

    def variables(self) -> dict[str, str]:
        """The variables that name the environment."""
        venv = self.venv()
        named = {name: value for toolchain in self.toolchains() for name, value in toolchain.variables.items()}
        return {**named, "PATH": self.search_path(), **({"VIRTUAL_ENV": str(venv)} if venv else {})}

    def programs(self) -> SeenPrograms:
        """The programs on the path, as they are now."""
        shown = (self.root, *map(Path, SYSTEM), *self.mounts()) if self.is_sandboxed else None
        return SeenPrograms(self.search_path(), shown)

    def find(self, *names: str) -> str | None:
        """The first of these programs that is on the path and seen."""
        programs = self.programs()
        return next(filter(None, map(programs.find, names)), None)

    def python(self) -> str | None:
        """The interpreter of the workspace; the system's where it has none of its own."""
        return self.find("python", "python3")

    def python_version(self) -> str:
        """The version of the interpreter, as far as files and names tell; empty if they do not."""
        venv = self.venv()
        python = self.python()
        if venv is not None and python is not None and Path(python).is_relative_to(venv):
            settings = _settings(venv)
            named = _VERSION.match(settings.get("version", "") or settings.get("version_info", ""))
            return named[0] if named else ""
        name = Path(os.path.realpath(python)).name if python else ""
        return name.removeprefix("python") if _VERSION.fullmatch(name.removeprefix("python")) else ""

    def libraries(self) -> list[Path]:
        """The folders in which its interpreter finds installed modules."""
        venv = self.venv()
        python = self.python()
        prefixes: list[Path] = []
        if venv is not None:
            prefixes.append(venv)
            if _settings(venv).get("include-system-site-packages", "").lower() == "true":
                prefixes += _bases(venv)
        elif python is not None:
            prefixes += [Path(python).parent.parent, Path("/usr/local")]
        wanted = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
        return [place for prefix in prefixes for pattern in wanted for place in prefix.glob(pattern)]

    def mounts(self) -> list[Path]:
        """Folders outside the workspace and the system that its programs need, for the sandbox to show read-only."""
        venv = self.venv()
        wanted: dict[Path, None] = {}
        for prefix in _bases(venv) if venv is not None else ():
            if _is_python(prefix):
                wanted |= dict.fromkeys(_parts(prefix))
        for toolchain in self.toolchains():
            wanted |= dict.fromkeys(toolchain.shown)
        return [place for place in wanted if place.exists() and not self._is_seen(place)]

    def private_folders(self) -> list[Path]:
        """Folders outside the workspace that its programs write to, for the sandbox to have empty ones there."""
        wanted = (folder for toolchain in self.toolchains() for folder in toolchain.private)
        return [folder for folder in wanted if not self._is_seen(folder)]

    def _is_seen(self, place: Path) -> bool:
        real = Path(os.path.realpath(place))
        hidden = place.is_relative_to(self.root) or real.is_relative_to(self.root) or self.root.is_relative_to(real)
        return hidden or any(place.is_relative_to(folder) for folder in SYSTEM)


def _is_within(folder: Path, root: Path) -> bool:
    return folder.is_dir() and Path(os.path.realpath(folder)).is_relative_to(root)


def _parts(prefix: Path) -> Iterator[Path]:
    return (prefix / name for name in PARTS if (prefix / name).is_dir())


def _settings(venv: Path) -> dict[str, str]:
    """The lines of `pyvenv.cfg`."""
    try:
        lines = beginning(venv / "pyvenv.cfg", _LARGEST).splitlines()
    except OSError:
        return {}
    parts = (line.partition("=") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _bases(venv: Path) -> Iterator[Path]:
    """Folders of the installations that a virtual environment names, by its settings or by links."""
    home = _settings(venv).get("home", "")
    if Path(home).is_absolute() and "\0" not in home:
        yield Path(os.path.normpath(home)).parent
    place = venv / "bin" / "python"
    for _ in range(_LINKS):
        try:
            place = Path(os.path.normpath(place.parent / place.readlink()))
        except OSError:
            return
        yield place.parent.parent


def _is_python(prefix: Path) -> bool:
    """Whether a folder is an installation of Python, by its program and its standard library."""
    libraries = [place.parent.name for place in prefix.glob("lib/python3.*/os.py")]
    return any(os.access(prefix / "bin" / name, os.X_OK) for name in libraries) and prefix != Path("/")
