"""Reading a journal: what is whole is believed, a torn tail is set aside, damage puts the folder in quarantine.

Everything here blocks; call it from the store's threads.

Never: change a byte of a journal that is damaged, or drop a byte that was not copied first.
"""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import structlog

from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.records import Record

from . import atomic
from .format import Codec, Fault

JOURNAL: Final = "journal.jsonl"
VIEW: Final = "conversation.json"
MARK: Final = "QUARANTINED"
"""Stands in a folder whose journal is damaged; holds the sentence that says so."""

_NOT_OURS: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO})
"""What opening says of something we did not put there; waiting does not mend it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A journal as it stands on disk after loading."""

    records: list[Record]
    length: int
    exists: bool
    torn: Path | None = None
    """Where the torn tail went, if there was one."""


def load(path: Path, codec: Codec, stamp: str, remedy: str) -> Loaded:
    """Read a journal that is about to be written to; on return what was read is durable.

    Args:
        path: the journal; it may be missing.
        codec: its kinds of record.
        stamp: the time, for the name of what is set aside.
        remedy: a sentence that says what to do about damage.

    Raises:
        StoreDamaged: it holds what we did not write; nothing was changed, and the folder bears the mark.
        AppendFailed: the disk does not let us read or mend it now.
    """
    try:
        loaded = _load(path, codec, stamp, remedy)
        if loaded.exists:
            atomic.sync_folder(path.parent)
            atomic.sync_folder(path.parent.parent)
            atomic.sweep(path.parent)
            (path.parent / MARK).unlink(missing_ok=True)
    except OSError as fault:
        if fault.errno in _NOT_OURS:
            _quarantine(path, f"it cannot be opened ({fault.strerror})", "Look who owns it and what it is.", fault)
        raise AppendFailed(f"{path} cannot be read now: {fault.strerror}. It is tried again when opened.") from fault
    return loaded


def peek(path: Path, codec: Codec) -> list[Record]:
    """The whole decisions of a journal that somebody else may be writing to; changes nothing.

    Raises:
        StoreDamaged: it holds what we did not write.
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe would wait for ever
        raise StoreDamaged(f"{path} is no file. Nothing was changed.")
    records, _, fault = codec.decode_lines(path.read_bytes())
    if fault is not None and fault.kind == "damage":
        raise StoreDamaged(f"{path}: {_place(fault)}. Nothing was changed.")
    return records


def mark_of(folder: Path) -> str | None:
    """The sentence of the quarantine mark; None where the folder has none."""
    try:
        return (folder / MARK).read_text("utf-8", "replace").strip()
    except OSError:
        return None


def _load(path: Path, codec: Codec, stamp: str, remedy: str) -> Loaded:
    try:
        # never waits, should it be a pipe; never follows a link, for we would write where it leads
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        if (path.parent / VIEW).exists():
            _quarantine(path, f"it is missing, though {VIEW} stands beside it", remedy)
        return Loaded(records=[], length=0, exists=False)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            _quarantine(path, "it is no file", remedy)
        if mode & 0o077:
            log.info("journal.permissions_tightened", path=str(path), mode=oct(stat.S_IMODE(mode)))
            os.fchmod(descriptor, atomic.FILE_MODE)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read()
        records, length, fault = codec.decode_lines(data)
        if fault is not None and fault.kind == "damage":
            _quarantine(path, _place(fault), remedy)
        if not records and (path.parent / VIEW).exists():
            _quarantine(path, f"it holds no whole decision, though {VIEW} stands beside it", remedy)
        torn = None
        if fault is not None:
            torn = atomic.keep(path, f"torn-{stamp}", data[length:])
            os.ftruncate(descriptor, length)
            log.warning("journal.torn", path=str(path), kept=str(torn), bytes=len(data) - length, what=fault.what)
        # the process that wrote the end may have died before it was flushed; what is acted on now must be
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Loaded(records=records, length=length, exists=True, torn=torn)


def _place(fault: Fault) -> str:
    return f"line {fault.line} cannot be right: {fault.what}"


def _quarantine(path: Path, what: str, remedy: str, cause: OSError | None = None) -> NoReturn:
    sentence = f"{path}: {what}. Nothing was changed. {remedy}"
    with suppress(OSError):  # the mark is a courtesy; the error below is what counts
        atomic.replace(path.parent / MARK, sentence.encode("utf-8", "replace") + b"\n")
    log.error("journal.quarantined", path=str(path), what=what)
    raise StoreDamaged(sentence) from cause
