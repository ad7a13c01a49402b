"""Damage of every kind, at every place: found or harmless, and limited to one conversation."""

import errno
import json
import os
import random
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenex.core.conversation import fold
from tenex.core.errors import AppendFailed, StoreDamaged
from tenex.core.ids import ConversationId
from tenex.core.inbox.records import MessageRecorded
from tenex.core.records import Record
from tenex.core.snapshot import StateSnapshot
from tenex.main import main
from tenex.store import segments
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.journal_reader import JOURNAL, MARK, VIEW, load, read_files
from tenex.store.repository import ConversationFolder
from tenex.store.salvage import Salvaged, salvage
from tenex.store.view import render
from tests.fakes.scenario import ID, Scenario
from tests.kits.journal_forms import FORMS

from .kit import (
    CONVERSATION_ID,
    Seen,
    asked,
    encoded,
    fails,
    going_on,
    longest_scenario,
    names,
    started,
    stored,
    write_rotated,
    wrote,
)

NAMES = [ConversationId(digit * 64) for digit in "abc"]


@pytest.fixture
async def three(folder: ConversationFolder) -> AsyncIterator[ConversationFolder]:
    for name in NAMES:
        await stored(folder, name, started(name), asked(2), asked(3))
        (folder.path(name) / VIEW).write_text("{}")
    yield folder
    await folder.close()


def all_of(path: Path) -> dict[str, object]:
    """All files at a path and below, but for the mark."""
    paths = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    return {
        str(each): each.read_bytes() if each.is_file() and not each.is_symlink() else stat.S_IFMT(each.lstat().st_mode)
        for each in paths
        if each.name != MARK
    }


def with_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: (path / JOURNAL).write_bytes(change((path / JOURNAL).read_bytes()))


