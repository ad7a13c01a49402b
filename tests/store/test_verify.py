"""Judging files: what is whole is called so, what is not is named with a place and a remedy, and nothing is touched."""

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.records import PhaseTransition, Record, TurnOpened
from tenex.core.state.rollback import RolledBack
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.archive import packed, unpacked
from tenex.store.atomic_folder import renew
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.verify import Verdict, contradictions, verify
from tenex.store.view import SEGMENT, Views
from tests.fakes.scenario import ID

from .kit import StillClock, decisions_of, going_on
from .test_stats import lived

RECORDS: list[Record] = [record for decision in lived(0).journal for record in decision]


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[ConversationFolder]:
    """One conversation, written as a daemon writes it."""
    disk = Disk()
    folder = ConversationFolder(tmp_path / "conversations", disk, StillClock())
    journal, _ = await folder.open(ID)
    await journal.append(lived(0).journal)
    await Views(folder, disk).show(fold(ID, RECORDS))
    await folder.close()
    yield folder
    disk.close()


async def faults(folder: ConversationFolder) -> str:
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    verdict = await verify(folder, ID)
    assert {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()} == before
    return "\n".join(verdict.faults)


def edit(folder: ConversationFolder, **changes: Any) -> None:
    path = folder.path(ID) / VIEW
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


async def test_what_a_daemon_wrote_is_whole(folder: ConversationFolder) -> None:
    assert await verify(folder, ID) == Verdict(id=ID, records=len(RECORDS), seq=len(RECORDS))


async def test_a_view_that_is_some_records_behind_is_no_fault(folder: ConversationFolder) -> None:
    """A daemon may be at work: it is compared with the journal as it stood then, whichever record that was."""
    for seq in range(1, len(RECORDS), 11):
        await Views(folder, disk := Disk()).show(fold(ID, RECORDS[:seq]))
        disk.close()
        assert await faults(folder) == ""


async def test_a_view_that_is_not_there_yet_is_a_remark(folder: ConversationFolder) -> None:
    (folder.path(ID) / VIEW).unlink()
    verdict = await verify(folder, ID)
    assert (verdict.faults, len(verdict.remarks)) == ((), 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("phase", "plan"), ("status", "active"), ("title", "mine"), ("orchestratorTurns", []), ("seq", 9)],
)
async def test_a_view_somebody_changed_is_named_with_what_differs(
    folder: ConversationFolder, name: str, value: object
) -> None:
    edit(folder, **{name: value})
    told = await faults(folder)
    assert str(folder.path(ID) / VIEW) in told
    assert name in told or name == "seq"
    assert "move the file away" in told


async def test_a_view_of_another_version_is_no_fault(folder: ConversationFolder) -> None:
    """Fields that only one of them knows say nothing about the journal."""
    view = json.loads((folder.path(ID) / VIEW).read_text())
    del view["openGates"]
    view["orchestratorTurns"][0]["new"] = 1
    (folder.path(ID) / VIEW).write_text(json.dumps({**view, "colour": "red"}))
    assert await faults(folder) == ""


async def test_a_view_beyond_the_journal_is_a_fault(folder: ConversationFolder) -> None:
    """The journal lost its end: what people could read once is not in it."""
    edit(folder, seq=len(RECORDS) + 1)
    assert f"covers record {len(RECORDS) + 1}, but the journal ends with {len(RECORDS)}" in await faults(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"earlierOrchestratorTurns": ["orchestratorTurns-000009.json"]}'])
async def test_a_view_that_cannot_be_read_is_a_fault(folder: ConversationFolder, content: str) -> None:
    (folder.path(ID) / VIEW).write_text(content)
    assert "cannot be read" in await faults(folder)


