"""Conversations with one agent before a model's server: what they cost, survive, and find in what was said before."""

from pathlib import Path

from tenex.core import records as r
from tenex.nostr.keys import SecretKey
from tenex.workflows.single.state import agent_of
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server
from tests.kits.single_agent import ALONE, writes

from . import person
from .kit import Folder, of_kind, tenex_here
from .loopback import QUICK, agree, at_work, folder_with_model, serving, settled, spent


async def test_each_message_costs_one_call_and_a_restart_changes_nothing(tmp_path: Path, relay: str) -> None:
    async with model_server(writes) as server:
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
            await process.die()
        folder.edit(ALONE, "")
        async with serving(folder, server) as process:
            await settled(folder, name, "waiting", messages=3)
            await folder.write("still you?", to=name)
            state = await settled(folder, name, "waiting", messages=4)
        assert not process.errors
        assert len(server.exchanges) == 6, "the call that was cut off is made again"
        agree(server, spent(folder.records(name)))
    assert [turn.agents for turn in state.cycle.turns] == [("executor",)] * 4
    assert folder.view(name)["agent"] == "executor"
    assert "# The conversation" in server.exchanges[0].system
    assert "phase" not in server.exchanges[0].system.replace("There are no phases here", "").replace("your phase", "")
    written = await folder.sent(_e=[name])
    answered = "executor has answered"
    assert [event["content"] for event in written] == [answered, answered, "slowly done", answered]
    assert not [tag for event in written for tag in event["tags"] if tag[0] in ("phase", "workflow")]

    code, shown, _ = await tenex_here("conversations", "show", name, "--data", folder.data)
    assert (code, "turn-1 · executor" in shown, "waiting with executor, cycle 1" in shown) == (0, True, True)
    (folder.conversation(name) / "journal.jsonl").unlink()
    code, _, errors = await tenex_here("conversations", "rebuild", name, "--data", folder.data)
    assert code == 0, errors
    rebuilt = folder.state(name)
    assert (agent_of(rebuilt), rebuilt.cycle.status, rebuilt.unmet_gates) == ("executor", "waiting", ())
    assert not of_kind(folder.records(name), r.PhaseTransition)


async def test_an_agent_that_is_none_is_a_fault_of_the_settings(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay, ALONE.replace("executor", "orchestrator"))
    code, _, errors = await tenex_here("config", "check", "--data", folder.data)
    assert (code, "conversations.agent: there is no agent 'orchestrator'" in errors) == (3, True), errors


FACT = "The code of the gate is heliotrope."
FILLING = tuple(f"{word} " * 1_200 for word in ("filling", "another", "onemore", "log"))
"""Messages of 10,000 characters: three of them fill a window of 8,000 tokens, so that older ones are cut."""


def searches(request: Json) -> Reply:
    """An agent that looks for the gate's code where it is asked for it, and answers with what it has found."""
    asked = Asked(request)
    if "What is the code" not in asked.words.rsplit("<message", 1)[-1]:
        return Answer(text="Noted.")
    if "search_conversation" not in asked.results:
        assert "search_conversation" in asked.tools
        return calls(("search_conversation", {"query": "code of the gate"}))
    return Answer(text=f"I found: {asked.results['search_conversation'][-1]}")


async def ask(folder: Folder, name: str, by: SecretKey | None, messages: int) -> str:
    """The agent's answer to the question for the code."""
    await folder.write("What is the code?", to=name, by=by)
    state = await settled(folder, name, "waiting", messages=messages)
    return str(state.memory.recent[-1].text)


async def test_an_agent_finds_what_has_left_its_window_and_no_guest_reads_it(tmp_path: Path, relay: str) -> None:
    guest = SecretKey.generate()
    env = {"TENEX_MODELS__CONTEXT_TOKENS": "8000", "TENEX_PEOPLE__OPEN": "true"}
    async with at_work(tmp_path, relay, searches, f"{ALONE}{QUICK}", **env) as (folder, server):
        old = await folder.write("hello")
        for number, text in enumerate(("hello again", f"{FILLING[-1]}{FACT} {FILLING[-1]}", *FILLING), start=2):
            await settled(folder, old, "waiting", messages=number - 1)
            await folder.write(text, to=old)
        await settled(folder, old, "waiting", messages=7)
        answer = await ask(folder, old, None, 8)
        shown = [exchange.request["messages"] for exchange in server.exchanges]
        assert FACT not in str(shown[-2]), "it was still in the window"
        assert FACT in answer
        assert "In this conversation:" in answer

        new = await folder.write("hello")
        await settled(folder, new, "waiting", messages=1)
        answer = await ask(folder, new, None, 2)
        assert f'In {old[:12]} "hello"' in answer
        assert FACT in answer

        strange = await folder.write("hello", by=guest)
        await settled(folder, strange, "waiting", messages=1)
        answer = await ask(folder, strange, guest, 2)
        assert "heliotrope" not in answer
        assert old[:12] not in answer


def is_cut_off(request: Json) -> Reply:
    """An agent that changes a file, fails at another, and then thinks for long; once it is asked again it answers."""
    asked = Asked(request)
    if "go on" in asked.words.rsplit("<message", 1)[-1]:
        return Answer(text="I go on")
    if not asked.steps:
        edit = {"path": "pets.txt", "edits": [{"old": "cat", "new": "dog"}]}
        return calls(("read_file", {"path": "pets.txt"}), ("edit_file", edit), ("read_file", {"path": "gone.txt"}))
    return Answer(text="too late", delay=60.0)


async def test_after_a_stop_an_agent_is_given_what_was_called_and_what_it_changed(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, is_cut_off, f"{ALONE}{QUICK}") as (folder, server):
        (folder.workspace / "pets.txt").write_text("a cat\n")
        name = await folder.write("change the pets")
        await person.until(lambda: len(server.exchanges) == 2)
        await folder.write("/stop", to=name)
        await person.until(lambda: folder.state(name).cycle.status == "waiting")
        (folder.workspace / "mine.txt").write_text("of a person\n")
        await folder.write("go on", to=name)
        await person.until(lambda: len(server.exchanges) == 3)
        words = Asked(server.exchanges[-1].request).words
    assert "turn-1 was not finished. It had called:" in words
    called = words[words.index("It had called:") :].splitlines()[1:4]
    assert called[0] == "- executor: read_file(path=pets.txt)"
    assert called[1].startswith("- executor: edit_file(path=pets.txt, edits=[")
    assert called[2].startswith("- executor: read_file(path=gone.txt) failed: There is no file gone.txt")
    assert '<note title="What turn-1 changed">' in words
    assert "\n-a cat\n+a dog\n" in words
    assert "mine.txt" not in words[words.index("What turn-1 changed") :]
