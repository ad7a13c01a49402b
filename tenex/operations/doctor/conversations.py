"""Conversations on disk: what `verify` finds in each, the files beside them, the daemon's own journal and the index.

A line that a running daemon is writing looks incomplete; then it is not reported.
"""

import asyncio
import fnmatch
import os
import re
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tenex.core.errors import ConfigurationError, StoreDamaged, StoreError, StoreOtherVersion
from tenex.core.ids import ConversationId
from tenex.runtime.clock import SystemClock
from tenex.store import atomic, segments
from tenex.store.atomic_folder import is_half_done
from tenex.store.conversations import Conversations
from tenex.store.daemon_journal import DAEMON, FOLDER
from tenex.store.disk import PROBE, Disk
from tenex.store.format import CONVERSATION, Codec, as_written, seq_of
from tenex.store.index_reader import NAME as INDEX
from tenex.store.index_reader import open_catalogue
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, mark_of, read_surviving, views_ahead
from tenex.store.lock import NAME as LOCK
from tenex.store.opening import open_conversations
from tenex.store.reading import is_all_sound
from tenex.store.repository import ConversationFolder
from tenex.store.schema import VERSION, read_only, remove
from tenex.store.stats_cache import NAME as STATS
from tenex.store.verify import VerifyResult, verify
from tenex.store.view_reader import read_view

from . import machine
from .findings import Case, Finding, Repair, count_text, fault, ok, warning

REBUILD_INDEX: Final = "move it away while no daemon runs: it is a cache, and the next start rebuilds it"

READ: Final = 100
"""Conversations that are decoded: those that changed last. With several thousand the rest would take half a minute."""

T = TypeVar("T")

_COVERED: Final = re.compile(rb'^  "seq": (\d{1,15}),$', re.MULTILINE)
"""The record that a readable file covers, as it is written; one that is written in another way is decoded."""
_HEAD: Final = 4_096
"""Bytes of a readable file in which that is."""

_ID: Final = re.compile(r"[0-9a-f]{64}")
_LEGACY: Final = re.compile(r"[0-9a-f]{64}\.json")
_BESIDE: Final = {
    "journal*.torn-*": (
        "with a torn tail of this journal, kept: steps that a crash interrupted",
        "no acknowledged step was lost; remove it when you have looked",
    ),
    "journal.damaged-*": (
        "of this conversation, kept from before it was repaired",
        "the conversation does not need it; remove it when you have looked",
    ),
    "journal*": (
        "beside the journal that do not belong to it, and are never read",
        "a copy, or renamed: look what is in it, and move it out of the folder",
    ),
}
"""Files in a conversation's folder that are no part of it; the first pattern counts. Message, fix."""


def conversations(case: Case) -> Iterator[Finding]:
    """Verify every conversation, and examine what else is in the folder of conversations."""
    root = case.paths.conversations
    if not root.is_dir():
        return
    if case.settings.store:
        yield from _in_database(case)
        return
    store = ConversationFolder(root, Disk(), SystemClock())  # its threads end with the process
    entries = sorted(root.iterdir())
    folders = [path for path in entries if _ID.fullmatch(path.name)]
    newest = set(sorted(folders, key=_changed, reverse=True)[:READ])
    bad = 0
    for path in entries:
        if not _ID.fullmatch(path.name):
            yield from _foreign(path)
            continue
        found = list(_conversation(store, path, is_running=bool(case.daemon), is_read=path in newest))
        yield from found
        bad += bool(found)
    if not bad:
        older = len(folders) - len(newest)
        looked = f", {older:,} older ones by checksums alone: `tenex conversations verify` reads all" if older else ""
        yield ok(f"{count_text(len(folders), 'conversation')} whole{looked}", root)


