"""Lessons, profiles and notices: once, durable, and limited to the newest."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.ids import ConversationId, EventId, PublicKey, Slug
from tenex.core.ports import Notice
from tenex.store import daemon_journal, journal, segments
from tenex.store.daemon_journal import DaemonFolder, DaemonJournal
from tenex.store.disk import Disk

from .kit import CONVERSATION_ID, StillClock, cancel_writing, fails

KEY = PublicKey("a" * 64)
FILE = "_daemon/journal.jsonl"


async def opened(root: Path, disk: Disk) -> DaemonJournal:
    return await DaemonJournal.open(DaemonFolder(root, disk, StillClock()), StillClock())


async def learn(store: DaemonJournal, *keys: str, agent: str = "executor") -> None:
    for key in keys:
        await store.record(agent, CONVERSATION_ID, "a title", f"lesson {key}", "tests", key)


def learned(store: DaemonJournal) -> list[str]:
    return [lesson.key for lesson in store.lessons("executor")]


async def test_a_lesson_is_there_after_a_restart(tmp_path: Path, disk: Disk) -> None:
    store = await opened(tmp_path, disk)
    await asyncio.gather(*(learn(store, "1") for _ in range(5)))  # the same key records once
    await learn(store, "2", agent="planner")
    again = await opened(tmp_path, disk)
    (lesson,) = again.lessons("executor")
    assert (lesson.seq, lesson.title, lesson.lesson, lesson.category) == (1, "a title", "lesson 1", "tests")
    assert lesson.conversation == CONVERSATION_ID
    assert again.lessons("planner") == store.lessons("planner") != ()
    assert again.lessons("unknown") == ()
    await learn(again, "1")
    assert len(again.all_lessons()) == 2


async def test_a_profile_is_remembered_by_key_and_kind(tmp_path: Path, disk: Disk) -> None:
    store = await opened(tmp_path, disk)
    for kind, event, at in ((0, "1", 100), (0, "1", 100), (10002, "2", 100), (0, "3", 101)):
        await store.published(KEY, kind, EventId(event * 64), f"hash {event}", at)
    again = await opened(tmp_path, disk)
    profile = again.profile(KEY, 0)
    assert profile is not None
    assert (profile.seq, profile.event_id, profile.content_hash, profile.created_at) == (3, "3" * 64, "hash 3", 101)
    assert again.profile(KEY, 1) is None


async def test_after_a_failed_append_the_next_call_begins_again(tmp_path: Path, disk: Disk) -> None:
    disk.write = fails(errno.ENOSPC)
    store = await opened(tmp_path, disk)
    with pytest.raises(AppendFailed):
        await learn(store, "1")
    assert learned(store) == []
    disk.write = os.write
    await learn(store, "1", "2")
    assert learned(await opened(tmp_path, disk)) == ["1", "2"]


async def test_a_cancelled_record_is_known_to_the_next_call_if_it_was_written(tmp_path: Path, disk: Disk) -> None:
    store = await opened(tmp_path, disk)
    await cancel_writing(learn(store, "1"), disk)
    await learn(store, "1")
    assert [lesson.seq for lesson in store.lessons("executor")] == [1]


async def test_a_start_continues_without_a_damaged_journal(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No conversation waits for lessons; recording one fails until the file is repaired."""
    store = await opened(tmp_path, disk)
    await learn(store, "1")
    await store.close()
    await store.close()
    await learn(store, "2")  # a closed journal opens itself again
    await store.close()
    path = tmp_path / FILE
    good = path.read_bytes()
    path.write_bytes(b"x" + good)
    with pytest.raises(StoreDamaged, match="Move the file away to start without"):
        await opened(tmp_path, disk)
    begun = await DaemonJournal.begin(DaemonFolder(tmp_path, disk, StillClock()), StillClock())
    assert learned(begun) == []
    with pytest.raises(StoreDamaged):
        await learn(begun, "3")
    assert path.read_bytes() == b"x" + good
    path.write_bytes(good)
    other = Disk()
    with monkeypatch.context() as patch:  # a full disk: they can be read, though nothing can be written
        patch.setattr("tenex.store.atomic.replace", fails(errno.ENOSPC))
        full = await DaemonJournal.begin(DaemonFolder(tmp_path, other, StillClock()), StillClock())
        with pytest.raises(AppendFailed):
            await learn(full, "3")
    assert learned(full) == ["1", "2"]
    other.close()
    await learn(begun, "3")
    assert learned(begun) == ["1", "2", "3"]


