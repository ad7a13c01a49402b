"""Decides which files go back when work is undone, for `/undo` and for a rollback alike.

Three things are kept: what a person wrote stays, what may be the only copy of something stays, and what cannot be
brought back is named. A path goes back if only the chosen calls changed it and a checkpoint has what it was. It stays,
with a reason, if

- somebody else changed it too: between two calls, during one, or since;
- a command and a person may have changed it at the same time, and no one has named it;
- its old content, or what is there now, is in no checkpoint: too large, unreadable or ignored by git;
- it is new, or was overwritten, and its bytes may come from something that is gone. `gzip data.csv`, `mv .env env` and
  `mv node_modules/x src` leave the only copy under a new name. A file tool that wrote one file got its bytes from the
  model. Of anything else a new file may hold what was lost in the same work, or what was in an ignored folder that has
  changed since; git does not know the inside of those, but a file that is moved out changes the ctime of its folder.
  A file that was there before may hold what a rename is seen to have brought to it (`displaced`), also over a name that
  an earlier call gave;
- it has the content of something that is lost in an ignored folder: it was copied before that went.

What a call changed within an ignored folder is named too: one by one, or by the number in each such folder. What calls
of the same work had left there is not named.
"""

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tenex.core.text.amounts import count
from tenex.core.undo.sentences import CHANGED_BY_OTHERS, UNCLEAR

from .attribution import Pair, as_recorded
from .checkpoints import Change, Checkpoints, may_hold, was_not_kept
from .displaced import Lost, is_as_it_was
from .sandbox_init import status_of, status_text
from .snapshots import Snapshot, folders_of, is_covered, reason
from .witness import content_mark

MOST_VISITED: Final = 200_000
"""Ignored files and folders that are looked at: about a second. Where there are more, some may have changed."""

