"""Conversations on disk: journals, the files beside them, the daemon's own journal and the index.

A line that a running daemon is writing looks incomplete; then it is not reported.
"""

import json
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tenex.core.errors import StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.store import atomic, segments, view_ahead
from tenex.store.atomic_folder import is_half_done
from tenex.store.daemon_journal import DAEMON, FOLDER
from tenex.store.disk import PROBE
from tenex.store.format import CONVERSATION, Codec
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, mark_of, peek_left
from tenex.store.lock import NAME as LOCK
from tenex.store.repository import RENAME, misnamed
from tenex.store.schema import VERSION
from tenex.store.verify import contradictions

from . import machine
from .findings import Case, Finding, Repair, count_text, fault, ok, size_text, warning

RESTORE: Final = (
    "restore the folder from a backup; or stop the daemon: `tenex conversations rebuild {0} --from conversation.json` "
    "(or `--from relay`) makes a new journal of what can be recovered; a file that is a copy or older: move it out"
)
INDEX: Final = "index.sqlite"
REBUILD_INDEX: Final = "move it away while no daemon runs: it is a cache, and the next start rebuilds it"

_ID: Final = re.compile(r"[0-9a-f]{64}")
_PART: Final = re.compile(r"(orchestratorTurns|phaseTransitions)-\d{6,}\.json")
_TORN: Final = re.compile(r"journal(-\d+)?\.torn-.+")
_DAMAGED: Final = re.compile(
    r"journal\.damaged-.+|(conversation|index|(orchestratorTurns|phaseTransitions)-\d+)\.damaged-\d+"
)
_LEGACY: Final = re.compile(r"[0-9a-f]{64}\.json")


def conversations(case: Case) -> Iterator[Finding]:
    """Examine every conversation's folder, and what else is in the folder of conversations."""
    root = case.paths.conversations if case.paths else None
    if root is None or not root.is_dir():
        return
    bad, whole, length = 0, 0, 0
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        path = Path(entry.path)
        if not _ID.fullmatch(entry.name):
            yield from _foreign(path)
            continue
        found = list(_conversation(path, is_running=case.daemon.running))
        yield from found
        bad += bool(found)
        whole += not found
        length += _lengths(root, [entry.name]).get(entry.name, 0)
    if not bad:
        yield ok(f"{count_text(whole, 'conversation')} whole ({size_text(length)})", root)


def daemon_journal(case: Case) -> Iterator[Finding]:
    """Examine the journal of what belongs to no conversation."""
    folder = case.paths.conversations / FOLDER if case.paths else None
    if folder is None or not folder.is_dir():
        return
    fix = "move the file away to start without the lessons and profiles in it"
    found, _ = _journal(folder, DAEMON, fix, is_running=case.daemon.running)
    yield from found or [ok("the daemon's own journal is whole", folder / JOURNAL)]


def _conversation(folder: Path, *, is_running: bool) -> Iterator[Finding]:
    name = ConversationId(folder.name)
    if not folder.is_dir():
        yield fault("this is not a folder", folder, "move it away", StoreDamaged)
        return
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 only names are needed
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", folder, "give it to the user who runs tenex", StoreDamaged)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        fix = "make it writable for the user who runs tenex; a running daemon then continues by itself"
        yield fault("this folder is read-only, so the conversation cannot continue", folder, fix, StoreError)
    fix = RESTORE.format(name[:12])
    if not any(segments.number_of(name) for name in names):
        if VIEW in names:
            yield fault("the journal is missing, though conversation.json is there", folder, fix, StoreDamaged)
        else:
            yield warning("this holds no conversation", folder, "remove it if it is empty")
        return
    found, records = _journal(folder, CONVERSATION, fix, is_running=is_running)
    if records:
        if odd := misnamed(name, records):
            found.append(fault(odd, folder / JOURNAL, RENAME, StoreDamaged))
        else:
            found += [fault(text, folder, fix, StoreDamaged) for text in contradictions(name, records)]
    yield from found
    is_whole = not any(finding.level == "fault" for finding in found)
    if MARK in names and mark_of(folder) is not None and not found:
        yield warning(
            "this conversation was put into quarantine, and its journal is whole again",
            folder / MARK,
            "write in its thread, reload the daemon or restart it, and it is opened again",
        )
    last = (records[-1].seq if records else 0) if is_whole else None
    yield from _view(folder, last, has_view=VIEW in names, is_running=is_running)
    yield from _parts(folder, names, is_whole=is_whole, is_running=is_running)
    yield from _beside(folder, names, is_running=is_running)


