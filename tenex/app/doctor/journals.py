"""Conversations on disk: every journal read to its end, and what stands beside it.

A line that a running daemon is just writing looks torn; then it is no finding.

Never: change a byte; and nothing of what people wrote into a finding.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenex.core.conversation import fold
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId
from tenex.store import atomic
from tenex.store.daemon import DAEMON, FOLDER
from tenex.store.format import CONVERSATION, Codec
from tenex.store.loading import JOURNAL, MARK, VIEW, mark_of
from tenex.store.lock import NAME

from .findings import Case, Finding, Fix, fault, ok, warning
from .words import several, size

_ID: Final = re.compile(r"[0-9a-f]{64}")
_LEFTOVER: Final = re.compile(r"\..+\.tmp")
_ASIDE: Final = re.compile(r"journal\.torn-.+")
AWAY: Final = (
    "put the folder back from a copy; or move it away, and its conversation begins anew. "
    "Its conversation.json still tells what was said"
)


def conversations(case: Case) -> Iterator[Finding]:
    """Every conversation's folder."""
    root = case.places.conversations if case.places else None
    if root is None or not root.is_dir():
        return
    bad, whole, length = 0, 0, 0
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        path = Path(entry.path)
        if not _ID.fullmatch(entry.name):
            yield from _stranger(path)
            continue
        found = list(_conversation(path, ConversationId(entry.name), is_running=case.daemon.running))
        bad += bool(found)
        whole += not found
        length += _length(path / JOURNAL)
        yield from found
    if not bad:
        yield ok(f"{several(whole, 'conversation')} whole ({size(length)})", root)


def book(case: Case) -> Iterator[Finding]:
    """The journal of what belongs to no conversation."""
    path = case.places.conversations / FOLDER / JOURNAL if case.places else None
    if path is None or not path.exists():
        return
    found = list(
        _journal(
            path,
            DAEMON,
            None,
            is_running=case.daemon.running,
            mend="move the file away to start without the lessons and profiles in it",
        )
    )
    yield from found or [ok("the daemon's own journal is whole", path)]


def _conversation(folder: Path, name: ConversationId, *, is_running: bool) -> Iterator[Finding]:
    if not folder.is_dir():
        yield fault("this is no folder", folder, "move it away", StoreDamaged)
        return
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 only names are needed
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", folder, "give it to the user who runs tenex", StoreDamaged)
        return
    if JOURNAL not in names:
        if VIEW in names:
            yield fault("the journal is missing, though conversation.json stands beside it", folder, AWAY, StoreDamaged)
        else:
            yield warning("this holds no conversation", folder, "remove it if it is empty")
        return
    damage = list(_journal(folder / JOURNAL, CONVERSATION, name, is_running=is_running, mend=AWAY))
    yield from damage
    mark = mark_of(folder) if MARK in names else None
    if mark is not None and not damage:
        yield warning(
            "this conversation was put into quarantine, and its journal is whole again",
            folder / MARK,
            "restart the daemon, which then takes it up again",
        )
    yield from _view(folder, has_view=VIEW in names, is_running=is_running)
    aside = sorted(name for name in names if _ASIDE.fullmatch(name))
    if aside:
        yield warning(
            f"{several(len(aside), 'torn tail')} of this journal set aside: steps a crash cut short",
            folder / aside[0],
            "nothing was lost that anybody was told of; remove when you have looked",
        )
    leftovers = [name for name in names if _LEFTOVER.fullmatch(name)]
    if leftovers and not is_running:
        yield warning(
            f"{several(len(leftovers), 'file')} left by a write that was cut short",
            folder / leftovers[0],
            "remove it; the next start does too",
            Fix(act=lambda: _swept(folder), needs_rest=True),
        )


def _journal(
    path: Path, codec: Codec, name: ConversationId | None, *, is_running: bool, mend: str
) -> Iterator[Finding]:
    """Damage first: a journal with any is not read further."""
    try:
        data = _read(path)
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", path, "look who owns it and what it is", StoreDamaged)
        return
    records, length, broken = codec.decode_lines(data)
    if broken is not None and broken.kind == "damage":
        yield fault(f"line {broken.line} cannot be right: {broken.what}", path, mend, StoreDamaged)
        return
    if not records and name is not None and (path.parent / VIEW).exists() and not is_running:
        yield fault("it holds no whole decision, though conversation.json stands beside it", path, mend, StoreDamaged)
        return
    if broken is not None and not is_running:
        yield warning(
            f"the last {several(len(data) - length, 'byte')} are a write that was cut short: {broken.what}",
            path,
            "nothing to do: the next start sets them aside and goes on",
        )
    if name is None or not records:
        return
    try:
        fold(name, records)
    except Exception as failure:  # noqa: BLE001 records that nobody foresaw are the finding
        yield fault(f"its records contradict each other ({type(failure).__name__})", path, mend, StoreDamaged)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may be a pipe, or a link
    with open(descriptor, "rb") as file:  # noqa: PTH123 a descriptor has no path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no file")
        return file.read()


def _view(folder: Path, *, has_view: bool, is_running: bool) -> Iterator[Finding]:
    path = folder / VIEW
    if not has_view:
        if not is_running:
            yield warning("conversation.json is missing", path, "nothing to do: the next start writes it")
        return
    try:
        is_whole = isinstance(json.loads(_read(path)), dict)
    except (OSError, ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        fix = Fix(act=lambda: f"set aside as {atomic.set_aside(path, 'damaged').name}", needs_rest=True)
        yield warning(
            "conversation.json cannot be read; the journal has it all",
            path,
            "move it away; the next start writes it anew",
            fix,
        )


def _stranger(path: Path) -> Iterator[Finding]:
    known = path.name in (FOLDER, NAME) or path.name.startswith("index.")
    if _LEFTOVER.fullmatch(path.name) or known:
        return
    yield warning("this is no conversation: its name is not 64 hex digits", path, "move it out of this folder")


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _swept(folder: Path) -> str:
    atomic.sweep(folder)
    return "removed"