_SLACK: Final = 1.0  # seconds: the system notes times by its last tick
_IGNORED: Final = "was ignored by git and is not in the checkpoints"
_OVERWRITTEN: Final = "changed, and is ignored by git: what it was is not in the checkpoints"
_SEVERAL: Final = "changed or went, and are ignored by git: what they were is not in the checkpoints"
_BY_OTHERS: Final = "changed by somebody else"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person agreed to."""

    paths: tuple[str, ...] = ()
    """If there are some, only these go back, also where it is unclear who changed them or what they hold."""
    is_all: bool = False
    """Whether everything goes back of which it is unclear who changed it."""
    names_others: bool = False
    """Whether to name also what only somebody else changed."""
    to: int = 0
    """The record before the work. What went back to a record before it since then stays as it is."""


@dataclass(slots=True)
class Plan:
    """What goes back, and what stays."""

    then: Snapshot
    now: Snapshot
    changes: list[Change] = field(default_factory=list)
    """Those that are to be undone."""
    written: set[bytes] = field(default_factory=set)
    """New files of that whose bytes come from the model or a checkpoint."""
    left: dict[bytes, str] = field(default_factory=dict)
    """What stays, with the reasons."""
    unclear: list[bytes] = field(default_factory=list)
    """Of that, what a command or somebody else changed."""
    by_name: list[bytes] = field(default_factory=list)
    """Of that, what may hold the only copy of something."""
    unknown: list[str] = field(default_factory=list)
    """Paths that were named, and did not change."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """How two snapshots differ."""

    changes: Mapping[bytes, Change]
    gone: frozenset[bytes]
    """What was ignored, and is not there any more."""

    def paths(self) -> set[bytes]:
        return {*self.changes, *self.gone}


class Planner:
    """Plans for one workspace; what was compared once is remembered. Blocks."""

    def __init__(self, checkpoints: Checkpoints, now: Snapshot) -> None:
        """Take the present snapshot."""
        self._checkpoints = checkpoints
        self._root = os.fsencode(checkpoints.root) + b"/"
        self._now = now
        self._snapshots: dict[str, Snapshot] = {now.tree: now}
        self._differences: dict[tuple[str, str], _Difference] = {}

    def plan(self, tree: str, pairs: Sequence[Pair], wanted: Wanted) -> Plan:
        """What of the work of some pairs goes back to what a tree holds, which is of before them.

        Raises:
            CheckpointFailed: git failed.
        """
        self._read([tree, *(each for pair in pairs for each in (pair.before, pair.after))])
        plan = Plan(self._snapshots[tree], self._now)
        history = self._history(plan.then, pairs, wanted)
        final = self._difference(plan.then, self._now)
        named = {as_word(path) for path in wanted.paths}

        for path, change in final.changes.items():
            if self._is_same(change, plan.then, self._now):
                continue
            is_named = as_word(as_recorded(path)) in named
            if named and not is_named:
                continue
            if history.is_older(path, wanted.to):
                continue
            if path in history.own:
                self._decide(plan, change, history, pairs, is_named=is_named)
            elif wanted.names_others:
                plan.left[path] = _BY_OTHERS

        going = {change.path for change in plan.changes}
        for path, why in self._lost(plan.then, history, wanted).items():
            if path not in plan.left and path not in going and (not named or as_word(as_recorded(path)) in named):
                plan.left[path] = why
        found = {as_word(as_recorded(path)) for path in {*plan.left, *going}}
        plan.unknown = [path for path in wanted.paths if as_word(path) not in found]
        plan.left = dict(sorted(plan.left.items()))
        return plan

    def _decide(
        self, plan: Plan, change: Change, history: "_History", pairs: Sequence[Pair], *, is_named: bool
    ) -> None:
        """Add to a plan what becomes of a path that the work changed."""
        path = change.path
        if why := self._why_not(change, history, plan.then):
            plan.left[path] = why
            return
        if path in history.unclear and not is_named:
            plan.left[path] = UNCLEAR
            plan.unclear.append(path)
            return

        suspect = "" if is_named else self._suspect(change, plan.then, history, pairs)
        stamp = self._now.unkept.get(path)
        has_no_copy = stamp is not None and not change.is_of_permissions
        if suspect:
            plan.left[path] = f"new; {suspect}" if change.is_new else suspect
            if not has_no_copy:
                plan.by_name.append(path)
        elif stamp is not None and has_no_copy:
            plan.left[path] = f"is {reason(path, stamp)} and is not in the checkpoints"
        else:
            plan.changes.append(change)
            if _is_written(change, history):
                plan.written.add(path)

    def remaining(self, plan: Plan, after: Snapshot) -> set[bytes]:
        """What differs from then once a plan was carried out, or is gone that was ignored."""
        changes = self._difference(plan.then, after).changes.values()
        return {change.path for change in changes if not self._is_same(change, plan.then, after)} | self._gone(
            plan.then
        )

    def changed(self, pair: Pair) -> set[str]:
        """The paths that a pair may have changed, as users write them."""
        self._read([pair.before, pair.after])
        difference = self._difference(self._snapshots[pair.before], self._snapshots[pair.after])
        lost = {lost.path for lost in pair.displaced.lost}
        own = {path for path in difference.paths() if pair.is_own(path)}
        return {as_word(as_recorded(path)) for path in own | lost}

    def _read(self, trees: Iterable[str]) -> None:
        missing = [tree for tree in dict.fromkeys(trees) if tree not in self._snapshots]
        self._snapshots |= zip(missing, self._checkpoints.read(*missing), strict=True)

    def _difference(self, before: Snapshot, after: Snapshot) -> _Difference:
        key = (before.tree, after.tree)
        if key not in self._differences:
            changes = {change.path: change for change in self._checkpoints.changes(before, after)}
            missing = frozenset() if after.is_cut else before.ignored - after.ignored
            gone = {path for path in missing if not _is_there(path, after, changes)}
            self._differences[key] = _Difference(changes, frozenset(gone))
        return self._differences[key]

    def _history(self, then: Snapshot, pairs: Sequence[Pair], wanted: Wanted) -> "_History":
        history = _History(theirs=set(then.ignored), is_all=wanted.is_all)
        place = then
        for pair in pairs:
            before = self._snapshots[pair.before]
            after = self._snapshots[pair.after]
            history.add_others(self._difference(place, before), before.ignored - place.ignored)
            history.add_pair(pair, self._difference(before, after), before, after)
            place = after
        history.add_others(self._difference(place, self._now), self._now.ignored - place.ignored)
        history.lost = {path: why for path, why in history.lost.items() if not self._is_back(path, history)}
        history.lost |= self._lost_inside(history)
        return history

    def _lost_inside(self, history: "_History") -> dict[bytes, str]:
        """What is lost within ignored folders; what lies in a folder that is named itself is counted there."""
        gone = {
            path: lost
            for path, lost in history.inside.items()
            if lost.was is None or not is_as_it_was(self._root, path, lost.was)
        }
        counts = {path: lost.count for path, lost in gone.items()}
        found: dict[bytes, str] = {}
        for path, lost in gone.items():
            is_one = lost.was is not None
            shown = may_hold(path) if is_one else f"may hold what was in {path.decode('utf-8', 'replace')}"
            for content in filter(None, lost.files.values()):
                history.contents.setdefault(content, shown)
            above = next((folder + b"/" for folder in folders_of(path) if folder + b"/" in gone), None)
            if above is not None:
                is_counted = bool(lost.files) and lost.files.keys() <= gone[above].files.keys()
                counts[above] += 0 if is_counted else lost.count
            elif is_one:
                found[path] = _OVERWRITTEN if self._exists(path) else _IGNORED
            else:
                found[path] = ""
        return {path: why or f"{count(counts[path], 'file')} in it {_SEVERAL}" for path, why in found.items()}

    def _is_back(self, path: bytes, history: "_History") -> bool:
        """Whether what was lost for a while is there again."""
        if path in history.lost_stamps:
            return history.lost_stamps[path] in (self._now.unkept.get(path), self._now.ignored_files.get(path))
        return self._exists(path) and path not in history.others

    def _is_same(self, change: Change, then: Snapshot, now: Snapshot) -> bool:
        """Whether a file was there and still is, and only git sees it now, or does not any more."""
        if change.is_new:
            return then.was_ignored(change.path)
        if change.was is None or not self._is_ignored_now(change, now):
            return False
        place = Path(os.fsdecode(self._root + change.path))
        try:
            content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
        except OSError:
            return False
        return (
            hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest() == change.was.blob
        )

    def _is_ignored_now(self, change: Change, now: Snapshot) -> bool:
        return not change.is_there and now.was_ignored(change.path) and self._exists(change.path)

    def _why_not(self, change: Change, history: "_History", then: Snapshot) -> str:
        """Why a change of ours cannot be undone, or must not be."""
        if change.path in history.others:
            return CHANGED_BY_OTHERS
        if change.has_lost:
            return was_not_kept(change.path, then)
        if self._is_ignored_now(change, self._now):
            return "is ignored by git and is not in the checkpoints"
        return ""

    def _suspect(self, change: Change, then: Snapshot, history: "_History", pairs: Sequence[Pair]) -> str:
        """What the present bytes of a path may be the only copy of."""
        path = change.path
        has_bytes = change.is_there and (change.is_new or change.was is not None)
        if not has_bytes:
            return ""
        if history.contents and (held := history.contents.get(self._content(path))):
            return held
        if _is_written(change, history):
            return ""
        if not change.is_new or path in history.holding:
            return history.holding.get(path, "")
        if history.lost:
            return may_hold(min(history.lost))
        if history.changed_meanwhile is None:
            history.changed_meanwhile = self._changed_meanwhile(then, history, pairs)
        return history.changed_meanwhile

    def _content(self, path: bytes) -> bytes:
        """The mark of what a path holds now."""
        place = self._root + path
        return content_mark(status_text(place, status_of(place)))

    def _lost(self, then: Snapshot, history: "_History", wanted: Wanted) -> dict[bytes, str]:
        """What is gone, and in no checkpoint or somebody else's."""
        gone = {}
        for path in self._gone(then):
            if path in history.own or path not in history.others or wanted.names_others:
                gone[path] = _IGNORED
        lost = {path: why for path, why in history.lost.items() if why and not is_covered(path, gone)}
        return lost | gone

    def _gone(self, then: Snapshot) -> set[bytes]:
        return {path for path in then.ignored if not self._exists(path)}

    def _exists(self, path: bytes) -> bool:
        """Whether a path is there; a folder only if a file may be in it."""
        try:
            mode = os.lstat(self._root + path.removesuffix(b"/")).st_mode
        except OSError:
            return False
        if not path.endswith(b"/"):
            return not stat.S_ISDIR(mode)
        return stat.S_ISDIR(mode) and path[:-1] not in self._now.empty

    def _changed_meanwhile(self, then: Snapshot, history: "_History", pairs: Sequence[Pair]) -> str:
        """Which file that no checkpoint holds, or which folder, has changed since the first of the pairs began."""
        if not pairs:
            return ""
        if then.is_cut:
            return "may hold what git ignores"
        # a call that only made what git ignores took nothing away
        since = next(pair.began for pair in pairs if pair.before != pair.after or pair.displaced.lost) - _SLACK
        left = MOST_VISITED
        for path in sorted({*history.theirs, *then.unkept}):
            newest, visited = _newest_change(self._root + path, left)
            left -= visited
            if left <= 0 or newest >= since:
                shown = path.decode("utf-8", "replace")
                return f"may hold what was in {shown}" if path.endswith(b"/") else may_hold(path)
        return ""


