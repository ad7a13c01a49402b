"""Reading for the index: no more of a journal than is new, and all of one that is not what it was."""

from dataclasses import replace

import pytest

from tenex.core.conversation import fold
from tenex.core.ids import Millis
from tenex.core.records import Record, Waiting
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.index import Gathered, gather
from tenex.store.index_row import Known
from tenex.store.repository import ConversationFolder
from tenex.store.schema import UNKNOWN_LENGTH

from .kit import CONVERSATION_ID, started
from .test_index_row import wrote

FIRST: list[Record] = [started(), wrote(2, "e2"), Waiting(seq=3, at=Millis(3), reason="user")]
MORE: list[Record] = [wrote(4, "e4"), Waiting(seq=5, at=Millis(5), reason="user")]


async def append(folder: ConversationFolder, records: list[Record], *, rotates: bool = False) -> int:
    """Append and close; perhaps to go on in a new file first. Returns the journal's length."""
    journal, known = await folder.open(CONVERSATION_ID)
    if rotates:
        await journal.rotate(StateSnapshot.of(fold(CONVERSATION_ID, known)))
    await journal.append([records])
    await folder.close()
    return (await folder.lengths())[CONVERSATION_ID]


def known_of(found: Gathered) -> Known:
    row = found.row
    return Known(bytes=row.bytes, seq=row.seq, settled=row.settled, updated=row.updated)


@pytest.mark.parametrize("rotates", [False, True])
async def test_of_what_is_known_only_the_new_is_taken(folder: ConversationFolder, rotates: bool) -> None:
    known = known_of(await gather(folder, CONVERSATION_ID, await append(folder, FIRST)))
    length = await append(folder, MORE, rotates=rotates)
    found = await gather(folder, CONVERSATION_ID, length, known)
    whole = await gather(folder, CONVERSATION_ID, length)
    assert (found.is_complete, found.news.events) == (False, ("e4",))
    assert found.row == whole.row, "the row is that of all records"
    assert (whole.is_complete, whole.row.seq, whole.row.bytes) == (True, 5, length)
    assert whole.news.events == ("e2", "e4")


async def test_a_new_file_without_new_records_adds_nothing(folder: ConversationFolder) -> None:
    """Rotating makes a journal longer without a record."""
    known = known_of(await gather(folder, CONVERSATION_ID, await append(folder, FIRST)))
    length = await append(folder, [], rotates=True)
    assert length > known.bytes
    found = await gather(folder, CONVERSATION_ID, length, known)
    assert (found.is_complete, found.news.events, found.row.seq, found.row.settled) == (False, (), 3, True)


async def test_a_journal_put_in_the_place_of_another_is_read_whole(folder: ConversationFolder) -> None:
    known = known_of(await gather(folder, CONVERSATION_ID, await append(folder, FIRST)))
    (folder.path(CONVERSATION_ID) / "journal.jsonl").unlink()
    length = await append(folder, [started(), wrote(2, "x2"), replace(wrote(3, "x3"), at=Millis(9)), wrote(4, "x4")])
    longer = await gather(folder, CONVERSATION_ID, length, known)
    assert (longer.is_complete, longer.news.events) == (True, ("x2", "x3", "x4"))
    shorter = await gather(folder, CONVERSATION_ID, length, replace(known, bytes=length + 1, updated=Millis(9)))
    assert shorter.is_complete
    partly = await gather(folder, CONVERSATION_ID, length, replace(known, bytes=UNKNOWN_LENGTH, updated=Millis(9)))
    assert partly.is_complete
