"""`tenex doctor` and the store: journals, the files beside them, the daemon journal, the index."""

import json
import os
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tenex.core.ids import ConversationId
from tenex.operations.doctor.configuration import settings
from tenex.operations.doctor.conversations import conversations, daemon_journal, index
from tenex.operations.doctor.findings import Case, DaemonProcess, Finding, Level
from tenex.operations.doctor.runner import repair_all
from tenex.store.daemon_journal import DaemonJournal
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.index import Index
from tenex.store.repository import ConversationFolder
from tests.store.kit import StillClock, asked, closed, started

NAME = ConversationId("a" * 64)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one conversation in it."""
    data = prepare(tmp_path / "data", None, []).data
    make(data, NAME)
    return data


def make(data: Path, name: ConversationId) -> Path:
    """A whole conversation of four records in three decisions."""
    folder = data / "conversations" / name
    folder.mkdir(mode=0o700)
    lines = CONVERSATION.encode_decisions([[started(name)], [asked(2), asked(3)], [closed(4, "a user's text")]])
    (folder / "journal.jsonl").write_bytes(lines)
    (folder / "conversation.json").write_text(json.dumps({"id": name}))
    return folder


def case_of(data: Path, running: bool = False) -> Case:
    case = Case(data=data, config=None, env={}, daemon=DaemonProcess(running=running))
    list(settings(case))
    return case


def bad(data: Path, running: bool = False) -> list[Finding]:
    """What is wrong with the conversations."""
    return [f for f in conversations(case_of(data, running)) if f.level is not Level.OK]


def journal(data: Path) -> Path:
    return data / "conversations" / NAME / "journal.jsonl"


def test_whole_conversations_are_counted(data: Path) -> None:
    make(data, ConversationId("b" * 64))
    (found,) = conversations(case_of(data))
    assert found.message.startswith("2 conversations whole (")


def test_damage_is_reported_with_its_line_and_without_user_text(data: Path) -> None:
    path = journal(data)
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":7'))
    (found,) = bad(data)
    assert (found.level, found.error.exit_code, found.location) == (Level.FAULT, 4, str(path))
    assert "line 2 cannot be right" in found.message
    assert "a backup" in found.fix
    path.write_bytes(path.read_bytes() + b'{"a user\'s text": 1}\n')
    assert "text" not in "".join(f.message for f in bad(data))


def test_a_torn_tail_is_a_warning_unless_a_daemon_writes(data: Path) -> None:
    path = journal(data)
    path.write_bytes(path.read_bytes()[:-30])
    (found,) = bad(data)
    assert found.level is Level.WARNING
    assert "interrupted" in found.message
    assert "the next start" in found.fix
    assert not bad(data, running=True)
    assert path.stat().st_size > 100


def test_a_journal_that_is_missing_or_empty_beside_its_view_is_a_fault(data: Path) -> None:
    journal(data).write_bytes(b"")
    assert "holds no whole decision" in bad(data)[0].message
    journal(data).unlink()
    assert "the journal is missing" in bad(data)[0].message


def test_a_journal_of_a_newer_program_is_reported_as_one(data: Path) -> None:
    path = journal(data)
    text = path.read_text().splitlines()[0].replace("ConversationStarted", "ConversationDreamt")
    from zlib import crc32

    body = text.rpartition(',"crc"')[0].encode()
    path.write_bytes(b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
    assert "newer tenex" in bad(data)[0].message


def test_a_link_a_folder_or_a_pipe_in_the_place_of_a_journal(data: Path) -> None:
    path = journal(data)
    elsewhere = data / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert bad(data)[0].level is Level.FAULT
    path.unlink()
    path.mkdir()
    assert bad(data)[0].level is Level.FAULT
    path.rmdir()
    os.mkfifo(path)
    assert "not a file" in bad(data)[0].message


@pytest.mark.parametrize("content", [None, "{"], ids=["gone", "no JSON"])
async def test_older_turns_that_are_lost_are_fixed_by_the_next_start(data: Path, content: str | None) -> None:
    """A start writes the views that are missing, with all that belongs to them; a part alone it does not miss."""
    folder, part = journal(data).parent, "orchestratorTurns-000001.json"
    (folder / "conversation.json").write_text(json.dumps({"earlierOrchestratorTurns": [part]}))
    if content is not None:
        (folder / part).write_text(content)
    (finding,) = bad(data)
    assert (Path(finding.location).name, "older turns" in finding.message) == (part, True)
    assert bad(data, running=True) == [] or content is not None
    (done,) = await repair_all(data / "conversations", [finding])
    assert done.success
    assert [found.message for found in bad(data) if "repaired" not in found.message] == ["conversation.json is missing"]
    assert (folder / "conversation.damaged-1").exists()


async def test_a_file_that_a_start_does_not_remove_is_not_a_leftover(data: Path) -> None:
    """A user's own file whose name only looks like one is not reported as removed."""
    folder = journal(data).parent
    (folder / ".mine.tmp").write_text("x")
    (folder / ".conversation.json.abcd1234.tmp").write_text("x")
    (finding,) = bad(data)
    assert finding.message.startswith("1 file left by an interrupted write")
    (done,) = await repair_all(data / "conversations", [finding])
    assert (done.success, bad(data), (folder / ".mine.tmp").exists()) == (True, [], True)