def _changed(folder: Path) -> int:
    """When a name in a folder was last made or replaced, as its readable file is, in ns; 0 where it is not seen."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def daemon_journal(case: Case) -> Iterator[Finding]:
    """Examine the journal of what belongs to no conversation."""
    folder = case.paths.conversations / FOLDER
    if not folder.is_dir():
        return
    try:
        _, loss = read_surviving(folder / JOURNAL, DAEMON)
    except StoreOtherVersion as error:
        path, message, fix = _parts(folder, str(error))
        yield fault(message, path, f"{fix[:1].lower()}{fix[1:]}", StoreOtherVersion)
        return
    except StoreDamaged as error:
        loss = str(error)
    if loss:
        path, message, _ = _parts(folder, loss)
        yield fault(message, path, "move the file away to start without the lessons and profiles in it", StoreDamaged)
        return
    torn = list(_torn(folder, DAEMON, is_running=bool(case.daemon)))
    yield from torn or [ok("the daemon's own journal is whole", folder / JOURNAL)]


def claims(case: Case) -> Iterator[Finding]:
    """Report conversations whose journals say that messages of another one are theirs."""
    root = case.paths.conversations
    if not root.is_dir():
        return

    async def read(store: Conversations) -> list[tuple[ConversationId, ConversationId, int]]:
        async with open_catalogue(store) as catalogue:
            return await catalogue.claimed_twice()

    try:
        found = _with_store(case, read)
    except (StoreError, ConfigurationError, OSError):  # the check `conversations` reports it
        return
    for name, other, number in found:
        message = f"its journal claims {count_text(number, 'message')} of {other}, which keeps them"
        fix = "look where this folder comes from; move it out if it is a copy or forged"
        yield warning(message, root / name, fix)


def _with_store(case: Case, work: Callable[[Conversations], Awaitable[T]]) -> T:
    async def run() -> T:
        root, disk = case.paths.conversations, Disk()  # its threads end with the process
        async with open_conversations(case.settings.store, root, disk, SystemClock()) as store:
            return await work(store)

    return asyncio.run(run())


def _in_database(case: Case) -> Iterator[Finding]:
    """Verify every conversation of a database."""

    async def read(store: Conversations) -> list[VerifyResult]:
        return [await verify(store, name, is_quick=True) for name in await store.lengths()]

    try:
        results = _with_store(case, read)
    except (StoreError, ConfigurationError):  # the check `database` reports it
        return
    for result in results:
        for sentence in result.faults:
            location, message, fix = _parts(case.paths.conversations / result.id, sentence)
            yield fault(message, location, fix, StoreDamaged)
    whole = sum(not result.faults for result in results)
    if whole == len(results):
        yield ok(f"{count_text(whole, 'conversation')} whole", "store")


def _conversation(store: ConversationFolder, folder: Path, *, is_running: bool, is_read: bool) -> Iterator[Finding]:
    """What is wrong with a conversation; unless `is_read` one whose checksums are right is not decoded."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 only names are needed
    except OSError as error:
        fix = "give it to the user who runs tenex, or move it away if it is not a folder"
        yield fault(f"cannot be read ({error.strerror})", folder, fix, StoreDamaged)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        fix = "make it writable for the user who runs tenex; a running daemon then continues by itself"
        yield fault("this folder is read-only, so the conversation cannot continue", folder, fix, StoreError)
    if VIEW not in names and not any(map(segments.number_of, names)):
        yield warning("this holds no conversation", folder, "remove it if it is empty")
        return
    is_odd = MARK in names or bool(views_ahead(folder))
    if is_read or is_odd or not _is_sound(folder):
        yield from _verified(store, folder, names, is_running=is_running)
    left = {name for name in names if not segments.number_of(name)}
    for pattern, (message, fix) in _BESIDE.items():
        if group := set(fnmatch.filter(left, pattern)):
            yield warning(f"{count_text(len(group), 'file')} {message}", folder / min(group), fix)
        left -= group
    leftovers = [name for name in names if atomic.LEFTOVER.fullmatch(name)]
    if leftovers and not is_running:
        message = f"{count_text(len(leftovers), 'file')} left by an interrupted write"
        repair = Repair(partial(atomic.sweep, folder), "removed", needs_lock=True)
        yield warning(message, folder / min(leftovers), "remove it; the next start does too", repair)


def _is_sound(folder: Path) -> bool:
    """Whether the journal is all there, by checksums and numbers, up to the record of the readable file at least."""
    try:
        files = {number: (folder / segments.name_of(number)).read_bytes() for number in segments.numbers(folder)}
        with (folder / VIEW).open("rb") as view:
            covered = _COVERED.search(view.read(_HEAD))
    except OSError:
        return False
    if covered is None or not is_all_sound(files):
        return False
    last = seq_of(files[len(files)].splitlines()[-1])
    return last is not None and int(covered[1]) <= last


def _verified(store: ConversationFolder, folder: Path, names: set[str], *, is_running: bool) -> Iterator[Finding]:
    """What `verify` finds, and what is torn or quarantined."""
    verdict = asyncio.run(verify(store, ConversationId(folder.name), is_quick=True))
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
        if MARK in names and mark_of(folder) is not None:
            message = "this conversation was put into quarantine, and its journal is whole again"
            fix = "write in its thread, reload the daemon or restart it, and it is opened again"
            yield warning(message, folder / MARK, fix)


