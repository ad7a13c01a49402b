"""Judging files: what is whole is called so, what is not is named with a place and a remedy, and nothing is touched."""

import errno
import json
import re
import shutil
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tenex.core.conversation import fold
from tenex.core.cycle.records import PhaseTransition
from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.phases import Phase
from tenex.core.records import Record
from tenex.core.rollback.whole import RolledBack
from tenex.core.work.records import TurnOpened
from tenex.store.archive import packed, unpacked
from tenex.store.atomic_folder import renew
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import JOURNAL, VIEW, views_ahead
from tenex.store.repository import ConversationFolder
from tenex.store.verify import VerifyResult, contradictions, verify
from tenex.store.view import SEGMENT, write_view
from tests.fakes.scenario import ID
from tests.kits.lived import lived

from .kit import decisions_of, fails, going_on, stored, write_rotated

RECORDS = lived(0).records()
LONG = ConversationId("d" * 64)
LONG_RECORDS = list(going_on(1, 2 * SEGMENT + 30, LONG))


@pytest.fixture
async def folder(folder: ConversationFolder) -> ConversationFolder:
    """One conversation, written as a daemon writes it."""
    journal, _ = await folder.open(ID)
    await journal.append(lived(0).journal)
    write_view(folder.path(ID), fold(ID, RECORDS))
    await folder.close()
    return folder


async def faults(folder: ConversationFolder) -> str:
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    verdict = await verify(folder, ID)
    assert {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()} == before
    return "\n".join(verdict.faults)


async def test_files_that_are_whole_have_no_fault(folder: ConversationFolder) -> None:
    """A daemon may be at work; and fields that only one version knows prove nothing about the journal."""
    assert await verify(folder, ID) == VerifyResult(id=ID, records=len(RECORDS), seq=len(RECORDS))
    with (folder.path(ID) / JOURNAL).open("ab") as journal:
        journal.write(CONVERSATION.encode_decisions(decisions_of(1, first=len(RECORDS) + 1))[:-9])
    for seq in range(1, len(RECORDS), 11):
        write_view(folder.path(ID), fold(ID, RECORDS[:seq]))
        assert await faults(folder) == ""
    view = json.loads((folder.path(ID) / VIEW).read_text())
    del view["openGates"]
    view["orchestratorTurns"][0]["new"] = 1
    (folder.path(ID) / VIEW).write_text(json.dumps({**view, "colour": "red"}))
    assert await faults(folder) == ""
    (folder.path(ID) / VIEW).unlink()
    verdict = await verify(folder, ID)
    assert (verdict.faults, len(verdict.remarks)) == ((), 1), "it is not there yet"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("phase", "plan", "differs from the journal in phase: it was changed by another process"),
        ("orchestratorTurns", [], "differs from the journal in orchestratorTurns"),
        ("seq", 9, "differs from the journal in "),
        ("seq", "x", "covers record x, which there cannot be"),
        ("earlierOrchestratorTurns", ["orchestratorTurns-000009.json"], "cannot be read. The journal has it all"),
        ("seq", len(RECORDS) + 1, f"covers record {len(RECORDS) + 1}, but the journal ends with {len(RECORDS)}"),
    ],
)
async def test_a_changed_view_is_named_with_what_differs(
    folder: ConversationFolder, name: str, value: object, what: str
) -> None:
    path = folder.path(ID) / VIEW
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    found = await faults(folder)
    assert what in found
    assert str(path.parent) in found
    assert re.search("--force" if "ends with" in what else "move (the file|it) away", found)


