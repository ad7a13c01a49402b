"""Files that are whole or not there."""

import errno
import itertools
import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import StoreError
from tenex.core.ids import ConversationId
from tenex.core.snapshot import StateSnapshot
from tenex.store import atomic, atomic_folder
from tenex.store.atomic_folder import WAS, create, put_back, renew
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.index_reader import indexed_events
from tenex.store.index_row import News
from tenex.store.journal_reader import JOURNAL, MARK, NEWEST, VIEW, peek

from .kit import CONVERSATION_ID, at_call, decisions_of, fails, kind_of_conversation, names, row


def test_replace_makes_folders_and_file_with_their_modes_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    before = os.umask(0o077)
    try:
        atomic.replace(tmp_path / "shared", b"x", mode=0o644)
        os.umask(0)
        atomic.replace(path, b"one")
        atomic.replace(path, b"two")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert (kind_of_conversation(path), kind_of_conversation(tmp_path / "shared")) == (0o600, 0o644)
    assert kind_of_conversation(path.parent) == kind_of_conversation(path.parent.parent) == 0o700
    assert names(path.parent) == ["file.json"]


def test_sweep_removes_what_a_killed_replace_left_and_nothing_else(tmp_path: Path) -> None:
    for name in (".view.json.abcd1234.tmp", ".lock", "view.json", "notes.tmp", ".hidden.tmp"):
        (tmp_path / name).write_text("x")
    atomic.sweep(tmp_path)
    assert names(tmp_path) == [".hidden.tmp", ".lock", "notes.tmp", "view.json"]


# ---- whole folders --------------------------------------------------------------------------------------------------


NEW = decisions_of(1, 2)
OLD = [JOURNAL, "journal-000002.jsonl", VIEW, "orchestratorTurns-000001.json", "phaseTransitions-000001.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A damaged conversation with everything that may be there."""
    folder = tmp_path / "conversations" / CONVERSATION_ID
    folder.mkdir(parents=True)
    for name in (*OLD, MARK, "journal.torn-x-1"):
        (folder / name).write_text(f"old {name}")
    return folder


@pytest.fixture
def missing(tmp_path: Path) -> Path:
    return tmp_path / "conversations" / CONVERSATION_ID


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_name_of_a_new_folder_is_durable_once_it_is_made(missing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[Path, bool]] = []

    def watch(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), missing.exists()))

    monkeypatch.setattr(os, "fsync", watch)
    create(missing, NEW)
    assert (missing.parent, True) in synced


def test_the_new_journal_is_alone_and_everything_old_is_in_one_folder(folder: Path) -> None:
    kept = renew(folder, NEW, "then")
    assert kept == folder / "journal.damaged-then-1"
    assert content(kept) == {name: f"old {name}" for name in OLD}
    assert names(folder) == [VIEW, kept.name, JOURNAL, "journal.torn-x-1"]
    assert json.loads((folder / VIEW).read_bytes())["seq"] == 3
    assert (kind_of_conversation(folder / JOURNAL), kind_of_conversation(kept)) == (0o600, 0o700)
    assert names(folder.parent) == [folder.name]
    second = renew(folder, decisions_of(1), "then")
    assert second.name == "journal.damaged-then-2"
    assert [len(peek(path / JOURNAL, CONVERSATION)) for path in (second, folder)] == [3, 1]


def test_anything_in_the_journals_place_is_moved_as_it_is(folder: Path) -> None:
    journal = folder / JOURNAL
    for make, is_kept in (
        (Path.mkdir, Path.is_dir),
        (os.mkfifo, Path.is_fifo),
        (lambda path: path.symlink_to("/nowhere"), Path.is_symlink),
    ):
        journal.unlink()
        make(journal)
        assert is_kept(renew(folder, NEW, "then") / JOURNAL)
        assert len(peek(journal, CONVERSATION)) == 3


def is_as_it_was(folder: Path, before: dict[str, str]) -> bool:
    """Whether a folder holds what it held; if not, it has to hold all that a renewed one holds."""
    now = content(folder)
    if now == before:
        return True
    assert len(peek(folder / JOURNAL, CONVERSATION)) == 3
    assert set(before.values()) - {f"old {MARK}"} <= set(now.values())
    assert json.loads(now[VIEW])["seq"] == 3
    assert not {MARK, "journal-000002.jsonl", "orchestratorTurns-000001.json"} & {*now}
    return False