def _parts(folder: Path, sentence: str) -> tuple[str, str, str]:
    """Location, message and fix of a sentence of `verify`, which begins with a path."""
    path = str(folder)
    rest = sentence
    if match := re.match(rf"({re.escape(str(folder))}(?:/[\w.-]+)?):? (.*)", sentence, re.DOTALL):
        path = match[1]
        rest = match[2]
    message, _, fix = rest.replace(" Nothing was changed.", "").partition(". ")
    return path, message.removesuffix("."), fix


def _torn(folder: Path, codec: Codec, *, is_running: bool) -> Iterator[Finding]:
    """Report an incomplete write at the end of the newest file."""
    newest = segments.current(folder)
    data = as_written(newest.read_bytes())
    _, length, broken = codec.decode_lines(data)
    if broken is not None and not is_running:
        message = f"the last {count_text(len(data) - length, 'byte')} are an interrupted write: {broken.what}"
        fix = "nothing to do: the next start moves them to a file of their own and continues"
        yield warning(message, newest, fix)


def _foreign(path: Path) -> Iterator[Finding]:
    """What is beside the conversations' folders."""
    name = path.name
    if name in (FOLDER, LOCK, PROBE, STATS) or name.startswith((machine.PROBE, "index.")):
        return
    if _LEGACY.fullmatch(name) and path.is_file():
        yield _legacy(path)
    elif atomic.LEFTOVER.fullmatch(name):
        yield _interrupted(path)
    elif not name.startswith("."):  # such as the .gitkeep of a checkout
        yield warning("this is not a conversation: its name is not 64 hex digits", path, "move it out of this folder")


def _legacy(path: Path) -> Finding:
    """The file of an older program."""
    if path.with_suffix("").exists():
        message = "the file of an older program beside the folder of the same conversation: it is not read"
        return warning(message, path, "move it out of this folder; the journal is what counts")
    try:
        read_view(path)
    except StoreDamaged:
        message = "the file of an older program cannot be read, so its conversation cannot continue"
        command = f"`tenex conversations rebuild {path.stem} --from relay`"
        fix = f"restore it from a backup; or move it away and run {command} while no daemon runs"
        return fault(message, path, fix, StoreDamaged)
    message = "a conversation of an older program that is not imported"
    return warning(message, path, f"`tenex conversations import {path}`")


def _interrupted(path: Path) -> Finding:
    """What an import, a fork or a rebuild built beside the folder it was to become or replace."""
    conversation = path.name[1:65]
    if not is_half_done(path):
        message = "left by an import, a fork or a rebuild that was interrupted"
        repair = Repair(partial(shutil.rmtree, path), "removed", needs_lock=True)
        return warning(message, path, "remove it, and run the command again", repair)
    if (path.parent / conversation).exists():
        message = "this is the folder of a conversation before a rebuild"
        return warning(message, path, "the conversation does not need it; remove it when you have looked")
    message = f"a rebuild was interrupted before its last step: {conversation[:12]} is in here"
    command = f"`tenex conversations rebuild {conversation} --from conversation.json`"
    fix = f"run {command} again, while no daemon runs: it restores the folder first"
    return fault(message, path, fix, StoreDamaged)


def index(case: Case) -> Iterator[Finding]:
    """Report whether the index is whole and of this version."""
    path = case.paths.conversations / INDEX
    if not path.parent.is_dir():
        return
    if not os.path.lexists(path):
        yield ok("there is no index yet; the next start creates it", path)
        return
    if not path.is_file():
        yield fault("this is not a file", path, REBUILD_INDEX, StoreError)
        return
    try:
        with closing(read_only(path)) as connection:
            version = connection.execute("pragma user_version").fetchone()[0]
            checked = str(connection.execute("pragma quick_check(1)").fetchone()[0])
    except (sqlite3.Error, OSError) as error:
        version = VERSION
        checked = str(error)
    if checked != "ok":
        repair = Repair(partial(remove, path), "removed", needs_lock=True)
        yield warning(f"the index is damaged: {checked.splitlines()[0]}", path, REBUILD_INDEX, repair)
    elif version != VERSION:
        yield warning(f"the index is not of version {VERSION}", path, "nothing to do: the next start rebuilds it")
    else:
        yield ok("the index is whole", path)
