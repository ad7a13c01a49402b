"""What a user waits for: a real daemon, model calls over HTTP, counted by the server."""

from pathlib import Path

from tests.fakes.modelscripts import Asked, Team, all_phases, brisk, straight
from tests.fakes.modelserver import ModelServer

from .kit import phases
from .loopback import at_work, settled


def asked_of(server: ModelServer) -> list[str]:
    """Whose models were asked, in order, as `agent phase`."""
    seen = [Asked(exchange.request) for exchange in server.delivered()]
    return ["router" if asked.question is not None else f"{asked.agent} {asked.phase}" for asked in seen]


async def test_a_simple_request_takes_six_calls_one_after_another(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(straight, brisk)) as (folder, server):
        name = await folder.write("Create note-01.txt.")
        await settled(folder, name, "ended")
    assert phases(folder.view(name)) == ["execute", "verification", "chores", "reflection"]
    assert (folder.workspace / "note-01.txt").read_text() == "all done\n"
    made = asked_of(server)
    assert made[:5] == [
        "router",
        "executor execute",
        "project-manager verification",
        "project-manager verification",
        "executor chores",
    ]
    verifying = Asked(server.delivered()[2].request)
    assert "You may use all your tools but `learn`, `hand_over`." in verifying.words
    assert sorted(made[5:]) == ["executor reflection", "project-manager reflection"], "the two work at the same time"


async def test_a_chat_message_takes_one_call_and_seven_phases_sixteen(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(all_phases, brisk)) as (folder, server):
        name = await folder.write("I want a note-01.txt.")
        await settled(folder, name, "waiting", messages=1)
        assert asked_of(server) == ["router", "project-manager chat"]
        await folder.write("Give me ideas for note-01.txt.", to=name)
        await settled(folder, name, "waiting", messages=2)
        assert asked_of(server)[2:] == ["project-manager chat", "project-manager brainstorm"]
        await folder.write("Take the first one.", to=name)
        await settled(folder, name, "ended", messages=3)
    way = ["brainstorm", "plan", "execute", "verification", "chores", "reflection"]
    assert phases(folder.view(name)) == way
    made = asked_of(server)
    assert made.count("router") == 2, "for the first phase, and whether the plan is good"
    assert len(made) <= 16
