"""Which files of the workspace a call wrote.

Of a program the first process of its sandbox saw it (`sandbox_init`); tools of the daemon note it themselves.
"""

import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, Protocol

from tenex.core.ports import ToolResult

from .sandbox_init import status_of, status_text

_NOT_BEGUN: Final = "it has not begun"

MARK_SIZE: Final = 6
"""Bytes: 20,000 files of a build have a mark in common with 20,000 others once in a million builds."""

Status = tuple[int, int, int, int]
"""What would show that a file was changed or replaced: mode, size, time in nanoseconds and inode."""


class Seen(Protocol):
    """What was seen of a call. The paths are relative to the workspace."""

    @property
    def before(self) -> Mapping[bytes, bytes]:
        """What was at each path before its first write, as `status` reads it; empty where nothing was."""

    @property
    def moves(self) -> Collection[tuple[bytes, bytes]]:
        """Paths that were renamed or linked, each with its new name, in the order in which that was seen first."""

    @property
    def fault(self) -> str:
        """Why something may be missing; "" where all was seen."""

    def wrote(self, path: bytes) -> bool:
        """Whether it wrote a file, made or removed it, or renamed a folder that it lies in."""


@dataclass(slots=True)
class OwnWrites:
    """What tools of the daemon write, noted before each write."""

    root: Path
    before: dict[bytes, bytes] = field(default_factory=dict)
    moves: dict[tuple[bytes, bytes], None] = field(default_factory=dict)
    fault: str = ""

    def note(self, path: bytes) -> None:
        """Note what is at a path, which is written next."""
        if path not in self.before:
            place = os.fsencode(self.root) + b"/" + path
            self.before[path] = status_text(place, status_of(place))

    def note_move(self, path: bytes, target: bytes) -> None:
        """Note a file that is renamed next."""
        self.note(path)
        self.note(target)
        self.moves[path, target] = None

    def wrote(self, path: bytes) -> bool:
        """Whether a file was written, made or removed."""
        return path in self.before


