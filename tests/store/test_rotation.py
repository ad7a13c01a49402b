"""A journal of many files: gone on with in the next, read as one, and at any moment one file or the other."""

import asyncio
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.state.snapshot import StateSnapshot
from tenex.store import atomic, journal, segments
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import MARK
from tenex.store.repository import NEWEST, ConversationFolder
from tests.fakes.scenario import ID, Scenario

from .kit import StillClock, asked, fails, records_of


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is long at once."""
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_CHECKPOINT", 0)


def names(folder: ConversationFolder) -> list[str]:
    return sorted(entry.name for entry in folder.path(ID).iterdir())


async def written(folder: ConversationFolder, scenario: Scenario, each: int = 40) -> FileJournal:
    """The scenario on disk, a new file after so many records."""
    journal, _ = await folder.open(ID)
    state, since = Conversation(id=ID), 0
    for decision in scenario.journal:
        await journal.append([decision])
        for record in decision:
            state.apply(record)
        since += len(decision)
        if since >= each:
            assert await journal.rotate(StateSnapshot.of(state))
            since = 0
    return journal


async def test_a_rotated_journal_is_folded_from_its_newest_file(folder: ConversationFolder, scenario: Scenario) -> None:
    before = await written(folder, scenario)
    assert names(folder) == ["journal-000002.jsonl", "journal-000003.jsonl", "journal-000004.jsonl", "journal.jsonl"]
    await folder.close()
    journal, records = await folder.open(ID)
    assert isinstance(records[0], StateSnapshot)
    assert fold(ID, records) == scenario.conversation
    assert journal.next_seq == before.next_seq == scenario.conversation.next_seq
    assert await folder.read(ID) == records_of(scenario), "every fact, each once, and nothing else"


async def test_it_continues_after_each_restart_as_one_file(folder: ConversationFolder, scenario: Scenario) -> None:
    for decision in scenario.journal:
        journal, records = await folder.open(ID)
        state = fold(ID, records)
        await journal.append([decision])
        for record in decision:
            state.apply(record)
        assert await journal.rotate(StateSnapshot.of(state))
    assert len(names(folder)) == len(scenario.journal) + 1
    assert await folder.read(ID) == records_of(scenario)
    assert fold(ID, (await folder.open(ID))[1]) == scenario.conversation


async def test_only_as_many_files_are_read_as_are_asked_for(folder: ConversationFolder, scenario: Scenario) -> None:
    await written(folder, scenario)
    (folder.path(ID) / "journal.jsonl").write_bytes(b"never read")
    newest = await folder.read(ID, NEWEST)
    assert newest == (await folder.open(ID))[1]
    assert fold(ID, newest) == scenario.conversation
    first = newest[0].seq
    assert await folder.read(ID, first) == newest
    more = await folder.read(ID, first - 1)
    assert isinstance(more[0], StateSnapshot)
    assert [record.seq for record in more[1:]] == list(range(more[0].seq + 1, scenario.conversation.next_seq))
    assert more[0].seq < first - 1
    with pytest.raises(StoreDamaged, match=r"journal\.jsonl ends with seq 0, but journal-000002\.jsonl follows on 40"):
        await folder.read(ID)


async def test_the_length_is_that_of_all_files(folder: ConversationFolder, scenario: Scenario) -> None:
    journal = await written(folder, scenario)
    whole = sum(path.stat().st_size for path in folder.path(ID).iterdir())
    assert await folder.lengths() == {ID: whole}
    assert folder.length(ID) == journal.length == whole
    await folder.close()
    journal, _ = await folder.open(ID)
    assert folder.length(ID) == journal.length == whole
    view = folder.path(ID) / "conversation.json"
    view.touch()
    newest = segments.current(folder.path(ID))
    os.utime(view, ns=(0, newest.stat().st_mtime_ns))
    os.utime(folder.path(ID) / "journal.jsonl", ns=(0, newest.stat().st_mtime_ns + 10**9))
    assert await folder.behind() == [], "only the newest file shows when the conversation last went on"
    os.utime(view, ns=(0, newest.stat().st_mtime_ns - 1))
    assert await folder.behind() == [ID]


async def test_files_before_the_newest_are_never_touched_again(folder: ConversationFolder, scenario: Scenario) -> None:
    journal, _ = await folder.open(ID)
    state = Conversation(id=ID)
    for number, decision in enumerate(scenario.journal[:6]):
        await journal.append([decision])
        for record in decision:
            state.apply(record)
        if number == 3:
            before = (folder.path(ID) / "journal.jsonl").stat()
            assert await journal.rotate(StateSnapshot.of(state))
            assert journal.file_length == (folder.path(ID) / "journal-000002.jsonl").stat().st_size
    after = (folder.path(ID) / "journal.jsonl").stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    second = folder.path(ID) / "journal-000002.jsonl"
    assert second.stat().st_mode & 0o777 == 0o600
    first, *_ = CONVERSATION.decode_lines(second.read_bytes())[0]
    assert isinstance(first, StateSnapshot)


# ---- when it happens ----------------------------------------------------------------------------------------------


async def test_only_a_long_journal_is_rotated_and_only_where_the_state_is_what_the_disk_has(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, _ = await folder.open(ID)
    await writer.append(scenario.journal[:-1])
    state = fold(ID, records_of(scenario)[: -len(scenario.journal[-1])])
    ahead = fold(ID, records_of(scenario))
    assert not await folder.rotate(ahead)
    assert names(folder) == ["journal.jsonl"], "the state is ahead of the disk"
    monkeypatch.setattr(writer, "_long", writer.file_length + 1)
    assert not await folder.rotate(state)
    assert names(folder) == ["journal.jsonl"], "it is not long"
    monkeypatch.setattr(writer, "_long", writer.file_length)
    assert await folder.rotate(state)
    assert names(folder) == ["journal-000002.jsonl", "journal.jsonl"]
    await folder.close()
    assert not await folder.rotate(state)
    assert len(names(folder)) == 2, "it is not open"


async def test_a_rotation_beside_an_append_is_reported_as_not_current(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is then no longer where the journal ends, and the two must not be noted together."""
    writer, _ = await folder.open(ID)
    await writer.append(scenario.journal[:-1])
    state = fold(ID, records_of(scenario)[: -len(scenario.journal[-1])])
    monkeypatch.setattr(writer, "_long", writer.file_length)
    rotating = asyncio.create_task(folder.rotate(state))
    appending = asyncio.create_task(writer.append(scenario.journal[-1:]))
    later = asyncio.create_task(folder.rotate(fold(ID, records_of(scenario))))
    await appending
    await rotating
    assert not await later, "it ends with other records than when it was long"
    assert names(folder) == ["journal-000002.jsonl", "journal.jsonl"]