async def test_a_folder_that_cannot_be_used_is_named_with_what_to_do(
    folder: ConversationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = folder.path(ID), ConversationId("d" * 64)
    shutil.copytree(path, folder.path(other))
    (fault,) = (await verify(folder, other)).faults
    assert "give it its name back" in fault
    assert "rebuild" not in fault
    for reader, remedy in (("verify.read_view", "Check its owner"), ("repository.read_surviving", "Look who owns it")):
        with monkeypatch.context() as patch:
            patch.setattr(f"tenex.store.{reader}", fails(errno.EACCES))
            assert f"cannot be read: Permission denied. {remedy}" in await faults(folder)
    for content in ("", "[]", "{"):
        (path / VIEW).write_text(content)
        assert f"{path / VIEW} cannot be read as JSON" in await faults(folder)
    (path / VIEW).unlink()
    (path / JOURNAL).write_bytes(b"")
    (path / "orchestratorTurns-000001.json").write_text("[]")
    assert "holds more than the journal does" in await faults(folder)
    (path / JOURNAL).unlink()
    (path / JOURNAL).mkdir()
    assert f"rebuild {ID[:12]}" in await faults(folder)
    shutil.rmtree(path)
    with pytest.raises(UsageError, match="no conversation"):
        await verify(folder, ID)


async def test_older_turns_that_were_lost_or_changed_are_named(folder: ConversationFolder) -> None:
    long, state = folder.path(LONG), fold(LONG, LONG_RECORDS)
    await stored(folder, LONG, *LONG_RECORDS)
    write_view(long, state)
    assert (await verify(folder, LONG)).faults == ()
    part = long / "orchestratorTurns-000001.json"
    whole = part.read_bytes()
    turns = json.loads(whole)
    for content, faults in (
        (None, "orchestratorTurns-000001.json cannot be read. The journal has it all: stop the daemon and move it"),
        ("{", "orchestratorTurns-000001.json cannot be read"),
        (json.dumps([{**turn, "reason": "mine"} for turn in turns]), f"{part} differs from the journal"),
        (json.dumps([{**turn, "new": 1} for turn in turns]), ""),  # of another version
    ):
        part.unlink(missing_ok=True)
        if content is not None:
            part.write_text(content)
        found = "".join((await verify(folder, LONG)).faults)
        assert faults in found
        assert bool(faults) is bool(found)
    beyond = part.with_name("orchestratorTurns-000003.json")
    beyond.write_bytes(whole)
    (fault,) = (await verify(folder, LONG)).faults
    assert fault.startswith(f"{beyond} holds more than the journal does")
    for path in (part, beyond, long / VIEW):
        path.unlink()
    assert LONG in await folder.behind()
    write_view(long, state)  # as a start does
    assert part.read_bytes() == whole
    assert (await verify(folder, LONG)).faults == ()


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
    for to in (0, 1, 5, 6):
        back = RolledBack(seq=7, at=Millis(1), to=to, by="alice", reason="", state=fold(ID, RECORDS[:3]))
        found = list(contradictions(ID, [*RECORDS[:6], back]))
        fault = f"record 7 (RolledBack) goes back to record {to}, which is not before it."
        assert found == ([] if to in (1, 5) else [fault])


async def test_a_journal_of_several_files_is_judged_as_a_whole(folder: ConversationFolder) -> None:
    shutil.rmtree(folder.path(ID))
    await (await write_rotated(folder, lived(0).journal, each=len(RECORDS) // 2 + 1)).close()
    write_view(folder.path(ID), fold(ID, RECORDS))
    files = sorted(folder.path(ID).glob("journal*.jsonl"))
    assert len(files) == 2
    assert await verify(folder, ID) == VerifyResult(id=ID, records=len(RECORDS), seq=len(RECORDS))
    assert list(unpacked(packed(ID, await folder.read(ID), Millis(1))).records) == RECORDS
    for file in files:
        good = file.read_bytes()
        first, second, rest = good.split(b"\n", 2)
        file.write_bytes(b"\n".join((first, second.replace(b'"at":', b'"At":'), rest)))
        found = await faults(folder)
        assert f"{file}: line 2 cannot be right (byte {len(first) + 1}): its crc is missing or wrong" in found
        assert f"`tenex conversations rebuild {ID[:12]} --from conversation.json` or `--from relay`" in found
        if file != files[-1]:
            file.write_bytes(good)
    aside = renew(folder.path(ID), decisions_of(1), "then")
    assert sorted(path.name for path in aside.glob("journal*")) == [file.name for file in files]
    assert [path.name for path in folder.path(ID).glob("journal*.jsonl")] == [JOURNAL]


# ---- a view of records its journal has no more --------------------------------------------------------------------

KEPT = f"conversation.ahead-{len(RECORDS)}-1"


async def truncations(folder: ConversationFolder) -> tuple[list[Any], list[Record]]:
    """What opening the conversation logs about a lost end, and its records."""
    with structlog.testing.capture_logs() as logs:
        _, records = await folder.open(ID)
    return [log for log in logs if log["event"] == "journal.truncated"], records


@pytest.mark.parametrize(
    ("is_zeroed", "is_text"),
    [(False, False), (True, False), (False, True)],
    ids=["an older copy", "zeros for the end", "an older copy in text mode"],
)
async def test_an_end_that_was_lost_is_reported_and_what_the_view_knew_of_it_is_kept(
    folder: ConversationFolder, is_zeroed: bool, is_text: bool
) -> None:
    journal_path, size = folder.path(ID) / JOURNAL, len(CONVERSATION.encode_decisions(lived(0).journal[-1:]))
    journal_path.write_bytes(journal_path.read_bytes()[:-size] + bytes(size * is_zeroed))
    if is_text:
        for path in (journal_path, folder.path(ID) / VIEW):
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    known = (folder.path(ID) / VIEW).read_bytes()
    before = (await verify(folder, ID)).faults
    assert f"covers record {len(RECORDS)}, but the journal ends with" in before[0]
    assert "rebuild ID --from conversation.json --force" in before[0]
    for _ in range(2):
        ((log,), records) = await truncations(folder)
        assert (log["log_level"], log["seq"], log["view"]) == ("warning", records[-1].seq, len(RECORDS))
    assert [path.name for path in views_ahead(folder.path(ID))] == [KEPT]
    assert (folder.path(ID) / KEPT).read_bytes() == known

    write_view(folder.path(ID), fold(ID, records))
    assert (await truncations(folder))[0] == []
    verdict = await verify(folder, ID)
    assert verdict.faults == ()
    assert KEPT in verdict.remarks[0]
    assert not (folder.path(ID) / "QUARANTINED").exists()


@pytest.mark.parametrize("lost", [0, 1])
async def test_an_end_of_one_record_that_was_lost_is_reported(folder: ConversationFolder, lost: int) -> None:
    journal = [[record] for record in RECORDS[: len(RECORDS) - lost]]
    (folder.path(ID) / JOURNAL).write_bytes(CONVERSATION.encode_decisions(journal))
    logs, _ = await truncations(folder)
    assert [(log["seq"], log["view"]) for log in logs] == [(len(RECORDS) - 1, len(RECORDS))] * lost
    assert [path.name for path in views_ahead(folder.path(ID))] == [KEPT] * lost


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{\n  "seq": "9"\n}', b'{\n  "seq": 1,\n', b'{"text": "\\n  \\"seq\\": 999,"}']
)
async def test_a_view_without_a_later_seq_is_no_sign_of_a_lost_end(folder: ConversationFolder, content: bytes) -> None:
    (folder.path(ID) / VIEW).write_bytes(content)
    assert (await truncations(folder))[0] == []
    assert views_ahead(folder.path(ID)) == []
