"""A journal of many files: gone on with in the next, read as one, and at any moment one file or the other."""

import asyncio
import errno
import itertools
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.store import atomic, journal, segments
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal import StoredJournal
from tenex.store.journal_reader import MARK
from tenex.store.repository import NEWEST, ConversationFolder
from tests.fakes.scenario import ID, Scenario

from .kit import StillClock, at_call, fails, kind_of_conversation, names, write_rotated


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is long at once."""
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 0)


def files(folder: ConversationFolder) -> list[str]:
    return names(folder.path(ID))


def state_of(decisions: Sequence[Sequence[Record]]) -> Conversation:
    return fold(ID, [record for decision in decisions for record in decision])


@pytest.fixture
async def almost(folder: ConversationFolder, scenario: Scenario) -> StoredJournal:
    """The scenario on disk, but for its last decision."""
    journal, _ = await folder.open(ID)
    await journal.append(scenario.journal[:-1])
    return journal


async def test_a_rotated_journal_is_folded_from_its_newest_file(folder: ConversationFolder, scenario: Scenario) -> None:
    assert await folder.lengths() == {}
    before = await write_rotated(folder, scenario.journal)
    assert files(folder) == ["journal-000002.jsonl", "journal-000003.jsonl", "journal-000004.jsonl", "journal.jsonl"]
    whole = sum(path.stat().st_size for path in folder.path(ID).iterdir())
    assert folder.length(ID) == before.length == whole
    await folder.close()
    assert folder.length(ID) == 0
    journal, records = await folder.open(ID)
    assert folder.length(ID) == journal.length == whole
    assert await folder.lengths() == {ID: whole}
    assert isinstance(records[0], StateSnapshot)
    assert fold(ID, records) == scenario.conversation
    assert journal.next_seq == before.next_seq == scenario.conversation.next_seq
    assert await folder.read(ID) == scenario.records(), "every fact, each once, and nothing else"


async def test_only_as_many_files_are_read_as_are_asked_for(folder: ConversationFolder, scenario: Scenario) -> None:
    await write_rotated(folder, scenario.journal)
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


# ---- when it happens ----------------------------------------------------------------------------------------------


async def test_only_a_long_journal_is_rotated_and_only_where_the_state_is_what_the_disk_has(
    folder: ConversationFolder, scenario: Scenario, almost: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(scenario.journal[:-1])
    assert not await folder.rotate(scenario.conversation), "the state is ahead of the disk"
    monkeypatch.setattr(almost, "_long", almost.file_length + 1)
    assert not await folder.rotate(state), "it is not long"
    assert files(folder) == ["journal.jsonl"]
    monkeypatch.setattr(almost, "_long", almost.file_length)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 8)
    before = (folder.path(ID) / "journal.jsonl").stat()
    assert await folder.rotate(state)
    size, newest = almost.file_length, folder.path(ID) / "journal-000002.jsonl"
    assert (newest.stat().st_size, kind_of_conversation(newest)) == (size, 0o600)
    await almost.append(scenario.journal[-1:])
    assert (folder.path(ID) / "journal.jsonl").stat() == before, "it is never written to again"
    for opened in (almost, (await folder.open(ID))[0]):
        assert (opened.is_long, opened._long) == (False, 8 * size), "no more than an eighth is snapshots"
    await folder.close()
    assert not await folder.rotate(scenario.conversation), "it is not open"
    assert files(folder) == ["journal-000002.jsonl", "journal.jsonl"]


async def test_a_rotation_beside_an_append_is_reported_as_not_current(
    folder: ConversationFolder, scenario: Scenario, almost: StoredJournal
) -> None:
    """The state is then no longer where the journal ends, and the two must not be noted together."""
    rotating = asyncio.create_task(folder.rotate(state_of(scenario.journal[:-1])))
    appending = asyncio.create_task(almost.append(scenario.journal[-1:]))
    later = asyncio.create_task(folder.rotate(state_of(scenario.journal)))
    await appending
    await rotating
    assert not await later
    assert files(folder) == ["journal-000002.jsonl", "journal.jsonl"]
    assert not await almost.rotate(StateSnapshot.of(state_of(scenario.journal[:-1]))), "it came too late"


async def test_agents_at_work_put_it_off_but_not_for_ever(
    folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = scenario.records()
    busy = next(seq for seq in range(1, len(records)) if fold(ID, records[:seq]).work.runs)
    journal, _ = await folder.open(ID)
    await journal.append([[record] for record in records[:busy]])
    monkeypatch.setattr("tenex.store.conversations.FILE_BYTES", journal.file_length // 4 + 1)
    await folder.rotate(fold(ID, records[:busy]))
    assert files(folder) == ["journal.jsonl"]
    monkeypatch.setattr("tenex.store.conversations.FILE_BYTES", journal.file_length // 4)
    await folder.rotate(fold(ID, records[:busy]))
    assert files(folder) == ["journal-000002.jsonl", "journal.jsonl"]


# ---- death --------------------------------------------------------------------------------------------------------


class Death(BaseException):
    """The process is gone."""


def die() -> NoReturn:
    raise Death


async def test_a_death_at_any_step_leaves_one_file_or_the_other(
    tmp_path: Path, disk: Disk, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead process removes nothing, so the files are copied right where it died."""
    cut, steps, has_rotated = len(scenario.journal) // 2, itertools.count(1), False
    state = state_of(scenario.journal[:cut])
    while not has_rotated:
        number = next(steps)
        folder = ConversationFolder(tmp_path / f"{number}", disk, StillClock())
        journal, _ = await folder.open(ID)
        await journal.append(scenario.journal[:cut])
        with monkeypatch.context() as patch, suppress(Death):
            patch.setattr(Path, "unlink", lambda *_, **__: None)
            at_call(number, die, patch)
            has_rotated = await journal.rotate(StateSnapshot.of(state))
        left = ConversationFolder(tmp_path / f"{number}-left", disk, StillClock())
        shutil.copytree(folder.root, left.root)
        again, records = await left.open(ID)
        assert fold(ID, records) == state
        assert not list(left.path(ID).glob(".*")), "temporary files are removed"
        await again.append(scenario.journal[cut:])
        assert fold(ID, (await left.open(ID))[1]) == scenario.conversation
        assert await left.read(ID) == scenario.records()
    assert number > 4


