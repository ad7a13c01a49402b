"""A conversation with one agent over a real relay and a model's server: what it costs, and what survives a restart."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server

from . import person
from .kit import Folder, of_kind, tenex_here
from .loopback import agree, folder_with_model, serving, settled, spent

ALONE = '\n[conversations]\nagent = "executor"\n'


def model(request: Json) -> Reply:
    """An agent that writes a file where a message asks for one, and otherwise answers at once."""
    asked = Asked(request)
    assert asked.question is None, "the router is never asked"
    last = asked.words.rsplit("<message", 1)[-1]
    if "slowly" in last and not asked.steps:
        return Answer(text="slowly done", delay=1.0)
    if "write" in last and not asked.steps:
        return calls(("write_file", {"path": asked.file, "content": "written\n"}))
    return Answer(text=f"{asked.agent} has answered")


async def test_each_message_costs_one_call_and_a_restart_changes_nothing(tmp_path: Path, relay: str) -> None:
    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, ALONE)
        async with serving(folder, server) as process:
            name = await folder.write("hello")
            await settled(folder, name, "waiting", messages=1)
            assert len(server.exchanges) == 1
            await folder.write("write note-07.txt", to=name)
            await settled(folder, name, "waiting", messages=2)
            assert len(server.exchanges) == 3, "one call with the tool, one with its result"
            assert (folder.workspace / "note-07.txt").read_text() == "written\n"
            await folder.write("answer slowly", to=name)
            await person.until(lambda: len(server.exchanges) == 4)
            process.signal(9)
            await process.ended()
        folder.file.write_text(folder.file.read_text().replace(ALONE, ""))
        async with serving(folder, server) as process:
            await settled(folder, name, "waiting", messages=3)
            await folder.write("still you?", to=name)
            state = await settled(folder, name, "waiting", messages=4)
            assert await process.stop() == 0
            assert not [log for log in process.logs if log["level"] in ("error", "critical")]
        assert len(server.exchanges) == 6, "the call that was cut off is made again"
        agree(server, spent(folder.records(name)))
    assert [turn.agents for turn in state.turns] == [("executor",)] * 4
    assert folder.view(name)["agent"] == "executor"
    assert "# The conversation" in server.exchanges[0].system
    assert "phase" not in server.exchanges[0].system.replace("There are no phases here", "").replace("your phase", "")
    written = [event for event in await person.stored(relay, _e=[name]) if event["pubkey"] in folder.public_keys]
    assert [event["content"] for event in written] == ["executor has answered"] * 2 + [
        "slowly done",
        "executor has answered",
    ]
    assert not [tag for event in written for tag in event["tags"] if tag[0] in ("phase", "workflow")]

    code, shown, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
    assert (code, "turn-1 · executor" in shown, "waiting in cycle 1" in shown) == (0, True, True)
    journal = folder.conversation(name) / "journal.jsonl"
    journal.unlink()
    code, _, errors = await tenex_here("conversations", "rebuild", name, "--data", folder.data)
    assert code == 0, errors
    rebuilt = folder.state(name)
    assert (rebuilt.agent, rebuilt.status, rebuilt.unmet_gates) == ("executor", "waiting", ())
    assert not of_kind(folder.records(name), r.PhaseTransition)


async def test_an_agent_that_is_none_is_a_fault_of_the_settings(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay, ALONE.replace("executor", "orchestrator"))
    code, _, errors = await tenex_here("config", "check", "--data", folder.data)
    assert (code, "conversations.agent: there is no agent 'orchestrator'" in errors) == (3, True), errors
