"""Conversations on disk: every journal read to its end, file after file.

A line that a running daemon is just writing looks torn; then it is no finding.
"""

import os
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

from tenex.core.conversation import Conversation
from tenex.core.errors import StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.core.state.snapshot import SnapshotRecord
from tenex.store import segments
from tenex.store.daemon_journal import DAEMON, FOLDER
from tenex.store.format import CONVERSATION, Codec
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, mark_of
from tenex.store.repository import RENAME, misnamed

from .findings import Case, Finding, fault, ok, warning
from .format import several, size
from .store_files import beside, read, stranger

_ID: Final = re.compile(r"[0-9a-f]{64}")
AWAY: Final = (
    "put the folder back from a copy; or stop the daemon: `tenex conversations rebuild {0} --from conversation.json` "
    "(or `--from relay`) makes a new journal of what can be regained"
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
            yield from stranger(path)
            continue
        found = list(_conversation(path, ConversationId(entry.name), is_running=case.daemon.running))
        bad += bool(found)
        whole += not found
        length += _length(path)
        yield from found
    if not bad:
        yield ok(f"{several(whole, 'conversation')} whole ({size(length)})", root)


def book(case: Case) -> Iterator[Finding]:
    """The journal of what belongs to no conversation."""
    path = case.places.conversations / FOLDER / JOURNAL if case.places else None
    if path is None or not path.parent.is_dir():
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
    if not os.access(folder, os.W_OK | os.X_OK):
        mend = "make it writable for the user who runs tenex; a running daemon then goes on by itself"
        yield fault("this folder is read-only, so the conversation cannot go on", folder, mend, StoreError)
    if not any(segments.number_of(name) for name in names):
        if VIEW in names:
            what = "the journal is missing, though conversation.json stands beside it"
            yield fault(what, folder, AWAY.format(name[:12]), StoreDamaged)
        else:
            yield warning("this holds no conversation", folder, "remove it if it is empty")
        return
    damage: list[Finding] = []
    mend = AWAY.format(name[:12])
    last = yield from _kept(_journal(folder / JOURNAL, CONVERSATION, name, is_running=is_running, mend=mend), damage)
    mark = mark_of(folder) if MARK in names else None
    if mark is not None and not damage:
        yield warning(
            "this conversation was put into quarantine, and its journal is whole again",
            folder / MARK,
            "write in its thread, reload the daemon or restart it, and it is taken up again",
        )
    yield from beside(folder, names, last, is_running=is_running)


def _kept(found: Generator[Finding, None, int | None], into: list[Finding]) -> Generator[Finding, None, int | None]:
    """Hand findings on and keep them too; returns what the generator does."""
    while True:
        try:
            finding = next(found)
        except StopIteration as end:
            last: int | None = end.value
            return last
        into.append(finding)
        yield finding


def _journal(
    path: Path, codec: Codec, name: ConversationId | None, *, is_running: bool, mend: str
) -> Generator[Finding, None, int | None]:
    """Damage first: a journal with any is not read further; returns the seq of the last record, None with damage."""
    try:
        found = segments.numbers(path.parent)
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", path.parent, "look who owns it and what it is", StoreDamaged)
        return None
    gone = segments.missing(found)
    if gone:
        yield warning(
            f"{several(len(gone), 'earlier file')} of this journal missing: the past in them cannot be shown any more",
            path.with_name(gone[0]),
            f"put {' and '.join(gone)} back from a copy; the daemon goes on from the newest file meanwhile",
        )
    state = Conversation(id=name) if name is not None else None
    last: int | None = 0
    for number in found:
        here = path.with_name(segments.name_of(number))
        if here.name in _followers(gone):  # it stands on its own checkpoint
            state, last = Conversation(id=name) if name is not None else None, None
        last = yield from _file(
            here, codec, state, number, last, is_newest=number == found[-1], is_running=is_running, mend=mend
        )
        if last is None:
            return None
    return last


def _followers(gone: Sequence[str]) -> set[str]:
    """The files that come after missing ones."""
    return {segments.name_of((segments.number_of(name) or 0) + 1) for name in gone}


def _file(
    path: Path,
    codec: Codec,
    state: Conversation | None,
    number: int,
    before: int | None,
    *,
    is_newest: bool,
    is_running: bool,
    mend: str,
) -> Generator[Finding, None, int | None]:
    """One file of a journal, and the last seq of the one before it; returns its own, None if it cannot be believed."""
    try:
        data = read(path)
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", path, "look who owns it and what it is", StoreDamaged)
        return None
    records, length, broken = codec.decode_lines(data)
    if broken is not None and (broken.kind == "damage" or not is_newest):
        yield fault(f"line {broken.line} cannot be right: {broken.what}", path, mend, StoreDamaged)
        return None
    if odd := _misplaced(records, number, before):
        yield fault(odd, path, "look which file is a copy or an older one and move it out of the folder", StoreDamaged)
        return None
    if state is not None and (odd := misnamed(state.id, records)):
        yield fault(odd, path, RENAME, StoreDamaged)
        return None
    has_view = (path.parent / VIEW).exists()
    if not records and state is not None and has_view and not is_running:
        yield fault("it holds no whole decision, though conversation.json stands beside it", path, mend, StoreDamaged)
        return None
    if broken is not None and not is_running:
        yield warning(
            f"the last {several(len(data) - length, 'byte')} are a write that was cut short: {broken.what}",
            path,
            "nothing to do: the next start sets them aside and goes on",
        )
    last = records[-1].seq if records else before or 0
    if state is None:
        return last
    try:
        for record in records:
            state.apply(record)
    except Exception as failure:  # noqa: BLE001 records that nobody foresaw are the finding
        yield fault(f"its records contradict each other ({type(failure).__name__})", path, mend, StoreDamaged)
        return None
    return last


def _misplaced(records: Sequence[Record], number: int, before: int | None) -> str:
    """Why a file cannot stand where it does; `before` is the seq the file before it ends with, where that is known."""
    first = records[0] if records else None
    if number == 1:
        return "it begins with a checkpoint of files that are not there" if isinstance(first, SnapshotRecord) else ""
    if not isinstance(first, SnapshotRecord):
        return "it does not begin with a checkpoint of the files before it"
    if before is not None and first.seq != before:
        return f"it follows on seq {first.seq}, but the file before it ends with seq {before}"
    return ""


def _length(folder: Path) -> int:
    try:
        return segments.stat_all(str(folder))[0]
    except OSError:
        return 0