@dataclass(slots=True)
class _History:
    """What happened to each path from the first pair until now."""

    theirs: set[bytes]
    """What is ignored, and was not made by the work."""
    is_all: bool
    """Whether what a program changed that was not watched counts as its own."""
    own: dict[bytes, tuple[Pair, object]] = field(default_factory=dict)
    """Paths that the work changed, with the last pair that did, and what git then knew them by."""
    unclear: set[bytes] = field(default_factory=set)
    others: set[bytes] = field(default_factory=set)
    """Paths that somebody else changed."""
    made: set[bytes] = field(default_factory=set)
    """What the work itself made of which there is no copy."""
    lost: dict[bytes, str] = field(default_factory=dict)
    """What the work took away that the checkpoint before it does not have, with the reason; it may be elsewhere."""
    lost_stamps: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)
    inside: dict[bytes, Lost] = field(default_factory=dict)
    """What the work took away within ignored folders."""
    left_there: set[bytes] = field(default_factory=set)
    """The marks of what the work left within ignored folders."""
    contents: dict[bytes, str] = field(default_factory=dict)
    """The marks of contents that are lost, each with what a file may hold that has it."""
    holding: dict[bytes, str] = field(default_factory=dict)
    """Paths that a program wrote in a call in which something was lost, with what they may hold."""

    changed_meanwhile: str | None = None
    """What new files may hold because something that no checkpoint holds has changed; None before it was looked at."""

    def is_older(self, path: bytes, to: int) -> bool:
        """Whether a path went back to what it was even before some record."""
        if path not in self.own:
            return False
        pair = self.own[path][0]
        return pair.writer == "back" and pair.to < to

    def add_others(self, difference: _Difference, appeared: Iterable[bytes]) -> None:
        """Add what differs between two pairs."""
        self.others |= difference.paths()
        self.theirs.update(appeared)
        self.made -= difference.paths()

    def add_pair(self, pair: Pair, difference: _Difference, before: Snapshot, after: Snapshot) -> None:
        """Add what differs within a pair."""
        own = {path for path in difference.paths() if pair.is_own(path)}
        displaced = self._displaced(pair, difference, own, before)
        self._note_overwritten(pair, before, after)
        self._note_lost_inside(pair)
        places = {*own, *self.own} if pair.is_background else own
        self._note_holding(pair, places, displaced, difference)

        for path in own:
            change = difference.changes.get(path)
            self.own[path] = (pair, change.now if change is not None and change.has_new_bytes else None)
        self.others |= difference.paths() - own
        appeared = after.ignored - before.ignored
        if pair.writer == "unclear" and not self.is_all:
            self.unclear |= own
            self.theirs |= appeared
        else:
            self.made |= appeared
            self.made |= {path for path in own & after.unkept.keys() if path not in before.unkept}

    def _note_overwritten(self, pair: Pair, before: Snapshot, after: Snapshot) -> None:
        """Add the ignored files that were changed: what they held may be in a new file, and is nowhere else."""
        if pair.writer == "back":
            return
        kept = before.ignored_files.keys() & after.ignored_files.keys() - self.made
        changed = {path for path in kept if before.ignored_files[path] != after.ignored_files[path]}
        self.lost |= dict.fromkeys(changed, _OVERWRITTEN)
        self.lost_stamps |= {path: before.ignored_files[path] for path in changed}

    def _note_holding(
        self, pair: Pair, own: Iterable[bytes], displaced: Iterable[bytes], difference: _Difference
    ) -> None:
        first = min(displaced, default=None)
        for path in own:
            origin = pair.displaced.origin_of(path)
            change = difference.changes.get(path)
            if pair.wrote_only(path):
                if change is not None and change.has_new_bytes:
                    self.holding.pop(path, None)
            elif origin is not None:
                self.holding[path] = may_hold(origin)
            elif first is not None:
                self.holding[path] = self.holding.get(first, may_hold(first))

    def _note_lost_inside(self, pair: Pair) -> None:
        for lost in pair.displaced.lost:
            if is_covered(lost.path, self.made):
                continue
            known = self.inside.get(lost.path, Lost(path=lost.path, count=0))
            left_out = {*self.left_there, *known.files}
            theirs = {mark: content for mark, content in lost.files.items() if mark not in left_out}
            number = lost.count - len(lost.files) + len(theirs)
            if number and known.was is None:
                files = {**known.files, **theirs}
                self.inside[lost.path] = replace(lost, count=known.count + number, files=files)
        self.left_there |= pair.displaced.made

    def _displaced(self, pair: Pair, difference: _Difference, own: set[bytes], before: Snapshot) -> set[bytes]:
        """What the call took away or overwrote that the first checkpoint does not have: it may be elsewhere now."""
        displaced = set()
        for path in own - self.made:
            if pair.wrote_only(path):
                continue
            change = difference.changes.get(path)
            if change is None:
                self.lost[path] = _IGNORED
            elif change.has_lost:
                self.lost[path] = was_not_kept(path, before)
                self.lost_stamps[path] = before.unkept[path]
            elif change.was is not None and (path in self.others or path in self.unclear):
                if not change.is_there:
                    self.lost[path] = CHANGED_BY_OTHERS if path in self.others else ""
            elif change.is_there or path not in self.holding:
                continue
            displaced.add(path)
        return displaced


