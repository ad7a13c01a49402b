"""Checkpoints: what the workspace held before and after each call, in a shadow git repository.

The repository is bare; its work tree is the workspace, whose own repository it never touches. Commits are
under one ref for each conversation, `refs/tenex/<id>`; their messages name the turn and the call, so that a tree of
before a call is the parent of the commit that names it.
"""

import base64
import json
import os
import re
import stat
import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tenex.core.phases import Access
from tenex.log import get_logger

from . import restore, workspace_scan
from .displaced import Displaced, Lost
from .file_stamps import NEVER_KEPT
from .line_origins import PathChange, Step, changes_between
from .shadow_git import DEADLINE, PATIENCE, CheckpointFailed, GitTooSlow, ShadowGit
from .snapshots import NOT_KEPT, UMASK, Snapshot, Snapshots, folders_of, reason, usual_permissions
from .witness import MARK_SIZE

MOST_COUNTED: Final = 100
"""Files of one call whose lines are counted: users are shown fewer."""

TIDY_EVERY: Final = 500
"""Commits between two looks at whether git should pack its objects; a look takes a few milliseconds."""

_TEXT_AT_MOST: Final = "core.bigFileThreshold=2m"
"""Larger files count as no text: to compare two of 10 MiB can take git many seconds."""

_AT_ONCE: Final = 32  # files put back with one command: two contents of 10 MiB each at most, and all in memory
_NAMED_AT_ONCE: Final = 200  # paths in one command line, of at most 4096 bytes each
_MOST_KNOWN: Final = 256  # conversations whose last tree is remembered; another one costs one command

_NO_CONTENT: Final = bytes(MARK_SIZE)
"""In place of the mark of a content that is not known."""

_UNREADABLE: Final = "its copy cannot be read"

_ACCESS: Final = re.compile(r"^access: (change|run)$", re.MULTILINE)
_WITNESSED: Final = re.compile(r"^witnessed: yes$", re.MULTILINE)
_OTHER: Final = re.compile(r'^other: (".*")$', re.MULTILINE)
_LOST: Final = re.compile(r"^lost: ({.*})$", re.MULTILINE)
_MOVED: Final = re.compile(r"^moved: ({.*})$", re.MULTILINE)
_MADE: Final = re.compile(r"^made: (\S+)$", re.MULTILINE)
"""The lines of `call_lines`."""