def _journal(folder: Path, codec: Codec, fix: str, *, is_running: bool) -> tuple[list[Finding], list[Record]]:
    """What is wrong with a journal, and its records, none where it is damaged."""
    try:
        numbers = segments.numbers(folder)
        newest = folder / segments.name_of(max(numbers, default=1))
        data = _read(newest)
        records, missing = peek_left(folder / JOURNAL, codec)
    except StoreDamaged as error:
        return [_damage(folder, str(error), fix)], []
    except OSError as error:
        path = error.filename or newest
        message = f"cannot be read ({error.strerror})"
        return [fault(message, path, "see who owns it and what it is", StoreDamaged)], []
    found: list[Finding] = []
    if missing:
        gone = segments.missing(numbers)
        found.append(
            warning(
                f"{count_text(len(gone), 'earlier file')} of this journal missing: their records cannot be shown",
                folder / gone[0],
                f"restore {' and '.join(gone)} from a backup; the daemon continues from the newest file meanwhile",
            )
        )
    _, length, broken = codec.decode_lines(data)
    if broken is not None and not is_running:
        found.append(
            warning(
                f"the last {count_text(len(data) - length, 'byte')} are an interrupted write: {broken.what}",
                newest,
                "nothing to do: the next start moves them to a file of their own and continues",
            )
        )
    return found, records


def _damage(folder: Path, sentence: str, fix: str) -> Finding:
    """A finding from the sentence of a `StoreDamaged`, which begins with the path."""
    match = re.match(rf"({re.escape(str(folder))}(?:/[\w.-]+)?):? (.*)", sentence, re.DOTALL)
    location, message = (match[1], match[2]) if match else (str(folder), sentence)
    return fault(message.removesuffix(" Nothing was changed.").removesuffix("."), location, fix, StoreDamaged)


def _beside(folder: Path, names: set[str], *, is_running: bool) -> Iterator[Finding]:
    """Other files in a conversation's folder."""
    torn = {name for name in names if _TORN.fullmatch(name)}
    damaged = {name for name in names if _DAMAGED.fullmatch(name)}
    ahead = {name for name in names if view_ahead.KEPT.fullmatch(name)}
    strays = {name for name in names if name.startswith("journal") and not segments.number_of(name)} - torn - damaged
    for group, message, fix in (
        (
            torn,
            "{0} with a torn tail of this journal, kept: steps that a crash interrupted",
            "no acknowledged step was lost; remove it when you have looked",
        ),
        (
            damaged,
            "{0} of this conversation, kept from before it was repaired",
            "the conversation does not need it; remove it when you have looked",
        ),
        (
            ahead,
            "{0} with records that the journal had lost when the daemon continued",
            "to rebuild from it, copy it to conversation.json while no daemon runs; else remove it after a look",
        ),
        (
            strays,
            "{0} beside the journal that do not belong to it, and are never read",
            "a copy, or renamed: look what is in it, and move it out of the folder",
        ),
    ):
        if group:
            yield warning(message.format(count_text(len(group), "file")), folder / min(group), fix)
    leftovers = sorted(name for name in names if atomic.LEFTOVER.fullmatch(name))
    if leftovers and not is_running:
        yield warning(
            f"{count_text(len(leftovers), 'file')} left by an interrupted write",
            folder / leftovers[0],
            "remove it; the next start does too",
            Repair(run=lambda: _remove(folder, atomic.sweep), needs_lock=True),
        )


def _foreign(path: Path) -> Iterator[Finding]:
    """What is beside the conversations' folders."""
    name = path.name
    if name in (FOLDER, LOCK, PROBE) or name.startswith(machine.PROBE):
        return
    if name.startswith("index."):
        if _DAMAGED.fullmatch(name):
            yield warning("a damaged index that was moved away", path, "it was a cache: remove it")
    elif _LEGACY.fullmatch(name) and path.is_file():
        if (path.parent / path.stem).exists():
            yield warning(
                "the file of an older program beside the folder of the same conversation: it is not read",
                path,
                "move it out of this folder; the journal is what counts",
            )
        elif not isinstance(_parsed(path), dict):
            yield fault(
                "the file of an older program cannot be read, so its conversation cannot continue",
                path,
                f"restore it from a backup; or move it away and run `tenex conversations rebuild {path.stem} "
                "--from relay` while no daemon runs",
                StoreDamaged,
            )
        else:
            fix = f"`tenex conversations import {path}`"
            yield warning("a conversation of an older program that is not imported", path, fix)
    elif atomic.LEFTOVER.fullmatch(name):
        yield _interrupted(path)
    else:
        yield warning("this is not a conversation: its name is not 64 hex digits", path, "move it out of this folder")


def _interrupted(path: Path) -> Finding:
    """What an import, a fork or a rebuild built beside the folder it was to become or replace."""
    conversation = path.name[1:65]
    if not is_half_done(path):
        return warning(
            "left by an import, a fork or a rebuild that was interrupted",
            path,
            "remove it, and run the command again",
            Repair(run=lambda: _remove(path, shutil.rmtree), needs_lock=True),
        )
    if (path.parent / conversation).exists():
        return warning(
            "this is the folder of a conversation before a rebuild",
            path,
            "the conversation does not need it; remove it when you have looked",
        )
    return fault(
        f"a rebuild was interrupted before its last step: {conversation[:12]} is in here",
        path,
        f"run `tenex conversations rebuild {conversation} --from conversation.json` again, while no daemon runs: "
        "it restores the folder first",
        StoreDamaged,
    )