async def test_older_turns_are_not_moved_where_the_journal_is_damaged(data: Path) -> None:
    """The view is what a damaged journal is rebuilt from."""
    folder = journal(data).parent
    (folder / "conversation.json").write_text("{}")
    (folder / "orchestratorTurns-000001.json").write_text("{")
    journal(data).write_bytes(b"{}\n" + journal(data).read_bytes())
    assert [found.repair for found in bad(data) if "older turns" in found.message] == [None]
    (folder / "conversation.json").write_text("{")
    (view,) = (found for found in bad(data) if found.message.startswith("conversation.json"))
    assert (view.repair, "the journal has everything" in view.message) == (None, False)


async def learn(data: Path, lessons: int) -> None:
    """Write so many lessons into the daemon's own journal."""
    disk = Disk()
    try:
        kept = await DaemonJournal.open(data / "conversations", disk, StillClock())
        for number in range(lessons):
            await kept.record("executor", NAME, "a lesson", "look twice", "", f"key-{number}")
        await kept.close()
    finally:
        disk.close()


async def test_the_daemon_journal(data: Path) -> None:
    await learn(data, 3)
    assert [f.level for f in daemon_journal(case_of(data))] == [Level.OK]
    path = data / "conversations" / "_daemon" / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":9'))
    (found,) = daemon_journal(case_of(data))
    assert found.error.exit_code == 4
    assert "lessons" in found.fix


async def test_the_daemon_journal_in_several_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenex.store.journal.FILE_BYTES", 1)
    monkeypatch.setattr("tenex.store.journal.PER_CHECKPOINT", 0)
    await learn(data, 2)
    assert [f.level for f in daemon_journal(case_of(data))] == [Level.OK]
    newest = data / "conversations" / "_daemon" / "journal-000003.jsonl"
    newest.write_bytes(newest.read_bytes().replace(b'"seq":2', b'"seq":9'))
    (found,) = daemon_journal(case_of(data))
    assert (found.location, found.error.exit_code) == (str(newest), 4)


async def test_the_index_is_read_and_left_as_it_is(data: Path) -> None:
    path = data / "conversations" / "index.sqlite"
    assert "no index yet" in next(index(case_of(data))).message
    disk = Disk()
    cache = Index(path)
    try:
        await cache.catch_up(ConversationFolder(data / "conversations", disk, StillClock()))
        assert [f.level for f in index(case_of(data, running=True))] == [Level.OK]  # while somebody writes to it
    finally:
        await cache.close()
        disk.close()
    (found,) = index(case_of(data))
    assert found.message == "the index is whole and knows 1 conversation"
    make(data, ConversationId("b" * 64))
    assert "behind by 1 conversation" in next(index(case_of(data))).message
    assert sorted(p.name for p in path.parent.glob("index*")) == ["index.sqlite"]


async def test_a_damaged_index_is_moved_away_by_fix(data: Path) -> None:
    raw = b"SQLite format 3\x00" + b"\xff" * 5000
    path = data / "conversations" / "index.sqlite"
    path.write_bytes(raw)
    found = list(index(case_of(data)))
    assert [f.level for f in found] == [Level.WARNING]
    (fixed,) = await repair_all(data / "conversations", found)
    assert fixed.done == "moved to index.damaged-1"
    assert (path.parent / "index.damaged-1").read_bytes() == raw
    assert "no index yet" in next(index(case_of(data))).message
