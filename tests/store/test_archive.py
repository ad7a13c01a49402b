"""A conversation as one file: what comes back is what was packed, and anything else is refused."""

import json
from dataclasses import replace

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.records import PhaseTransition
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.archive import is_packed, packed, plain, unpacked
from tests.fakes.scenario import ID

from .kit import CONVERSATION_ID, decisions_of, records_of
from .test_stats import lived

NOW = Millis(1_700_000_000_000)


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_back_is_what_was_packed(seed: int) -> None:
    records = records_of(lived(seed))
    data = packed(ID, records, NOW)
    assert is_packed(data)
    carried = unpacked(data)
    assert (carried.id, list(carried.records)) == (ID, records)
    assert packed(ID, carried.records, NOW) == data
    first, *rest = data.splitlines()
    head = json.loads(first)
    assert (head["format"], head["version"], head["id"], head["records"]) == ("tenex.conversation", 1, ID, len(rest))
    assert head["exportedAt"] == "2023-11-14T22:13:20Z"
    with pytest.raises(StoreDamaged, match="newer tenex"):
        unpacked(data.replace(b'"version":1', b'"version":2'))


def test_what_sums_up_records_that_are_there_is_left_out() -> None:
    records = records_of(lived(0))
    half = StateSnapshot.of(fold(ID, records[:30]))
    mixed = [*records[:30], half, *records[30:]]
    assert plain(mixed) == records
    assert plain([half, *records[30:]]) == [half, *records[30:]]
    assert list(unpacked(packed(ID, mixed, NOW)).records) == records
    (first, *rest) = unpacked(packed(ID, [half, *records[30:]], NOW)).records
    assert (type(first), rest) == (StateSnapshot, records[30:])


def test_every_byte_that_is_changed_is_found() -> None:
    """In the first line too, unless it is only the time of the export."""
    good = packed(CONVERSATION_ID, [record for decision in decisions_of(1, 2) for record in decision], NOW)
    at = good.index(b'"exportedAt"')
    for place in range(len(good)):
        if at <= place < at + len('"exportedAt":"2023-11-14T22:13:20Z"'):
            continue
        for bit in (0, 3, 6):
            broken = bytearray(good)
            broken[place] ^= 1 << bit
            with pytest.raises(StoreDamaged):
                unpacked(bytes(broken))
    for cut in range(len(good)):
        with pytest.raises(StoreDamaged):
            unpacked(good[:cut])


def test_a_right_checksum_does_not_make_a_wrong_story_right() -> None:
    records = records_of(lived(0))
    with pytest.raises(StoreDamaged, match="about another conversation"):
        unpacked(packed(ConversationId("d" * 64), records, NOW))
    with pytest.raises(StoreDamaged, match="its seq is 3 where 2 must follow"):
        unpacked(packed(ID, [*records[:1], *records[2:]], NOW))
    with pytest.raises(StoreDamaged, match="does not fit"):
        unpacked(packed(ID, [], NOW))
    place = next(n for n, record in enumerate(records) if isinstance(record, PhaseTransition))
    leap = records[place]
    assert isinstance(leap, PhaseTransition)
    lie = replace(leap, to=Phase.CHORES)
    with pytest.raises(StoreDamaged, match="to chores, which is not permitted"):
        unpacked(packed(ID, [*records[:place], lie, *records[place + 1 :]], NOW))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]\n", b'{"format":"other"}\n', b"\xff\n", b'{"id":"x","history":[]}'])
def test_what_is_something_else_is_not_taken_for_it(data: bytes) -> None:
    assert not is_packed(data)
    with pytest.raises(StoreDamaged, match="its first line"):
        unpacked(data)
