"""Putting a conversation's files on disk as a whole: a journal made anew in a damaged one's place, or a new folder.

Everything here blocks, and needs the folder's lock.

    renew    conversation/  journal*.jsonl -> journal.damaged-<time>-<n>/, the view copied there too; then the new one
    create   conversation/  appears with all its records, or not at all

A process that dies within `renew` leaves the old journal aside and the view in place: it can be run again.

Never: remove or overwrite anything that has no copy.
"""

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

from tenex.core.checkpoint import Checkpoint
from tenex.core.errors import StoreError
from tenex.core.ids import EventId, Millis
from tenex.core.records import Record

from . import atomic, segments
from .format import CONVERSATION
from .loading import JOURNAL, MARK, VIEW

_JOURNALS: Final = "journal*.jsonl"
"""Every file of a journal, however many it has."""
_SEGMENTS: Final = ("orchestratorTurns-*.json", "phaseTransitions-*.json")
_ASIDE: Final = "journal.damaged"
_HEARD: Final = re.compile(rb'"eventId":"([0-9a-f]{64})"')
_SEEN: Final = re.compile(rb'"seen":[\[{]([^\]}]*)')
"""What a line holds of the messages of earlier ones: a checkpoint, or what closed an earlier rebuilding."""
_ID: Final = re.compile(rb'"([0-9a-f]{64})"')
_SEQ: Final = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')

_KNOWN: Final = (
    "select event_id from events join conversations on conversations.number = events.conversation "
    "where conversations.id = ?"
)


def stamp(now: Millis) -> str:
    """The time as it stands in the name of what is set aside."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def renew(folder: Path, decisions: Sequence[Sequence[Record]], when: str) -> Path:
    """Give a conversation a new journal; what was there is moved, or for the view copied, into a folder of its own.

    Returns:
        That folder.

    Raises:
        StoreError: the disk did not take it; everything is where it was, or in a folder beside.
    """
    data = CONVERSATION.encode_decisions(decisions)
    try:
        atomic.make_folder(folder)
        aside = _new_folder(folder, f"{_ASIDE}-{when}")
        for shown in (folder / VIEW, *_matching(folder, *_SEGMENTS)):
            if shown.is_file() and not shown.is_symlink():
                os.link(shown, aside / shown.name)
        for journal in _matching(folder, _JOURNALS):
            journal.rename(aside / journal.name)
        atomic.sync_folder(aside)
        atomic.sync_folder(folder)
        atomic.replace(folder / JOURNAL, data)
        for segment in _matching(folder, *_SEGMENTS):  # they are of the journal that was
            segment.unlink()
        (folder / MARK).unlink(missing_ok=True)
    except OSError as fault:
        raise StoreError(f"{folder} cannot be rebuilt now: {fault.strerror}. Nothing is lost; try again.") from fault
    return aside


def create(folder: Path, decisions: Sequence[Sequence[Record]]) -> None:
    """Make the folder of a conversation that is not here yet, with its journal, in one step.

    Where it begins with a checkpoint, its past being lost, the file is not called the first.

    Raises:
        StoreError: something is there already, or the disk did not take it; nothing was changed.
    """
    data = CONVERSATION.encode_decisions(decisions)
    name = segments.name_of(2 if isinstance(decisions[0][0], Checkpoint) else 1)
    beside: Path | None = None
    try:
        atomic.make_folder(folder.parent)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
        atomic.replace(beside / name, data)
        beside.rename(folder)  # fails where the folder exists and holds anything
        atomic.sync_folder(folder.parent)
    except OSError as fault:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        raise StoreError(f"{folder} cannot be made: {fault.strerror}. Nothing was changed.") from fault


def heard_before(folder: Path, covered: int | None = None) -> list[EventId]:
    """The messages a conversation has taken in, as far as its damaged files and the index still tell.

    They must not be taken in a second time when a relay sends its past again. An id that the damage has changed names
    no event, and does no harm.

    Args:
        folder: the conversation's.
        covered: the last record that what is regained covers. What was heard after it is left out: nobody has answered
            it, as far as is known, and it is to be taken in again. None: everything is covered.
    """
    found: dict[EventId, None] = {}
    later: set[EventId] = set()
    for path in _matching(folder, _JOURNALS, f"{_ASIDE}-*/{_JOURNALS}"):
        is_numbered_alike = path.parent == folder
        for event, seq in _heard_in(path):
            if covered is not None and is_numbered_alike and seq > covered:
                later.add(event)
            else:
                found[event] = None
    found.update((event, None) for event in _indexed(folder) if event not in later)
    return list(found)


def _heard_in(path: Path) -> Iterator[tuple[EventId, int]]:
    """The events of every line, sound or not, with the line's seq, 0 where that cannot be read."""
    if not path.is_file():  # reading a pipe would wait for ever
        return
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        seq = _SEQ.match(line)
        for event in (*_HEARD.findall(line), *_ID.findall(b" ".join(_SEEN.findall(line)))):
            yield EventId(event.decode()), int(seq[1]) if seq else 0


def _indexed(folder: Path) -> list[EventId]:
    index = folder.parent / "index.sqlite"
    if not index.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{index.absolute().as_uri()}?mode=ro", uri=True)) as tables:
            rows = tables.execute(_KNOWN, (folder.name,)).fetchall()
    except sqlite3.Error:  # it is a cache: what it does not say is not known
        return []
    return [EventId(str(row[0])) for row in rows]


def _new_folder(folder: Path, name: str) -> Path:
    for number in count(1):
        path = folder / f"{name}-{number}"
        try:
            path.mkdir(mode=atomic.FOLDER_MODE)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable: the names never end")


def _matching(folder: Path, *patterns: str) -> Iterator[Path]:
    return (path for pattern in patterns for path in sorted(folder.glob(pattern)))
