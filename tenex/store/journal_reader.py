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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from tenex.core.errors import AppendFailed, StoreDamaged, StoreOtherVersion
from tenex.core.records import Record
from tenex.core.state.snapshot import SnapshotRecord
from tenex.log import get_logger

from . import atomic, segments
from .disk import FsyncTracker
from .format import Codec, as_written

JOURNAL: Final = segments.FIRST
NEWEST: Final = sys.maxsize
"""A seq no record has: what comes after it is the newest file alone, which is enough to fold."""
VIEW: Final = "conversation.json"
MARK: Final = "QUARANTINED"
"""In a folder whose journal is damaged; holds the reason as a sentence."""

TAIL: Final = 2**18
"""Bytes at the end of a file in which its last line is looked for; longer ones are few, and then nothing is known."""
_SEQ: Final = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')

HEAD: Final = 4_096
"""Bytes at the beginning of a view in which its seq is, behind the title and some dates."""
_VIEW_SEQ: Final = re.compile(rb'^  "seq": (\d{1,18}),?\r?$', re.MULTILINE)
_AHEAD: Final = re.compile(r"conversation\.ahead-\d+-\d+")
"""The name of the copy of a view that covered more than its journal, with the seq of the last record it covers."""

_NOT_OURS: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO})
"""Errors of opening something we did not put there; waiting does not help."""

