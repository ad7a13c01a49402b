"""What a program took away of what git ignores, and where the bytes of that may be now.

A snapshot names a folder that is ignored as one path, and no checkpoint has what is in it. The first process of the
sandbox has noted what was at each path before the program first wrote there, and each rename and link (`witness`). So
once the program has ended it is known

- which files there are gone or have other bytes: what was there before is not there any more;
- which paths a lost file went to by renames and links, over however many names: they may be its only copy.

A file may have been written under a name that a folder got by a rename; it is known by the name it had before. Reads
are not recorded, so what was copied before it went is known by its content: a file that would be undone and has the
same content as what is lost may be its only copy. What the call itself left there is marked: another call that
overwrites it takes nothing away.
"""

import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .sandbox_init import status_of, status_text
from .snapshots import folders_of, is_covered
from .witness import Seen, Status, content_mark, file_mark, status
from .workspace import FILE

MOST_NAMED_IN_FOLDER: Final = 5
"""Files of one ignored folder that are named one by one; more are one entry with their number, as of a build."""

MOST_ENTRIES: Final = 1_000
"""Of one call: each is a line in the message of a commit."""

MOST_MARKED: Final = 20_000
"""Files of one call of which the marks are kept: 16 bytes each in the message of a commit."""

MOST_TARGETS: Final = 100
"""Paths of one call that may hold what was lost; of more, all that the call wrote may."""

MOST_FOLLOWED: Final = 20_000
DEEPEST_FOLLOWED: Final = 100
"""Paths, and names in one, to which renames of one call are followed; beyond, the same. A folder may be moved into
itself in a few steps, and then there is no end to them."""

CACHE_TAG: Final = b"CACHEDIR.TAG"
SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"
"""By a file of this name with this beginning a folder says that programs can make its content again
(https://bford.info/cachedir)."""

PYTHON_CACHE: Final = b"__pycache__"
"""What Python can make again (PEP 3147); it puts no tag into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A file or folder that was ignored and is not what it was; or several of them in a folder."""

    path: bytes
    """That of a folder ends with a slash."""
    count: int = 1
    """How many files and folders; the path is that of the ignored folder they lie in, if there are several."""
    was: Status | None = None
    """What was there, if it is one."""
    files: Mapping[bytes, bytes] = field(default_factory=dict)
    """The mark of each file as it was, with that of its content, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """What one call took away that no checkpoint has."""

    lost: tuple[Lost, ...] = ()
    targets: Mapping[bytes, bytes] = field(default_factory=dict)
    """Files, and folders with all in them, that may hold what was lost, with the path that it had. The empty path is
    all that the call wrote."""
    made: frozenset[bytes] = frozenset()
    """The marks of the files that it left in ignored folders."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to keep of it."""
        return not self.lost and not self.made

    def origin_of(self, path: bytes) -> bytes | None:
        """What a path may hold; None if it came from no lost file."""
        places = (path, *folders_of(path), b"")
        return next((self.targets[place] for place in places if place in self.targets), None)


def displaced_by(seen: Seen, root: Path, ignored: Collection[bytes], changed: Iterable[bytes]) -> Displaced:
    """Find what a program that has ended took away.

    Args:
        seen: what it wrote.
        root: the workspace.
        ignored: what was ignored before it began, as snapshots name it.
        changed: what it changed of what the checkpoints have.
    """
    top = os.fsencode(root) + b"/"
    lost = {path: was for path, was in _ignored_before(seen, ignored) if not is_as_it_was(top, path, status(was))}
    holding, is_cut = _holding(seen.moves, lost)

    targets: dict[bytes, bytes] = {}
    for path in changed:
        place = next((place for place in (path, *folders_of(path)) if place in holding), None)
        if place is not None:
            targets[place] = holding[place]
    if len(targets) > MOST_TARGETS or is_cut:
        targets = {b"": min(holding.values())}

    caches = _Caches(top, seen)
    named = {path: was for path, was in lost.items() if not caches.has(path)}
    made: set[bytes] = set()
    for path, was in seen.before.items():
        if len(made) == MOST_MARKED:
            break
        is_kept = was != b"" and is_as_it_was(top, path, status(was))  # it was opened, or its permissions changed
        if is_covered(path, ignored) and not is_kept and not caches.has(path):
            made.update(_mark_of(top, path))
    entries = tuple(_entries(named, ignored))[:MOST_ENTRIES]
    return Displaced(lost=entries, targets=targets, made=frozenset(made))


