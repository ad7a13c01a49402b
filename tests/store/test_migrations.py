"""Journals of older versions: read by the steps from each to the next, gone on with, and never rewritten."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import InternalError, StoreDamaged
from tenex.core.ids import Millis
from tenex.core.records.base import Record
from tenex.store.daemon_journal import DAEMON
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION, Codec
from tenex.store.journal import FileJournal
from tenex.store.journal_reader import peek
from tenex.store.migrations import CONVERSATION_STEPS, DAEMON_STEPS

from .kit import StillClock


def _kind(version: int, **fields: Any) -> Any:
    """The kind `Measured` as it was in that version."""
    made = type("Measured", (Record,), {"__annotations__": fields, "version": version, **dict.fromkeys(fields, 0)})
    return dataclass(frozen=True, kw_only=True)(made)


First = _kind(1, inches=int)
Second = _kind(2, centimetres=int)
Third = _kind(3, millimetres=int, tool=int)

STEPS = {
    ("Measured", 1): lambda data: {"centimetres": data["inches"] * 5 // 2},
    ("Measured", 2): lambda data: {"millimetres": data["centimetres"] * 10},
}


def codec(kind: type[Record]) -> Codec:
    """What the program of that version knew."""
    return Codec({"Measured": kind}, {step: make for step, make in STEPS.items() if step[1] < kind.version})


async def test_a_journal_grows_through_versions_and_old_lines_are_not_rewritten(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "journal.jsonl"
    for kind, values in ((First, {"inches": 4}), (Second, {"centimetres": 7}), (Third, {"millimetres": 9, "tool": 1})):
        journal, _ = await FileJournal.open(path, codec(kind), disk, StillClock())
        await journal.append([[kind(seq=journal.next_seq, at=Millis(1), **values)]])
        await journal.close()
    assert peek(path, codec(Third)) == [
        Third(seq=1, at=Millis(1), millimetres=100),
        Third(seq=2, at=Millis(1), millimetres=70),
        Third(seq=3, at=Millis(1), millimetres=9, tool=1),
    ]
    assert [line[: len(b'{"v":1')] for line in path.read_bytes().splitlines()] == [b'{"v":1', b'{"v":2', b'{"v":3']
    with pytest.raises(StoreDamaged, match=r"line 3 .* Measured has version 3 and this tenex knows 2; .*newer tenex"):
        peek(path, codec(Second))


def test_a_kind_without_a_step_from_each_older_version_is_found_when_the_program_starts() -> None:
    with pytest.raises(InternalError, match=r"Measured 1$"):
        Codec({"Measured": Third}, {("Measured", 2): STEPS["Measured", 2]})
    with pytest.raises(InternalError, match=r"Measured 3, Unknown 1$"):
        Codec({"Measured": Third}, {**STEPS, ("Measured", 3): dict, ("Unknown", 1): dict})


def test_the_steps_of_today_are_those_the_codecs_were_made_with() -> None:
    assert CONVERSATION._migrations == CONVERSATION_STEPS
    assert DAEMON._migrations == DAEMON_STEPS
