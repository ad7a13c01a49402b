"""Putting a conversation's files on disk as a whole: a rebuilt journal in a damaged one's place, or a new folder.

Everything here blocks, and needs the folder's lock.

    renew    conversation/  the new journal and view, and journal.damaged-<time>-<n>/ with those that were: in one step
    create   conversation/  appears with all its records, or not at all

Both build the folder beside, in one whose name begins with a dot and the id; a process that dies within either leaves
the conversation as it was, or as it is to be, and that folder, which the next `renew` of the same conversation removes.
"""

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import StoreError
from tenex.core.history.state import History
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot

from . import atomic, segments
from .contents import Remains
from .format import CONVERSATION
from .journal_reader import JOURNAL, MARK, VIEW
from .view import write_view
from .view_json import LISTS, SEGMENT, file_name

_VIEWS: Final = (VIEW, *(f"{name}-*.json" for name in LISTS))
_REPLACED: Final = ("journal*.jsonl", *_VIEWS)
WAS: Final = "was"
"""What a folder is called between two renames, where the disk cannot exchange names."""
_HERE: Final = -100
"""`AT_FDCWD`: paths are taken as they are."""
_EXCHANGE: Final = 2
"""`RENAME_EXCHANGE` of renameat2(2)."""


def renew(folder: Path, decisions: Sequence[Sequence[Record]], when: str) -> Path:
    """Give a conversation a new journal and its view; what was there is in a folder of its own, within the new one.

    Returns:
        That folder.

    Raises:
        StoreError: the disk did not take it; everything is where it was.
    """
    data = CONVERSATION.encode_decisions(decisions)
    records = [record for decision in decisions for record in decision]
    state = fold(ConversationId(folder.name), records)
    put_back(folder)
    try:
        atomic.make_folder(folder.parent)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
        built = beside / folder.name
        _link_all(folder, built)
        aside = atomic.take_name(built / JOURNAL, f"damaged-{when}", lambda free: free.mkdir(atomic.FOLDER_MODE))
        kept = _still_valid(state) if isinstance(decisions[0][0], StateSnapshot) else set()
        for old in [path for pattern in _REPLACED for path in sorted(built.glob(pattern))]:
            if old.name not in kept:
                old.rename(aside / old.name)
        (built / MARK).unlink(missing_ok=True)
        atomic.replace(built / _name_of(decisions), data)
        write_view(built, state, records)
        atomic.sync_folder(aside)
        atomic.sync_folder(built)
        _put_in_place(built, folder)
        atomic.sync_folder(folder.parent)
    except OSError as fault:
        put_back(folder)
        what = f"{fault.strerror} ({fault.filename})" if fault.filename else fault.strerror
        raise StoreError(f"{folder} cannot be rebuilt now: {what}. Nothing is lost; try again.") from fault
    shutil.rmtree(beside, ignore_errors=True)  # all that was in it has a second name in the new one
    return folder / aside.name


def set_aside(folder: Path, remains: Remains, when: str) -> Path:
    """Keep a journal that is in no files, and the view, in a folder of their own within that of the view.

    Returns:
        That folder, which is durable.

    Raises:
        StoreError: the disk did not take it; nothing was changed.
    """
    aside: Path | None = None
    try:
        atomic.make_folder(folder)
        aside = atomic.take_name(folder / JOURNAL, f"damaged-{when}", lambda free: free.mkdir(atomic.FOLDER_MODE))
        for number, content in remains.items():
            if isinstance(content, bytes):
                atomic.replace(aside / segments.name_of(number), content)
        for old in _views_in(folder):
            atomic.give_second_name(old, aside / old.name)
        atomic.sync_folder(aside)
    except OSError as fault:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
        raise StoreError(f"{folder} cannot be written: {fault.strerror}. Nothing was changed; try again.") from fault
    return aside


