"""Making a conversation's files: whole or not at all, and never at the cost of what was there."""

import asyncio
import errno
import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import StoreError
from tenex.core.ids import Millis
from tenex.core.state.snapshot import StateSnapshot
from tenex.store import atomic, atomic_folder
from tenex.store.atomic_folder import WAS, create, indexed_events, put_back, renew, stamp
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.journal_reader import JOURNAL, MARK, NEWEST, VIEW, peek

from .kit import CONVERSATION_ID, decisions_of

WHEN = stamp(Millis(1_700_000_000_000))
NEW = decisions_of(1, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A damaged conversation with everything that may lie there."""
    folder = tmp_path / "conversations" / CONVERSATION_ID
    folder.mkdir(parents=True)
    for name in (
        JOURNAL,
        "journal-000002.jsonl",
        VIEW,
        "orchestratorTurns-000001.json",
        "phaseTransitions-000001.json",
        MARK,
        "journal.torn-x-1",
    ):
        (folder / name).write_text(f"old {name}")
    return folder


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_new_journal_is_alone_and_everything_old_is_in_one_folder(folder: Path) -> None:
    aside = renew(folder, NEW, WHEN)
    assert aside == folder / "journal.damaged-20231114T221320Z-1"
    assert content(aside) == {
        name: f"old {name}"
        for name in (
            JOURNAL,
            "journal-000002.jsonl",
            VIEW,
            "orchestratorTurns-000001.json",
            "phaseTransitions-000001.json",
        )
    }
    assert sorted(path.name for path in folder.iterdir()) == [VIEW, aside.name, JOURNAL, "journal.torn-x-1"]
    assert len(peek(folder / JOURNAL, CONVERSATION)) == 3
    assert json.loads((folder / VIEW).read_bytes())["seq"] == 3
    assert (folder / JOURNAL).stat().st_mode & 0o777 == 0o600
    assert aside.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_second_time_has_a_folder_of_its_own(folder: Path) -> None:
    first, second = renew(folder, NEW, WHEN), renew(folder, decisions_of(1), WHEN)
    assert (first.name[-2:], second.name[-2:]) == ("-1", "-2")
    assert len(peek(second / JOURNAL, CONVERSATION)) == 3
    assert len(peek(folder / JOURNAL, CONVERSATION)) == 1


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "nothing"])
def test_whatever_is_in_the_journals_place_is_moved_as_it_is(folder: Path, kind: str) -> None:
    journal = folder / JOURNAL
    journal.unlink()
    if kind == "folder":
        journal.mkdir()
        (journal / "deep").write_text("kept")
    elif kind == "link":
        journal.symlink_to("/nowhere")
    elif kind == "pipe":
        os.mkfifo(journal)
    aside = renew(folder, NEW, WHEN)
    moved = aside / JOURNAL
    assert {
        "folder": moved.is_dir() and (moved / "deep").is_file(),
        "link": moved.is_symlink(),
        "pipe": moved.is_fifo(),
        "nothing": not moved.exists(),
    }[kind]
    assert len(peek(journal, CONVERSATION)) == 3


def unable(_one: Path, _other: Path) -> bool:
    """A disk that cannot exchange two names in one step."""
    return False


def at_call(number: int, what: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Do something before the system call with that number, of those that change something."""
    calls = itertools.count(1)

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            if next(calls) == number:
                what()
            return real(*arguments, **keywords)

        return call

    for name in ("mkdir", "link", "rename", "fsync", "write", "unlink", "replace", "rmdir"):
        patch.setattr(os, name, counted(getattr(os, name)))


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


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "renamed twice"])
def test_a_failed_renew_changes_nothing_and_is_repeatable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """Each system call that changes something fails once."""

    def refuse() -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    if not exchange:
        monkeypatch.setattr(atomic_folder, "_exchange", unable)
    before, number, refused = content(folder), 0, 0
    while True:
        number += 1
        with monkeypatch.context() as patch:
            at_call(number, refuse, patch)
            try:
                renew(folder, NEW, WHEN)
            except StoreError as fault:
                refused += "Input/output error" in str(fault)
        if not is_as_it_was(folder, before):
            break  # it is in place, though the last flush failed
    assert refused > 20
    renew(folder, NEW, WHEN)
    assert set(before.values()) - {f"old {MARK}"} <= set(content(folder).values())
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "renamed twice"])
def test_a_killed_renew_is_done_or_undone(folder: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    """Nothing tidies up after a process that is killed; the second one finds everything to do it with, or done."""
    if not exchange:
        monkeypatch.setattr(atomic_folder, "_exchange", unable)
    before, number, half = content(folder), 0, 0
    whole = folder.parent.with_name("before")
    shutil.copytree(folder, whole)
    while True:
        number += 1
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                at_call(number, lambda: os._exit(9), monkeypatch)
                renew(folder, NEW, WHEN)
                os._exit(0)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if folder.exists():
            is_as_it_was(folder, before)
        else:
            half += 1
            put_back(folder)
            assert content(folder) == before
        renew(folder, NEW, WHEN)
        assert not is_as_it_was(folder, before)
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
        if code == 0:
            break
        assert code == 9
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
    assert number > 20
    assert half == (0 if exchange else 1)


def test_what_lies_between_two_renames_is_not_removed_for_one_that_has_begun_since(folder: Path) -> None:
    left = folder.parent / f".{folder.name}.aaaaaaaa.tmp"
    (left / folder.name).mkdir(parents=True)
    folder.rename(left / WAS)
    create(folder, decisions_of(1))
    put_back(folder)
    renew(folder, NEW, WHEN)
    assert (left / WAS / JOURNAL).read_text() == f"old {JOURNAL}"


async def _made(index: Path) -> None:
    await Index(index).close()


def _index_knows(folder: Path, *events: str) -> None:
    """An index that has seen these in the conversation, and another one in another."""
    asyncio.run(_made(folder.parent / "index.sqlite"))
    with sqlite3.connect(folder.parent / "index.sqlite") as tables:
        tables.execute(
            "insert into conversations values (5, ?, 1, 1, 1, 'ended', 'chat', 1, 't', 0, 0, '{}')", (CONVERSATION_ID,)
        )
        tables.executemany("insert into events values (?, 5)", [(event,) for event in events])
        tables.execute("insert into events values (?, 6)", ("2" * 64,))
    tables.close()


def test_the_messages_the_index_knows_are_found(folder: Path) -> None:
    shutil.rmtree(folder)
    assert indexed_events(folder) == []
    _index_knows(folder, "1" * 64)
    assert indexed_events(folder) == ["1" * 64]
    (folder.parent / "index.sqlite").write_bytes(b"no database")
    assert indexed_events(folder) == []


def test_a_journal_that_begins_with_a_snapshot_is_not_the_first_file(folder: Path) -> None:
    state = fold(CONVERSATION_ID, NEW[0])
    renew(folder, [[StateSnapshot.of(state)]], WHEN)
    assert (folder / "journal-000002.jsonl").exists()
    assert not (folder / JOURNAL).exists()
    assert len(peek(folder / JOURNAL, CONVERSATION, NEWEST)) == 1


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    folder = tmp_path / "conversations" / CONVERSATION_ID
    create(folder, NEW)
    assert [path.name for path in folder.parent.iterdir()] == [CONVERSATION_ID]
    assert [path.name for path in folder.iterdir()] == [JOURNAL]
    assert (folder.stat().st_mode & 0o777, (folder / JOURNAL).stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(StoreError, match=r"not empty|exists"):
        create(folder, decisions_of(1))
    assert len(peek(folder / JOURNAL, CONVERSATION)) == 3
    assert [path.name for path in folder.parent.iterdir()] == [CONVERSATION_ID]


def test_what_a_process_left_that_died_while_it_made_a_new_folder_is_removed_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "conversations" / CONVERSATION_ID
    for name in (CONVERSATION_ID, "e" * 64):
        left = folder.parent / f".{name}.aaaaaaaa.tmp"
        left.mkdir(parents=True)
        (left / f".{JOURNAL}.aaaaaaaa.tmp").write_bytes(b"half a")
    create(folder, NEW)
    assert {path.name for path in folder.parent.iterdir()} == {CONVERSATION_ID, f".{'e' * 64}.aaaaaaaa.tmp"}


def test_a_new_folder_the_disk_does_not_take_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conversations" / CONVERSATION_ID

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write_all", full)
    with pytest.raises(StoreError, match="No space left"):
        create(folder, NEW)
    assert list(folder.parent.iterdir()) == []