def _view(folder: Path, last: int | None, *, has_view: bool, is_running: bool) -> Iterator[Finding]:
    """Examine `conversation.json`; `last` is the seq the journal ends with, None where that is damaged."""
    path = folder / VIEW
    if not has_view:
        if not is_running:
            yield warning("conversation.json is missing", path, "nothing to do: the next start writes it")
        return
    view = _parsed(path)
    if not isinstance(view, dict):
        if last is None:
            yield warning("conversation.json cannot be read", path, "restore it from a backup, if there is one")
            return
        yield warning(
            "conversation.json cannot be read; the journal has everything",
            path,
            "move it away; the next start writes it again",
            Repair(run=lambda: _move_away(path), needs_lock=True),
        )
        return
    covered = view.get("seq")
    if last is None or type(covered) is not int or covered <= last or is_running:
        return
    fix = (
        "restore the newest file of the journal from a backup; or stop the daemon: `tenex conversations rebuild "
        f"{folder.name[:12]} --force` takes what conversation.json has"
    )
    message = f"conversation.json covers record {covered}, but the journal ends with {last}: the end of it is missing"
    yield fault(message, path, fix, StoreDamaged)


def _parts(folder: Path, names: set[str], *, is_whole: bool, is_running: bool) -> Iterator[Finding]:
    """Examine the older turns and transitions beside a view; a start writes them only where it writes the view."""
    existing = {name for name in names if _PART.fullmatch(name)}
    lost = [(name, "cannot be read") for name in existing if _parsed(folder / name) is None]
    if not is_running:  # a daemon may have written them since
        view = _parsed(folder / VIEW)
        lists = [value for key, value in view.items() if key.startswith("earlier")] if isinstance(view, dict) else []
        listed = {str(name) for one in lists if isinstance(one, list) for name in one if _PART.fullmatch(str(name))}
        lost += [(name, "are missing") for name in listed - existing]
    for name, problem in sorted(lost):
        part = folder / name
        if is_whole:
            repair = Repair(run=lambda part=part: _move_away(part, folder / VIEW), needs_lock=True)  # type: ignore[misc]
            fix = f"move it away if it exists, and {VIEW} with it; the next start writes both again"
            yield warning(f"older turns {problem}; the journal has them all", part, fix, repair)
        else:
            yield warning(f"older turns {problem}", part, "restore it from a backup, if there is one")


def index(case: Case) -> Iterator[Finding]:
    """Report whether the index is whole, of this version, and how far behind the journals."""
    root = case.paths.conversations if case.paths else None
    if root is None or not root.is_dir():
        return
    path = root / INDEX
    repair = Repair(
        run=lambda: _move_away(*(path.with_name(INDEX + s) for s in ("", "-wal", "-shm", "-journal"))), needs_lock=True
    )
    if not path.exists() and not path.is_symlink():
        yield ok("there is no index yet; the next start creates it", path)
        return
    if not path.is_file():
        yield fault("this is not a file", path, REBUILD_INDEX, StoreError, repair)
        return
    # where no other process has it open: without leaving a file beside it
    mode = "mode=ro" if path.with_name(f"{INDEX}-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=3)) as connection:
            if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                fix = "nothing to do: the next start rebuilds it"
                yield warning(f"the index is not of version {VERSION}", path, fix)
                return
            checked = connection.execute("pragma quick_check(1)").fetchone()[0]
            if checked != "ok":
                raise sqlite3.DatabaseError(str(checked).splitlines()[0])
            connection.execute("select event_id, conversation from events limit 1").fetchone()
            connection.execute("select relay, at from cursors limit 1").fetchone()
            known = dict(connection.execute("select id, bytes from conversations").fetchall())
    except (sqlite3.Error, OSError) as error:
        yield warning(f"the index is damaged: {error}", path, REBUILD_INDEX, repair)
        return
    names = [folder.name for folder in root.iterdir() if len(folder.name) == 64]
    behind = [name for name, length in _lengths(root, names).items() if known.get(name) != length]
    if behind and not case.daemon.running:
        yield ok(
            f"the index is whole, and behind by {count_text(len(behind), 'conversation')}; a start reads them", path
        )
    else:
        yield ok(f"the index is whole and knows {count_text(len(known), 'conversation')}", path)


def _lengths(root: Path, names: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        try:
            found[name] = segments.stat_all(str(root / name))[0]
        except OSError:
            continue
    return found


def _read(path: Path) -> bytes:
    """The bytes of a file; raises OSError where it is not a regular file, such as a pipe or a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _parsed(path: Path) -> Any:
    """The JSON in a file; None where it holds none."""
    try:
        return json.loads(_read(path))
    except (OSError, ValueError, RecursionError):
        return None


def _move_away(*paths: Path) -> str:
    moved = [atomic.set_aside(path, "damaged").name for path in paths if os.path.lexists(path)]
    return f"moved to {', '.join(moved)}" if moved else "moved already"


def _remove(folder: Path, remove: Callable[[Path], object]) -> str:
    remove(folder)
    return "removed"
