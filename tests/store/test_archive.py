"""A conversation as one file: what comes back is what was packed, and anything else is refused."""

import json
from dataclasses import replace

import pytest

from tenex.core.conversation import fold
from tenex.core.cycle.records import PhaseTransition
from tenex.core.errors import StoreDamaged
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.snapshot import StateSnapshot
from tenex.store.archive import is_packed, packed, plain, unpacked
from tests.fakes.scenario import ID
from tests.kits.journal_forms import FORMS
from tests.kits.lived import lived

from .kit import CONVERSATION_ID, going_on

NOW = Millis(1_700_000_000_000)
RECORDS = lived(0).records()


def test_what_comes_back_is_what_was_packed() -> None:
    data = packed(ID, RECORDS, NOW)
    assert is_packed(data)
    carried = unpacked(data)
    assert (carried.id, list(carried.records)) == (ID, RECORDS)
    first, *rest = data.splitlines()
    head = {"format": "tenex.conversation", "version": 1, "id": ID, "records": len(rest)}
    assert head.items() <= json.loads(first).items()
    assert json.loads(first)["exportedAt"] == "2023-11-14T22:13:20Z"
    with pytest.raises(StoreDamaged, match="newer tenex"):
        unpacked(data.replace(b'"version":1', b'"version":2'))


def test_snapshots_of_records_that_are_there_are_left_out() -> None:
    half = StateSnapshot.of(fold(ID, RECORDS[:30]))
    assert plain([*RECORDS[:30], half, *RECORDS[30:]]) == RECORDS
    assert plain([half, *RECORDS[30:]]) == [half, *RECORDS[30:]]
    (first, *rest) = unpacked(packed(ID, [half, *RECORDS[30:]], NOW)).records
    assert (type(first), rest) == (StateSnapshot, RECORDS[30:])


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_carried_in_text_mode_is_read(form: str) -> None:
    data = FORMS[form](packed(ID, RECORDS, NOW))
    assert is_packed(data)
    assert list(unpacked(data).records) == RECORDS


def test_every_byte_that_is_changed_is_found() -> None:
    """In the first line too, unless it is only the time of the export."""
    good = packed(CONVERSATION_ID, list(going_on(1, 1)), NOW)
    at = good.index(b'"exportedAt"')
    for place in range(len(good)):
        if at <= place < at + len('"exportedAt":"2023-11-14T22:13:20Z"'):
            continue
        broken = bytearray(good)
        broken[place] ^= 1 << place % 7
        for data in (bytes(broken), good[:place]):
            with pytest.raises(StoreDamaged):
                unpacked(data)


def test_a_right_checksum_does_not_make_contradictory_records_right() -> None:
    place = next(n for n, record in enumerate(RECORDS) if isinstance(record, PhaseTransition))
    leap = RECORDS[place]
    assert isinstance(leap, PhaseTransition)
    for conversation, records, what in (
        (ConversationId("d" * 64), RECORDS, "about another conversation"),
        (ID, [*RECORDS[:1], *RECORDS[2:]], "its seq is 3 where 2 must follow"),
        (ID, [], "does not fit"),
        (ID, [*RECORDS[:place], replace(leap, to=Phase.CHORES)], "to chores, which is not permitted"),
    ):
        with pytest.raises(StoreDamaged, match=what):
            unpacked(packed(conversation, records, NOW))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]\n", b'{"format":"other"}\n', b"\xff\n"])
def test_another_file_is_not_taken_for_it(data: bytes) -> None:
    assert not is_packed(data)
    with pytest.raises(StoreDamaged, match="its first line"):
        unpacked(data)
