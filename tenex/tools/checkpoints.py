"""Checkpoints: what the workspace held before and after each call, in a shadow git repository.

The repository is bare; its work tree is the workspace, whose own repository it never touches. Commits are
under one ref for each conversation, `refs/tenex/<id>`; their messages name the turn and the call, so that a tree of
before a call is the parent of the commit that names it.
"""

import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from . import restore, workspace_scan
from .pending_revert import PendingReverts
from .shadow_git import PATIENCE, CheckpointFailed, GitTooSlow, ShadowGit
from .snapshots import NEVER_KEPT, Snapshot, Snapshots

TIDY_EVERY: Final = 500
"""Commits between two looks at whether git should pack its objects; a look takes a few milliseconds."""

_AT_ONCE: Final = 64  # files put back with one command: 10 MiB each at most, and all in memory
_MOST_KNOWN: Final = 256  # conversations whose last tree is remembered; another one costs one command

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in a tree: git's mode for it, and the name of its content."""

    mode: int
    blob: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that differs between two snapshots."""

    path: bytes
    is_new: bool
    was: Kept | None
    """What it was, if its content has changed and was kept."""
    permissions: int | None
    """Those it had, where known. Without `was`, they are all that has changed."""
    is_there: bool
    """Whether it exists now."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot that was kept under a conversation."""

    tree: str
    moment: str
    """Its first word: `before`, `after`, or `put` where something was put back."""
    call: int
    """The seq of the record that permitted the call it was made for; 0 where it was made for none."""