@pytest.fixture(params=[True, False], ids=["exchanged", "renamed twice"])
def exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the disk can exchange two names in one step."""
    if not request.param:
        monkeypatch.setattr(atomic_folder, "_exchange", lambda _one, _other: False)
    return bool(request.param)


@pytest.mark.usefixtures("exchanges")
def test_a_failed_renew_changes_nothing_and_is_repeatable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse() -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    before, refused = content(folder), 0
    for number in itertools.count(1):
        with monkeypatch.context() as patch:
            at_call(number, refuse, patch)
            try:
                renew(folder, NEW, "then")
            except StoreError as fault:
                refused += "Input/output error" in str(fault)
        if not is_as_it_was(folder, before):
            break  # it is in place, though the last flush failed
    assert refused > 20
    renew(folder, NEW, "then")
    assert set(before.values()) - {f"old {MARK}"} <= set(content(folder).values())
    assert names(folder.parent) == [folder.name]


def test_a_killed_renew_is_done_or_undone(folder: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    """A killed process removes nothing; the second one finds all it needs to do it, or finds it done."""
    before, half, code = content(folder), 0, 9
    whole = folder.parent.with_name("before")
    shutil.copytree(folder, whole)
    for number in itertools.count(1):
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                at_call(number, lambda: os._exit(9), monkeypatch)
                renew(folder, NEW, "then")
                os._exit(0)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if folder.exists():
            is_as_it_was(folder, before)
        else:
            half += 1
            put_back(folder)
            assert content(folder) == before
        renew(folder, NEW, "then")
        assert not is_as_it_was(folder, before)
        assert names(folder.parent) == [folder.name]
        if code != 9:
            break
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
    assert code == 0
    assert number > 20
    assert half == (0 if exchanges else 1)


def test_a_half_done_renew_is_kept_where_another_conversation_has_begun_since(folder: Path) -> None:
    left = folder.parent / f".{folder.name}.aaaaaaaa.tmp"
    (left / folder.name).mkdir(parents=True)
    folder.rename(left / WAS)
    create(folder, decisions_of(1))
    put_back(folder)
    renew(folder, NEW, "then")
    assert (left / WAS / JOURNAL).read_text() == f"old {JOURNAL}"


async def test_the_messages_the_index_knows_are_found(missing: Path) -> None:
    assert indexed_events(missing) == []
    index = Index(missing.parent / "index.sqlite")
    index.update(row(), News(events=("1" * 64,)))
    index.update(row(ConversationId("d" * 64)), News(events=("2" * 64,)))
    await index.close()
    assert indexed_events(missing) == ["1" * 64]
    with closing(sqlite3.connect(missing.parent / "index.sqlite")) as tables, tables:
        tables.execute("drop table events")
    assert indexed_events(missing) == []


def test_a_journal_that_begins_with_a_snapshot_is_not_the_first_file(folder: Path) -> None:
    renew(folder, [[StateSnapshot.of(fold(CONVERSATION_ID, NEW[0]))]], "then")
    assert (folder / "journal-000002.jsonl").exists()
    assert not (folder / JOURNAL).exists()
    assert len(peek(folder / JOURNAL, CONVERSATION, NEWEST)) == 1


def test_a_new_folder_appears_whole(missing: Path) -> None:
    """Parts of an earlier one, whose process died, are removed."""
    for name in (CONVERSATION_ID, "e" * 64):
        left = missing.parent / f".{name}.aaaaaaaa.tmp"
        left.mkdir(parents=True)
        (left / f".{JOURNAL}.aaaaaaaa.tmp").write_bytes(b"half a")
    create(missing, NEW)
    there = [f".{'e' * 64}.aaaaaaaa.tmp", CONVERSATION_ID]
    assert (names(missing.parent), names(missing)) == (there, [JOURNAL])
    assert (kind_of_conversation(missing), kind_of_conversation(missing / JOURNAL)) == (0o700, 0o600)
    with pytest.raises(StoreError, match=r"not empty|exists"):
        create(missing, decisions_of(1))
    assert len(peek(missing / JOURNAL, CONVERSATION)) == 3
    assert names(missing.parent) == there


def test_a_new_folder_the_disk_does_not_take_leaves_nothing(missing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "write_all", fails(errno.ENOSPC))
    with pytest.raises(StoreError, match="No space left"):
        create(missing, NEW)
    assert names(missing.parent) == []