class Witness:
    """What one program, or one server that goes on, has written so far. The paths are relative to the workspace."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root) + b"/"
        self._elsewhere: dict[bytes, bytes] = {}
        """As `_before`, by whole paths in further folders."""
        self.descriptor = os.memfd_create("tenex-witness", os.MFD_CLOEXEC)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_APPEND)  # `begin` empties it
        self._read = 0
        self._one = threading.Lock()  # a background command ends while its beginning is looked at
        self._has_begun = False
        self._cut = b""
        self._before: dict[bytes, bytes] = {}
        self._trees: set[bytes] = set()
        self._moves: dict[tuple[bytes, bytes], None] = {}
        self.fault = _NOT_BEGUN
        """Why something may be missing; "" where all was seen."""

    def close(self) -> None:
        """Free the descriptor; what was read is kept."""
        with self._one:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1

    def begin(self) -> None:
        """Take what it writes from now on for all of it; what it wrote before is written down again."""
        self.look()
        os.ftruncate(self.descriptor, 0)
        self._read = 0
        self._cut = b""
        self._before.clear()
        self._elsewhere.clear()
        self._trees.clear()
        self._moves.clear()
        if self._has_begun:
            self.fault = ""

    def look(self) -> None:
        """Read what was written down since the last time."""
        with self._one:
            while self.descriptor >= 0 and (chunk := os.pread(self.descriptor, 1 << 16, self._read)):
                self._read += len(chunk)
                *entries, self._cut = (self._cut + chunk).split(b"\0")
                for entry in entries:
                    self._take(entry[:1], entry[1:])

    def until_now(self) -> "Witness":
        """What was written so far, which stays as it is."""
        self.look()
        with self._one:
            taken = copy(self)
            taken.descriptor = -1
            taken._before = dict(self._before)
            taken._trees = set(self._trees)
            taken._moves = dict(self._moves)
        return taken

    def tried_below(self, folder: Path) -> bool:
        """Whether it tried to change something in a folder, by its whole path."""
        return any(path.is_relative_to(folder) and path != folder for path, _ in self._whole_paths())

    def made(self) -> Iterator[Path]:
        """The paths that it wrote and that were not there before, whole; some of them may be gone."""
        yield from (path for path, before in self._whole_paths() if not before)

    def _whole_paths(self) -> Iterator[tuple[Path, bytes]]:
        for path, before in self._before.items():
            yield Path(os.fsdecode(self._root + path)), before
        for path, before in self._elsewhere.items():
            yield Path(os.fsdecode(path)), before

    def wrote(self, path: bytes) -> bool:
        """Whether it wrote a file, made or removed it, or renamed a folder that it lies in."""
        if path in self._before:
            return True
        folder = path.rpartition(b"/")[0]
        while folder:
            if folder in self._trees:
                return True
            folder = folder.rpartition(b"/")[0]
        return False

    @property
    def before(self) -> Mapping[bytes, bytes]:
        """What was at each path before its first write, as `status` reads it; empty where nothing was."""
        return self._before

    @property
    def moves(self) -> Collection[tuple[bytes, bytes]]:
        """Paths that were renamed or linked, each with its new name, in the order in which that was seen first."""
        return self._moves.keys()

    def _take(self, kind: bytes, text: bytes) -> None:
        if kind == b"+":
            self.fault = "" if self.fault == _NOT_BEGUN else self.fault
            self._has_begun = True
        elif kind == b"!":
            self.fault = text.decode("utf-8", "replace")
        elif kind == b">":
            length, _, names = text.partition(b" ")
            name = names[: int(length)]
            target = names[int(length) :]
            if name.startswith(self._root) and target.startswith(self._root):
                self._moves[name[len(self._root) :], target[len(self._root) :]] = None
        else:
            before, _, place = text.partition(b" ")
            if not place.startswith(self._root):
                self._elsewhere.setdefault(place, before)
                return
            path = place[len(self._root) :]
            self._before.setdefault(path, before)
            if kind == b"/":
                self._trees.add(path)


def written_of(seen: Seen, root: Path, changed: Iterable[bytes]) -> set[bytes]:
    """The paths that a call wrote of those that changed, by this or another name of the file (hard links)."""
    top = os.fsencode(root) + b"/"
    paths = list(changed)
    own = {path for path in paths if seen.wrote(path)}
    linked = {path: about for path in paths if (about := status_of(top + path)) is not None and about.st_nlink > 1}
    if linked.keys() <= own:
        return own
    present = (status_of(top + path) for path in seen.before)
    written = {(about.st_dev, about.st_ino) for about in present if about is not None and about.st_nlink > 1}
    return own | {path for path, about in linked.items() if (about.st_dev, about.st_ino) in written}


def status(text: bytes) -> Status:
    """What a witness wrote down about a file."""
    mode, size, time, inode = text.split(b",")[:4]
    return int(mode), int(size), int(time), int(inode)


def content_mark(text: bytes) -> bytes:
    """What files of the same content have in common, of what a witness wrote down; empty where it is not known.

    Files of which the sizes, the beginnings and the ends are equal have it in common too.
    """
    _, size, _, _, *sample = text.split(b",") if text else [b""] * 4
    return _digest(size, *sample) if sample and sample[0] else b""


def file_mark(path: bytes, text: bytes) -> bytes:
    """By what a file is known that was written, until somebody changes or replaces it."""
    mode, size, time, inode = status(text)
    return _digest(path, b"%d,%d,%d,%d" % (stat.S_IFMT(mode), size, time, inode))


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\0".join(parts), digest_size=MARK_SIZE).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessedResult(ToolResult):
    """The result of a program, with what was seen of it; None where nothing sees it."""

    witness: Witness | None = None


def with_witness(result: ToolResult, witness: Witness | None) -> ToolResult:
    """The result of a program with what was seen of it."""
    values = {spec.name: getattr(result, spec.name) for spec in fields(ToolResult)}
    return WitnessedResult(**values, witness=witness)


def plain(result: ToolResult) -> ToolResult:
    """The result without what was seen: as the core gets it."""
    if not isinstance(result, WitnessedResult):
        return result
    return ToolResult(**{spec.name: getattr(result, spec.name) for spec in fields(ToolResult)})


@contextmanager
def witness_of(root: Path) -> Iterator[Witness]:
    """A witness for one program that is run within the block; what it saw stays known."""
    witness = Witness(root)
    try:
        yield witness
        witness.look()
    finally:
        witness.close()