class Checkpoints:
    """The checkpoints of one workspace. All methods block; call them off the loop."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Take where the repository lies or shall lie, and the workspace's real path; nothing is made yet."""
        self._git = ShadowGit(folder, root, NEVER_KEPT)
        self._snapshots = Snapshots(self._git)
        self._root = root
        self._one = threading.Lock()
        self._trees: dict[str, str] = {}
        self._count = 0

    def take(self, *, exact: bool = False) -> Snapshot:
        """Take a snapshot; `exact` is dearer, and misses neither permissions nor what a new ignore file would hide.

        Raises:
            CheckpointFailed: there is none.
        """
        with self._one:
            try:
                with self._git.within(PATIENCE):
                    return self._snapshots.take(exact=exact)
            except GitTooSlow:  # a large workspace, or a pipe that git tries to read
                _log.warning("checkpoint.slow", pipes_removed=workspace_scan.remove_pipes(self._root))
            except CheckpointFailed as error:
                _log.warning("checkpoint.index_rebuilt", error=str(error))
                self._git.unlock()
                self._git.forget_index()
            return self._snapshots.take(exact=exact)

    def replace(self, reason: str) -> None:
        """Begin a new repository; the one that git cannot read any more is renamed.

        Raises:
            CheckpointFailed: it cannot be moved.
        """
        with self._one:
            old = self._git.replace_repository()
            self._trees.clear()
        _log.error("checkpoint.repository_replaced", folder=str(old), reason=reason)

    @property
    def pending(self) -> PendingReverts:
        """The journal of calls whose changes must be reverted."""
        return PendingReverts(self._git.folder)

    def changes(self, before: Snapshot, after: Snapshot) -> list[Change]:
        """What differs between two snapshots, sorted by path.

        Raises:
            CheckpointFailed: git failed.
        """
        found: dict[bytes, Change] = {}
        for path, was, is_there in self._differences(before.tree, after.tree):
            found[path] = Change(
                path=path,
                is_new=was is None and path not in before.unkept,
                was=was,
                permissions=before.permissions.get(path) if was else None,
                is_there=is_there or path in after.unkept,
            )
        for path in (before.unkept.keys() | after.unkept.keys()) - found.keys():
            old, new = before.unkept.get(path), after.unkept.get(path)
            if old != new:
                is_mode_only = old is not None and new is not None and old[1:] == new[1:]
                found[path] = Change(
                    path=path,
                    is_new=old is None,
                    was=None,
                    is_there=new is not None,
                    permissions=stat.S_IMODE(old[0]) if old is not None and is_mode_only else None,
                )
        for path, mode in before.permissions.items():
            if path not in found and after.permissions.get(path, mode) != mode:
                found[path] = Change(path=path, is_new=False, was=None, permissions=mode, is_there=True)
        return [found[path] for path in sorted(found)]

    def put_back(self, changes: Iterable[Change]) -> list[Change]:
        """Undo changes in the workspace; returns those that could not be undone."""
        wanted = list(changes)
        kept = [(change, change.was) for change in wanted if change.was is not None]
        failed: list[Change] = []
        for change in wanted:  # first, because a new file may be where a folder was
            if change.is_new:
                with _noted(failed, change):
                    restore.remove(self._root, change.path)
        for start in range(0, len(kept), _AT_ONCE):
            part = kept[start : start + _AT_ONCE]
            with self._one:
                contents = self._readable([was.blob for _, was in part])
            for (change, was), content in zip(part, contents, strict=True):
                if content is None:
                    failed.append(change)
                    continue
                mode = was.mode if was.mode == restore.LINK or change.permissions is None else change.permissions
                with _noted(failed, change):
                    restore.write(self._root, change.path, content, mode)
        for change in wanted:
            if not change.is_new and change.was is None:
                with _noted(failed, change):
                    if change.permissions is None:
                        raise OSError("it was not kept")
                    restore.permit(self._root, change.path, change.permissions)
        return failed

    def keep(self, snapshot: Snapshot, conversation: str, message: str) -> None:
        """Keep a snapshot under a conversation, unless it is what was kept last.

        Raises:
            CheckpointFailed: it is not kept.
        """
        ref = _ref(conversation)
        with self._one:
            parent = self._tip(ref)
            if parent and self._tree_of(parent) == snapshot.tree:
                return
            above = ["-p", parent] if parent else []
            made = self._git.run("commit-tree", *above, "-F", "-", snapshot.tree, feed=message.encode())
            commit = made.decode().strip()
            self._git.run("update-ref", ref, commit)
            self._remember(commit, snapshot.tree)
            self._count += 1
            if self._count % TIDY_EVERY == 1:
                with suppress(CheckpointFailed):
                    self._git.run("gc", "--auto", "--quiet")

    def commits(self, conversation: str) -> list[Commit]:
        """What was kept under a conversation, the oldest first; none where nothing was, or git was never used.

        Raises:
            CheckpointFailed: git failed.
        """
        if not self._git.folder.exists():
            return []
        with self._one:
            if not self._tip(_ref(conversation)):
                return []
            raw = self._git.run("log", "-z", "--reverse", "--format=%T%n%B", _ref(conversation))
        entries = (entry.partition("\n") for entry in raw.decode("utf-8", "replace").split("\0") if entry)
        key = re.compile(rf"^key: {re.escape(conversation)}:(\d{{1,18}})$", re.MULTILINE)
        named = ((tree, message, key.search(message)) for tree, _, message in entries)
        return [Commit(tree, message.partition(" ")[0], int(call[1]) if call else 0) for tree, message, call in named]

    def _differences(self, before: str, after: str) -> Iterator[tuple[bytes, Kept | None, bool]]:
        """Paths whose content or kind differs between two trees, what was there, and whether something is now."""
        if before == after:
            return
        with self._one:
            raw = self._git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
        fields = iter(raw.split(b"\0"))
        for about in fields:
            if about:
                old, new, blob, _, _ = about[1:].split()
                was = Kept(int(old, 8), blob.decode()) if int(old) else None
                yield next(fields), was, bool(int(new))

    def _readable(self, blobs: Sequence[str]) -> list[bytes | None]:
        """The content of each blob, in order; None for one that is damaged."""
        try:
            return list(self._contents(blobs))
        except CheckpointFailed as error:
            if len(blobs) == 1:
                _log.error("checkpoint.content_lost", error=str(error))
                return [None]
        return [content for blob in blobs for content in self._readable([blob])]

    def _contents(self, blobs: Sequence[str]) -> list[bytes]:
        """The content of each blob, in order."""
        if not blobs:
            return []
        raw = self._git.run("cat-file", "--batch", feed="".join(f"{blob}\n" for blob in blobs).encode())
        contents, at = [], 0
        for blob in blobs:
            end = raw.index(b"\n", at)
            fields = raw[at:end].split()
            if len(fields) != 3:
                raise CheckpointFailed(f"the checkpoints do not hold {blob} any more")
            at = end + 1 + int(fields[2]) + 1
            contents.append(raw[end + 1 : at - 1])
        return contents

    def _tip(self, ref: str) -> str:
        with suppress(OSError):  # a file unless git has packed it; no command is needed to read that
            return (self._git.folder / ref).read_text("ascii").strip()
        return self._git.run("for-each-ref", "--format=%(objectname)", ref).decode().strip()

    def _tree_of(self, commit: str) -> str:
        if commit not in self._trees:
            self._remember(commit, self._git.run("rev-parse", f"{commit}^{{tree}}").decode().strip())
        return self._trees[commit]

    def _remember(self, commit: str, tree: str) -> None:
        if len(self._trees) >= _MOST_KNOWN:
            del self._trees[next(iter(self._trees))]
        self._trees[commit] = tree


def _ref(conversation: str) -> str:
    return f"refs/tenex/{re.sub(r'[^0-9A-Za-z_-]', '-', conversation) or '-'}"


@contextmanager
def _noted(failed: list[Change], change: Change) -> Iterator[None]:
    """Note a change that the system does not let us undo, and go on."""
    try:
        yield
    except OSError:
        failed.append(change)
