"""A real daemon, a real relay, and a program that speaks ACP as its executor, in the sandbox."""

import asyncio
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.config import Replay
from tenex.workflows.phases.records import WorkInspected
from tests.fakes.modelserver import model_server
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import serving, settled

from .kit import agent_file, folder_of, models, noted, put_agent, working

pytestmark = [needs_bubblewrap, needs_git]


async def test_its_words_are_the_answer_its_calls_are_seen_and_its_session_is_in_the_journal(
    tmp_path: Path, relay: str
) -> None:
    turn = [("say", "I look."), ("run", "cat notes.txt"), ("say", "Nothing "), ("say", "to do.")]
    async with working(tmp_path, relay, turn) as (folder, process, _):
        (folder.workspace / "notes.txt").write_text("all is well\n")
        name = await folder.write("Look at it")
        await settled(folder, name, "waiting")
        records = folder.records(name)
        ended = of_kind(records, r.RunEnded)[0]
        assert (ended.outcome, ended.text) == ("finished", "Nothing to do.")
        seen, last = [record.step for record in of_kind(records, r.ModelResponded)][:2]
        assert seen.text == "I look."
        call = seen.calls[0]
        assert (call.tool, call.arguments) == ("acp_call", {"kind": "execute", "command": "cat notes.txt"})
        begun = of_kind(records, r.ToolCallStarted)[0]
        assert begun.replay is Replay.ONCE
        done = of_kind(records, r.ToolCallCompleted)[0]
        assert (done.ok, done.content, done.touched) == (True, "all is well\n", ())
        told = {"session": "s1", "program": "scripted", "version": "1.2.3", "mode": "auto"}
        assert told.items() <= last.vendor["acp"].items()
        assert last.model == "scripted 1.2.3"
        prompt = noted(folder, name, "prompts")[0]
        assert "\nLook at it\n</message>" in prompt
        assert "You do the work." in prompt
        assert [event["content"] for event in await folder.replies(name)][:1] == [
            "Nothing to do.\n\nNo file was changed."
        ]
    assert not process.errors


async def test_what_a_command_of_it_changed_is_known_checked_and_taken_back_by_undo(tmp_path: Path, relay: str) -> None:
    turn = [
        ("run", "echo new > made.txt; rm old.txt"),
        ("wait", 0.5),
        ("quietly", "echo more > quiet.txt"),
        ("say", "Done."),
    ]
    async with working(tmp_path, relay, turn) as (folder, _, _server):
        (folder.workspace / "old.txt").write_text("old\n")
        name = await folder.write("Work, note-01.txt")
        await settled(folder, name, "waiting")
        records = folder.records(name)
        touched = [record.touched for record in of_kind(records, r.ToolCallCompleted) if record.touched]
        assert touched == [("made.txt", "old.txt"), ("quiet.txt",)]
        (inspected,) = of_kind(records, WorkInspected)
        assert [change.path for change in inspected.inspection.changed] == ["made.txt", "old.txt", "quiet.txt"]
        await folder.write("/undo", to=name)
        await person.until(lambda: of_kind(folder.records(name), r.FilesUndone))
        await folder.write("/undo yes", to=name)
        await person.until(lambda: (folder.workspace / "old.txt").exists())
        await person.until(lambda: not (folder.workspace / "quiet.txt").exists())
        assert sorted(path.name for path in folder.workspace.iterdir()) == ["old.txt"]


async def test_a_program_with_another_version_or_mode_than_its_file_says_is_refused(tmp_path: Path, relay: str) -> None:
    more = '  version: "2"\n'
    async with working(tmp_path, relay, [("say", "Hello")], more=more) as (folder, _, _server):
        name = await folder.write("Look at it")
        held = await person.until(lambda: of_kind(folder.records(name), r.RetryScheduled))
        assert "The agent has version 1.2.3, and its file asks for 2." in held[0].message
        assert held[0].needs_operator


async def test_a_mode_that_is_not_read_back_as_set_refuses_the_turn(tmp_path: Path, relay: str) -> None:
    more, env = "  mode: ask\n", {"KEEPS_MODE": "yes"}
    async with working(tmp_path, relay, [("say", "Hello")], more=more, env=env) as (folder, _, _server):
        name = await folder.write("Look at it")
        held = await person.until(lambda: of_kind(folder.records(name), r.RetryScheduled))
        assert "cannot be read back" in held[0].message
        assert noted(folder, name, "prompts") == []


async def test_it_calls_our_tools_and_completes_with_them(tmp_path: Path, relay: str) -> None:
    said = {"response": "It is blue.", "summary": "asked and done"}
    turn = [("tool", ["ask", {"question": "Which colour?"}]), ("tool", ["complete", said]), ("say", "Bye.")]
    async with working(tmp_path, relay, turn) as (folder, _, _server):
        name = await folder.write("Paint it")
        await person.until(lambda: of_kind(folder.records(name), r.QuestionAsked))
        await folder.write("blue", to=name)
        await settled(folder, name, messages=2)
        records = folder.records(name)
        asked, completed = noted(folder, name, "results")
        assert "blue" in asked
        assert "End your turn now" in completed
        (ended,) = of_kind(records, r.RunEnded)
        assert (ended.outcome, ended.text, ended.summary) == ("finished", "It is blue.", "asked and done")
        tools = [call.tool for record in of_kind(records, r.ModelResponded) for call in record.step.calls]
        assert tools == ["ask", "complete"]


async def test_our_tools_are_handed_over_once_where_its_own_settings_name_them(tmp_path: Path, relay: str) -> None:
    turn = [("tool", ["complete", {"response": "It is blue."}]), ("say", "Bye.")]
    async with working(tmp_path, relay, turn, env={"TOOLS": "{mcp}"}) as (folder, _, _server):
        name = await folder.write("Paint it")
        ended = await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        assert ended[0].text == "It is blue."
        assert noted(folder, name, "servers") == [[]]


async def test_its_requests_to_a_model_wait_in_the_queue_of_the_provider(tmp_path: Path, relay: str) -> None:
    turn = [("model", "/chat/completions"), ("say", "Done.")]
    team, goes_on = models(), asyncio.Event()

    async def answer(asked: Any) -> Any:
        if len(asked["messages"]) == 1:
            await goes_on.wait()
        return team(asked)

    async with model_server(answer) as server:
        folder = folder_of(tmp_path, relay, server)
        put_agent(folder, agent_file([turn], env={"MODELS": "{openai}", "MODEL": "test"}))
        async with serving(folder, server):
            name = await folder.write("Look")
            await server.until(lambda it: any(len(each.request["messages"]) == 1 for each in it.exchanges))
            status = await folder.facts("status")
            assert [provider["active"] for provider in status["models"]["providers"]] == [1]
            goes_on.set()
            await settled(folder, name, "waiting")


async def test_its_models_are_served_without_the_key_and_measured(tmp_path: Path, relay: str) -> None:
    env = {"MODELS": "{openai}", "MODEL": "test"}
    turn = [("run", "true"), ("model", "/chat/completions"), ("say", "Done.")]
    async with working(tmp_path, relay, turn, env=env) as (folder, _, server):
        name = await folder.write("Look")
        await settled(folder, name, "waiting")
        (answered,) = noted(folder, name, "models")
        assert '"choices"' in answered
        step = of_kind(folder.records(name), r.ModelResponded)[1].step
        assert step.usage.input_tokens > 0
        assert step.usage.cost_usd
        assert step.model == "local:test"
        assert not server.refused