UPGRADE: Final = "Upgrade tenex, or run the version that wrote it; it reads the whole conversation."
"""What to do about a journal of another version."""

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
        found = segments.numbers(path.parent) or [1]
        here = path.with_name(segments.name_of(found[-1]))
        try:
            # never waits, should it be a pipe; never follows a link, for we would write where it leads
            descriptor = os.open(here, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            if (path.parent / VIEW).exists():
                _quarantine(here, f"it is missing, though {VIEW} is beside it", remedy)
            return Loaded(records=[], length=0, exists=False)
        try:
            with alone(descriptor, here):  # until the copy has the name: what went into the old file then would be lost
                loaded = _take(descriptor, here, found, codec, stamp, remedy, flushed or FsyncTracker())
        finally:
            os.close(descriptor)
        with _written(path):
            atomic.sweep(path.parent)
            (path.parent / MARK).unlink(missing_ok=True)
    except OSError as fault:
        if fault.errno in _NOT_OURS:
            _quarantine(path, f"it cannot be opened ({fault.strerror})", "Look who owns it and what it is.", fault)
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
        StoreDamaged: it holds what we did not write, or a file is missing.
        OSError: it cannot be read.
    """
    records, gone = peek_left(path, codec, since)
    if gone:
        raise StoreDamaged(f"{gone} Nothing was changed.")
    return records


def peek_left(path: Path, codec: Codec, since: int = 0) -> tuple[list[Record], str]:
    """The same from the newest file back to a file that is missing: what is left of a journal that lost its past.

    Returns:
        The records; where some are missing they begin with a snapshot. And a sentence that names the file, and what
        can be done; empty where nothing is missing.

    Raises:
        StoreDamaged: it holds what we did not write.
        OSError: it cannot be read.
    """
    has_view = (path.parent / VIEW).exists()  # looked for first: it is written after what it covers
    found = segments.numbers(path.parent)
    if has_view and not found:
        raise StoreDamaged(f"{path} is missing, though {VIEW} is beside it. Nothing was changed.")
    found = found or [1]
    parts: list[list[Record]] = []
    follows: tuple[str, int] | None = None
    summed: list[Record] = []
    gone = ""
    for number in range(found[-1], 0, -1):
        here = path.with_name(segments.name_of(number))
        if follows is not None and number not in found:
            gone = (
                f"{here} is missing, though {follows[0]} follows it, so nothing is known of what was before record "
                f"{follows[1] + 1}. Put {' and '.join(segments.missing(found))} back from a copy; the daemon goes on "
                "from the newest file meanwhile."
            )
            parts.append(summed)
            break
        records = _peeked(here, codec, number)
        last = records[-1].seq if records else 0
        if follows is not None and last != follows[1]:
            raise StoreDamaged(
                f"{here} ends with seq {last}, but {follows[0]} follows on {follows[1]}. Nothing was changed."
            )
        first = records[0] if records else None
        if not isinstance(first, SnapshotRecord) or first.seq <= since:
            parts.append(records)
            break
        follows = (here.name, first.seq)
        summed = records[:1]
        parts.append(records[1:])
    if has_view and not any(parts):
        raise StoreDamaged(f"{path} holds no whole decision, though {VIEW} is beside it. Nothing was changed.")
    return [record for part in reversed(parts) for record in part], gone


def _peeked(path: Path, codec: Codec, number: int) -> list[Record]:
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for ever
        raise StoreDamaged(f"{path} is no file. Nothing was changed.")
    records, _, fault = codec.decode_lines(as_written(path.read_bytes()))
    if fault is not None and fault.kind == "foreign":
        raise StoreOtherVersion(f"{path}: {fault.place}. Nothing was changed. {UPGRADE}")
    what = fault.place if fault is not None and not fault.is_torn else _misplaced(records, number)
    if what:
        raise StoreDamaged(f"{path}: {what}. Nothing was changed.")
    return records


def mark_of(folder: Path) -> str | None:
    """The sentence of the quarantine mark; None where the folder has none."""
    try:
        return (folder / MARK).read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _take(
    descriptor: int, here: Path, found: list[int], codec: Codec, stamp: str, remedy: str, flushed: FsyncTracker
) -> Loaded:
    """Read the newest file, of those found, and make it durable."""
    number, folder = found[-1], here.parent
    file = os.fstat(descriptor)
    if not stat.S_ISREG(file.st_mode):
        _quarantine(here, "it is no file", remedy)
    if not _is_newest(here, file, number):
        raise AppendFailed(f"{here} was changed by another process; open it again.")
    if file.st_mode & 0o077:
        log.info("journal.permissions_tightened", path=str(here), mode=oct(stat.S_IMODE(file.st_mode)))
        os.fchmod(descriptor, atomic.FILE_MODE)
    with open(descriptor, "rb", closefd=False) as stream:
        raw = stream.read()
    data = as_written(raw)
    records, length, fault = codec.decode_lines(data)
    if fault is not None and not fault.is_torn:
        _quarantine(here, fault.place, remedy, is_foreign=fault.kind == "foreign")
    if what := _misplaced(records, number):
        _quarantine(here, what, remedy)
    if not records and (folder / VIEW).exists():
        _quarantine(here, f"it holds no whole decision, though {VIEW} is beside it", remedy)
    if number - 1 in found and (what := _outrun(here.with_name(segments.name_of(number - 1)), records[0].seq)):
        _quarantine(here, what, "Look which file is a copy or an older one and move it out of the folder.")
    if gone := segments.missing(found):
        log.warning("journal.files_missing", path=str(here), missing=gone)  # nothing but the past is lost
    torn = None
    with _written(here):
        if fault is not None:
            tail = data[length:] if data == raw else raw  # of a changed file all is kept, byte for byte
            torn = atomic.keep(here, f"torn-{stamp}", tail)
            log.warning("journal.torn", path=str(here), kept=str(torn), bytes=len(data) - length, what=fault.what)
        if data != raw:
            log.warning("journal.lines_restored", path=str(here), bytes=len(raw), written=len(data))
        if fault is not None or data != raw or not flushed.proves(here, file):
            atomic.replace(here, data[:length], modified=file.st_mtime_ns)
            atomic.sync_folder(folder.parent)
            flushed.note(here, here.stat())
    _note_lost_end(folder / VIEW, here, records[-1].seq if records else 0)
    earlier = sum(here.with_name(segments.name_of(older)).stat().st_size for older in found[:-1])
    return Loaded(
        records=records,
        length=length,
        exists=True,
        torn=torn,
        number=number,
        earlier=earlier,
        snapshot=data.index(b"\n") + 1 if number > 1 else 0,
    )


def _is_newest(here: Path, file: os.stat_result, number: int) -> bool:
    """Whether the file still has its name, and is the newest, since we looked."""
    try:
        named = here.lstat()
    except FileNotFoundError:
        return False
    is_ours = (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino)
    return is_ours and not os.path.lexists(here.with_name(segments.name_of(number + 1)))


def _misplaced(records: list[Record], number: int) -> str:
    """Why a file cannot have its number: the first begins with seq 1, every other with a snapshot."""
    begins = bool(records) and isinstance(records[0], SnapshotRecord)
    if number == 1:
        return "line 1 cannot be right: it is a snapshot of files that are not there" if begins else ""
    return "" if begins else "line 1 cannot be right: it is no snapshot of the files before it"


def _outrun(before: Path, seq: int) -> str:
    """Why a file that sums up all until `seq` cannot follow this one: continuing in it would drop what this one holds.

    Only the last line is looked at. One that cannot be read is no reason: the newest file is enough to go on.
    """
    with before.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - TAIL))
        lines = stream.read().rstrip().splitlines()
    found = _SEQ.match(lines[-1]) if lines else None
    if found is None or int(found[1]) <= seq:
        return ""
    return f"it follows on seq {seq}, but {before.name} ends with seq {int(found[1])}"


def views_ahead(folder: Path) -> list[Path]:
    """The copies in a conversation's folder of views that covered more than its journal."""
    return [path for path in sorted(folder.iterdir()) if _AHEAD.fullmatch(path.name)]


def _note_lost_end(view: Path, journal: Path, last: int) -> None:
    """Where the view, which may be missing, covers records after the journal's last, log it and keep a copy, once.

    Those records were durable and were shown to users. An end of zeros, or an older copy put in the journal's place,
    looks like a journal that ends there; only the view knows better, and it is about to be overwritten.
    """
    with suppress(OSError):
        descriptor = os.open(view, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = _VIEW_SEQ.search(os.read(descriptor, HEAD) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"")
        finally:
            os.close(descriptor)
        covered = int(found[1]) if found else 0
        if covered <= last:
            return
        log.warning("journal.truncated", path=str(journal), seq=last, view=covered)
        label = f"ahead-{covered}"
        if not any(path.name.startswith(f"conversation.{label}-") for path in views_ahead(view.parent)):
            atomic.keep(view, label, view.read_bytes())


def _quarantine(
    path: Path, what: str, remedy: str, cause: OSError | None = None, *, is_foreign: bool = False
) -> NoReturn:
    sentence = f"{path}: {what}. Nothing was changed. {UPGRADE if is_foreign else remedy}"
    with suppress(OSError):  # the mark is a courtesy; the error below is what counts
        atomic.replace(path.parent / MARK, sentence.encode("utf-8", "replace") + b"\n")
    log.error("journal.quarantined", path=str(path), what=what)
    raise (StoreOtherVersion if is_foreign else StoreDamaged)(sentence) from cause
