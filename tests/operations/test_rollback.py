"""Going back and branching off in a folder without a daemon: over journals of many files, and whole or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.errors import HeldElsewhere, StoreDamaged, TenexError, UsageError
from tenex.core.identity.state import title_of
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.inbox.message import DELETED
from tenex.core.pending import pending
from tenex.core.phases import Access
from tenex.core.record import Record
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import RolledBack
from tenex.nostr.compose import NostrSealer
from tenex.operations import rollback as module
from tenex.operations.imports import closing_of, comes_from_elsewhere
from tenex.operations.rollback import ForkResult, RollbackService, plan_of
from tenex.store import journal
from tenex.store.disk import Disk
from tenex.store.journal_reader import MARK
from tenex.store.repository import NEWEST, ConversationFolder
from tenex.store.stats import Stats
from tenex.store.verify import contradictions, verify
from tenex.store.view import Views
from tenex.tools.checkpoints import Checkpoints, call_lines
from tenex.tools.workspace import Workspace
from tests.fakes.scenario import ID, agent
from tests.store.kit import StillClock, longest_scenario, write_rotated

ADDRESS = {
    "form": "notes",
    "root": ID,
    "root_kind": 1,
    "root_author": "a" * 64,
    "root_relay": "wss://relay.example",
    "relays": ["wss://relay.example"],
}


def whole() -> list[list[Record]]:
    """The decisions of a conversation through all phases, held in a thread of notes."""
    scenario = longest_scenario()
    assert scenario.conversation.cycle.status == "ended"
    first = scenario.journal[0][0]
    assert isinstance(first, r.ConversationStarted)
    begun = r.ConversationStarted(seq=1, at=first.at, id=ID, title=first.title, starter=first.starter, address=ADDRESS)
    return [[begun, *map(placed, scenario.journal[0][1:])], *([*map(placed, d)] for d in scenario.journal[1:])]


def placed(record: Record) -> Record:
    """The record, with its message as a threading scheme reads it."""
    if not isinstance(record, r.MessageRecorded):
        return record
    return replace(record, origin={"form": "threads", "author": record.author, "relay": "", "relays": []})


DECISIONS = whole()
RECORDS = [record for decision in DECISIONS for record in decision]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace").mkdir()
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def service(folder: ConversationFolder, disk: Disk, workspace: Workspace) -> RollbackService:
    sealer = NostrSealer(["wss://relay.example"])
    return RollbackService(folder, disk, StillClock(), sealer, agent("orchestrator"), workspace, lambda: None)


async def written(folder: ConversationFolder, *, each: float = inf) -> None:
    """The conversation on disk, with its view; a new file after every `each` records."""
    await (await write_rotated(folder, DECISIONS, each)).close()
    await Views(folder, Disk()).show(fold(ID, RECORDS))


async def test_a_record_in_an_older_file_is_gone_back_to(
    folder: ConversationFolder, service: RollbackService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 0)
    await written(folder, each=25)
    assert len(list(folder.path(ID).glob("journal*.jsonl"))) > 3
    done = await service.roll_back(ID, 30, "Ann", "why not", service.append, files=False)
    assert done.record.to == done.plan.to == 30
    records = await folder.read(ID)
    state = fold(ID, records)
    assert state == fold(ID, await folder.read(ID, NEWEST)), "the newest file alone gives the same"
    then = state_at(ID, RECORDS, 30)
    assert (state.cycle.phase, state.cycle.messages, state.cycle.status) == (
        then.cycle.phase,
        then.cycle.messages,
        "waiting",
    )
    assert len(state.delivery.outbox) == 1, "the message waits for the next start"
    (event,) = next(iter(state.delivery.outbox.values())).events
    assert "Ann went back to record 30 (why not)" in event.content
    assert (await verify(folder, ID)).faults == ()
    view = json.loads((folder.path(ID) / "conversation.json").read_text())
    assert view["rollbacks"][0]["undone"] == list(done.plan.undone)
    assert view["seq"] == state.next_seq - 1
    figures = Stats.of(ID, records)
    assert figures.usage == state.totals.usage
    assert {p: m.duration for p, m in state.totals.metrics.items() if p is not state.cycle.phase} == {
        p: s.duration for p, s in figures.phases.items() if p in state.totals.metrics and p is not state.cycle.phase
    }


async def test_what_its_author_deleted_stays_away_when_a_conversation_goes_back_or_is_forked(
    folder: ConversationFolder, service: RollbackService
) -> None:
    await written(folder)
    wrote = next(record for record in RECORDS if isinstance(record, r.MessageRecorded))
    writer, _ = await folder.open(ID)
    last = RECORDS[-1]
    await writer.append(
        [[r.MessageWithdrawn(seq=last.seq + 1, at=last.at, message=wrote.seq, was_read=True, was_title=True)]]
    )
    await writer.close()
    forked = (await service.fork(ID, 30)).state
    await service.roll_back(ID, 30, "Ann", "", service.append, files=False)
    for state in (forked, fold(ID, await folder.read(ID))):
        assert (state.memory.recent[0].text, state.cycle.messages[0].text) == (DELETED, DELETED)
        assert title_of(wrote.text) not in state.identity.title


async def test_what_is_refused_changes_nothing(folder: ConversationFolder, service: RollbackService) -> None:
    await written(folder)
    before = picture(folder.path(ID))
    last = RECORDS[-1].seq
    for to, sentence in (
        (0, "no record 0"),
        (-4, "no record -4"),
        (last + 1, f"are 1 to {last}"),
        (last, "nothing to"),
    ):
        with pytest.raises(UsageError, match=sentence):
            await service.roll_back(ID, to, "x", "", service.append, files=False)
    with pytest.raises(UsageError, match="checkpoints"):
        await service.roll_back(ID, 5, "x", "", service.append, files=True)
    with pytest.raises(UsageError, match="There is no conversation"):
        await service.fork(ConversationId("d" * 64), 1)
    (folder.path(ID) / MARK).write_text("line 3 cannot be right")
    with pytest.raises(StoreDamaged, match=r"is quarantined\. line 3 cannot be right"):
        await service.fork(ID, 5)
    (folder.path(ID) / MARK).unlink()
    assert picture(folder.path(ID)) == before
    writer, _ = await folder.open(ID)
    at = RECORDS[-1].at
    await writer.append(
        [
            [r.ProcessRestarted(seq=last + 1, at=at)],
            [r.QuietHoursInterrupted(seq=last + 2, at=at, person=PublicKey("a" * 64))],
            [r.VerbositySet(seq=last + 3, at=at, person=PublicKey("a" * 64))],
        ]
    )
    await writer.close()
    with pytest.raises(UsageError, match="nothing to undo"):
        await plan_of(folder, ID, last)
    path = folder.path(ID) / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"v":1,"seq":3', b'{"v":9,"seq":3', 1))
    for work in (service.fork(ID, 5), service.roll_back(ID, 5, "x", "", service.append, files=False)):
        with pytest.raises(StoreDamaged):
            await work
    assert [path.name for path in folder.root.iterdir()] == [ID]


def picture(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_a_fork_at_every_record_is_sound_and_the_original_untouched(
    folder: ConversationFolder, service: RollbackService
) -> None:
    await written(folder)
    before = picture(folder.path(ID))
    records = range(1, RECORDS[-1].seq + 1, 9)
    for at in records:
        made = await service.fork(ID, at)
        await check(folder, made)
    twice = await service.fork(ID, 10)
    assert twice.state.delivery.outbox[2].events[0].created_at == StillClock().now() // 1000 + 1
    assert len(await folder.lengths()) == 1 + len(records) + 1, "the same, branched off twice, is two"
    assert picture(folder.path(ID)) == before
    again = await service.fork(made.state.id, 2)
    assert again.state.identity.forked_from is not None
    assert again.state.identity.forked_from.id == made.state.id
    assert again.state.identity.title == made.state.identity.title, "it is not called a fork of a fork"


async def check(folder: ConversationFolder, made: ForkResult) -> None:
    name = made.state.id
    records = await folder.read(name)
    assert records == list(made.records)
    assert list(contradictions(name, records)) == []
    assert (await verify(folder, name)).faults == ()
    assert list(contradictions(ConversationId("e" * 64), records)), "of another conversation it would be damage"
    (event,) = made.state.delivery.outbox[2].events
    assert str(event.id) == name
    assert {key.part for key in pending(made.state)} == {"0 wss://relay.example", "lost"}
    figures = Stats.of(name, records)
    assert (figures.usage.calls, figures.duration) == (0, 0)
    assert [p for p, s in figures.phases.items() if s.visits] == [made.state.cycle.phase]


async def test_what_was_done_counts_as_done_where_only_the_view_could_not_be_written(
    folder: ConversationFolder, service: RollbackService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is the truth: an error would have the operator do it a second time."""
    await written(folder)

    async def full(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Views, "write", full)
        made = await service.fork(ID, 20)
        await service.roll_back(ID, 20, "me", "", service.append, files=False)
    assert await folder.read(made.state.id) == list(made.records)
    assert isinstance((await folder.read(ID))[-2], RolledBack)
    assert set(await folder.behind()) == {ID, made.state.id}, "the next start writes what is missing"


