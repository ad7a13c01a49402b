"""Reading a journal: whole decisions are used, a torn tail is moved to a backup, damage quarantines the folder.

A journal whose lines a copy in text mode has changed is whole: it is read, and written back when it is opened.

Everything here blocks; call it from the store's threads. A journal is named by its first file, `journal.jsonl`, however
many it has.
"""

import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tenex.core.errors import AppendFailed, StoreDamaged, StoreOtherVersion
from tenex.core.records import Record
from tenex.log import get_logger

from . import atomic, segments
from .contents import Remains
from .disk import FsyncTracker
from .format import Codec, Fault, as_written, seq_of
from .reading import UPGRADE, misplaced, records_of

JOURNAL: Final = segments.FIRST
NEWEST: Final = sys.maxsize
"""A seq no record has: what comes after it is the newest file alone, which is enough to fold."""
VIEW: Final = "conversation.json"
MARK: Final = "QUARANTINED"
"""In a folder whose journal is damaged; holds the reason as a sentence."""

TAIL: Final = 2**18
"""Bytes at the end of a file in which its last line is looked for; longer ones are few, and then nothing is known."""

HEAD: Final = 4_096
"""Bytes at the beginning of a view in which its seq is, behind the title and some dates."""
_VIEW_SEQ: Final = re.compile(rb'^  "seq": (\d{1,18}),?\r?$', re.MULTILINE)
_AHEAD: Final = re.compile(r"conversation\.ahead-\d+-\d+")
"""The name of the copy of a view that covered more than its journal, with the seq of the last record it covers."""

_NOT_OURS: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO})
"""Errors of opening something we did not put there; waiting does not help."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A journal as it is on disk after loading."""

    records: list[Record]
    """Of the newest file; if that is not the only one they begin with a snapshot."""
    length: int
    """Bytes of the newest file."""
    exists: bool
    torn: Path | None = None
    """Where the torn tail went, if there was one."""
    number: int = 1
    """Of the newest file."""
    earlier: int = 0
    """Bytes of the files before it."""
    snapshot: int = 0
    """Bytes of the snapshot it begins with, if it does."""