def remove_views(folder: Path, state: Conversation, decisions: Sequence[Sequence[Record]]) -> None:
    """Remove the view in a folder whose journal was replaced, but for what nothing else has.

    Raises:
        OSError: the disk did not take it.
    """
    kept = _still_valid(state) if isinstance(decisions[0][0], StateSnapshot) else set()
    for old in _views_in(folder):
        if old.name not in kept:
            old.unlink()


def _views_in(folder: Path) -> list[Path]:
    return [path for pattern in _VIEWS for path in sorted(folder.glob(pattern))]


def _still_valid(state: Conversation) -> set[str]:
    """The files of older entries that are before the snapshot which a journal begins with: nothing else has them."""
    history = state.history or History()
    numbers = {name: getattr(history, f"{attribute}_before") // SEGMENT for name, attribute in LISTS.items()}
    return {file_name(name, number) for name, most in numbers.items() for number in range(most)}


def put_back(folder: Path) -> None:
    """Undo the half of a `renew` whose process died within it, and remove what it built.

    Raises:
        StoreError: the folder cannot be put back now.
    """
    for left in _left_of(folder):
        was = left / WAS
        if is_half_done(left) and not folder.exists():
            try:
                was.rename(folder)
                atomic.sync_folder(folder.parent)
            except OSError as fault:
                raise StoreError(f"{was} cannot be put back as {folder}: {fault.strerror}. Try again.") from fault
        _remove(left)


def is_half_done(left: Path) -> bool:
    """Whether what a process left holds the whole conversation: it died before the last step of `renew`.

    Anything else it left has a second name in the conversation's folder, or was never in use.
    """
    return (left / WAS).exists() and (left / left.name.split(".")[1]).exists()


def _left_of(folder: Path) -> list[Path]:
    return sorted(folder.parent.glob(f".{folder.name}.*.tmp"))


def _remove(left: Path) -> None:
    if not is_half_done(left):
        shutil.rmtree(left, ignore_errors=True)


def _put_in_place(built: Path, folder: Path) -> None:
    """Let a folder that was built have the name of the one that is there, in one step where the disk can."""
    if not folder.exists():
        built.rename(folder)
    elif not _exchange(built, folder):
        folder.rename(built.parent / WAS)  # a process that dies here leaves the work of `put_back`
        built.rename(folder)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where this system, or that disk, has no such step.

    Raises:
        OSError: neither has changed.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _link_all(old: Path, new: Path) -> None:
    """Make a folder in which everything that is in another one has a second name; an empty one where that is none."""
    new.mkdir(mode=atomic.FOLDER_MODE)
    for path in old.iterdir() if old.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            _link_all(path, new / path.name)
        else:
            atomic.give_second_name(path, new / path.name)
    atomic.sync_folder(new)


def create(folder: Path, decisions: Sequence[Sequence[Record]]) -> None:
    """Make the folder of a conversation that is not here yet, with its journal, in one step.

    What a process that died within this has left is removed.

    Raises:
        StoreError: something is there already, or the disk did not take it; nothing was changed.
    """
    data = CONVERSATION.encode_decisions(decisions)
    beside: Path | None = None
    try:
        atomic.make_folder(folder.parent)
        for left in _left_of(folder):
            _remove(left)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
        atomic.replace(beside / _name_of(decisions), data)
        beside.rename(folder)  # fails where the folder exists and holds anything
        atomic.sync_folder(folder.parent)
    except OSError as fault:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        raise StoreError(f"{folder} cannot be made: {fault.strerror}. Nothing was changed.") from fault


def as_one_decision(records: Sequence[Record]) -> list[Sequence[Record]]:
    """Records that count only with the last of them, which says what they are; a snapshot is a decision of its own."""
    first = 1 if isinstance(records[0], StateSnapshot) else 0
    return [part for part in (records[:first], records[first:]) if part]


def _name_of(decisions: Sequence[Sequence[Record]]) -> str:
    """The journal's file: not the first where it begins with a snapshot, the past being lost."""
    return segments.name_of(2 if isinstance(decisions[0][0], StateSnapshot) else 1)
