"""Which documents of a workspace name files: after a change of those they may be wrong."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from .ignored import ignored_below
from .tool import Refusal
from .workspace import Workspace, is_documentation

VISITED: Final = 50_000
"""Files looked at, so that a workspace of millions costs a bounded time."""
LARGEST: Final = 1024 * 1024
"""Bytes of a document: what is larger was made by a program."""
READ: Final = 16 * 1024 * 1024
"""Bytes of all documents: reading these takes less than a second."""
FOUND: Final = 20
"""Documents that are named: enough to know that there is something to do."""

_WORD: Final = re.compile(r"[\w./+@~-]+")
_PARENTS: Final = re.compile(r"^(?:\.{0,2}/)+")
"""How a link begins that leads to a file from the folder of its document."""


def documents_naming(workspace: Workspace, changed: Collection[str]) -> tuple[str, ...]:
    """The documents that name one of these files, sorted: by its path, or by the end of it that no other file has.

    A name without a dot, as `run`, is too often an ordinary word: it counts only with a folder before it.
    """
    if not changed:
        return ()
    walk = workspace.walk(workspace.root, ignored_below(workspace.root, workspace.root), [])
    files = list(islice(walk, VISITED))
    names = _names(changed, files)
    phrases = [name for name in names if _WORD.fullmatch(name) is None]
    found: list[str] = []
    size = 0
    for path in filter(is_documentation, files):
        try:
            content = workspace.read(workspace.root / path, LARGEST)
        except Refusal:  # too large, a link, unreadable
            continue
        size += len(content)
        if size > READ or len(found) == FOUND:
            break
        text = content.decode("utf-8", "replace")
        words = {_PARENTS.sub("", word).rstrip(".") for word in _WORD.findall(text)}
        named = [*(words & names.keys()), *(phrase for phrase in phrases if phrase in text)]
        if any(names[name] != path for name in named):
            found.append(path)
    return tuple(sorted(found))


def _names(changed: Collection[str], files: Collection[str]) -> dict[str, str]:
    """What a document may call each of the files, with the file's path."""
    wanted = {end for path in changed for end in _ends(path)}
    meant = defaultdict[str, set[str]](set)
    for path in {*files, *changed}:
        for end in wanted.intersection(_ends(path)):
            meant[end].add(path)
    only = {end: next(iter(paths)) for end, paths in meant.items() if len(paths) == 1}
    return {**only, **{path: path for path in changed if path in wanted}}


def _ends(path: str) -> Iterator[str]:
    """The path, and what is left of it without its first folders; a last part without a dot only with a folder."""
    parts = PurePosixPath(path).parts
    for place in range(len(parts)):
        end = "/".join(parts[place:])
        if "." in end or "/" in end:
            yield end
