"""A view that covers more than its journal: records that were durable, and were shown to users, are gone.

An end of zeros, or an older copy put in the journal's place, looks like a journal that ends there; only the view knows
better, and it is about to be overwritten. So a copy of it is kept, to rebuild from or to read.
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from . import atomic

HEAD: Final = 4_096
"""Bytes at the beginning of a view in which its seq is, behind the title and some dates."""

LABEL: Final = "ahead"
KEPT: Final = re.compile(rf"conversation\.{LABEL}-\d+-\d+")
"""The name of such a copy, with the seq of the last record it covers."""

_SEQ: Final = re.compile(rb'^  "seq": (\d{1,18}),?$', re.MULTILINE)

log = structlog.get_logger(__name__)


def note_lost_end(view: Path, journal: Path, last: int) -> None:
    """Where the view, which may be missing, covers records after the journal's last, log it and keep a copy, once."""
    with suppress(OSError):
        covered = _covered(view)
        if covered <= last:
            return
        log.warning("journal.truncated", path=str(journal), seq=last, view=covered)
        if not kept(view.parent, covered):
            atomic.keep(view, f"{LABEL}-{covered}", view.read_bytes())


def kept(folder: Path, covered: int | None = None) -> list[Path]:
    """The copies in a conversation's folder; of those that cover the journal up to a seq, or all."""
    names = (path for path in sorted(folder.iterdir()) if KEPT.fullmatch(path.name))
    return [path for path in names if covered is None or path.name.startswith(f"conversation.{LABEL}-{covered}-")]


def _covered(view: Path) -> int:
    """The seq of a view; 0 where it has none."""
    descriptor = os.open(view, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        found = _SEQ.search(os.read(descriptor, HEAD))
    finally:
        os.close(descriptor)
    return int(found[1]) if found else 0