async def test_a_tool_at_work_keeps_files_from_going_back(
    folder: ConversationFolder, disk: Disk, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(folder)
    shadow = Checkpoints(tmp_path / "shadow", workspace.root)
    service = RollbackService(folder, disk, StillClock(), NostrSealer([]), agent("x"), workspace, lambda: shadow)
    monkeypatch.setattr(module, "TOOL_TIMEOUT", 0.01)
    async with workspace.turn:
        with pytest.raises(TenexError, match="A tool has used the workspace"):
            await service.roll_back(ID, 5, "x", "", service.append, files=True)
    shadow.keep(shadow.take(), ID, f"before x\n\nkey: {ID}:4\n")

    async def refused(*_: object) -> RolledBack:
        raise TenexError("the disk is full.")

    with pytest.raises(
        TenexError, match="files were restored, but the conversation was not rolled back: the disk is full"
    ):
        await service.roll_back(ID, 5, "x", "", refused, files=True)
    assert not workspace.turn.locked()
    done = await service.roll_back(ID, 5, "x", "", service.append, files=True)
    assert done.record.restored_tree
    assert (await asyncio.to_thread(shadow.commits, ID))[0].call == 4
    assert Millis(done.record.at) > 0


async def test_where_another_daemon_has_the_conversation_no_file_is_changed(
    folder: ConversationFolder, disk: Disk, workspace: Workspace, tmp_path: Path
) -> None:
    await written(folder)
    file = workspace.root / "a.txt"
    file.write_text("before")
    shadow = Checkpoints(tmp_path / "shadow", workspace.root)
    shadow.keep(shadow.take(), ID, f"before x\n\nkey: {ID}:4\n")
    file.write_text("after")
    service = RollbackService(folder, disk, StillClock(), NostrSealer([]), agent("x"), workspace, lambda: shadow)

    async def take() -> None:
        raise HeldElsewhere("another worker writes it")

    @asynccontextmanager
    async def held_elsewhere(_: ConversationId) -> AsyncIterator[None]:
        await take()
        yield

    for files in (True, False):
        with pytest.raises(TenexError, match="Nothing was changed: another daemon has the conversation"):
            await service.roll_back(ID, 5, "x", "", service.append, files=files, hold=held_elsewhere)
    assert file.read_text() == "after"
    call = next(record.seq for record in RECORDS if isinstance(record, r.ToolCallStarted) and record.seq > 5)
    lines = call_lines(Access.RUN, witnessed=True, others=())
    shadow.keep(shadow.take(), ID, f"after x\n\nkey: {ID}:{call}\n{lines}")
    listed = await service.files_of(ID, 5)
    assert (listed.files, file.read_text()) == (("a.txt",), "after")
    await service.roll_back(ID, 5, "x", "", service.append, files=True)
    assert file.read_text() == "before", "it would have been"


async def test_what_a_command_or_somebody_else_changed_goes_back_only_if_that_is_asked_for(
    folder: ConversationFolder, disk: Disk, workspace: Workspace, tmp_path: Path
) -> None:
    await written(folder)
    file = workspace.root / "a.txt"
    file.write_text("before")
    shadow = Checkpoints(tmp_path / "shadow", workspace.root)
    call = next(record.seq for record in RECORDS if isinstance(record, r.ToolCallStarted) and record.seq > 5)
    shadow.keep(shadow.take(), ID, f"before x\n\nkey: {ID}:{call}\n")
    file.write_text("after")
    shadow.keep(shadow.take(), ID, f"after x\n\nkey: {ID}:{call}\n")
    service = RollbackService(folder, disk, StillClock(), NostrSealer([]), agent("x"), workspace, lambda: shadow)
    assert (await service.files_of(ID, 5)).unclear == ("a.txt",)
    assert (await service.files_of(ID, 5, all_files=True)).files == ("a.txt",)
    done = await service.roll_back(ID, 5, "x", "", service.append, files=True, all_files=True)
    assert file.read_text() == "before"
    assert done.files is not None
    assert done.files.is_as_before
    sent = next(
        record for record in await folder.read(ID) if isinstance(record, r.MessageSent) and "x went" in record.text
    )
    assert "Files are as after record 5: a.txt." in sent.text


async def test_of_a_journal_that_was_copied_to_here_a_fork_or_rollback_takes_what_an_import_brings(
    folder: ConversationFolder, service: RollbackService
) -> None:
    """No daemon has opened it, so no record says yet that it was written elsewhere."""
    await written(folder)
    here = replace(
        service, closing=lambda name, records: closing_of(name, records, {PublicKey("f" * 64)}, Slug(""), Millis(9))
    )
    assert fold(ID, RECORDS).memory.systems
    assert (await service.fork(ID, 30)).state.memory.systems, "of a journal of this folder a fork takes all"
    made = (await here.fork(ID, 30)).state
    await here.roll_back(ID, 30, "Ann", "", here.append, files=False)
    back = fold(ID, await folder.read(ID))
    for state in (made, back):
        assert state.identity.imported
        assert (state.identity.starter, state.memory.systems) == ("", {})
        assert all(message.author == "" for message in state.cycle.messages)
    assert back.next_seq > RECORDS[-1].seq + 2
    assert not comes_from_elsewhere(await folder.read(ID), {service.project.pubkey}), "that is recorded"
