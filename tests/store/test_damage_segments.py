"""Damage to a journal of several files: gone on with where nothing is lost, else refused; no byte is dropped."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenex.core.conversation import Conversation, fold
from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.records import Record
from tenex.store import journal, segments
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, MARK, load
from tenex.store.repository import ConversationFolder
from tests.fakes.scenario import ID, Scenario

from .kit import fails, seven_phase_scenario
from .test_rotation import written


@pytest.fixture(scope="module")
def decisions() -> list[list[Record]]:
    """A conversation of all seven phases."""
    return [list(decision) for decision in seven_phase_scenario().journal]


@pytest.fixture(scope="module")
def states(decisions: list[list[Record]]) -> list[Conversation]:
    """Its state after each decision, by the number of records."""
    records = [record for decision in decisions for record in decision]
    ends = [0]
    for decision in decisions:
        ends.append(ends[-1] + len(decision))
    return [fold(ID, records[:end]) for end in ends]


@pytest.fixture
async def rotated(folder: ConversationFolder, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder, in several files."""
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_CHECKPOINT", 0)
    await (await written(folder, scenario)).close()
    return folder.path(ID)


def newest(path: Path) -> Path:
    return segments.current(path)


def copied_on(path: Path) -> None:
    """Somebody copied an older file behind the newest."""
    number = segments.numbers(path)[-1]
    shutil.copy(path / segments.name_of(2), path / segments.name_of(number + 1))


def first_again(path: Path) -> None:
    number = segments.numbers(path)[-1]
    shutil.copy(path / JOURNAL, path / segments.name_of(number + 1))


def swapped(path: Path) -> None:
    """The two newest have each other's names."""
    last, before = newest(path), path / segments.name_of(segments.numbers(path)[-1] - 1)
    last.rename(path / "x")
    before.rename(last)
    (path / "x").rename(before)


def begun(path: Path) -> None:
    """A new file that was made and never filled."""
    (path / segments.name_of(segments.numbers(path)[-1] + 1)).touch(0o600)


REFUSED: dict[str, Callable[[Path], None]] = {
    "an older file behind the newest": copied_on,
    "the first file behind the newest": first_again,
    "two files swapped": swapped,
    "an empty file behind the newest": begun,
}


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_cannot_follow_each_other_are_refused(rotated: Path, what: str) -> None:
    """To go on in a file that knows less than the one before it would lose what that one holds."""
    REFUSED[what](rotated)
    before = bytes_of(rotated)
    with pytest.raises(StoreDamaged) as caught:
        load(rotated / JOURNAL, CONVERSATION, "then", "Call the carpenter.")
    assert str(rotated) in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert bytes_of(rotated) == before


def test_a_file_before_the_newest_with_a_spoilt_end_is_no_obstacle(rotated: Path, states: list[Conversation]) -> None:
    before = rotated / segments.name_of(segments.numbers(rotated)[-1] - 1)
    for tail in (b"\x00" * 50, b"{", b'{"v":1,"seq":2,'):
        before.write_bytes(before.read_bytes() + tail)
        loaded = load(rotated / JOURNAL, CONVERSATION, "then", "")
        assert fold(ID, loaded.records) == states[-1]


def bytes_of(folder: Path) -> dict[str, bytes | None]:
    """Every file in a folder but the mark, None for what is none."""
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir() if path.name != MARK}


def spoilt(data: bytes, way: str, place: float, dice: random.Random) -> bytes:
    """Some bytes with damage of a kind at a place between 0 and 1."""
    at = min(int(place * len(data)), max(0, len(data) - 1))
    match way:
        case "cut":
            return data[:at]
        case "bit":
            return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :] if data else data
        case "zero tail":
            return data[:at] + bytes(len(data) - at)
        case "zero page":
            page = at // 512 * 512
            return data[:page] + bytes(len(data[page : page + 512])) + data[page + 512 :]
        case "noise":
            return data[:at] + dice.randbytes(40) + data[at:]
        case "line twice":
            lines = data.splitlines(keepends=True)
            line = min(int(place * len(lines)), len(lines) - 1)
            return b"".join([*lines[: line + 1], *lines[line:]]) if lines else b""
        case "line gone":
            lines = data.splitlines(keepends=True)
            line = min(int(place * len(lines)), len(lines) - 1)
            return b"".join([*lines[:line], *lines[line + 1 :]]) if lines else b""
        case _:
            return b""


WAYS = ("cut", "bit", "zero tail", "zero page", "noise", "line twice", "line gone", "empty")
DAMAGE = st.tuples(st.integers(-3, -1), st.sampled_from(WAYS), st.floats(0, 1), st.randoms(use_true_random=False))


@pytest.mark.parametrize("examples", [60, pytest.param(1_500, marks=pytest.mark.soak)])
def test_random_damage_is_refused_or_costs_the_last_decisions_of_the_newest_file_and_never_a_byte(
    rotated: Path, states: list[Conversation], monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    """Whatever happens to one to three of the files."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    whole = {path.name: path.read_bytes() for path in rotated.iterdir()}
    numbers = segments.numbers(rotated)
    outcomes = set[str]()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(DAMAGE, min_size=1, max_size=3))
    @example([(-1, "cut", 1.0, random.Random(1))])  # which few of the others come to
    def check(damage: list[tuple[int, str, float, random.Random]]) -> None:
        for path in rotated.iterdir():
            path.unlink()
        for name, data in whole.items():
            (rotated / name).write_bytes(data)
        for back, way, place, dice in damage:
            path = rotated / segments.name_of(numbers[back])
            path.write_bytes(spoilt(path.read_bytes(), way, place, dice))
        before = bytes_of(rotated)
        try:
            loaded = load(rotated / JOURNAL, CONVERSATION, "then", "")
        except StoreDamaged:
            outcomes.add("refused")
            assert bytes_of(rotated) == before
            return
        after = bytes_of(rotated)
        name = newest(rotated).name
        tail = after[loaded.torn.name] if loaded.torn is not None else b""
        outcomes.add("torn" if tail else "whole")
        assert (after[name] or b"") + (tail or b"") == before[name], "no byte is gone"
        assert {other: data for other, data in after.items() if other in before and other != name} == {
            other: data for other, data in before.items() if other != name
        }
        state = fold(ID, loaded.records)
        assert state in states
        assert state.next_seq > max_seq(whole[segments.name_of(numbers[-2])]), "what was before it is in it"

    check()
    assert outcomes == {"refused", "torn", "whole"}


def max_seq(data: bytes) -> int:
    """The last seq of a whole file."""
    return CONVERSATION.decode_lines(data)[0][-1].seq


async def test_a_folder_read_only_for_now_is_not_damaged(rotated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written beside a journal is no word against what is in it."""
    with monkeypatch.context() as patch:
        patch.setattr("tenex.store.atomic.replace", fails(errno.EACCES))
        with pytest.raises(AppendFailed, match=r"could be read, but .* cannot be written to"):
            load(rotated / JOURNAL, CONVERSATION, "then", "")
    assert not (rotated / MARK).exists()
    load(rotated / JOURNAL, CONVERSATION, "then", "")
