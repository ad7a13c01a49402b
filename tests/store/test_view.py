"""The readable view: a stranger can follow it, and its size does not grow with the conversation."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import Conversation, fold
from tenex.core.records import PhaseTransition, Record, TurnClosed
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder
from tenex.store.view import SEGMENT, Views, render
from tests.fakes.scenario import ID, Scenario, diligent, reply, seven_phases
from tests.fakes.virtual import VirtualClock

from .kit import CONVERSATION_ID, going_on


def whole() -> Conversation:
    scenario = Scenario(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        scenario.user_writes(text)
        scenario.settle()
    return scenario.conversation


def chatting(turns: int) -> Scenario:
    def router(question: dict[str, Any]) -> dict[str, Any]:
        last = question["turns"][-1]["turn"] if question["turns"] else None
        answered = last is not None and question["messages"][-1]["after_turn"] != last
        return {"agents": ["USER" if answered else "project-manager"], "reason": "talk"}

    scenario = Scenario(router, lambda c, m: reply("I have heard you."))
    for number in range(turns):
        scenario.user_writes(f"message {number}")
        scenario.settle()
    return scenario


def test_a_stranger_can_follow_a_conversation_from_its_view() -> None:
    view = json.loads(render(whole()))
    assert [t["to"] for t in view["phaseTransitions"]] == [
        "brainstorm",
        "plan",
        "execute",
        "verification",
        "chores",
        "reflection",
    ]
    assert set(view["phaseTransitions"][0]) == {
        "from",
        "to",
        "message",
        "timestamp",
        "time",
        "agentPubkey",
        "agentName",
        "reason",
        "summary",
    }
    execute = next(t for t in view["orchestratorTurns"] if t["phase"] == "execute")
    assert execute["agents"] == ["executor", "helper"]
    assert {done["agent"] for done in execute["completions"]} == {"executor", "helper"}
    assert all(turn["isCompleted"] and turn["turnId"] and turn["reason"] for turn in view["orchestratorTurns"])
    assert view["status"] == "ended"
    assert view["messages"][0]["text"] == "I want something nice"
    assert view["phaseMetrics"]["execute"]["visits"] == 1
    assert view["usage"]["calls"] > 0
    assert view["undelivered"] == 0


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk()
    yield disk
    disk.close()


@pytest.fixture
def folder(tmp_path: Path, disk: Disk) -> ConversationFolder:
    return ConversationFolder(tmp_path, disk, VirtualClock())


LISTS = {"phaseTransitions": "message", "orchestratorTurns": "turnId"}


def view_of(path: Path) -> dict[str, Any]:
    view = json.loads((path / "conversation.json").read_text())
    assert isinstance(view, dict)
    return view


def told(path: Path, name: str) -> list[str]:
    """What a reader of the view and of the files it lists is told, in order."""
    view = view_of(path)
    earlier = view.get(f"earlier{name[0].upper()}{name[1:]}", [])
    items = [item for file in earlier for item in json.loads((path / file).read_text())] + view[name]
    return [item[LISTS[name]] for item in items]


def expected(records: list[Record], name: str) -> list[str]:
    if name == "phaseTransitions":
        return [record.message for record in records if isinstance(record, PhaseTransition)]
    return [record.turn_id for record in records if isinstance(record, TurnClosed)]


async def on_disk(folder: ConversationFolder, turns: int) -> list[Record]:
    records = list(going_on(1, turns))
    journal, _ = await folder.open(CONVERSATION_ID)
    await journal.append([[record] for record in records])
    return records


async def test_a_long_conversation_is_split_into_files_that_are_written_once(
    folder: ConversationFolder, disk: Disk
) -> None:
    records = await on_disk(folder, 2 * SEGMENT + 30)
    path = folder.path(CONVERSATION_ID)
    await Views(folder, disk).show(fold(CONVERSATION_ID, records))
    assert view_of(path)["earlierOrchestratorTurns"] == ["orchestratorTurns-000001.json"]
    for name in LISTS:
        assert told(path, name) == expected(records, name)
    first = path / "orchestratorTurns-000001.json"
    stamp = first.stat().st_mtime_ns
    more = [*records, *going_on(len(records) + 1, 1)]
    await Views(folder, disk).show(fold(CONVERSATION_ID, more))
    assert first.stat().st_mtime_ns == stamp
    assert first.stat().st_mode & 0o777 == (path / "conversation.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart from a checkpoint at each view"])
async def test_the_view_goes_on_at_the_right_numbers_however_it_is_come_to(
    folder: ConversationFolder, disk: Disk, restarts: bool
) -> None:
    path = folder.path(CONVERSATION_ID)
    journal, _ = await folder.open(CONVERSATION_ID)
    views, state, records = Views(folder, disk), Conversation(id=CONVERSATION_ID), list[Record]()
    for turns in (SEGMENT - 1, 1, SEGMENT - 1, 1, 1, 17, SEGMENT, 2 * SEGMENT - 20, 1, 1):
        for record in going_on(state.next_seq, turns):
            state.apply(record)
            records.append(record)
        await journal.append([[record] for record in records[journal.next_seq - 1 :]])
        await views.show(state)
        assert (path / "conversation.json").read_text() == render(fold(CONVERSATION_ID, records))
        for name in LISTS:
            assert told(path, name) == expected(records, name)
            assert min(SEGMENT, len(expected(records, name))) <= len(view_of(path)[name]) < 2 * SEGMENT
        if restarts:
            views, state = Views(folder, disk), fold(CONVERSATION_ID, [StateSnapshot.of(state)])


async def test_files_the_state_no_longer_tells_of_are_made_from_the_whole_journal(
    folder: ConversationFolder, disk: Disk
) -> None:
    """Somebody removed them, or the process that should have written them died; all of it folds to the newest turns."""
    records = await on_disk(folder, 5 * SEGMENT)
    path = folder.path(CONVERSATION_ID)
    state = fold(CONVERSATION_ID, records)
    await Views(folder, disk).show(state)
    before = {file.name: file.read_bytes() for file in path.glob("*.json")}
    assert len(before) == 1 + 2 * 4
    for name in LISTS:
        assert told(path, name) == expected(records, name)
        for number in (1, 3):
            (path / f"{name}-00000{number}.json").unlink()
    await Views(folder, disk).show(fold(CONVERSATION_ID, [StateSnapshot.of(state)]))
    assert {file.name: file.read_bytes() for file in path.glob("*.json")} == before


async def test_a_process_that_fell_far_behind_catches_up(folder: ConversationFolder, disk: Disk) -> None:
    """More turns between two views than the state holds."""
    records = await on_disk(folder, 6 * SEGMENT)
    views = Views(folder, disk)
    await views.show(fold(CONVERSATION_ID, records[: 1 + 3 * SEGMENT]))
    await views.show(fold(CONVERSATION_ID, records))
    for name in LISTS:
        assert told(folder.path(CONVERSATION_ID), name) == expected(records, name)


async def test_where_the_old_files_of_the_journal_are_lost_the_view_is_still_written(
    folder: ConversationFolder, disk: Disk
) -> None:
    records = await on_disk(folder, 3 * SEGMENT)
    path = folder.path(CONVERSATION_ID)
    (path / "journal.jsonl").write_bytes(b"x\n" + (path / "journal.jsonl").read_bytes())
    await Views(folder, disk).show(fold(CONVERSATION_ID, records))
    assert len(view_of(path)["orchestratorTurns"]) == SEGMENT


def test_the_view_is_as_large_after_a_million_turns_as_after_a_thousand() -> None:
    """But for the longer numbers in it: the files before the newest hundred are found by counting down."""
    state = fold(CONVERSATION_ID, going_on(1, 1_000))
    short = len(render(state))
    assert state.history is not None
    old = replace(state.history, turns_before=999_900, transitions_before=999_900)
    state.history = old
    view = json.loads(render(state))
    assert len(render(state)) < short * 1.2
    assert view["earlierOrchestratorTurns"] == [f"orchestratorTurns-{n:06d}.json" for n in range(9_900, 10_000)]


async def test_what_was_rendered_before_is_the_same_as_rendered_anew(tmp_path: Path) -> None:
    scenario = chatting(3)
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, VirtualClock())
    folder.path(ID).mkdir()
    views = Views(folder, disk)
    try:
        for _ in range(4):
            await views.show(scenario.conversation)
            assert (folder.path(ID) / "conversation.json").read_text() == render(scenario.refold())
            scenario.user_writes("more")
            scenario.settle()
    finally:
        disk.close()


async def test_a_view_that_cannot_be_written_is_written_the_next_time(tmp_path: Path) -> None:
    scenario = chatting(1)
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, VirtualClock())
    views = Views(folder, disk)
    try:
        blocked = folder.path(ID) / "conversation.json"
        blocked.mkdir(parents=True)
        with pytest.raises(IsADirectoryError):
            await views.show(scenario.conversation)
        assert not list(blocked.parent.glob(".*")), "nothing half written is left beside it"
        blocked.rmdir()
        await views.show(scenario.conversation)
        assert json.loads((folder.path(ID) / "conversation.json").read_text())["status"] == "waiting"
    finally:
        disk.close()


def test_strange_text_never_costs_the_view() -> None:
    scenario = chatting(1)
    scenario.user_writes('half a pair \ud800, a NUL \x00 and ]} "quotes" \\ and \u2028')
    scenario.settle()
    view = json.loads(render(scenario.conversation))
    assert any("quotes" in message["text"] for message in view["messages"])