@pytest.mark.parametrize("content", [None, "{"], ids=["gone", "no JSON"])
async def test_older_turns_that_are_lost_are_made_anew_as_it_says(
    folder: ConversationFolder, content: str | None
) -> None:
    """A start writes the views that are behind, and what belongs to them."""
    name, disk = ConversationId("d" * 64), Disk()
    records = list(going_on(1, 2 * SEGMENT + 30, name))
    journal, _ = await folder.open(name)
    await journal.append([records])
    await folder.close()
    await Views(folder, disk).show(fold(name, records))
    path = folder.path(name)
    lost = path / "orchestratorTurns-000001.json"
    whole = lost.read_bytes()
    lost.unlink()
    if content is not None:
        lost.write_text(content)
    (told,) = (await verify(folder, name)).faults
    assert "orchestratorTurns-000001.json cannot be read" in told
    assert "move it away if it is there, and conversation.json with it" in told
    lost.unlink(missing_ok=True)
    (path / VIEW).unlink()
    assert name in await folder.behind()
    await Views(folder, disk).show(fold(name, records))
    disk.close()
    assert lost.read_bytes() == whole
    assert (await verify(folder, name)).faults == ()


async def test_older_turns_that_somebody_changed_are_named(folder: ConversationFolder) -> None:
    """As the newest are; and where the journal has lost its end, that is what is said."""
    name, disk = ConversationId("d" * 64), Disk()
    records = list(going_on(1, 2 * SEGMENT + 30, name))
    journal, _ = await folder.open(name)
    await journal.append([records])
    await folder.close()
    await Views(folder, disk).show(fold(name, records))
    disk.close()
    assert (await verify(folder, name)).faults == ()
    part = folder.path(name) / "orchestratorTurns-000001.json"
    whole = part.read_bytes()
    turns = json.loads(whole)
    turns[3]["reason"] = "mine"
    part.write_text(json.dumps(turns))
    (told,) = (await verify(folder, name)).faults
    assert told.startswith(f"{part} differs from the journal")
    part.write_text(json.dumps([{**turn, "new": 1} for turn in json.loads(whole)]))  # of another version
    assert (await verify(folder, name)).faults == ()
    part.with_name("orchestratorTurns-000003.json").write_bytes(whole)
    (told,) = (await verify(folder, name)).faults
    assert told.startswith(f"{part.with_name('orchestratorTurns-000003.json')} holds more than the journal does")


async def test_a_damaged_line_is_named_by_file_line_and_byte(folder: ConversationFolder) -> None:
    journal = folder.path(ID) / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    for line in (1, 2, len(lines) - 1):
        broken = [*lines]
        broken[line - 1] = broken[line - 1].replace(b'"at":', b'"At":')
        journal.write_bytes(b"".join(broken))
        told = await faults(folder)
        place = sum(map(len, lines[: line - 1]))
        assert f"{journal}: line {line} cannot be right (byte {place}): its crc is missing or wrong" in told
        assert "`tenex conversations rebuild ID --from conversation.json` or `--from relay`" in told
        assert broken[line - 1] in journal.read_bytes()[place:]


async def test_a_journal_that_is_missing_or_something_else_is_named(folder: ConversationFolder) -> None:
    journal = folder.path(ID) / JOURNAL
    journal.unlink()
    told = await verify(folder, ID)
    assert "rebuild" in "".join(told.faults)
    journal.mkdir()
    assert "rebuild" in await faults(folder)
    shutil.rmtree(folder.path(ID))
    with pytest.raises(UsageError, match="no conversation"):
        await verify(folder, ID)


async def test_a_journal_that_was_emptied_is_judged_also_where_only_older_turns_stand_beside_it(
    folder: ConversationFolder,
) -> None:
    (folder.path(ID) / VIEW).unlink()
    (folder.path(ID) / JOURNAL).write_bytes(b"")
    (folder.path(ID) / "orchestratorTurns-000001.json").write_text("[]")
    assert "holds more than the journal does" in await faults(folder)


async def test_a_folder_under_another_name_is_to_be_moved_and_not_rebuilt(folder: ConversationFolder) -> None:
    other = ConversationId("d" * 64)
    shutil.copytree(folder.path(ID), folder.path(other))
    (fault,) = (await verify(folder, other)).faults
    assert "give it its name back" in fault
    assert "rebuild" not in fault


