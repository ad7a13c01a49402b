"""Judging files: what is whole is called so, what is not is named with a place and a remedy, and nothing is touched."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.records import PhaseTransition, TurnOpened
from tenex.core.state.rollback import RolledBack
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.archive import packed, unpacked
from tenex.store.atomic_folder import renew
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW
from tenex.store.repository import ConversationFolder
from tenex.store.verify import VerifyResult, contradictions, verify
from tenex.store.view import SEGMENT, Views
from tests.fakes.scenario import ID

from .kit import decisions_of, going_on, records_of
from .test_stats import lived

RECORDS = records_of(lived(0))
LONG = ConversationId("d" * 64)
LONG_RECORDS = list(going_on(1, 2 * SEGMENT + 30, LONG))


@pytest.fixture
async def folder(folder: ConversationFolder, disk: Disk) -> ConversationFolder:
    """One conversation, written as a daemon writes it."""
    journal, _ = await folder.open(ID)
    await journal.append(lived(0).journal)
    await Views(folder, disk).show(fold(ID, RECORDS))
    await folder.close()
    return folder


async def faults(folder: ConversationFolder) -> str:
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    verdict = await verify(folder, ID)
    assert {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()} == before
    return "\n".join(verdict.faults)


def edit(folder: ConversationFolder, **changes: Any) -> None:
    path = folder.path(ID) / VIEW
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


async def test_what_a_daemon_wrote_is_whole(folder: ConversationFolder) -> None:
    assert await verify(folder, ID) == VerifyResult(id=ID, records=len(RECORDS), seq=len(RECORDS))


async def test_a_view_that_is_behind_or_of_another_version_is_no_fault(folder: ConversationFolder, disk: Disk) -> None:
    """A daemon may be at work; and fields that only one version knows prove nothing about the journal."""
    for seq in range(1, len(RECORDS), 11):
        await Views(folder, disk).show(fold(ID, RECORDS[:seq]))
        assert await faults(folder) == ""
    view = json.loads((folder.path(ID) / VIEW).read_text())
    del view["openGates"]
    view["orchestratorTurns"][0]["new"] = 1
    (folder.path(ID) / VIEW).write_text(json.dumps({**view, "colour": "red"}))
    assert await faults(folder) == ""


async def test_a_view_that_is_not_there_yet_is_a_remark(folder: ConversationFolder) -> None:
    (folder.path(ID) / VIEW).unlink()
    verdict = await verify(folder, ID)
    assert (verdict.faults, len(verdict.remarks)) == ((), 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("phase", "plan"), ("status", "active"), ("title", "mine"), ("orchestratorTurns", []), ("seq", 9)],
)
async def test_a_changed_view_is_named_with_what_differs(folder: ConversationFolder, name: str, value: object) -> None:
    edit(folder, **{name: value})
    found = await faults(folder)
    assert str(folder.path(ID) / VIEW) in found
    assert name in found or name == "seq"
    assert "move the file away" in found


async def test_a_view_beyond_the_journal_is_a_fault(folder: ConversationFolder) -> None:
    """The journal lost its end: what people could read once is not in it."""
    edit(folder, seq=len(RECORDS) + 1)
    assert f"covers record {len(RECORDS) + 1}, but the journal ends with {len(RECORDS)}" in await faults(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"earlierOrchestratorTurns": ["orchestratorTurns-000009.json"]}'])
async def test_a_view_that_cannot_be_read_is_a_fault(folder: ConversationFolder, content: str) -> None:
    (folder.path(ID) / VIEW).write_text(content)
    assert "cannot be read" in await faults(folder)


@pytest.fixture
async def long(folder: ConversationFolder, disk: Disk) -> Path:
    """The folder of a conversation whose older turns are in a file of their own."""
    journal, _ = await folder.open(LONG)
    await journal.append([LONG_RECORDS])
    await folder.close()
    await Views(folder, disk).show(fold(LONG, LONG_RECORDS))
    return folder.path(LONG)


@pytest.mark.parametrize("content", [None, "{"], ids=["gone", "no JSON"])
async def test_lost_older_turns_are_written_again(
    folder: ConversationFolder, disk: Disk, long: Path, content: str | None
) -> None:
    """A start writes the views that are behind, and what belongs to them."""
    lost = long / "orchestratorTurns-000001.json"
    whole = lost.read_bytes()
    lost.unlink()
    if content is not None:
        lost.write_text(content)
    (fault,) = (await verify(folder, LONG)).faults
    assert "orchestratorTurns-000001.json cannot be read" in fault
    assert "move it away if it is there, and conversation.json with it" in fault
    lost.unlink(missing_ok=True)
    (long / VIEW).unlink()
    assert LONG in await folder.behind()
    await Views(folder, disk).show(fold(LONG, LONG_RECORDS))
    assert lost.read_bytes() == whole
    assert (await verify(folder, LONG)).faults == ()


async def test_older_turns_that_were_changed_are_named(folder: ConversationFolder, long: Path) -> None:
    assert (await verify(folder, LONG)).faults == ()
    part = long / "orchestratorTurns-000001.json"
    whole = part.read_bytes()
    turns = json.loads(whole)
    turns[3]["reason"] = "mine"
    part.write_text(json.dumps(turns))
    (fault,) = (await verify(folder, LONG)).faults
    assert fault.startswith(f"{part} differs from the journal")
    part.write_text(json.dumps([{**turn, "new": 1} for turn in json.loads(whole)]))  # of another version
    assert (await verify(folder, LONG)).faults == ()
    part.with_name("orchestratorTurns-000003.json").write_bytes(whole)
    (fault,) = (await verify(folder, LONG)).faults
    assert fault.startswith(f"{part.with_name('orchestratorTurns-000003.json')} holds more than the journal does")


async def test_a_damaged_line_is_named_by_file_line_and_byte(folder: ConversationFolder) -> None:
    journal = folder.path(ID) / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    for line in (1, 2, len(lines) - 1):
        broken = [*lines]
        broken[line - 1] = broken[line - 1].replace(b'"at":', b'"At":')
        journal.write_bytes(b"".join(broken))
        found = await faults(folder)
        place = sum(map(len, lines[: line - 1]))
        assert f"{journal}: line {line} cannot be right (byte {place}): its crc is missing or wrong" in found
        assert "`tenex conversations rebuild ID --from conversation.json` or `--from relay`" in found
        assert broken[line - 1] in journal.read_bytes()[place:]


async def test_a_journal_that_is_missing_or_something_else_is_named(folder: ConversationFolder) -> None:
    journal = folder.path(ID) / JOURNAL
    journal.unlink()
    verdict = await verify(folder, ID)
    assert "rebuild" in "".join(verdict.faults)
    journal.mkdir()
    assert "rebuild" in await faults(folder)
    shutil.rmtree(folder.path(ID))
    with pytest.raises(UsageError, match="no conversation"):
        await verify(folder, ID)


async def test_an_emptied_journal_is_judged_also_where_only_older_turns_are_left(
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


def test_records_that_contradict_each_other_are_named_by_their_seq() -> None:
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


def test_going_back_to_what_is_not_before_it_is_a_contradiction() -> None:
    before = RECORDS[:6]

    def faults_of(to: int) -> list[str]:
        state = fold(ID, RECORDS[:3])
        back = RolledBack(seq=7, at=Millis(1), to=to, by="alice", reason="", state=state)
        return list(contradictions(ID, [*before, back]))

    assert [faults_of(to) for to in (1, 5)] == [[], []]
    for to in (0, 6, 7):
        assert faults_of(to) == [f"record 7 (RolledBack) goes back to record {to}, which is not before it."]


async def test_a_journal_of_several_files_is_judged_as_a_whole(folder: ConversationFolder, disk: Disk) -> None:
    """Every file of it is read, and the damaged one is named; all of them make room for the new one."""
    shutil.rmtree(folder.path(ID))
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
    assert await verify(folder, ID) == VerifyResult(id=ID, records=len(RECORDS), seq=len(RECORDS))
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


async def test_an_unreadable_folder_is_a_fault(folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.exists

    def barred(path: Path) -> bool:
        if path.name == VIEW:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "exists", barred)
    verdict = await verify(folder, ID)
    (fault,) = verdict.faults
    assert "cannot be read: Permission denied. Look who owns it" in fault
