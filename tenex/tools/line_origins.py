"""Which call made a line, and which took one away: read from the commits of the checkpoints by `git blame`.

The commits of a conversation are one line of descent, two for most calls: before and after. So a line of now came with
the commit that `git blame` names, and a line of the beginning was taken away in the commit that follows the last one
which has it. A commit `before` a call holds what others have changed since the commit before it, and so do the paths
that a commit `after` a call names as another's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .shadow_git import CheckpointFailed, ShadowGit

LONGEST_PATCH: Final = 200_000
"""Bytes of a file's patch whose lines are traced: it is read by a person."""

_BLAMED: Final = re.compile(rb"^([0-9a-f]{40}) (\d+) (\d+)")
_FILE: Final = re.compile(rb"^(?=diff --git )", re.MULTILINE)
"""Where the patch of a file begins: each line of a file's content has a sign before it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A commit of the checkpoints."""

    commit: str
    call: int
    """The seq of the record that permitted its call; 0 where somebody else made the changes in it."""
    others: frozenset[bytes] = frozenset()
    """Paths in it that somebody else changed."""

    def origin_of(self, path: bytes) -> int:
        """The call that changed this path in it; 0 for somebody else."""
        return 0 if path in self.others else self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """How a file differs between two commits, and by which calls."""

    path: str
    patch: str
    made: Mapping[int, int]
    """By the number of a line of now: the call that made it; 0 for somebody else."""
    gone: Mapping[int, int]
    """By the number of a line of then, likewise: what took it away."""


def changes_between(git: ShadowGit, steps: Sequence[Step], paths: Sequence[str]) -> list[PathChange]:
    """How the paths differ between the first and the last of some commits that follow one another.

    Raises:
        CheckpointFailed: git failed.
    """
    first, last = steps[0].commit, steps[-1].commit
    options = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")
    names = git.run("diff-tree", "-r", "-z", "--name-only", first, last, "--", *paths).split(b"\0")[:-1]
    patches = _FILE.split(git.run("diff-tree", "--patch", *options, first, last, "--", *paths))[1:]
    if len(names) != len(patches):
        raise CheckpointFailed("the checkpoints hold a patch that cannot be read")
    return [_change(git, steps, name, patch) for name, patch in zip(names, patches, strict=True)]


def _change(git: ShadowGit, steps: Sequence[Step], name: bytes, patch: bytes) -> PathChange:
    header, _, hunks = patch.partition(b"\n@@ ")
    path = name.decode("utf-8", "surrogateescape")
    made: dict[int, int] = {}
    gone: dict[int, int] = {}
    if hunks and len(patch) <= LONGEST_PATCH:
        between = f"{steps[0].commit}..{steps[-1].commit}"
        places = {step.commit: place for place, step in enumerate(steps)}
        if b"\ndeleted file mode" not in header:
            for commit, number in _blamed(git.run("blame", "--porcelain", between, "--", path)):
                if place := places.get(commit):  # the first is older than all of them
                    made[number] = steps[place].origin_of(name)
        if b"\nnew file mode" not in header:
            for commit, number in _blamed(git.run("blame", "--porcelain", "--reverse", between, "--", path)):
                place = places.get(commit, len(steps))
                if place + 1 < len(steps):
                    gone[number] = steps[place + 1].origin_of(name)
    return PathChange(path=path, patch=patch.decode("utf-8", "replace"), made=made, gone=gone)


def _blamed(porcelain: bytes) -> list[tuple[str, int]]:
    """The commit of each line, with its number in the file that was asked about."""
    found = (_BLAMED.match(line) for line in porcelain.split(b"\n"))
    return [(match[1].decode(), int(match[3])) for match in found if match is not None]