async def test_a_disk_that_takes_no_new_file_leaves_the_present_one_in_use(
    folder: ConversationFolder, scenario: Scenario, almost: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write_all", fails(errno.ENOSPC))
        await folder.rotate(state_of(scenario.journal[:-1]))
    assert files(folder) == ["journal.jsonl"]
    assert not almost.is_long, "it is not tried again at once"
    await almost.append(scenario.journal[-1:])
    assert await folder.read(ID) == scenario.records()


async def test_a_new_file_whose_name_may_not_last_is_not_written_to(
    folder: ConversationFolder, scenario: Scenario, almost: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be acknowledged in it could be gone with it after a power cut."""
    state = state_of(scenario.journal[:-1])
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "sync_folder", fails(errno.EIO))
        await folder.rotate(state)
    with pytest.raises(AppendFailed, match="was begun, but Input/output error; open the journal again"):
        await almost.append(scenario.journal[-1:])
    again, records = await folder.open(ID)
    assert fold(ID, records) == state
    await again.append(scenario.journal[-1:])
    assert await folder.read(ID) == scenario.records()


# ---- damage -------------------------------------------------------------------------------------------------------


async def test_a_file_that_cannot_have_its_number_is_damage(folder: ConversationFolder, scenario: Scenario) -> None:
    await (await write_rotated(folder, scenario.journal)).close()
    path = folder.path(ID)
    second, newest = (path / f"journal-00000{number}.jsonl" for number in (2, 4))
    lines = second.read_bytes().splitlines(keepends=True)
    second.write_bytes(b"".join(lines[:-8]))
    with pytest.raises(StoreDamaged, match=r"journal-000002\.jsonl ends with seq \d+, but journal-000003\.jsonl"):
        await folder.read(ID)
    assert fold(ID, await folder.read(ID, NEWEST)) == scenario.conversation
    good, copy = newest.read_bytes(), path / "journal-000005.jsonl"
    shutil.copy(second, copy)
    with pytest.raises(StoreDamaged, match=r"5\.jsonl: it follows on seq \d+, but journal-000004\.jsonl ends with"):
        await folder.open(ID)
    copy.unlink()
    for content in (b"", b"\0" * 300, b'{"v":1,"seq":4', (path / "journal.jsonl").read_bytes()):
        newest.write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"journal-000004\.jsonl: line 1 cannot be right: it is no snapshot"):
            await folder.open(ID)
        assert newest.read_bytes() == content
    for file in path.glob("journal-*"):
        file.unlink()
    (path / "journal.jsonl").write_bytes(good)
    with pytest.raises(StoreDamaged, match=r"journal\.jsonl: line 1 .* files that are not there"):
        await folder.open(ID)
    assert (path / MARK).exists()


@pytest.mark.parametrize(("kept", "is_refused"), [(-1, False), (0, False), (1, True)])
async def test_a_file_follows_one_that_ends_where_its_snapshot_does_or_before_and_none_that_is_longer(
    folder: ConversationFolder, scenario: Scenario, kept: int, is_refused: bool
) -> None:
    """What a longer one has beyond the snapshot would be left out of the conversation."""
    records = scenario.records()
    cut = len(records) - 2
    journal, _ = await folder.open(ID)
    await journal.append([[record] for record in records[:cut]])
    assert await journal.rotate(StateSnapshot.of(fold(ID, records[:cut])))
    await folder.close()
    before = [[record] for record in records[: cut + kept]]
    (folder.path(ID) / "journal.jsonl").write_bytes(CONVERSATION.encode_decisions(before))
    if not is_refused:
        assert fold(ID, (await folder.open(ID))[1]) == fold(ID, records[:cut])
        return
    sentence = rf"000002\.jsonl: it follows on seq {cut}, but journal\.jsonl ends with seq {cut + 1}"
    with pytest.raises(StoreDamaged, match=sentence):
        await folder.open(ID)


# ---- names ----------------------------------------------------------------------------------------------------------


def test_a_file_has_a_name_by_its_number_and_no_other_file_is_taken_for_one() -> None:
    for number, name in ((1, "journal.jsonl"), (2, "journal-000002.jsonl"), (1_000_000, "journal-1000000.jsonl")):
        assert (segments.name_of(number), segments.number_of(name)) == (name, number)
    for name in (
        "journal-000001.jsonl",
        "journal-2.jsonl",
        "journal-0000002.jsonl",
        "journal.torn-x-1",
        ".journal-000002.jsonl.abcd1234.tmp",
        "journal-000002.jsonl.bak",
        "journal-٠٠٠٠٠٢.jsonl",
    ):
        assert segments.number_of(name) is None, name


def test_all_files_count_and_the_newest_shows_when(tmp_path: Path) -> None:
    folder, found = os.fspath(tmp_path), list[tuple[int, int]]()
    with pytest.raises(FileNotFoundError):
        segments.stat_all(folder)
    for number, size, at in ((1, 5, 5_000), (999_999, 7, 9_000), (2, 4, 1), (1_000_000, 1, 7_000)):
        path = tmp_path / segments.name_of(number)
        path.write_bytes(b"x" * size)
        os.utime(path, ns=(0, at))
        found.append(segments.stat_all(folder))
    assert [found[0], found[-1]] == [(5, 5_000), (17, 7_000)]
    assert segments.numbers(tmp_path) == [1, 2, 999_999, 1_000_000]
    assert segments.current(tmp_path).name == "journal-1000000.jsonl", "not the last by name"
    assert segments.current(tmp_path / "gone").name == "journal.jsonl"
    assert segments.missing([2, 4]) == ["journal.jsonl", "journal-000003.jsonl"]
    assert segments.missing([1, 2, 3]) == segments.missing([]) == []
