"""The readable view: a stranger can follow it, and its size does not grow with the conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import Conversation
from tenex.store.disk import Disk
from tenex.store.folder import ConversationFolder
from tenex.store.view import SEGMENT, Views, render
from tests.fakes.play import ID, Play, diligent, says, seven_phases
from tests.fakes.virtual import VirtualClock


def whole() -> Conversation:
    play = Play(seven_phases, diligent)
    for text in ("I want something nice", "let us think", "plan it", "blue"):
        play.person(text)
        play.settle()
    return play.conversation


def chatting(turns: int) -> Play:
    def router(question: dict[str, Any]) -> dict[str, Any]:
        last = question["turns"][-1]["turn"] if question["turns"] else None
        answered = last is not None and question["messages"][-1]["after_turn"] != last
        return {"agents": ["USER" if answered else "project-manager"], "reason": "talk"}

    play = Play(router, lambda c, m: says("I have heard you."))
    for number in range(turns):
        play.person(f"message {number}")
        play.settle()
    return play


def test_a_stranger_can_follow_a_conversation_from_its_view() -> None:
    view = json.loads(render(whole()))
    assert [t["to"] for t in view["phaseTransitions"]] == [
        "brainstorm", "plan", "execute", "verification", "chores", "reflection",
    ]  # fmt: skip
    assert set(view["phaseTransitions"][0]) == {
        "from", "to", "message", "timestamp", "time", "agentPubkey", "agentName", "reason", "summary",
    }  # fmt: skip
    execute = next(t for t in view["orchestratorTurns"] if t["phase"] == "execute")
    assert execute["agents"] == ["executor", "helper"]
    assert {done["agent"] for done in execute["completions"]} == {"executor", "helper"}
    assert all(turn["isCompleted"] and turn["turnId"] and turn["reason"] for turn in view["orchestratorTurns"])
    assert view["status"] == "ended"
    assert view["messages"][0]["text"] == "I want something nice"
    assert view["phaseMetrics"]["execute"]["visits"] == 1
    assert view["usage"]["calls"] > 0
    assert view["undelivered"] == 0


async def test_a_long_conversation_is_split_into_segments_that_are_written_once(tmp_path: Path) -> None:
    play = chatting(2 * SEGMENT + 30)
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, VirtualClock())
    path = folder.path(ID)
    path.mkdir()
    try:
        await Views(folder, disk).show(play.conversation)
        view = json.loads((path / "conversation.json").read_text())
        assert view["earlierOrchestratorTurns"] == ["orchestratorTurns-000001.json"]
        first = json.loads((path / "orchestratorTurns-000001.json").read_text())
        turns = [turn["turnId"] for turn in first + view["orchestratorTurns"]]
        assert turns == [f"turn-{n}" for n in range(1, 2 * SEGMENT + 31)]
        stamp = (path / "orchestratorTurns-000001.json").stat().st_mtime_ns
        play.person("more")
        play.settle()
        await Views(folder, disk).show(play.refold())
        assert (path / "orchestratorTurns-000001.json").stat().st_mtime_ns == stamp
        assert (path / "conversation.json").stat().st_mode & 0o777 == 0o600
    finally:
        disk.close()


async def test_what_was_rendered_before_is_the_same_as_rendered_anew(tmp_path: Path) -> None:
    play = chatting(3)
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, VirtualClock())
    folder.path(ID).mkdir()
    views = Views(folder, disk)
    try:
        for _ in range(4):
            await views.show(play.conversation)
            assert (folder.path(ID) / "conversation.json").read_text() == render(play.refold())
            play.person("more")
            play.settle()
    finally:
        disk.close()


async def test_a_view_that_cannot_be_written_is_written_the_next_time(tmp_path: Path) -> None:
    play = chatting(1)
    disk = Disk()
    folder = ConversationFolder(tmp_path, disk, VirtualClock())
    views = Views(folder, disk)
    try:
        blocked = folder.path(ID) / "conversation.json"
        blocked.mkdir(parents=True)
        with pytest.raises(IsADirectoryError):
            await views.show(play.conversation)
        assert not list(blocked.parent.glob(".*")), "nothing half written is left beside it"
        blocked.rmdir()
        await views.show(play.conversation)
        assert json.loads((folder.path(ID) / "conversation.json").read_text())["status"] == "waiting"
    finally:
        disk.close()


def test_strange_text_never_costs_the_view() -> None:
    play = chatting(1)
    play.person('half a pair \ud800, a NUL \x00 and ]} "quotes" \\ and \u2028')
    play.settle()
    view = json.loads(render(play.conversation))
    assert any("quotes" in message["text"] for message in view["messages"])