def load(path: Path, codec: Codec, stamp: str, remedy: str, flushed: FsyncTracker | None = None) -> Loaded:
    """Read a journal that is about to be written to; on return what was read is durable.

    That cannot be learnt from the file: if a flush failed once, in this process or in one before it, the system may
    show bytes that the disk does not have. So the newest file is copied, and the copy flushed before it takes the name,
    unless this process itself has flushed every byte of it. (ADR 14.)

    `stamp` is the time in the name of a torn tail's backup, `remedy` a sentence on what to do about damage.

    Raises:
        StoreDamaged: it holds what we did not write; nothing was changed, and the folder bears the mark.
        AppendFailed: the disk does not let us read or repair it now.
    """
    try:
        numbers = segments.numbers(path.parent) or [1]
        newest = path.with_name(segments.name_of(numbers[-1]))
        try:
            # never waits, should it be a pipe; never follows a link, for we would write where it leads
            descriptor = os.open(newest, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            if (path.parent / VIEW).exists():
                raise _quarantined(newest, f"it is missing, though {VIEW} is beside it", remedy) from None
            return Loaded(records=[], length=0, exists=False)
        try:
            with alone(descriptor, newest):  # until the copy has the name: what went into the old file would be lost
                file = _read_newest(descriptor, newest, numbers, codec, remedy)
                loaded = _accept(file, stamp, remedy, flushed or FsyncTracker())
        finally:
            os.close(descriptor)
        with _written(path):
            atomic.sweep(path.parent)
            (path.parent / MARK).unlink(missing_ok=True)
    except OSError as fault:
        if fault.errno in _NOT_OURS:
            what = f"it cannot be opened ({fault.strerror})"
            raise _quarantined(path, what, "Look who owns it and what it is.") from fault
        raise AppendFailed(f"{path} cannot be read now: {fault.strerror}. It is tried again when opened.") from fault
    return loaded


@contextmanager
def alone(descriptor: int, path: Path) -> Iterator[None]:
    """Keep other writers out from the look at a file to the last byte: both would find it as they left it.

    Never waits: a long write of another process must not block the store's threads.

    Raises:
        AppendFailed: somebody else is writing to it now.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        raise AppendFailed(f"{path} is being written to by another process; open it again.") from fault
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """A file that cannot be written beside a journal is no fault of it: a folder may be read-only for a while."""
    try:
        yield
    except OSError as fault:
        raise AppendFailed(
            f"{path} could be read, but {path.parent} cannot be written to: {fault.strerror}. Make room or give the "
            "folder to the user who runs tenex; it is tried again when opened."
        ) from fault


def peek(path: Path, codec: Codec, since: int = 0) -> list[Record]:
    """The whole decisions of a journal that somebody else may be writing to; changes nothing.

    Only what is needed to know every record after `since`: the newest files that hold them. Unless that is all files,
    the records begin with a snapshot; no other snapshot is returned.

    Raises:
        StoreDamaged: it holds what we did not write, a file is missing or cannot be read.
        OSError: there is no journal, or its folder cannot be read.
    """
    records, loss = read_surviving(path, codec, since)
    if loss:
        raise StoreDamaged(f"{loss} Nothing was changed.")
    return records


def read_surviving(path: Path, codec: Codec, since: int = 0) -> tuple[list[Record], str]:
    """The same from the newest file back to a file that is missing: what is left of a journal that lost its past.

    Returns:
        The records; where some are missing they begin with a snapshot. And a sentence that names the file, and what
        can be done; empty where nothing is missing.

    Raises:
        StoreDamaged: it holds what we did not write, or cannot be read.
        OSError: there is no journal, or its folder cannot be read.
    """
    folder = path.parent
    files = read_files(folder, since)
    if not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    place_of = partial(place_in, folder)
    return records_of(files, since, codec, place_of, partial(lost_files, folder), may_be_torn=True)


def read_files(folder: Path, since: int = 0, until: int = NEWEST) -> Remains:
    """The files of a journal that hold the records after `since` up to `until`, one at least; none where none is.

    A part of a long journal costs no more than of a short one.

    Raises:
        OSError: the folder cannot be read, or is none.
    """
    numbers = segments.numbers(folder)
    if not numbers:
        with suppress(FileNotFoundError):
            (folder / JOURNAL).lstat()
        return {}
    files: dict[int, bytes | str] = {}
    for number in reversed(numbers):
        path = folder / segments.name_of(number)
        if until < NEWEST and number > numbers[0] and _first_seq(path) >= until:
            continue
        content = _content_of(path)
        files[number] = content
        first = seq_of(content) if isinstance(content, bytes) else None
        if first is not None and number > 1 and first <= since:
            break
    return dict(sorted(files.items()))


def place_in(folder: Path, number: int) -> str:
    """Where a file of the journal in a folder is."""
    return str(folder / segments.name_of(number))


def lost_files(folder: Path, numbers: Sequence[int], seq: int) -> str:
    """The sentences about files that are missing, though one after them begins with the snapshot of that record."""
    missing = segments.missing(numbers)
    gap = next(number for number in range(max(numbers), 0, -1) if number not in numbers)
    return (
        f"{place_in(folder, gap)} is missing, though {segments.name_of(gap + 1)} follows it, so nothing is known of "
        f"what was before record {seq + 1}. Put {' and '.join(missing)} back from a copy; the daemon goes on from the "
        "newest file meanwhile."
    )


def _content_of(path: Path) -> bytes | str:
    """What was written to a file, or why that cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for ever
            return "it is no file"
        return as_written(path.read_bytes())
    except OSError as fault:
        return fault.strerror or type(fault).__name__


def mark_of(folder: Path) -> str | None:
    """The sentence of the quarantine mark; None where the folder has none."""
    try:
        return (folder / MARK).read_text("utf-8", "replace").strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewestFile:
    """The newest file of a journal, as it was read."""

    path: Path
    numbers: list[int]
    """Of all files of the journal, the oldest first; the last is its own."""
    status: os.stat_result
    raw: bytes
    """What it holds."""
    data: bytes
    """What was written: something else where it was copied in text mode."""
    records: list[Record]
    length: int
    """Bytes of `data` that are whole decisions."""
    fault: Fault | None
    """Why the rest of `data` is no whole decision, if there is a rest."""

    @property
    def number(self) -> int:
        """Its number."""
        return self.numbers[-1]

    @property
    def view(self) -> Path:
        """The path of the view beside it."""
        return self.path.parent / VIEW

    def earlier(self, number: int) -> Path:
        """The path of a file of the journal before it."""
        return self.path.with_name(segments.name_of(number))


class _Objection(NamedTuple):
    """Why a file cannot be the newest of its journal."""

    what: str
    remedy: str = ""
    """What can be done; empty for the usual."""
    is_foreign: bool = False
    """Whether another version of the program wrote it."""


def _read_newest(descriptor: int, path: Path, numbers: list[int], codec: Codec, remedy: str) -> _NewestFile:
    """Read the newest of the journal's files, and make it the owner's alone."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _quarantined(path, "it is no file", remedy)
    if not _is_newest(path, status, numbers[-1]):
        raise AppendFailed(f"{path} was changed by another process; open it again.")
    if status.st_mode & 0o077:
        log.info("journal.permissions_tightened", path=str(path), mode=oct(stat.S_IMODE(status.st_mode)))
        os.fchmod(descriptor, atomic.FILE_MODE)
    with open(descriptor, "rb", closefd=False) as stream:
        raw = stream.read()
    data = as_written(raw)
    records, length, fault = codec.decode_lines(data)
    return _NewestFile(
        path=path,
        numbers=numbers,
        status=status,
        raw=raw,
        data=data,
        records=records,
        length=length,
        fault=fault,
    )


def _objections(file: _NewestFile) -> Iterator[_Objection]:
    """Why this cannot be the newest file of its journal, the most basic reason first."""
    if file.fault is not None and not file.fault.is_torn:
        yield _Objection(file.fault.place, is_foreign=file.fault.kind == "foreign")
    what = misplaced(file.records, file.number)
    if what:
        yield _Objection(what)
    if not file.records and file.view.exists():
        yield _Objection(f"it holds no whole decision, though {VIEW} is beside it")
    if file.number - 1 in file.numbers:
        predecessor = file.earlier(file.number - 1)
        summed_up = file.records[0].seq
        last = _last_seq(predecessor)
        predecessor_is_newer = last is not None and last > summed_up
        if predecessor_is_newer:  # continuing in this file would drop what that one holds
            yield _Objection(
                f"it follows on seq {summed_up}, but {predecessor.name} ends with seq {last}",
                "Look which file is a copy or an older one and move it out of the folder.",
            )


def _accept(file: _NewestFile, stamp: str, remedy: str, flushed: FsyncTracker) -> Loaded:
    """Go on with the newest file, unless something speaks against it; what it holds is durable on return."""
    objection = next(_objections(file), None)
    if objection is not None:
        cure = objection.remedy or remedy
        raise _quarantined(file.path, objection.what, cure, is_foreign=objection.is_foreign)
    missing = segments.missing(file.numbers)
    if missing:
        log.warning("journal.files_missing", path=str(file.path), missing=missing)  # nothing but the past is lost
    with _written(file.path):
        torn = _keep_torn_tail(file, stamp)
        _make_durable(file, flushed)
    note_lost_end(file.view, file.path, file.records[-1].seq if file.records else 0)
    return Loaded(
        records=file.records,
        length=file.length,
        exists=True,
        torn=torn,
        number=file.number,
        earlier=sum(file.earlier(number).stat().st_size for number in file.numbers[:-1]),
        snapshot=file.data.index(b"\n") + 1 if file.number > 1 else 0,
    )


def _keep_torn_tail(file: _NewestFile, stamp: str) -> Path | None:
    """Copy what is about to be cut off to a file beside it; None where nothing is."""
    if file.fault is None:
        return None
    is_as_written = file.data == file.raw
    tail = file.data[file.length :] if is_as_written else file.raw  # of a changed file all is kept, byte for byte
    torn = atomic.keep(file.path, f"torn-{stamp}", tail)
    size = len(file.data) - file.length
    log.warning("journal.torn", path=str(file.path), kept=str(torn), bytes=size, what=file.fault.what)
    return torn


def _make_durable(file: _NewestFile, flushed: FsyncTracker) -> None:
    """Write the whole decisions to a copy that takes the name, unless all of the file is known to be on the disk."""
    is_as_written = file.data == file.raw
    if not is_as_written:
        log.warning("journal.lines_restored", path=str(file.path), bytes=len(file.raw), written=len(file.data))
    if file.fault is None and is_as_written and flushed.proves(file.path, file.status):
        return
    atomic.replace(file.path, file.data[: file.length], modified=file.status.st_mtime_ns)
    atomic.sync_folder(file.path.parent.parent)
    flushed.note(file.path, file.path.stat())


def _is_newest(path: Path, status: os.stat_result, number: int) -> bool:
    """Whether the file still has its name, and is the newest, since we looked."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    is_ours = (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino)
    return is_ours and not os.path.lexists(path.with_name(segments.name_of(number + 1)))


def _last_seq(path: Path) -> int | None:
    """The seq in the last line of a file; None where it cannot be read, which is no reason to refuse the file after it.

    Only the end of the file is read, because the newest file is enough to go on.
    """
    with path.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - TAIL))
        lines = stream.read().rstrip().splitlines()
    return seq_of(lines[-1]) if lines else None