def _is_written(change: Change, history: _History) -> bool:
    """Whether the present bytes of a path are what the model wrote, or a checkpoint had."""
    pair, made = history.own[change.path]
    return pair.wrote_only(change.path) and made == change.now


def _is_there(path: bytes, after: Snapshot, changes: Mapping[bytes, Change]) -> bool:
    """Whether what was ignored is still listed, is in the tree now, or may be in a folder of which no more is known."""
    if not path.endswith(b"/"):
        is_kept = path in changes and changes[path].is_there
        return is_kept or path in after.unkept or is_covered(path, after.ignored)
    inside = (*after.ignored, *after.unkept, *(each for each, change in changes.items() if change.is_there))
    return is_covered(path, after.ignored) or any(each.startswith(path) for each in inside)


def _newest_change(path: bytes, most: int) -> tuple[float, int]:
    """The newest ctime of a file, or of a folder and all in it, in seconds; and how many that were."""
    newest = 0.0
    visited = 0
    waiting = [path.removesuffix(b"/")]
    while waiting and visited < most:
        place = waiting.pop()
        visited += 1
        try:
            about = os.lstat(place)
        except OSError:
            continue
        newest = max(newest, about.st_ctime)
        if not stat.S_ISDIR(about.st_mode):
            continue
        try:
            with os.scandir(place) as entries:
                waiting += [entry.path for entry in entries]
        except OSError:
            continue
    return newest, visited


def as_word(path: str) -> str:
    """A path in the form in which what a person typed and what a disk has are the same."""
    return unicodedata.normalize("NFC", os.path.normpath(path))
