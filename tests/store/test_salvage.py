"""What is read of a journal with damage at any place."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId
from tenex.core.records import MessageRecorded, Record
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.journal_reader import JOURNAL
from tenex.store.salvage import salvage
from tenex.store.segments import name_of

from .kit import CONVERSATION_ID, encoded, going_on, started, wrote


def message(seq: int) -> MessageRecorded:
    return wrote(seq, f"{seq:064x}")


RECORDS: list[Record] = [*going_on(1, 2), message(8), *going_on(9, 1), message(12)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / CONVERSATION_ID
    folder.mkdir()
    (folder / JOURNAL).write_bytes(encoded(*RECORDS))
    return folder


def second_file(folder: Path, *records: Record) -> Path:
    path = folder / name_of(2)
    path.write_bytes(encoded(StateSnapshot.of(fold(CONVERSATION_ID, RECORDS)), *records))
    return path


def test_a_whole_journal_is_read_whole(folder: Path) -> None:
    second_file(folder, message(13))
    found = salvage(folder)
    assert found.records == [*RECORDS, message(13)]
    assert (found.messages, found.damage) == ([], [])


@pytest.mark.parametrize("damaged", range(len(RECORDS)))
def test_all_before_a_damaged_line_is_used_and_of_what_follows_the_messages(folder: Path, damaged: int) -> None:
    kept = encoded(*RECORDS).splitlines(keepends=True)
    kept[damaged] = kept[damaged][:-9] + b"?" + kept[damaged][-8:]
    (folder / JOURNAL).write_bytes(b"".join(kept))
    found = salvage(folder)
    assert found.records == RECORDS[:damaged]
    after = RECORDS[damaged + 1 :]
    assert found.messages == [record for record in after if isinstance(record, MessageRecorded)]
    is_last = damaged == len(RECORDS) - 1  # a last line that cannot be read was never written completely
    assert bool(found.damage) is not is_last
    fold(CONVERSATION_ID, found.records)
    if damaged < 8:
        assert found.turns == 9, "no turn gets a number that was used"


def test_a_later_snapshot_makes_up_for_damage_before_it(folder: Path) -> None:
    second_file(folder, message(13))
    data = (folder / JOURNAL).read_bytes()
    for content in (b"?" + data, None):
        (folder / JOURNAL).write_bytes(content) if content else (folder / JOURNAL).unlink()
        found = salvage(folder)
        assert [record.seq for record in found.records] == [12, 13]
        assert any("the records before 13" in sentence for sentence in found.damage)


def test_a_file_without_its_snapshot_adds_its_messages(folder: Path) -> None:
    path = second_file(folder, message(13), message(14))
    path.write_bytes(path.read_bytes()[5:])
    found = salvage(folder)
    assert (found.records, found.messages) == (RECORDS, [message(13), message(14)])


def test_records_that_contradict_those_before_them_are_left_out(folder: Path) -> None:
    other = replace(started(ConversationId("d" * 64)), seq=5)
    records = [*RECORDS[:4], other, message(6)]
    (folder / JOURNAL).write_bytes(encoded(*records))
    found = salvage(folder)
    assert (found.records, found.messages) == (RECORDS[:4], [message(6)])
    assert found.damage == ["the records from 5 on, which contradict those before them"]


def test_without_a_readable_file_there_is_nothing(folder: Path) -> None:
    journal = folder / JOURNAL
    journal.unlink()
    assert salvage(folder).damage == []
    for make, remove in (
        (Path.mkdir, Path.rmdir),
        (os.mkfifo, Path.unlink),
        (lambda path: path.symlink_to("/nowhere"), Path.unlink),
        (Path.touch, Path.unlink),
    ):
        make(journal)
        found = salvage(folder)
        assert (found.records, found.messages, bool(found.damage)) == ([], [], True)
        remove(journal)