def is_as_it_was(root: bytes, path: bytes, was: Status) -> bool:
    """Whether a path below a root, which ends with a slash, has the file or folder that it had."""
    try:
        about = os.lstat(root + path.removesuffix(b"/"))
    except OSError:
        return False
    mode, size, time, inode = was
    if about.st_ino != inode or stat.S_IFMT(about.st_mode) != stat.S_IFMT(mode):
        return False
    return stat.S_ISDIR(mode) or (about.st_size, about.st_mtime_ns) == (size, time)


def _mark_of(root: bytes, path: bytes) -> Iterator[bytes]:
    """The mark of a file or link that is there."""
    about = status_of(root + path)
    if about is not None and not stat.S_ISDIR(about.st_mode):
        yield file_mark(path, status_text(root + path, about))


def _ignored_before(seen: Seen, ignored: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The files that a program wrote and the folders that it renamed, of what was ignored, by their names before it."""
    renamed: dict[bytes, bytes] = {}
    for name, target in seen.moves:
        if not seen.before.get(target):
            renamed.setdefault(target, name)
    sources = {name for name, _ in seen.moves}
    known: set[bytes] = set()
    for path, text in seen.before.items():
        if not text:
            continue
        was = status(text)
        if stat.S_ISDIR(was[0]):
            if path not in sources:
                continue
            name = _name_before(path, renamed) + b"/"
        elif stat.S_ISREG(was[0]) or stat.S_ISLNK(was[0]):
            name = _name_before(path, renamed)
        else:
            continue
        if name not in known and is_covered(name, ignored):
            known.add(name)
            yield name, text


def _name_before(path: bytes, renamed: Mapping[bytes, bytes]) -> bytes:
    """The name that a file had before the folders it lies in were renamed."""
    for _ in renamed:
        folder = next((folder for folder in folders_of(path) if folder in renamed), None)
        if folder is None:
            break
        path = renamed[folder] + path[len(folder) :]
    return path


def _holding(moves: Collection[tuple[bytes, bytes]], lost: Iterable[bytes]) -> tuple[dict[bytes, bytes], bool]:
    """Where renames and links may have brought what was lost, in whatever order; and whether that is not all."""
    targets: dict[bytes, list[bytes]] = {}
    for name, target in moves:
        targets.setdefault(name, []).append(target)
    names = sorted(targets)

    holding: dict[bytes, bytes] = {}
    waiting = [(path.removesuffix(b"/"), path) for path in lost]
    while waiting:
        place, origin = waiting.pop()
        reached = list(targets.get(place, ()))
        for folder in folders_of(place):
            reached += [target + place[len(folder) :] for target in targets.get(folder, ())]
        at = bisect_left(names, place + b"/")
        while at < len(names) and names[at].startswith(place + b"/"):
            reached += targets[names[at]]
            at += 1
        for target in reached:
            if target in holding:
                continue
            holding[target] = origin
            waiting.append((target, origin))
            if len(holding) == MOST_FOLLOWED or target.count(b"/") >= DEEPEST_FOLLOWED:
                return holding, True
    return holding, False


class _Caches:
    """Folders whose content can be made again, as they said before the program began."""

    def __init__(self, root: bytes, seen: Seen) -> None:
        self._root = root
        self._seen = seen
        self._known: dict[bytes, bool] = {}

    def has(self, path: bytes) -> bool:
        """Whether a path lies in one."""
        return any(self._is_one(folder) for folder in folders_of(path))

    def _is_one(self, folder: bytes) -> bool:
        if folder not in self._known:
            tag = folder + b"/" + CACHE_TAG
            is_tagged = tag not in self._seen.before and _begins_with(self._root + tag, SIGNATURE)
            self._known[folder] = is_tagged or folder.rpartition(b"/")[2] == PYTHON_CACHE
        return self._known[folder]


def _begins_with(path: bytes, text: bytes) -> bool:
    with suppress(OSError), os.fdopen(os.open(path, FILE), "rb") as file:
        return file.read(len(text)) == text
    return False


def _entries(lost: Mapping[bytes, bytes], ignored: Collection[bytes]) -> Iterator[Lost]:
    """What was lost, sorted; of a folder in which it is much, one entry."""
    listed: dict[bytes, list[bytes]] = {}
    for path in sorted(lost):
        entry = next((folder + b"/" for folder in folders_of(path) if folder + b"/" in ignored), path)
        listed.setdefault(entry, []).append(path)
    left = MOST_MARKED
    for entry, paths in listed.items():
        marked = paths[:left]
        left -= len(marked)
        files = {path: {file_mark(path, lost[path]): content_mark(lost[path])} for path in marked}
        if len(paths) > MOST_NAMED_IN_FOLDER:
            together = {mark: content for each in files.values() for mark, content in each.items()}
            yield Lost(path=entry, count=len(paths), files=together)
        else:
            yield from (Lost(path=path, was=status(lost[path]), files=files.get(path, {})) for path in paths)