def _first_seq(path: Path) -> int:
    """The seq of the first line of a file; 0 where a copy has changed how it begins."""
    with path.open("rb") as stream:
        return seq_of(stream.read(HEAD)) or 0


def views_ahead(folder: Path) -> list[Path]:
    """The copies in a conversation's folder, which may be missing, of views that covered more than its journal."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if _AHEAD.fullmatch(path.name)]


def note_lost_end(view: Path, journal: Path, last: int) -> None:
    """Where the view, which may be missing, covers records after the journal's last, log it and keep a copy, once.

    Those records were durable and were shown to users. An end of zeros, or an older copy put in the journal's place,
    looks like a journal that ends there; only the view knows better, and it is about to be overwritten.
    """
    with suppress(OSError):
        covered = covered_by(view)
        if covered <= last:
            return
        log.warning("journal.truncated", path=str(journal), seq=last, view=covered)
        label = f"ahead-{covered}"
        if not any(path.name.startswith(f"conversation.{label}-") for path in views_ahead(view.parent)):
            atomic.keep(view, label, view.read_bytes())


def covered_by(view: Path) -> int:
    """The seq of the last record that a view covers; 0 where it does not say."""
    descriptor = os.open(view, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        head = os.read(descriptor, HEAD) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
    match = _VIEW_SEQ.search(head)
    return int(match[1]) if match else 0


def _quarantined(path: Path, what: str, remedy: str, *, is_foreign: bool = False) -> StoreDamaged:
    """Leave a mark in the folder; returns the error to raise."""
    sentence = f"{path}: {what}. Nothing was changed. {UPGRADE if is_foreign else remedy}"
    with suppress(OSError):  # the mark is a courtesy; the error is what counts
        atomic.replace(path.parent / MARK, sentence.encode("utf-8", "replace") + b"\n")
    log.error("journal.quarantined", path=str(path), what=what)
    return StoreOtherVersion(sentence) if is_foreign else StoreDamaged(sentence)