_log = get_logger(__name__)


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
    now: Kept | None = None
    """What it is, if its content has changed and is kept."""
    permissions: int | None
    """Those it had, where known. Without `was`, they are all that has changed."""
    is_there: bool
    """Whether it exists now."""

    @property
    def has_lost(self) -> bool:
        """Whether it had a content of which there is no copy."""
        return not self.is_new and self.was is None and self.permissions is None

    @property
    def has_new_bytes(self) -> bool:
        """Whether it is kept now, and not with the bytes that it had."""
        return self.now is not None and (self.was is None or self.was.blob != self.now.blob)

    @property
    def is_of_permissions(self) -> bool:
        """Whether its content is what it was."""
        return not self.is_new and self.was is None and self.permissions is not None


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot that was kept under a conversation."""

    tree: str
    moment: str
    """Its first word: `before`, `after`, `ended` for a background command, or `put` where something was put back."""
    call: int
    """The seq of the record that permitted the call it was made for; 0 where it was made for none."""
    access: Access | None = None
    """What the call could do to the workspace; None where that is not known."""
    is_witnessed: bool = False
    """Whether every write of its program was seen."""
    others: frozenset[bytes] = frozenset()
    """Paths that differ and that the call did not write: somebody else changed them meanwhile."""
    displaced: Displaced = field(default_factory=Displaced)


def call_lines(access: Access, *, witnessed: bool, others: Iterable[bytes], displaced: Displaced | None = None) -> str:
    """The lines in the message of the commit after a call by which it is known who changed what."""
    lines = [f"access: {access}"]
    if witnessed:
        lines.append("witnessed: yes")
    lines += [f"other: {json.dumps(os.fsdecode(path))}" for path in sorted(others)]
    if displaced is not None:
        for lost in displaced.lost:
            files = _as_text(mark + (content or _NO_CONTENT) for mark, content in lost.files.items())
            entry = {"path": os.fsdecode(lost.path), "count": lost.count, "was": lost.was, "files": files}
            lines.append(f"lost: {json.dumps(entry)}")
        for path, origin in displaced.targets.items():
            lines.append(f"moved: {json.dumps({'path': os.fsdecode(path), 'from': os.fsdecode(origin)})}")
        if displaced.made:
            lines.append(f"made: {_as_text(sorted(displaced.made))}")
    return "".join(f"{line}\n" for line in lines)


def _as_text(marks: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(marks)).decode("ascii")


def _marks(text: str, size: int) -> Iterator[bytes]:
    """The marks in a text, each of so many bytes."""
    whole = base64.b64decode(text)
    return (whole[at : at + size] for at in range(0, len(whole), size))


class Checkpoints:
    """The checkpoints of one workspace. All methods block; call them off the loop."""

    def __init__(self, folder: Path, root: Path, umask: int = UMASK, *, reads_only: bool = False) -> None:
        """Take where the repository lies or shall lie, the workspace's real path and its user's umask.

        With `reads_only` they are those of another process, such as a daemon that is at work in them.
        """
        self._git = ShadowGit(folder, root, NEVER_KEPT, reads_only=reads_only)
        self._snapshots = Snapshots(self._git, umask)
        self._umask = umask
        self._root = root
        self._one = threading.Lock()
        self._trees: dict[str, str] = {}
        self._cycles: dict[tuple[str, int], str] = {}
        """The tree before the first call of a conversation's cycle."""
        self._count = 0

    @property
    def root(self) -> Path:
        """The workspace."""
        return self._root

    def take(self) -> Snapshot:
        """Take a snapshot.

        Raises:
            CheckpointFailed: there is none.
        """
        with self._one:
            try:
                with self._git.within(PATIENCE):
                    return self._snapshots.take()
            except GitTooSlow:  # a large workspace, or a pipe that git tries to read
                _log.warning("checkpoint.slow", pipes_removed=workspace_scan.remove_pipes(self._root))
            except CheckpointFailed as error:
                _log.warning("checkpoint.index_rebuilt", error=str(error))
                self._git.unlock()
                self._git.forget_index()
            return self._snapshots.take()

    def replace(self, reason: str) -> None:
        """Begin a new repository; the one that git cannot read any more is renamed.

        Raises:
            CheckpointFailed: it cannot be moved.
        """
        with self._one:
            old = self._git.replace_repository()
            self._trees.clear()
            self._cycles.clear()
        _log.error("checkpoint.repository_replaced", folder=str(old), reason=reason)

    def changes(self, before: Snapshot, after: Snapshot) -> list[Change]:
        """What differs between two snapshots, sorted by path.

        Raises:
            CheckpointFailed: git failed.
        """
        found: dict[bytes, Change] = {}
        for path, was, now in self._differences(before.tree, after.tree):
            found[path] = Change(
                path=path,
                is_new=was is None and path not in before.unkept,
                was=was,
                now=now,
                permissions=before.permissions_of(path, was.mode) if was else None,
                is_there=now is not None or path in after.unkept,
            )
        for path in (before.unkept.keys() | after.unkept.keys()) - found.keys():
            old = before.unkept.get(path)
            new = after.unkept.get(path)
            if old != new:
                is_mode_only = old is not None and new is not None and old[1:] == new[1:]
                found[path] = Change(
                    path=path,
                    is_new=old is None,
                    was=None,
                    is_there=new is not None,
                    permissions=stat.S_IMODE(old[0]) if old is not None and is_mode_only else None,
                )
        for path, mode in self._changed_permissions(before, after):
            if path not in found:
                found[path] = Change(path=path, is_new=False, was=None, permissions=mode, is_there=True)
        return [found[path] for path in sorted(found)]

    def _changed_permissions(self, before: Snapshot, after: Snapshot) -> Iterator[tuple[bytes, int]]:
        """Paths in both snapshots whose permissions differ, with those they had."""
        if before.umask is None or after.umask is None:
            return
        here = before.permissions
        there = after.permissions
        differing = [path for path in here.keys() | there.keys() if here.get(path) != there.get(path)]
        # what is named on one side only has the usual ones on the other, if it is there at all
        were = self._modes(before.tree, [path for path in differing if path not in here])
        are = self._modes(after.tree, [path for path in differing if path not in there])
        for path in differing:
            was = here[path] if path in here else usual_permissions(were[path], before.umask) if path in were else None
            now = there[path] if path in there else usual_permissions(are[path], after.umask) if path in are else None
            if was is not None and now is not None and was != now:
                yield path, was

    def _modes(self, tree: str, paths: Sequence[bytes]) -> dict[bytes, int]:
        """The modes by which git knows these paths, of those that are in a tree."""
        modes = {}
        for start in range(0, len(paths), _NAMED_AT_ONCE):
            names = [os.fsdecode(path) for path in paths[start : start + _NAMED_AT_ONCE]]
            with self._one:
                raw = self._git.show("ls-tree", "-z", tree, "--", *names)
            for line in filter(None, raw.split(b"\0")):
                about, _, path = line.partition(b"\t")
                modes[path] = int(about.split()[0], 8)
        return modes

    def diff_of(
        self, conversation: str, belongs: Mapping[str, str], paths: Iterable[str], *, patience: float = -1
    ) -> str:
        """How the paths differ between before the first and after the last call of some turn or cycle, as a patch.

        Args:
            conversation: whose calls.
            belongs: names and values that the messages of its commits must hold, such as `turn`.
            paths: what is compared.
            patience: the seconds it may take, also to wait for another snapshot; then it is empty. -1 is no limit.

        Raises:
            CheckpointFailed: git failed.
        """
        wanted = sorted(paths)
        if not wanted or not self._git.folder.exists() or not self._one.acquire(timeout=patience):
            return ""
        try:
            with self._git.within(patience if patience > 0 else DEADLINE):
                trees = self._first_and_last(conversation, belongs)
                if trees is None:
                    return ""
                options = ("--patch", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color")
                patch = self._git.run("diff-tree", *options, *trees, "--", *wanted)
        finally:
            self._one.release()
        return patch.decode("utf-8", "replace")

    def origins(self, conversation: str, cycle: int, paths: Iterable[str], *, patience: float) -> list[PathChange]:
        """How the paths differ between before the first and after the last call of a cycle, and by which calls.

        Args:
            conversation: whose calls.
            cycle: its number.
            paths: what is compared.
            patience: the seconds that each step may take, also to wait for another snapshot; then it is empty.

        Raises:
            CheckpointFailed: git failed.
        """
        wanted = sorted(paths)
        if not wanted or not self._git.folder.exists() or not self._one.acquire(timeout=patience):
            return []
        try:
            with self._git.within(patience):
                if not self._tip(_ref(conversation)):
                    return []
                entries = self._log(conversation)
                span = _span(entries, {"cycle": str(cycle)})
                if span is None:
                    return []
                key = _key(conversation)
                steps = [_step(commit, message, key) for commit, _, message in entries[span[0] : span[1] + 1]]
                return changes_between(self._git, steps, wanted)
        finally:
            self._one.release()

    def since_beginning(
        self, conversation: str, cycle: int, now: Snapshot, paths: Iterable[str]
    ) -> tuple[dict[str, tuple[int, int]], tuple[str, ...]]:
        """The lines added and removed in each path since the beginning of a cycle, and the paths that are as then.

        The lines are (0, 0) too where none are known: of what is no text, and what no snapshot holds.

        Raises:
            CheckpointFailed: git failed.
        """
        wanted = sorted(paths)[:MOST_COUNTED]
        if not wanted:
            return {}, ()
        with self._one, self._git.within(PATIENCE):
            base = self._base_of(conversation, cycle)
            if not base:
                return {}, ()
            counted = self._line_counts(base, now.tree, wanted)
        lines = {path: counted.get(os.fsencode(path), (0, 0)) for path in wanted}
        rest = [path for path in wanted if os.fsencode(path) not in counted]
        return lines, tuple(self._unchanged(base, now, rest))

    def _unchanged(self, base: str, now: Snapshot, paths: Sequence[str]) -> Iterator[str]:
        """Those of the paths that are files, and are what they were, or were not there and are not."""
        if not paths:
            return
        began = self.read(base)[0]
        differing = {change.path for change in self.changes(began, now)}
        were = self._modes(base, [os.fsencode(path) for path in paths])
        for path in paths:
            name = os.fsencode(path)
            if name in differing or began.was_ignored(name):
                continue
            is_file = name in were and not stat.S_ISDIR(were[name])
            if is_file or (name not in were and not os.path.lexists(self._root / path)):
                yield path

    def base_of(self, conversation: str, cycle: int) -> str:
        """The tree of before the first call of a conversation's cycle; "" where none is kept.

        Raises:
            CheckpointFailed: git failed.
        """
        with self._one:
            return self._base_of(conversation, cycle)

    def line_counts(self, before: str, after: str) -> dict[bytes, tuple[int, int]]:
        """The lines added and removed in each path that differs between two trees, and of which lines are known.

        Raises:
            CheckpointFailed: git failed.
        """
        with self._one, self._git.within(PATIENCE):
            return self._line_counts(before, after)

    def files(self, tree: str) -> dict[bytes, Kept]:
        """All that a tree holds, by path.

        Raises:
            CheckpointFailed: git failed.
        """
        with self._one:
            raw = self._git.show("ls-tree", "-r", "-z", tree)
        found = {}
        for entry in filter(None, raw.split(b"\0")):
            about, _, path = entry.partition(b"\t")
            mode, _, blob = about.split()
            if path != NOT_KEPT:
                found[path] = Kept(int(mode, 8), blob.decode())
        return found

    def earlier_copies(self, changes: Iterable[Change]) -> Iterator[tuple[bytes, restore.Copy]]:
        """What the paths of these changes held before, of those whose content was kept.

        Raises:
            CheckpointFailed: git failed, or a copy cannot be read.
        """
        wanted = [change for change in changes if change.was is not None]
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            blobs = list({change.was.blob for change in part if change.was is not None})
            with self._one:
                contents = dict(zip(blobs, self._contents(blobs), strict=True))
            for change in part:
                copy = self._copy(change.was, contents, change.permissions, change.path)
                if copy is not None:
                    yield change.path, copy

    def _base_of(self, conversation: str, cycle: int) -> str:
        key = (conversation, cycle)
        if key not in self._cycles:
            is_known = self._git.folder.exists() and self._tip(_ref(conversation))
            trees = self._first_and_last(conversation, {"cycle": str(cycle)}) if is_known else None
            if trees is None:
                return ""
            if len(self._cycles) >= _MOST_KNOWN:
                del self._cycles[next(iter(self._cycles))]
            self._cycles[key] = trees[0]
        return self._cycles[key]

    def _line_counts(self, before: str, after: str, paths: Sequence[str] = ()) -> dict[bytes, tuple[int, int]]:
        options = ("-r", "-z", "--numstat", "--no-ext-diff", "--no-textconv", "--no-renames")
        raw = self._git.run("-c", _TEXT_AT_MOST, "diff-tree", *options, before, after, "--", *paths)
        lines = {}
        for entry in filter(None, raw.split(b"\0")):
            added, removed, path = entry.split(b"\t", 2)
            if added.isdigit():
                lines[path] = (int(added), int(removed))
        return lines

    def _first_and_last(self, conversation: str, belongs: Mapping[str, str]) -> tuple[str, str] | None:
        """The trees of before the first and after the last call of some turn or cycle; None where none is kept."""
        entries = self._log(conversation)
        span = _span(entries, belongs)
        return None if span is None else (entries[span[0]][1], entries[span[1]][1])

    def _log(self, conversation: str) -> list[tuple[str, str, str]]:
        """What was kept under a conversation, the oldest first: commits, trees and messages."""
        raw = self._git.run("log", "-z", "--reverse", "--format=%H %T%n%B", _ref(conversation))
        found = []
        for entry in filter(None, raw.decode("utf-8", "replace").split("\0")):
            names, _, message = entry.partition("\n")
            commit, tree = names.split()
            found.append((commit, tree, message))
        return found

    def put_back(
        self, changes: Iterable[Change], before: Snapshot, after: Snapshot, written: Container[bytes] = ()
    ) -> dict[bytes, str]:
        """Undo changes between two snapshots in the workspace; returns the paths that stay as they are, and why.

        What a path holds is removed or overwritten only if it is what the later snapshot holds of it, which must be
        kept: that copy is read and compared. What is new is removed last, and only if all else could be put back: what
        could not may be there under a new name, unless it is `written`: its bytes come from no other file. What is in
        the way of something goes before.
        """
        wanted = list(changes)
        left: dict[bytes, str] = {}
        opened: set[bytes] = set()
        old = [change for change in wanted if not change.is_new]
        new = [change for change in wanted if change.is_new]

        self._undo_all(old, before, left, opened)
        blocked = [change for change in old if change.path in left and left[change.path] != _UNREADABLE]
        in_way = [change for change in new if any(self._is_in_way(change.path, other.path, new) for other in blocked)]
        self._undo_all(in_way, before, left, opened)
        for change in blocked:
            del left[change.path]
        self._undo_all(blocked, before, left, opened)

        rest = [change for change in new if change not in in_way]
        lost = sorted(left)
        if lost:
            left |= {change.path: f"new; {may_hold(lost[0])}" for change in rest if change.path not in written}
            rest = [change for change in rest if change.path not in left]
        self._undo_all(rest, before, left, opened)
        for change in new:
            if change.path not in left:
                restore.remove_empty_folders(self._root, change.path.rpartition(b"/")[0], before.empty)

        folders = {folder for change in old if change.path not in left for folder in folders_of(change.path)}
        opened |= folders & after.empty  # nothing was known of the permissions of those
        for folder in sorted(opened, reverse=True):  # from the inside, as one that is shut is opened to work in it
            mode = before.permissions_of(folder, stat.S_IFDIR)
            with suppress(OSError):
                usual = usual_permissions(stat.S_IFDIR, self._umask)
                restore.permit(self._root, folder, usual if mode is None else mode)
        return left

    def _is_in_way(self, path: bytes, wanted: bytes, new: Sequence[Change]) -> bool:
        """Whether a new file is where a folder has to be, or in a folder of new files where a file has to be."""
        if wanted.startswith(path + b"/"):
            return True
        if not path.startswith(wanted + b"/"):
            return False
        known = {change.path for change in new}
        root = os.fsencode(self._root) + b"/"
        return all(
            (folder + b"/" + name).removeprefix(root) in known
            for folder, _, names in os.walk(root + wanted)
            for name in names
        )

    def _undo_all(
        self,
        changes: Sequence[Change],
        before: Snapshot,
        left: dict[bytes, str],
        opened: set[bytes],
    ) -> None:
        for start in range(0, len(changes), _AT_ONCE):
            part = changes[start : start + _AT_ONCE]
            blobs = list({kept.blob for change in part for kept in (change.was, change.now) if kept is not None})
            with self._one:
                contents = dict(zip(blobs, self._readable(blobs), strict=True))
            for change in part:
                closed = [] if change.is_new else self._closed_folders(change.path)
                try:
                    self._undo(change, contents)
                except restore.NotKept:
                    is_lost = change.now is not None and contents[change.now.blob] is None
                    left[change.path] = _UNREADABLE if is_lost else "changed since the checkpoint"
                except _NoCopy:
                    left[change.path] = was_not_kept(change.path, before) or _UNREADABLE
                except OSError as error:
                    left[change.path] = (error.strerror or "unknown error").lower()
                opened.update(closed)

    def _closed_folders(self, path: bytes) -> list[bytes]:
        """The folders a path lies in that have to be made or opened to write there."""
        closed = []
        for folder in folders_of(path):
            try:
                mode = os.lstat(os.fsencode(self._root) + b"/" + folder).st_mode
            except OSError:
                closed.append(folder)
                continue
            if stat.S_ISDIR(mode) and mode & 0o300 != 0o300:
                closed.append(folder)
        return closed

    def _undo(self, change: Change, contents: Mapping[str, bytes | None]) -> None:
        there = self._copy(change.now, contents, None, change.path)
        if change.is_new:
            restore.remove(self._root, change.path, there)
            return
        if change.was is None:
            if change.permissions is None:
                raise _NoCopy
            restore.permit(self._root, change.path, change.permissions)
            return
        wanted = self._copy(change.was, contents, change.permissions, change.path)
        if wanted is None:
            raise _NoCopy
        restore.replace(self._root, change.path, wanted, there)

    def _copy(
        self, kept: Kept | None, contents: Mapping[str, bytes | None], permissions: int | None, path: bytes
    ) -> restore.Copy | None:
        content = contents[kept.blob] if kept is not None else None
        if kept is None or content is None:
            return None
        if kept.mode == restore.LINK:
            return restore.Copy(kept.mode, content)
        return restore.Copy(self._permissions(path, kept) if permissions is None else permissions, content)

    def _permissions(self, path: bytes, kept: Kept) -> int:
        """Those a file has, of which only is known whether it can be executed; the usual ones where there is none."""
        with suppress(OSError):
            about = os.lstat(os.fsencode(self._root) + b"/" + path)
            if stat.S_ISREG(about.st_mode):
                present = stat.S_IMODE(about.st_mode) & 0o666
                return present | ((present & 0o444) >> 2 & kept.mode)
        return usual_permissions(kept.mode, self._umask)

    def forget_ignored(self, changes: Iterable[Change]) -> None:
        """Have later snapshots leave out again what is ignored now, of files that were new in the last one.

        Raises:
            CheckpointFailed: git failed.
        """
        new = [change.path for change in changes if change.is_new]
        if new:
            with self._one:
                self._snapshots.drop_ignored(new)

    def read(self, *trees: str) -> list[Snapshot]:
        """The snapshots of trees that were kept.

        Raises:
            CheckpointFailed: git failed.
        """
        with self._one:
            return self._snapshots.read(trees)

    def keep(self, snapshot: Snapshot, conversation: str, message: str, *, always: bool = False) -> None:
        """Keep a snapshot under a conversation, unless it is what was kept last; with `always`, its message then too.

        Raises:
            CheckpointFailed: it is not kept.
        """
        ref = _ref(conversation)
        with self._one:
            parent = self._tip(ref)
            if parent and self._tree_of(parent) == snapshot.tree and not always:
                return
            self._commit(ref, parent, snapshot.tree, message)

    def note(self, conversation: str, message: str) -> None:
        """Keep a message under a conversation, with the tree that was kept last; nothing where none was.

        Raises:
            CheckpointFailed: it is not kept.
        """
        ref = _ref(conversation)
        with self._one:
            parent = self._tip(ref)
            if parent:
                self._commit(ref, parent, self._tree_of(parent), message)

    def _commit(self, ref: str, parent: str, tree: str, message: str) -> None:
        above = ["-p", parent] if parent else []
        made = self._git.run("commit-tree", *above, "-F", "-", tree, feed=message.encode())
        commit = made.decode().strip()
        self._git.run("update-ref", ref, commit)
        self._remember(commit, tree)
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
            entries = self._log(conversation)
        key = _key(conversation)
        return [_commit(tree, message, key.search(message)) for _, tree, message in entries]

    def _differences(self, before: str, after: str) -> Iterator[tuple[bytes, Kept | None, Kept | None]]:
        """Paths whose content or kind differs between two trees, what was there, and what is."""
        if before == after:
            return
        with self._one:
            raw = self._git.show("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
        fields = iter(raw.split(b"\0"))
        for about in fields:
            if about:
                old, new, old_blob, new_blob, _ = about[1:].split()
                was = Kept(int(old, 8), old_blob.decode()) if int(old) else None
                now = Kept(int(new, 8), new_blob.decode()) if int(new) else None
                path = next(fields)
                if path != NOT_KEPT:
                    yield path, was, now

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
        contents = []
        at = 0
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


def _key(conversation: str) -> re.Pattern[str]:
    """Finds the record that permitted a call in the message of a commit."""
    return re.compile(rf"^key: {re.escape(conversation)}:(\d{{1,18}})$", re.MULTILINE)


def _span(entries: Sequence[tuple[str, str, str]], belongs: Mapping[str, str]) -> tuple[int, int] | None:
    """The places of before the first and after the last call of some turn or cycle; None where none is kept."""
    lines = {f"{name}: {value}" for name, value in belongs.items()}
    own = [place for place, (_, _, message) in enumerate(entries) if lines <= set(message.splitlines())]
    if not own:
        return None
    first = own[0] if entries[own[0]][2].startswith("before") else max(0, own[0] - 1)
    return first, own[-1]


def _step(commit: str, message: str, key: re.Pattern[str]) -> Step:
    about = _commit("", message, key.search(message))
    return Step(commit, 0 if about.moment == "before" else about.call, about.others)


def _commit(tree: str, message: str, call: re.Match[str] | None) -> Commit:
    access = _ACCESS.search(message)
    return Commit(
        tree,
        message.partition(" ")[0],
        int(call[1]) if call else 0,
        access=Access(access[1]) if access else None,
        is_witnessed=_WITNESSED.search(message) is not None,
        others=frozenset(os.fsencode(json.loads(path)) for path in _OTHER.findall(message)),
        displaced=_displaced(message),
    )


def _displaced(message: str) -> Displaced:
    moved = [json.loads(entry) for entry in _MOVED.findall(message)]
    made = _MADE.search(message)
    return Displaced(
        lost=tuple(_lost(json.loads(entry)) for entry in _LOST.findall(message)),
        targets={os.fsencode(one["path"]): os.fsencode(one["from"]) for one in moved},
        made=frozenset(_marks(made[1], MARK_SIZE)) if made else frozenset(),
    )


def _lost(entry: Mapping[str, Any]) -> Lost:
    files = {}
    for both in _marks(entry.get("files", ""), 2 * MARK_SIZE):
        content = both[MARK_SIZE:]
        files[both[:MARK_SIZE]] = b"" if content == _NO_CONTENT else content
    was = tuple(entry["was"]) if entry["was"] else None
    return Lost(path=os.fsencode(entry["path"]), count=entry["count"], was=was, files=files)


class _NoCopy(Exception):
    """There is no copy of what a path held, or it cannot be read."""


def was_not_kept(path: bytes, snapshot: Snapshot) -> str:
    """Why a snapshot has no copy of what a path held; empty where it should have one."""
    stamp = snapshot.unkept.get(path)
    return f"was {reason(path, stamp)} and is not in the checkpoints" if stamp is not None else ""


def may_hold(path: bytes) -> str:
    """Why a file is not removed: what had this path is lost otherwise."""
    return f"may hold what was {path.decode('utf-8', 'replace')}"
