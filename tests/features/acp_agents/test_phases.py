"""What an agent's program may change depends on the phase: the sandbox decides it, whatever the program does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tests.fakes.modelscripts import brisk, straight
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import settled

from .kit import noted, working

pytestmark = [needs_bubblewrap, needs_git]

WRITE = "echo mine > written.txt; cat app.txt written.txt"


def in_phase(phase: str) -> Any:
    """An orchestrator that has the executor work once in a phase, after another agent in execute for verification."""

    def route(question: Mapping[str, Any]) -> Mapping[str, Any]:
        worked = len(question["turns"])
        if phase == "verification" and not worked:
            return {"phase": "execute", "agents": ["executor"], "reason": "it is clear"}
        if worked <= (phase == "verification"):
            agent = "checker" if phase == "verification" else "executor"
            return {"phase": phase, "agents": [agent], "reason": "it is clear"}
        return {"agents": ["USER"], "reason": "the person has the word"}

    return route


async def test_in_plan_the_workspace_is_read_only_to_it(tmp_path: Path, relay: str) -> None:
    turn = [("run", WRITE), ("say", "1. Write it.")]
    async with working(tmp_path, relay, turn, router=in_phase("plan")) as (folder, _, _server):
        (folder.workspace / "app.txt").write_text("app\n")
        name = await folder.write("Plan it")
        await settled(folder, name, "waiting")
        (done,) = of_kind(folder.records(name), r.ToolCallCompleted)
        assert "Read-only file system" in done.content
        assert "app" in done.content
        assert done.touched == ()
        assert [path.name for path in folder.workspace.iterdir()] == ["app.txt"]


async def test_in_chat_it_only_talks_and_what_it_asks_is_refused(tmp_path: Path, relay: str) -> None:
    turn = [("ask", "date"), ("say", "Hello.")]
    async with working(tmp_path, relay, turn, router=in_phase("chat")) as (folder, _, _server):
        name = await folder.write("Hello")
        await settled(folder, name, "waiting")
        assert not of_kind(folder.records(name), r.ToolCallStarted)
        assert noted(folder, name, "answers")[0] == "no"
        assert of_kind(folder.records(name), r.RunEnded)[0].text == "Hello."


async def test_a_program_that_ends_its_turn_at_a_refusal_is_asked_for_its_answer(tmp_path: Path, relay: str) -> None:
    turns = [("ask", "date")], [("say", "Hello.")]
    async with working(tmp_path, relay, *turns, router=in_phase("chat")) as (folder, _, _server):
        name = await folder.write("Hello")
        await settled(folder, name, "waiting")
        assert of_kind(folder.records(name), r.RunEnded)[0].text == "Hello."
        assert "of which chat allows none" in noted(folder, name, "prompts")[1]


async def test_a_program_that_gives_no_answer_at_all_fails_with_the_reason(tmp_path: Path, relay: str) -> None:
    async with working(tmp_path, relay, [("ask", "date")], router=in_phase("chat")) as (folder, _, _server):
        name = await folder.write("Hello")
        ended = await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        assert "of which chat allows none" in ended[0].error


async def test_in_verification_it_works_in_a_view_and_its_verdict_needs_evidence_that_the_daemon_saw(
    tmp_path: Path, relay: str
) -> None:
    verdict = {"response": "It works.", "verdict": "verified"}
    unseen = [("run", WRITE), ("tool", ["complete", verdict]), ("say", "It works.")]
    seen = [("tool", ["read_file", {"path": "note-01.txt"}]), ("tool", ["complete", verdict]), ("say", "It works.")]
    more = "tools: [read_file]\n"
    router = in_phase("verification")
    async with working(tmp_path, relay, unseen, seen, router=router, worker=brisk, slug="checker", head=more) as (
        folder,
        _,
        _server,
    ):
        (folder.workspace / "app.txt").write_text("app\n")
        name = await folder.write("Write note-01.txt")
        ended = await person.until(lambda: of_kind(folder.records(name), r.RunEnded)[1:])
        assert (ended[0].run, ended[0].verdict) == ("turn-2.checker", "verified")
        assert len(noted(folder, name, "prompts", "checker")) == 2
        assert "does not count yet" in noted(folder, name, "prompts", "checker")[1]
        assert not (folder.workspace / "written.txt").exists()
        calls = [record for record in of_kind(folder.records(name), r.ToolCallCompleted) if record.tool == "acp_call"]
        assert calls[0].content == "app\nmine\n"


async def test_a_limit_of_money_stops_the_run_and_its_models(tmp_path: Path, relay: str) -> None:
    settings = "\n[limits]\ntokens_per_run = 40\n"
    turn = [("run", "true"), ("model", "/chat/completions")] * 20
    env = {"MODELS": "{openai}", "MODEL": "test"}
    async with working(tmp_path, relay, turn, settings=settings, env=env, router=straight) as (folder, _, _server):
        name = await folder.write("Work")
        ended = await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        assert ended[0].outcome == "failed"
        assert "a limit of tokens or money" in ended[0].error
        models = noted(folder, name, "models")
        assert len([answer for answer in models if '"choices"' in answer]) == 4, "each takes 8 tokens, and at most 16"
        assert len(models) < 20
