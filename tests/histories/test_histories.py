"""Every history is read, folded and shown as on the day it was recorded."""

import itertools
import json
import re
import shutil
from pathlib import Path

import pytest

from tenex.cli import verify as inspecting
from tenex.core.conversation import fold, new_conversation
from tenex.core.ids import ConversationId
from tenex.core.kind import all_kinds
from tenex.core.pending import pending
from tenex.core.records import RECORDS, Record
from tenex.operations.copying import copy_one
from tenex.store.archive import plain
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW, peek
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.verify import verify
from tests.fakes import postgres
from tests.store.kit import StillClock

from .record import ROOT, STATS, shown, sums, whole

HISTORIES = sorted(path.parent for path in ROOT.glob(f"*/{JOURNAL}"))
each = pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
_SECRET = re.compile(r"nsec1|/(?:home|root|work|tmp)/|sk-[A-Za-z0-9]{8}")


def test_none_is_missing() -> None:
    """A history is added and never removed; these are from the first day."""
    first = """
        checks clock-set colleagues costs held-model limit-reached mission output-states own-phases parked rebuilt
        rotated seven-phases simulation-39 simulation-75 stopped-and-retried waiver workflow
    """
    assert {*first.split()} <= {path.name for path in HISTORIES}


def test_every_class_of_record_is_in_one() -> None:
    """A class that is in none may change its meaning, and no test notices it: record a conversation that has it."""
    classes = {*RECORDS.values(), *(kind for known in all_kinds() for kind in known.records)}
    recorded = {type(record) for history in HISTORIES for record in whole(history)[1]}
    assert not {kind.__name__ for kind in classes - recorded}


@each
def test_it_is_shown_to_the_byte_as_it_was(history: Path) -> None:
    name, records = whole(history)
    assert shown(name, records) == (history / VIEW).read_text(encoding="utf-8")
    assert sums(name, records) == (history / STATS).read_text(encoding="utf-8")


@each
def test_its_newest_file_is_enough_for_its_state(history: Path) -> None:
    """With the same work in flight."""
    name, records = whole(history)
    newest = fold(name, list(peek(history / JOURNAL, CONVERSATION, NEWEST)))
    assert newest == fold(name, records)
    assert pending(newest) == pending(fold(name, records))


@each
def test_its_lines_are_written_again_to_the_byte(history: Path) -> None:
    """As long as no kind in it has a newer version; then this history is read by migrations, and left out by name."""
    for path in history.glob("journal*.jsonl"):
        data = path.read_bytes()
        records, length, fault = CONVERSATION.decode_lines(data)
        assert (length, fault) == (len(data), None)
        assert CONVERSATION.encode_decisions(_decisions(data, records)) == data


def _decisions(data: bytes, records: list[Record]) -> list[list[Record]]:
    """The records in the decisions in which they were appended."""
    left = [json.loads(line)["remaining"] for line in data.splitlines()]
    ends = itertools.accumulate((count == 0 for count in left), initial=0)
    numbered = zip(ends, records, strict=False)
    return [[record for _, record in group] for _, group in itertools.groupby(numbered, key=lambda pair: pair[0])]


def check_replay(name: ConversationId, facts: list[Record]) -> None:
    """It can be shown after each of its records."""
    state = new_conversation(name)
    for record in facts:
        state.apply(record)
        json.dumps(inspecting._state(state, record, facts[-1].seq))
        assert record.seq == state.next_seq - 1
    assert [record.seq for record in facts] == list(range(1, len(facts) + 1))


@each
async def test_it_is_whole_and_can_be_replayed_to_any_record(history: Path, tmp_path: Path) -> None:
    name, _ = whole(history)
    shutil.copytree(history, tmp_path / name)
    disk = Disk()
    try:
        folder = ConversationFolder(tmp_path, disk, StillClock())
        verdict = await verify(folder, name)
        assert not verdict.faults
        facts = plain(await folder.read(name))
    finally:
        disk.close()
    check_replay(name, facts)


IN_A_DATABASE = [
    path if path.name == "rotated" else pytest.param(path, marks=pytest.mark.soak, id=path.name) for path in HISTORIES
]
"""All of them in a sweep; the one of several files always."""


@pytest.mark.parametrize("history", IN_A_DATABASE, ids=lambda path: path.name)
async def test_a_database_holds_it_to_the_byte(history: Path, tmp_path: Path) -> None:
    """Copied there it keeps all that is said of files above, and copied back it is the same."""
    name, records = whole(history)
    shutil.copytree(history, tmp_path / "files" / name)
    shutil.copytree(history, tmp_path / "worker" / name, ignore=shutil.ignore_patterns("journal*"))
    disk = Disk()
    try:
        with postgres.schema() as url:
            files = ConversationFolder(tmp_path / "files", disk, StillClock())
            back = ConversationFolder(tmp_path / "back", disk, StillClock())
            opened = PostgresConversations.connected(url, tmp_path / "worker", disk, StillClock())
            async with opened as store:
                assert await copy_one(files, store, name) == "copied"
                assert await copy_one(files, store, name) == "same"
                stored = await store.read(name)
                assert stored == await files.read(name) == records
                assert shown(name, stored) == (history / VIEW).read_text(encoding="utf-8")
                assert sums(name, stored) == (history / STATS).read_text(encoding="utf-8")
                newest = await store.read(name, NEWEST)
                assert newest == await files.read(name, NEWEST)
                assert fold(name, newest) == fold(name, records)
                assert pending(fold(name, newest)) == pending(fold(name, records))
                assert not (await verify(store, name)).faults
                check_replay(name, plain(stored))
                assert (await store.lengths())[name] == (await files.lengths())[name]
                assert await copy_one(store, back, name) == "copied"
    finally:
        disk.close()
    for path in history.glob("journal*.jsonl"):
        assert (tmp_path / "back" / name / path.name).read_bytes() == path.read_bytes()


@each
def test_it_names_no_machine_and_no_key(history: Path) -> None:
    for path in history.iterdir():
        found = _SECRET.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name} holds {found}"
