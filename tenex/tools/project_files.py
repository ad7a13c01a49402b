"""The files of a project that name its commands, read as text or by their form. Nothing of the project is run.

Anybody may have written them: a file that cannot be read, or is not in its form, says nothing.
"""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from fnmatch import filter as matching_names
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from .bounded_read import text_or_nothing

LARGEST: Final = 256 * 1024
"""Bytes read of one file: generated makefiles and lists of scripts have some tens of thousands."""
MOST_ENTRIES: Final = 1_000
"""Entries of a folder that are compared with a pattern: a folder of tests seldom has more, and the first few decide."""


_SOFTWARE: Final = """
    pyproject.toml setup.py setup.cfg requirements*.txt tox.ini noxfile.py package.json tsconfig.json deno.json*
    Cargo.toml go.mod pom.xml build.gradle* settings.gradle* build.sbt *.sln *.slnx *.csproj *.fsproj *.vbproj Gemfile
    Rakefile composer.json mix.exs rebar.config pubspec.yaml Package.swift *.xcodeproj CMakeLists.txt meson.build
    [Mm]akefile GNUmakefile configure.ac justfile Taskfile.y*ml build.zig Makefile.PL cpanfile stack.yaml *.cabal
    dune-project *.rockspec flake.nix Dockerfile Containerfile platformio.ini *.c *.cc *.cpp *.cs *.ex *.go *.hs *.java
    *.js *.jsx *.kt *.lua *.php *.pl *.py *.rb *.rs *.scala *.sh *.swift *.ts *.tsx
    """
"""Names in the folder of a project that hold its settings for a build, or its code."""


def holds_documents(folder: Path) -> bool:
    """Whether a folder has files, and none of them is one of software: as far as its first entries tell."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_ENTRIES) if not entry.name.startswith(".")]
    except OSError:
        return False
    return bool(names) and not any(matching_names(names, pattern) for pattern in _SOFTWARE.split())


class ProjectFiles:
    """The files of one folder; each is read at most once. All methods look at the disk."""

    def __init__(self, root: Path) -> None:
        """Take the folder; it need not exist."""
        self.root: Final = root
        self._root: Final = os.fspath(root)
        self._texts: dict[str, str] = {}
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._folders: dict[str, list[str]] = {}

    def is_there(self, name: str) -> bool:
        """Whether there is such a file; a link counts only if it leads to one."""
        return os.path.isfile(f"{self._root}/{name}")  # noqa: PTH113 - asked some hundred times, and pathlib is slow

    def text(self, name: str) -> str:
        """The text of a file; empty where there is none."""
        if name not in self._texts:
            self._texts[name] = text_or_nothing(self.root / name, LARGEST)
        return self._texts[name]

    def document(self, name: str) -> Mapping[str, Any]:
        """The tables of a file by its suffix: TOML, JSON or, for any other, INI; empty where it is not in that form."""
        if name not in self._documents:
            parse: Callable[[str], Any] = _PARSERS.get(PurePosixPath(name).suffix, _ini)
            try:
                found = parse(self.text(name))
            except (ValueError, RecursionError, ConfigError):
                found = {}
            self._documents[name] = found if isinstance(found, dict) else {}
        return self._documents[name]

    def value(self, name: str, path: str) -> Any:
        """The value at a dotted path in the tables of a file; None where there is none."""
        found: Any = self.document(name)
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def table(self, name: str, path: str) -> Mapping[str, Any]:
        """The table at a dotted path; empty where there is none."""
        found = self.value(name, path)
        return found if isinstance(found, dict) else {}

    def matching(self, pattern: str) -> list[str]:
        """The files of a folder whose names match a pattern, such as `tests/test_*.py`, among its first entries."""
        folder, _, wanted = pattern.rpartition("/")
        if not set(wanted) & set("*?["):
            return [pattern] if self.is_there(pattern) else []
        paths = [f"{folder}/{name}" if folder else name for name in matching_names(self._names(folder), wanted)]
        return [path for path in paths if self.is_there(path)]

    def _names(self, folder: str) -> list[str]:
        """The first names in a folder, sorted; none where it cannot be read."""
        if folder not in self._folders:
            try:
                with os.scandir(self.root / folder) as entries:
                    names = [entry.name for entry in islice(entries, MOST_ENTRIES)]
            except OSError:
                names = []
            self._folders[folder] = sorted(names)
        return self._folders[folder]


class EarlierFiles(ProjectFiles):
    """The files of one folder as they were, as far as those that differ now are given."""

    def __init__(self, root: Path, earlier: Mapping[str, bytes | None]) -> None:
        """Take the folder, and what files held before by path; None for one that was not there."""
        super().__init__(root)
        self._earlier = earlier

    def is_there(self, name: str) -> bool:
        """Whether there was such a file."""
        return self._earlier[name] is not None if name in self._earlier else super().is_there(name)

    def text(self, name: str) -> str:
        """The text that a file had; empty where there was none."""
        if name in self._earlier:
            return (self._earlier[name] or b"")[:LARGEST].decode("utf-8", "replace")
        return super().text(name)

    def _names(self, folder: str) -> list[str]:
        places = [path.rpartition("/") for path in self._earlier]
        return sorted({*super()._names(folder), *(name for parent, _, name in places if parent == folder)})


def _ini(text: str) -> dict[str, Any]:
    parser = ConfigParser(interpolation=None, strict=False, default_section="")
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _json(text: str) -> Any:
    return json.loads(text or "{}")


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {".toml": tomllib.loads, ".json": _json}