async def test_agents_at_work_put_it_off_but_not_for_ever(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(scenario)
    busy = next(seq for seq in range(1, len(records)) if fold(ID, records[:seq]).runs)
    journal, _ = await folder.open(ID)
    await journal.append([[record] for record in records[:busy]])
    monkeypatch.setattr("tenex.store.repository.FILE_BYTES", journal.file_length // 4 + 1)
    await folder.rotate(fold(ID, records[:busy]))
    assert names(folder) == ["journal.jsonl"]
    monkeypatch.setattr("tenex.store.repository.FILE_BYTES", journal.file_length // 4)
    await folder.rotate(fold(ID, records[:busy]))
    assert names(folder) == ["journal-000002.jsonl", "journal.jsonl"]


async def test_a_file_grows_with_its_checkpoint_so_that_checkpoints_stay_a_small_part(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "PER_CHECKPOINT", 8)
    writer, _ = await folder.open(ID)
    await writer.append(scenario.journal)
    assert await writer.rotate(StateSnapshot.of(scenario.conversation))
    size = writer.file_length
    for opened in (writer, (await folder.open(ID))[0]):
        assert not opened.is_long
        assert opened._long == 8 * size


async def test_a_checkpoint_that_came_too_late_does_nothing(folder: ConversationFolder, scenario: Scenario) -> None:
    """An append that was under way when the state was taken goes first."""
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal[:5])
    checkpoint = StateSnapshot.of(fold(ID, [record for decision in scenario.journal[:5] for record in decision]))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(journal.append([scenario.journal[5]]))
        late = group.create_task(journal.rotate(checkpoint))
    assert not late.result()
    assert names(folder) == ["journal.jsonl"]
    await journal.append([scenario.journal[6]])


# ---- two writers --------------------------------------------------------------------------------------------------


async def test_a_writer_behind_a_rotation_fails(folder: ConversationFolder, scenario: Scenario, disk: Disk) -> None:
    """Its file has not changed, and yet it is closed."""
    first, _ = await folder.open(ID)
    await first.append(scenario.journal)
    path = folder.path(ID) / "journal.jsonl"
    stale, _ = await FileJournal.open(path, CONVERSATION, Disk(), StillClock())
    first, _ = await FileJournal.open(path, CONVERSATION, disk, StillClock())
    assert await first.rotate(StateSnapshot.of(scenario.conversation))
    for _ in range(2):
        with pytest.raises(AppendFailed, match="by another process; open it again"):
            await stale.append([[asked(stale.next_seq)]])
    assert not await stale.rotate(StateSnapshot.of(scenario.conversation)), "it is dead"
    other, _ = await FileJournal.open(path, CONVERSATION, Disk(), StillClock())
    await other.append([[asked(other.next_seq)]])
    with pytest.raises(AppendFailed, match="by another process"):
        await first.rotate(StateSnapshot.of(scenario.conversation))
    assert len(await folder.read(ID)) == len(records_of(scenario)) + 1


# ---- death --------------------------------------------------------------------------------------------------------


class Death(BaseException):
    """The process is gone."""


def dying(real: Callable[..., Any], at: int, *, after: bool) -> Callable[..., Any]:
    """The same call, of which the n-th is the last thing the process does."""
    calls: list[None] = []

    def call(*arguments: Any, **more: Any) -> Any:
        calls.append(None)
        if len(calls) == at and not after:
            raise Death
        result = real(*arguments, **more)
        if len(calls) == at:
            raise Death
        return result

    return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name", "at"),
    [(os, "write", 1), (os, "fsync", 1), (Path, "replace", 1), (os, "fsync", 2)],
    ids=["write", "flush of the file", "rename", "flush of the folder"],
)
async def test_a_death_at_any_step_leaves_one_file_or_the_other(
    folder: ConversationFolder,
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    at: int,
    after: bool,
) -> None:
    """A process that dies tidies nothing up, so what the next one finds is taken right where it died."""
    cut = len(scenario.journal) // 2
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal[:cut])
    state = fold(ID, [record for decision in scenario.journal[:cut] for record in decision])
    left = folder.root.parent / "left"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        patch.setattr(owner, name, dying(getattr(owner, name), at, after=after))
        with pytest.raises(Death):
            await journal.rotate(StateSnapshot.of(state))
    shutil.copytree(folder.root, left)
    disk = Disk()
    there = ConversationFolder(left, disk, StillClock())
    again, records = await there.open(ID)
    assert fold(ID, records) == state
    assert not list(there.path(ID).glob(".*")), "what was half done is swept away"
    await again.append(scenario.journal[cut:])
    assert fold(ID, (await there.open(ID))[1]) == scenario.conversation
    assert await there.read(ID) == records_of(scenario)
    disk.close()


