"""The files of the workspace that a call names, with digests of what they hold: a yes is for this content.

Nothing is guessed about programs: every piece of every text argument that could be the name of a file is looked up, in
the workspace's folder and in the folders that the call names. A word more than is needed costs a question only where
that very file changes. What programs read without being told (the file of `make`, of `npm run`) is a short list.
"""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import Any, Final

MOST_NAMES: Final = 100_000
"""Pieces of a call that are looked up: more than the longest command has, so none is out of sight behind others."""
MOST_FOLDERS: Final = 10
MOST_MATCHES: Final = 200
"""Files that one pattern may stand for."""
LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file that are read; a larger one is known by its size, inode and time."""
LONGEST_NAME: Final = 1_000
_DEPTH: Final = 8

_BETWEEN: Final = re.compile(r"[\s'\"`;|&<>()$\\]+")
_QUOTED: Final = (re.compile(r"'([^'\n]*)'"), re.compile(r'"([^"\n]*)"'))
_WITHIN: Final = re.compile(r"[=:,@]")
_GLOB: Final = re.compile(r"[*?\[]")
_GUARDED: Final = frozenset({"edit_file", "write_file"})
"""Tools that refuse by themselves to change a file which is another than the agent has read."""

_READ_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "node"), ("package.json",)),
    "deno": ("deno.json", "deno.jsonc"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "cargo": ("Cargo.toml", "build.rs"),
    "pip": ("setup.py", "pyproject.toml"),
    "uv": ("pyproject.toml",),
    "poetry": ("pyproject.toml",),
    "tox": ("tox.ini", "pyproject.toml"),
    "rake": ("Rakefile", "rakefile"),
    "docker": ("Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"),
    "podman": ("Dockerfile", "Containerfile", "compose.yaml", "compose.yml"),
    "composer": ("composer.json",),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "mvn": ("pom.xml",),
    "terraform": ("main.tf",),
}
"""Files that programs read in the folder where they run, without being told."""
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": (".py", "/__init__.py", "/__main__.py"),
    "node": (".js", ".mjs", ".cjs", ".json", "/index.js", "/package.json"),
    "go": (".go",),
    "ruby": (".rb",),
}
"""What programs put behind a name that they are given; a dot in the name of a Python module is a folder."""


def named_files(root: Path, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The regular files of the workspace that a call names, relative to it, with the sha256 of each; blocks.

    Of a link that is named, both itself and what it leads to.
    """
    if tool in _GUARDED:
        return {}
    root = root.resolve()
    names = tuple(islice(dict.fromkeys(_names(arguments)), MOST_NAMES))
    folders = [root]
    for name in names:
        place = _inside(root, root / name) if _is_there(root / name) else None
        if place is not None and place.is_dir() and place not in folders and len(folders) < MOST_FOLDERS:
            folders.append(place)
    found: dict[str, str] = {}
    for folder in folders:
        for name in (*names, *_unspoken(names)):
            for place in _places(folder, name):
                digest = _digest(root, place) if _is_there(place) else ""
                if digest:
                    found[os.path.relpath(place, root)] = digest
    return dict(sorted(found.items()))


def _names(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The pieces of all texts of a call that could be names of files."""
    for text in _texts(arguments):
        pieces = [text, *(inner for quoted in _QUOTED for inner in quoted.findall(text)), *_BETWEEN.split(text)]
        with suppress(ValueError):  # quotes that are not closed
            pieces += shlex.split(text)
        for piece in pieces:
            short = piece[2:] if re.match(r"-[A-Za-z].", piece) else ""  # `-fMakefile`
            for part in (piece, short, *_WITHIN.split(piece)):
                is_name = 0 < len(part) <= LONGEST_NAME and "\0" not in part and "\n" not in part
                if is_name and part not in (".", "/", ".."):
                    yield part


def _texts(value: Any, depth: int = _DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple) and depth:
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part, depth - 1)


def _unspoken(names: tuple[str, ...]) -> Iterator[str]:
    """Files that the programs among these names read without being told, or by another name than the one they get."""
    programs = {name.rpartition("/")[2] for name in names}
    for program in sorted(programs & _READ_BY.keys()):
        yield from _READ_BY[program]
    for program, endings in _ENDINGS.items():
        if any(re.fullmatch(rf"{program}[\d.]*", name) for name in programs):
            for name in names:
                yield from (name + ending for ending in endings)
                if program == "python" and "." in name:
                    yield from (name.replace(".", "/") + ending for ending in endings)


def _places(folder: Path, name: str) -> Iterator[Path]:
    """Where a file of a name, or those of a pattern, would be."""
    if not _GLOB.search(name):
        yield folder / name
        return
    with suppress(OSError, ValueError, re.error):
        for match in islice(iglob(name, root_dir=folder, include_hidden=True), MOST_MATCHES):  # noqa: PTH207 also absolute ones
            yield folder / match


def _is_there(place: Path) -> bool:
    try:
        return os.path.lexists(place)
    except ValueError:
        return False


def _inside(root: Path, place: Path) -> Path | None:
    """The real path of a place; None outside of the workspace, and where there is none."""
    with suppress(OSError, ValueError, RuntimeError):
        real = place.resolve(strict=True)
        if real.is_relative_to(root):
            return real
    return None


def _digest(root: Path, place: Path) -> str:
    """The digest of a regular file, of a link with what it leads to; "" for everything else."""
    with suppress(OSError, ValueError, RuntimeError):
        folder = _inside(root, place.parent)
        if folder is None:
            return ""
        leads_to = str(place.readlink()) if place.is_symlink() else ""
        real = _inside(root, place)
        read = _content(real) if real is not None else ""
        if leads_to:
            return hashlib.sha256(f"link to {leads_to}: {read}".encode(errors="surrogateescape")).hexdigest()
        return read
    return ""


def _content(real: Path) -> str:
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        if status.st_size > LARGEST:
            return f"{status.st_size} bytes, inode {status.st_ino}, {status.st_mtime_ns} ns"
        return hashlib.file_digest(file, "sha256").hexdigest()