def in_its_place(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Something else has the journal's name."""

    def spoil(path: Path) -> None:
        (path / JOURNAL).unlink()
        make(path / JOURNAL)

    return spoil


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no folder")


SPOILERS: dict[str, Callable[[Path], object]] = {
    "a bit": with_bytes(lambda data: data[:90] + bytes([data[90] ^ 4]) + data[91:]),
    "a folder for the journal": in_its_place(Path.mkdir),
    "a file for the folder": file_for_folder,
    "a pipe for the journal": in_its_place(os.mkfifo),
    "a link for the journal": in_its_place(lambda path: path.symlink_to("/nowhere")),
    "the last line twice": with_bytes(lambda data: data + data.splitlines(keepends=True)[-1]),
    "an empty journal": with_bytes(lambda _: b""),
    "a journal of zeroes": with_bytes(lambda data: bytes(len(data))),
    "no journal": in_its_place(lambda _: None),
}


@pytest.mark.parametrize("what", SPOILERS)
async def test_one_damaged_conversation_is_refused_and_others_continue(three: ConversationFolder, what: str) -> None:
    """They are opened, written to, listed and indexed; the damaged one stays as it is, and is named."""
    one, *others = NAMES
    SPOILERS[what](three.path(one))
    before = all_of(three.path(one))
    index = Index(three.root / "index.sqlite")
    unfinished = await index.catch_up(three)
    await index.close()
    with pytest.raises(StoreDamaged) as caught:
        await three.open(one)
    assert str(three.path(one)) in str(caught.value)
    assert all_of(three.path(one)) == before
    for name in others:
        journal, records = await three.open(name)
        await journal.append([[asked(4)]])
        assert [record.seq for record in [*records, *await three.read(name)]] == [1, 2, 3, 1, 2, 3, 4]
    assert set(others) <= set(await three.lengths()) & set(unfinished)
    quarantined = await three.quarantined()
    assert quarantined == ({} if "the folder" in what else {one: str(caught.value)})
    await three.behind()


async def test_a_folder_we_may_not_enter_is_named(three: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real, barred = os.open, fails(errno.EACCES)

    def opened(path: Any, *more: Any, **named: Any) -> int:
        return barred() if NAMES[0] in str(path) else real(path, *more, **named)

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(StoreDamaged, match=r"it cannot be opened \(Permission denied\).* Look who owns it"):
        await three.open(NAMES[0])
    assert len((await three.open(NAMES[1]))[1]) == 3


# ---- several files ------------------------------------------------------------------------------------------------


@pytest.fixture
async def rotated(folder: ConversationFolder, scenario: Scenario) -> Path:
    """The folder of a conversation of all phases, in four files."""
    await (await write_rotated(folder, scenario.journal)).close()
    return folder.path(ID)


def spoilt(data: bytes, way: str, place: float, dice: random.Random) -> bytes:
    """Some bytes with damage of a kind at a place between 0 and 1."""
    at = min(int(place * len(data)), max(0, len(data) - 1))
    lines = data.splitlines(keepends=True)
    line = min(int(place * len(lines)), max(0, len(lines) - 1))
    match way:
        case "cut":
            return data[:at]
        case "bit":
            return data[:at] + bytes(byte ^ 1 << dice.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
        case "zero tail":
            return data[:at] + bytes(len(data) - at)
        case "zero page":
            page = at // 512 * 512
            return data[:page] + bytes(len(data[page : page + 512])) + data[page + 512 :]
        case "noise":
            return data[:at] + dice.randbytes(40) + data[at:]
        case "line twice":
            return b"".join([*lines[: line + 1], *lines[line:]])
        case "line gone":
            return b"".join([*lines[:line], *lines[line + 1 :]])
        case _:
            return b""


WAYS = ("cut", "bit", "zero tail", "zero page", "noise", "line twice", "line gone", "empty")
DAMAGE = st.tuples(st.integers(-3, -1), st.sampled_from(WAYS), st.floats(0, 1), st.randoms(use_true_random=False))


@pytest.mark.parametrize("examples", [60, pytest.param(1_500, marks=pytest.mark.soak)])
def test_random_damage_is_refused_or_costs_the_last_decisions_of_the_newest_file_and_never_a_byte(
    rotated: Path, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    decisions = longest_scenario().journal
    states = [fold(ID, [record for one in decisions[:end] for record in one]) for end in range(len(decisions) + 1)]
    whole = {path.name: path.read_bytes() for path in rotated.iterdir()}
    numbers = segments.numbers(rotated)
    newest = segments.name_of(numbers[-1])
    least = CONVERSATION.decode_lines(whole[segments.name_of(numbers[-2])])[0][-1].seq
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
        before = {name: (rotated / name).read_bytes() for name in whole}
        try:
            loaded = load(rotated / JOURNAL, CONVERSATION, "then", "")
        except StoreDamaged:
            outcomes.add("refused")
            assert {path.name: path.read_bytes() for path in rotated.iterdir() if path.name != MARK} == before
            return
        after = {name: (rotated / name).read_bytes() for name in whole}
        tail = loaded.torn.read_bytes() if loaded.torn is not None else b""
        outcomes.add("torn" if tail else "whole")
        # of a file whose line ends were those of a text all is kept, else what was cut off
        recovered = tail if tail == before[newest] else after[newest] + tail
        assert {**after, newest: recovered} == before
        state = fold(ID, loaded.records)
        assert state in states
        assert state.next_seq > least, "the newest file holds all of the earlier ones"

    check()
    assert outcomes == {"refused", "torn", "whole"}


async def test_a_folder_read_only_for_now_is_not_damaged(rotated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tenex.store.atomic.replace", fails(errno.EACCES))
        with pytest.raises(AppendFailed, match=r"could be read, but .* cannot be written to"):
            load(rotated / JOURNAL, CONVERSATION, "then", "")
    assert not (rotated / MARK).exists()
    load(rotated / JOURNAL, CONVERSATION, "then", "")


# ---- what is read of it ---------------------------------------------------------------------------------------------


def message(seq: int) -> MessageRecorded:
    return wrote(seq, f"{seq:064x}")


RECORDS: list[Record] = [*going_on(1, 2), message(8), *going_on(9, 1), message(12)]


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    one_file = tmp_path / CONVERSATION_ID
    one_file.mkdir()
    (one_file / JOURNAL).write_bytes(encoded(*RECORDS))
    return one_file


def left(folder: Path) -> Salvaged:
    """What can be read of the journal in a folder."""
    return salvage(CONVERSATION_ID, read_files(folder))


def second_file(one_file: Path, *records: Record) -> Path:
    path = one_file / segments.name_of(2)
    path.write_bytes(encoded(StateSnapshot.of(fold(CONVERSATION_ID, RECORDS)), *records))
    return path


def test_a_whole_journal_is_read_whole(one_file: Path) -> None:
    second_file(one_file, message(13))
    found = left(one_file)
    assert found.records == [*RECORDS, message(13)]
    assert (found.messages, found.damage) == ([], [])


@pytest.mark.parametrize("form", FORMS)
def test_of_a_journal_copied_in_text_mode_all_is_left(one_file: Path, form: str) -> None:
    second = second_file(one_file, message(13))
    for path in (one_file / JOURNAL, second):
        path.write_bytes(FORMS[form](path.read_bytes()))
    found = left(one_file)
    assert found.records == [*RECORDS, message(13)]
    assert (found.messages, found.damage) == ([], [])


@pytest.mark.parametrize("damaged", range(len(RECORDS)))
def test_all_before_a_damaged_line_is_used_and_of_what_follows_the_messages(one_file: Path, damaged: int) -> None:
    kept = encoded(*RECORDS).splitlines(keepends=True)
    kept[damaged] = kept[damaged][:-9] + b"?" + kept[damaged][-8:]
    (one_file / JOURNAL).write_bytes(b"".join(kept))
    found = left(one_file)
    assert found.records == RECORDS[:damaged]
    after = RECORDS[damaged + 1 :]
    assert found.messages == [record for record in after if isinstance(record, MessageRecorded)]
    is_last = damaged == len(RECORDS) - 1  # a last line that cannot be read was never written completely
    assert bool(found.damage) is not is_last
    fold(CONVERSATION_ID, found.records)
    if damaged < 8:
        assert found.turns == 9, "no turn gets a number that was used"


def test_a_later_snapshot_makes_up_for_damage_before_it(one_file: Path) -> None:
    second_file(one_file, message(13))
    data = (one_file / JOURNAL).read_bytes()
    for content in (b"?" + data, None):
        (one_file / JOURNAL).write_bytes(content) if content else (one_file / JOURNAL).unlink()
        found = left(one_file)
        assert [record.seq for record in found.records] == [12, 13]
        assert any("the records before 13" in sentence for sentence in found.damage)


def test_a_file_without_its_snapshot_adds_its_messages(one_file: Path) -> None:
    path = second_file(one_file, message(13), message(14))
    path.write_bytes(path.read_bytes()[5:])
    found = left(one_file)
    assert (found.records, found.messages) == (RECORDS, [message(13), message(14)])


def test_records_that_contradict_those_before_them_are_left_out(one_file: Path) -> None:
    other = replace(started(ConversationId("d" * 64)), seq=5)
    records = [*RECORDS[:4], other, message(6)]
    (one_file / JOURNAL).write_bytes(encoded(*records))
    found = left(one_file)
    assert (found.records, found.messages) == (RECORDS[:4], [message(6)])
    assert found.damage == ["the records from 5 on, which contradict those before them"]


def test_without_a_readable_file_there_is_nothing(one_file: Path) -> None:
    journal = one_file / JOURNAL
    journal.unlink()
    assert left(one_file).damage == []
    for make, remove in (
        (Path.mkdir, Path.rmdir),
        (os.mkfifo, Path.unlink),
        (lambda path: path.symlink_to("/nowhere"), Path.unlink),
        (Path.touch, Path.unlink),
    ):
        make(journal)
        found = left(one_file)
        assert (found.records, found.messages, bool(found.damage)) == ([], [], True)
        remove(journal)


# ---- missing files --------------------------------------------------------------------------------------------------


def remove_file(rotated: Path, number: int = 2) -> Path:
    path = rotated / segments.name_of(number)
    path.unlink()
    return path


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_what_is_left_begins_behind_the_gap(
    folder: ConversationFolder, rotated: Path, scenario: Scenario, number: int
) -> None:
    assert await folder.read_left(ID) == (scenario.records(), "")
    path = remove_file(rotated, number)
    records, gone = await folder.read_left(ID)
    first, *rest = records
    assert isinstance(first, StateSnapshot)
    assert rest == [record for record in scenario.records() if record.seq > first.seq]
    assert fold(ID, records) == scenario.conversation
    assert gone.startswith(f"{path} is missing, though journal-{number + 1:06}.jsonl follows it")
    assert f"before record {first.seq + 1}." in gone
    assert f"Put {path.name} back from a copy; the daemon goes on from the newest file meanwhile." in gone
    with pytest.raises(StoreDamaged, match="is missing, though"):
        await folder.read(ID)


async def test_the_index_keeps_what_it_knew_of_the_past(
    folder: ConversationFolder, rotated: Path, scenario: Scenario
) -> None:
    """An event of the missing file was received, and must not be answered again."""
    index = Index(folder.root / "index.sqlite")
    assert await index.catch_up(folder) == []
    await index.flush()
    remove_file(rotated)
    assert await index.catch_up(folder) == []
    seen = Seen()
    assert await index.catch_up(folder, seen) == []
    assert seen == [], "a start need not read it again"
    index._recent.clear()
    events = [event.id for record in scenario.records() for event in getattr(record, "events", ())]
    assert events
    assert all(index.has_event(event) for event in events)
    await index.close()


def test_every_command_that_only_reads_works_and_reports_what_is_missing(
    rotated: Path, tmp_path: Path, scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_file(rotated)
    (rotated / VIEW).write_text(render(scenario.conversation).replace('"title": "', '"title": "my ', 1))

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        assert main(["conversations", *words, "--data", str(tmp_path)]) == code
        out, errors = capsys.readouterr()
        return " ".join(out.split()), errors

    (row,) = json.loads(run("list", "--json")[0])
    assert (row["id"], row["status"]) == (ID, scenario.conversation.cycle.status)
    assert json.loads(run("show", ID, "--json")[0])["seq"] == scenario.records()[-1].seq
    for words in (("show", ID), ("stats", ID), ("stats",), ("replay", ID)):
        out, errors = run(*words)
        assert out
        assert "incomplete: " in errors, words
        assert "journal-000002.jsonl is missing" in errors
    (lacks,) = json.loads(run("stats", "--json")[0])["inPart"]
    assert lacks["id"] == ID
    assert "journal-000002.jsonl is missing" in lacks["fault"]
    assert "begins with record" in run("replay", ID, "--to", "2", code=2)[1]
    out, _ = run("verify", code=4)
    assert "damaged: " in out
    assert "Put journal-000002.jsonl back from a copy" in out
    assert "title: it was changed by another process" in out

    packed, elsewhere = str(tmp_path / "packed"), tmp_path / "elsewhere"
    assert "incomplete" in run("export", ID, "--out", packed)[1]
    elsewhere.mkdir()
    for word in ("imported.", "already here, unchanged."):
        assert main(["conversations", "import", packed, "--data", str(elsewhere)]) == 0
        assert word in capsys.readouterr().out
    assert names(elsewhere / "conversations" / ID) == [VIEW, "journal-000002.jsonl"]