async def test_a_torn_tail_is_no_damage(folder: ConversationFolder) -> None:
    with (folder.path(ID) / JOURNAL).open("ab") as journal:
        journal.write(CONVERSATION.encode_decisions(decisions_of(1, first=len(RECORDS) + 1))[:-9])
    assert await faults(folder) == ""


def test_records_that_contradict_each_other_are_told_by_their_seq() -> None:
    at = next(n for n, record in enumerate(RECORDS) if isinstance(record, PhaseTransition))
    move = RECORDS[at]
    assert isinstance(move, PhaseTransition)
    leap = [*RECORDS[:at], replace(move, to=Phase.REFLECTION), *RECORDS[at + 1 :]]
    assert f"record {at + 1} (PhaseTransition) goes from {move.from_} to reflection" in next(contradictions(ID, leap))
    wrong = [*RECORDS[:at], replace(move, from_=Phase.CHORES), *RECORDS[at + 1 :]]
    assert "leaves chores, but the conversation was in" in next(contradictions(ID, wrong))
    assert "about another conversation" in next(contradictions(ConversationId("d" * 64), RECORDS))
    gap = [*RECORDS[:5], *RECORDS[6:]]
    assert list(contradictions(ID, gap)) == [
        f"record 7 ({type(RECORDS[6]).__name__}) cannot follow the records before it (ValueError)."
    ]
    odd = [*RECORDS[:5], replace(next(r for r in RECORDS if isinstance(r, TurnOpened)), seq=6, agents=None)]  # type: ignore[arg-type]
    assert "(TypeError)" in "".join(contradictions(ID, odd))
    assert list(contradictions(ID, RECORDS)) == []


def test_going_back_to_what_does_not_stand_before_it_is_a_contradiction() -> None:
    before = RECORDS[:6]

    def told(to: int) -> list[str]:
        state = fold(ID, RECORDS[:3])
        back = RolledBack(seq=7, at=Millis(1), to=to, by="alice", reason="", state=state)
        return list(contradictions(ID, [*before, back]))

    assert [told(to) for to in (1, 5)] == [[], []]
    for to in (0, 6, 7):
        assert told(to) == [f"record 7 (RolledBack) goes back to record {to}, which is not before it."]


async def test_a_journal_of_several_files_is_judged_and_renewed_as_a_whole(tmp_path: Path) -> None:
    """Every file of it is read, and the damaged one is named; all of them make room for the new one."""
    disk = Disk()
    folder = ConversationFolder(tmp_path / "conversations", disk, StillClock())
    journal, _ = await folder.open(ID)
    decisions = [list(decision) for decision in lived(0).journal]
    await journal.append(decisions[:20])
    seq = journal.next_seq - 1
    await journal.rotate(StateSnapshot.of(fold(ID, RECORDS[:seq])))
    await journal.append(decisions[20:])
    await Views(folder, disk).show(fold(ID, RECORDS))
    await folder.close()
    files = sorted(folder.path(ID).glob("journal*.jsonl"))
    assert len(files) == 2
    assert await verify(folder, ID) == Verdict(id=ID, records=len(RECORDS), seq=len(RECORDS))
    assert list(unpacked(packed(ID, await folder.read(ID), Millis(1))).records) == RECORDS
    for file in files:
        good = file.read_bytes()
        file.write_bytes(good.replace(b'"at":', b'"At":', 1))
        assert f"{file}: line 1 cannot be right (byte 0): " in await faults(folder)
        if file != files[-1]:
            file.write_bytes(good)
    aside = renew(folder.path(ID), decisions_of(1), "then")
    assert sorted(path.name for path in aside.glob("journal*")) == [file.name for file in files]
    assert [path.name for path in folder.path(ID).glob("journal*.jsonl")] == [JOURNAL]
    disk.close()


async def test_a_folder_that_is_shut_to_us_is_a_fault_and_no_error(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.exists

    def barred(path: Path) -> bool:
        if path.name == VIEW:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "exists", barred)
    verdict = await verify(folder, ID)
    (fault,) = verdict.faults
    assert "cannot be read: Permission denied. Look who owns it" in fault