def notice(failure: str = "damaged", written: int = 5) -> Notice:
    return Notice(
        conversation=CONVERSATION_ID,
        author=KEY,
        failure=failure,
        written=written,
        address={"form": "notes"},
        origin={"id": "e" * 64, "author": KEY},
    )


async def test_a_notice_is_kept_as_it_first_was_until_the_failure_is_over(tmp_path: Path, disk: Disk) -> None:
    store = await opened(tmp_path, disk)
    for one in (notice(), notice(written=6), notice("fault")):
        await store.add_notice(one)
    again = await opened(tmp_path, disk)
    assert again.open_notices() == store.open_notices() == (notice(), notice("fault"))
    await again.clear_notices(ConversationId("f" * 64))
    assert len(again.open_notices()) == 2
    for _ in range(2):
        await again.clear_notices(CONVERSATION_ID)
    last = await opened(tmp_path, disk)
    assert last.open_notices() == ()
    await last.add_notice(notice(written=7))
    assert (await opened(tmp_path, disk)).open_notices() == (notice(written=7),)
    assert (tmp_path / FILE).read_bytes().count(b"\n") == 4


async def test_a_start_reads_the_newest_file_only(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lessons and keys in it are limited to the newest."""
    monkeypatch.setattr(daemon_journal, "LESSONS_KEPT", 3)
    monkeypatch.setattr(daemon_journal, "KEYS_KEPT", 4)
    monkeypatch.setattr(journal, "FILE_BYTES", 2_000)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 0)
    store = await opened(tmp_path, disk)
    await store.published(KEY, 0, EventId("1" * 64), "hash", 100)
    await store.add_notice(notice())
    for model, at in (("a:b", 1), ("c:d", 2)):
        await store.choose_model(Slug("planner"), model, ["offline"], KEY, EventId("2" * 64), at)
    await learn(store, "p", agent="planner")
    await learn(store, *map(str, range(40)))
    files = segments.numbers(tmp_path / "_daemon")
    assert len(files) > 3
    assert segments.current(tmp_path / "_daemon").stat().st_size < 5_000
    (tmp_path / FILE).write_bytes(b"never read")
    again = await opened(tmp_path, disk)
    assert learned(again) == ["37", "38", "39"]
    assert again.all_lessons() == store.all_lessons()
    assert len(again.lessons("planner")) == 1
    assert (again.profile(KEY, 0), again.open_notices()) == (store.profile(KEY, 0), (notice(),))
    assert [(one.model, one.created_at) for one in again.models().values()] == [("c:d", 2)]
    assert again.models() == store.models()
    await learn(again, "36", "39")  # calls that run again
    assert again.lessons("executor") == store.lessons("executor")
    await learn(again, "40", "35")  # the last is forgotten
    await again.clear_notices(CONVERSATION_ID)
    last = await opened(tmp_path, disk)
    assert (learned(last), last.open_notices()) == (["39", "40", "35"], ())


async def test_a_failed_rotation_is_not_fatal(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    store = await opened(tmp_path, disk)
    with monkeypatch.context() as patch:
        patch.setattr("tenex.store.atomic.replace", fails(errno.ENOSPC))
        await learn(store, "1", "2")
    assert segments.numbers(tmp_path / "_daemon") == [1]
    assert learned(await opened(tmp_path, disk)) == ["1", "2"]


async def test_a_removed_lesson_stays_removed_after_restarts_and_in_later_files(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path, disk)
    await learn(store, "1", "2", "3")
    assert [lesson.seq for lesson in store.all_lessons()] == [1, 2, 3]
    removed = await store.remove_lesson(2)
    assert removed is not None
    assert removed.key == "2"
    assert await store.remove_lesson(2) is None
    assert await store.remove_lesson(4) is None  # the number of the removal itself
    await learn(store, "2")  # the same call again
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    again = await opened(tmp_path, disk)
    assert learned(store) == learned(again) == ["1", "3"]
    await learn(again, "4")
    assert len(segments.numbers(tmp_path / "_daemon")) == 2
    assert learned(await opened(tmp_path, disk)) == ["1", "3", "4"]
