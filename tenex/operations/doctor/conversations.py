"""Conversations on disk: what `verify` finds in each, the files beside them, the daemon's own journal and the index.

A line that a running daemon is writing looks incomplete; then it is not reported.
"""

import asyncio
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tenex.core.errors import StoreDamaged, StoreError
from tenex.core.ids import ConversationId
from tenex.runtime.clock import SystemClock
from tenex.store import atomic, segments
from tenex.store.atomic_folder import is_half_done
from tenex.store.daemon_journal import DAEMON, FOLDER
from tenex.store.disk import PROBE, Disk
from tenex.store.format import CONVERSATION, Codec
from tenex.store.index_reader import NAME as INDEX
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, mark_of, peek_left
from tenex.store.lock import NAME as LOCK
from tenex.store.repository import ConversationFolder
from tenex.store.schema import VERSION, read_only
from tenex.store.verify import verify

from . import machine
from .findings import Case, Finding, Repair, count_text, fault, ok, warning

REBUILD_INDEX: Final = "move it away while no daemon runs: it is a cache, and the next start rebuilds it"

_ID: Final = re.compile(r"[0-9a-f]{64}")
_TORN: Final = re.compile(r"journal(-\d+)?\.torn-.+")
_DAMAGED: Final = re.compile(
    r"journal\.damaged-.+|(conversation|index|(orchestratorTurns|phaseTransitions)-\d+)\.damaged-\d+"
)
_LEGACY: Final = re.compile(r"[0-9a-f]{64}\.json")


def conversations(case: Case) -> Iterator[Finding]:
    """Verify every conversation, and examine what else is in the folder of conversations."""
    root = case.paths.conversations if case.paths else None
    if root is None or not root.is_dir():
        return
    store = ConversationFolder(root, Disk(), SystemClock())  # its threads end with the process
    bad, whole = 0, 0
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        path = Path(entry.path)
        if not _ID.fullmatch(entry.name):
            yield from _foreign(path)
            continue
        found = list(_conversation(store, path, is_running=case.daemon.running))
        yield from found
        bad += bool(found)
        whole += not found
    if not bad:
        yield ok(f"{count_text(whole, 'conversation')} whole", root)


def daemon_journal(case: Case) -> Iterator[Finding]:
    """Examine the journal of what belongs to no conversation."""
    folder = case.paths.conversations / FOLDER if case.paths else None
    if folder is None or not folder.is_dir():
        return
    try:
        _, gone = peek_left(folder / JOURNAL, DAEMON)
    except StoreDamaged as error:
        gone = str(error)
    if gone:
        fix = "move the file away to start without the lessons and profiles in it"
        yield fault(_parts(folder, gone)[1], _parts(folder, gone)[0], fix, StoreDamaged)
        return
    torn = list(_torn(folder, DAEMON, is_running=case.daemon.running))
    yield from torn or [ok("the daemon's own journal is whole", folder / JOURNAL)]


def _conversation(store: ConversationFolder, folder: Path, *, is_running: bool) -> Iterator[Finding]:
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
    if VIEW not in names and not any(segments.number_of(name) for name in names):
        yield warning("this holds no conversation", folder, "remove it if it is empty")
        return
    verdict = asyncio.run(verify(store, ConversationId(folder.name)))
    for sentence in verdict.faults:
        location, message, fix = _parts(folder, sentence)
        fix = fix.replace("rebuild ID", f"rebuild {folder.name[:12]}")
        yield fault(message, location, f"{fix[:1].lower()}{fix[1:]}", StoreDamaged)
    for remark in verdict.remarks:
        location, message, fix = _parts(folder, remark)
        if fix:
            yield warning(message, location, fix)
    if not verdict.faults:
        yield from _torn(folder, CONVERSATION, is_running=is_running)
    if MARK in names and mark_of(folder) is not None and not verdict.faults:
        yield warning(
            "this conversation was put into quarantine, and its journal is whole again",
            folder / MARK,
            "write in its thread, reload the daemon or restart it, and it is opened again",
        )
    yield from _beside(folder, names, is_running=is_running)


def _parts(folder: Path, sentence: str) -> tuple[str, str, str]:
    """Location, message and fix of a sentence of `verify`, which begins with a path."""
    path, rest = str(folder), sentence
    if match := re.match(rf"({re.escape(str(folder))}(?:/[\w.-]+)?):? (.*)", sentence, re.DOTALL):
        path, rest = match[1], match[2]
    message, _, fix = rest.replace(" Nothing was changed.", "").partition(". ")
    return path, message.removesuffix("."), fix


def _torn(folder: Path, codec: Codec, *, is_running: bool) -> Iterator[Finding]:
    """Report an incomplete write at the end of the newest file."""
    newest = segments.current(folder)
    data = newest.read_bytes()
    _, length, broken = codec.decode_lines(data)
    if broken is not None and not is_running:
        yield warning(
            f"the last {count_text(len(data) - length, 'byte')} are an interrupted write: {broken.what}",
            newest,
            "nothing to do: the next start moves them to a file of their own and continues",
        )


def _beside(folder: Path, names: set[str], *, is_running: bool) -> Iterator[Finding]:
    """Other files in a conversation's folder."""
    torn = {name for name in names if _TORN.fullmatch(name)}
    damaged = {name for name in names if _DAMAGED.fullmatch(name)}
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
        elif not _is_object(path):
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
    elif not name.startswith("."):  # such as the .gitkeep of a checkout
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


def index(case: Case) -> Iterator[Finding]:
    """Report whether the index is whole and of this version."""
    root = case.paths.conversations if case.paths else None
    if root is None or not root.is_dir():
        return
    path = root / INDEX
    files = [path.with_name(INDEX + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    repair = Repair(run=lambda: _move_away(*files), needs_lock=True)
    if not path.exists() and not path.is_symlink():
        yield ok("there is no index yet; the next start creates it", path)
        return
    if not path.is_file():
        yield fault("this is not a file", path, REBUILD_INDEX, StoreError, repair)
        return
    try:
        with closing(read_only(path)) as connection:
            version = connection.execute("pragma user_version").fetchone()[0]
            checked = str(connection.execute("pragma quick_check(1)").fetchone()[0])
    except (sqlite3.Error, OSError) as error:
        version, checked = VERSION, str(error)
    if checked != "ok":
        yield warning(f"the index is damaged: {checked.splitlines()[0]}", path, REBUILD_INDEX, repair)
    elif version != VERSION:
        yield warning(f"the index is not of version {VERSION}", path, "nothing to do: the next start rebuilds it")
    else:
        yield ok("the index is whole", path)


def _move_away(*paths: Path) -> str:
    moved = [atomic.set_aside(path, "damaged").name for path in paths if os.path.lexists(path)]
    return f"moved to {', '.join(moved)}" if moved else "moved already"


def _is_object(path: Path) -> bool:
    """Whether a file holds a JSON object."""
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError, RecursionError):
        return False


def _remove(folder: Path, remove: Callable[[Path], object]) -> str:
    remove(folder)
    return "removed"
