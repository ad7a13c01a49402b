"""A journal is followed while another process writes it: what is new is returned once, whatever happens to files."""

from pathlib import Path

import pytest

from tenex.core.errors import StoreDamaged
from tenex.core.snapshot import StateSnapshot
from tenex.store import journal
from tenex.store.journal_reader import JOURNAL
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.tail import JournalTail
from tests.fakes.scenario import ID, Scenario

from .kit import write_rotated


def seqs(tail: JournalTail) -> list[int]:
    return [record.seq for record in tail.read()]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is long at once."""
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 0)


async def test_each_decision_is_returned_once(folder: ConversationFolder, scenario: Scenario) -> None:
    written, _ = await folder.open(ID)
    await written.append(scenario.journal[:1])
    tail = JournalTail(folder.path(ID), 0)
    assert seqs(tail) == [record.seq for record in scenario.journal[0]]
    assert tail.read() == []
    for decision in scenario.journal[1:]:
        await written.append([decision])
        assert tail.read() == list(decision)
        assert tail.read() == []
    await folder.close()


async def test_the_next_file_is_followed_and_its_snapshot_left_out(
    folder: ConversationFolder, scenario: Scenario, short: None
) -> None:
    await write_rotated(folder, scenario.journal[:30])
    tail = JournalTail(folder.path(ID), 0)
    records = tail.read()
    assert not [record for record in records if isinstance(record, StateSnapshot)]
    assert [record.seq for record in records] == list(range(1, records[-1].seq + 1))
    await folder.close()


async def test_a_file_that_was_replaced_by_itself_is_read_on(folder: ConversationFolder, scenario: Scenario) -> None:
    """As at a start, when what was read is copied and a torn tail cut off."""
    written, _ = await folder.open(ID)
    await written.append(scenario.journal[:-1])
    tail = JournalTail(folder.path(ID), scenario.journal[3][-1].seq)
    assert seqs(tail)[0] == scenario.journal[4][0].seq
    await folder.close()
    path = folder.path(ID) / JOURNAL
    content = path.read_bytes()
    path.write_bytes(content + b'{"v":1,"torn')
    assert tail.read() == []
    path.write_bytes(content)
    assert tail.read() == []
    written, _ = await folder.open(ID)
    await written.append(scenario.journal[-1:])
    assert tail.read() == list(scenario.journal[-1])
    await folder.close()


async def test_a_journal_that_has_lost_what_was_read_is_reported(
    folder: ConversationFolder, scenario: Scenario
) -> None:
    written, _ = await folder.open(ID)
    await written.append(scenario.journal[:3])
    await folder.close()
    with pytest.raises(StoreDamaged, match="was there before"):
        JournalTail(folder.path(ID), 10_000).read()


async def test_one_file_is_read_for_a_record(folder: ConversationFolder, scenario: Scenario, short: None) -> None:
    await write_rotated(folder, scenario.journal)
    await folder.close()
    everything = scenario.records()
    counts: list[int] = []
    for holding in range(everything[-1].seq, 0, -1):
        records = await folder.read_file(ID, holding)
        assert holding in [record.seq for record in records if not isinstance(record, StateSnapshot)]
        counts.append(len(records))
    assert len(set(counts)) > 2
    assert max(counts) < len(everything) / 2
    assert (await folder.read_file(ID, NEWEST))[-1] == everything[-1]
    assert (await folder.read_file(ID, 1))[0] == everything[0]


def test_a_folder_without_a_journal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        JournalTail(tmp_path, 0).read()