async def test_a_disk_that_takes_no_new_file_leaves_the_present_one_in_use(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal[:-1])
    state = fold(ID, records_of(scenario)[: -len(scenario.journal[-1])])
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write_all", fails(errno.ENOSPC))
        await folder.rotate(state)
    assert names(folder) == ["journal.jsonl"]
    assert not journal.is_long, "it is not tried again at once"
    await journal.append([scenario.journal[-1]])
    assert await folder.read(ID) == records_of(scenario)


async def test_a_new_file_whose_name_may_not_last_is_not_written_to(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be acknowledged in it could be gone with it after a power cut."""
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal[:-1])
    state = fold(ID, records_of(scenario)[: -len(scenario.journal[-1])])
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "sync_folder", fails(errno.EIO))
        await folder.rotate(state)
    with pytest.raises(AppendFailed, match="was begun, but Input/output error; open the journal again"):
        await journal.append([scenario.journal[-1]])
    again, records = await folder.open(ID)
    assert fold(ID, records) == state
    await again.append([scenario.journal[-1]])
    assert await folder.read(ID) == records_of(scenario)


# ---- damage -------------------------------------------------------------------------------------------------------


async def rotated(folder: ConversationFolder, scenario: Scenario) -> Path:
    await written(folder, scenario)
    await folder.close()
    return folder.path(ID)


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b'{"v":1,"seq":4'])
async def test_a_newest_file_without_snapshot_is_damage(
    folder: ConversationFolder, scenario: Scenario, content: bytes
) -> None:
    path = await rotated(folder, scenario)
    (path / "journal-000004.jsonl").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"journal-000004\.jsonl: line 1 cannot be right: it is no checkpoint"):
        await folder.open(ID)
    assert (path / MARK).exists()
    assert (path / "journal-000004.jsonl").read_bytes() == content


async def test_a_file_under_another_number_is_damage(folder: ConversationFolder, scenario: Scenario) -> None:
    path = await rotated(folder, scenario)
    (path / "journal.jsonl").rename(path / "journal-000005.jsonl")
    with pytest.raises(StoreDamaged, match=r"journal-000005\.jsonl: line 1 .* no checkpoint"):
        await folder.open(ID)
    for name in ("journal-000002.jsonl", "journal-000003.jsonl", "journal-000005.jsonl"):
        (path / name).unlink()
    (path / "journal-000004.jsonl").rename(path / "journal.jsonl")
    with pytest.raises(StoreDamaged, match=r"journal\.jsonl: line 1 .* files that are not there"):
        await folder.open(ID)


async def test_an_old_file_that_lost_its_end_is_found(folder: ConversationFolder, scenario: Scenario) -> None:
    path = (await rotated(folder, scenario)) / "journal-000002.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-8]))
    with pytest.raises(StoreDamaged, match=r"journal-000002\.jsonl ends with seq \d+, but journal-000003\.jsonl"):
        await folder.read(ID)
    assert fold(ID, await folder.read(ID, NEWEST)) == scenario.conversation
