"""What an agent's program asks to be allowed is a permission of ours: answered, bound, and used once."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tests.fakes.modelserver import model_server
from tests.kits.daemon_approvals import answer, answers, react, request
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person
from tests.service.kit import Folder, of_kind
from tests.service.loopback import serving, settled

from .kit import agent_file, folder_of, models, noted, processes_of, put_agent, working

pytestmark = [needs_bubblewrap, needs_git]

COMMAND = "echo ran >> ran.txt"
TURN = [("say", "I need this."), ("ask", COMMAND), ("say", "Done.")]


def times(folder: Folder) -> int:
    ran = folder.workspace / "ran.txt"
    return len(ran.read_text().splitlines()) if ran.exists() else 0


async def requests(folder: Folder, name: str, number: int) -> None:
    """Wait for so many requests."""
    await person.until(lambda: len(of_kind(folder.records(name), r.ApprovalRequested)) == number)


async def first_end(folder: Folder, name: str) -> Any:
    return (await person.until(lambda: of_kind(folder.records(name), r.RunEnded)))[0]


async def test_a_thumb_lets_it_run_once_and_what_it_changed_is_of_that_call(tmp_path: Path, relay: str) -> None:
    async with working(tmp_path, relay, TURN) as (folder, _, _server):
        name = await folder.write("Publish it")
        wanted = await request(folder, name)
        assert wanted["content"].splitlines()[0] == f"Allow acp_permission kind: execute, command: {COMMAND}? 👍 👎"
        assert "because the agent's own program asks for it" in wanted["content"]
        assert "“always” (exactly this" in wanted["content"]
        assert times(folder) == 0
        await react(folder, wanted, "👍")
        assert (await first_end(folder, name)).text == "Done."
        assert times(folder) == 1
        assert noted(folder, name, "answers") == ["once"]
        records = folder.records(name)
        begun = [record.tool for record in of_kind(records, r.ToolCallStarted)]
        assert begun == ["acp_permission"], "the call that asks is recorded once"
        (done,) = of_kind(records, r.ToolCallCompleted)
        assert (done.ok, done.touched) == (True, ("ran.txt",))


@pytest.mark.parametrize(
    ("seconds", "recorded"), [(0.1, ["acp_permission"]), (1.0, ["acp_call", "acp_permission"])], ids=["soon", "late"]
)
async def test_a_call_in_progress_that_asks_is_recorded_with_one_end(
    tmp_path: Path, relay: str, seconds: float, recorded: list[str]
) -> None:
    turn = [("ask_later", [COMMAND, seconds]), ("say", "Done.")]
    async with working(tmp_path, relay, turn) as (folder, _, _server):
        name = await folder.write("Publish it")
        await react(folder, await request(folder, name), "👍")
        await first_end(folder, name)
        records = folder.records(name)
        assert [record.tool for record in of_kind(records, r.ToolCallStarted)] == recorded
        assert of_kind(records, r.ToolCallCompleted)[-1].touched == ("ran.txt",)


async def test_a_no_is_answered_and_its_reason_is_in_the_next_prompt(tmp_path: Path, relay: str) -> None:
    turns = TURN, [("say", "Then not.")]
    async with working(tmp_path, relay, *turns) as (folder, _, _server):
        name = await folder.write("Publish it")
        wanted = await request(folder, name)
        await answer(folder, wanted, "no: use the other server", name)
        assert (await first_end(folder, name)).text.endswith("Then not.")
        assert noted(folder, name, "answers") == ["no"]
        assert "use the other server" in noted(folder, name, "prompts")[1]
        assert times(folder) == 0


async def test_always_is_for_exactly_the_same(tmp_path: Path, relay: str) -> None:
    turn = [("ask", "date"), ("ask", "date -u"), ("ask", "date"), ("say", "Done.")]
    async with working(tmp_path, relay, turn) as (folder, _, _server):
        name = await folder.write("Publish it")
        await answer(folder, await request(folder, name), "always", name)
        await requests(folder, name, 2)
        await answer(folder, await request(folder, name), "no", name)
        await first_end(folder, name)
        assert noted(folder, name, "answers")[:3] == ["once", "no", "once"]
        assert len(of_kind(folder.records(name), r.ApprovalRequested)) == 2


async def test_a_rule_of_the_operator_allows_a_command_by_its_words(tmp_path: Path, relay: str) -> None:
    rule = '\n[[approve]]\ntool = "acp_permission"\nmatch = ["touch", "*"]\ndecision = "allow"\n'
    async with working(tmp_path, relay, [("ask", "touch it.txt"), ("say", "Done.")], settings=rule) as (folder, _, _s):
        name = await folder.write("Touch it")
        await first_end(folder, name)
        assert noted(folder, name, "answers") == ["once"]
        assert not of_kind(folder.records(name), r.ApprovalRequested)


async def test_an_answer_that_does_not_come_is_a_no(tmp_path: Path, relay: str) -> None:
    settings = "\n[approvals]\nexpire_after = 1\n"
    async with working(tmp_path, relay, TURN, [("say", "Left.")], settings=settings) as (folder, _, _server):
        name = await folder.write("Publish it")
        assert (await first_end(folder, name)).outcome == "finished"
        assert [given.outcome for given in answers(folder, name)] == ["expired"]
        assert noted(folder, name, "answers") == ["no"]


async def test_stop_while_it_waits_cancels_the_request_and_ends_the_process(tmp_path: Path, relay: str) -> None:
    async with working(tmp_path, relay, TURN) as (folder, _, _server):
        name = await folder.write("Publish it")
        await request(folder, name)
        await folder.write("/stop", to=name)
        assert (await first_end(folder, name)).outcome == "stopped"
        await person.until(lambda: noted(folder, name, "answers") == ["cancelled"], 3.0)
        await person.until(lambda: not processes_of(tmp_path), 3.0)
        assert times(folder) == 0


async def test_a_yes_after_a_kill_is_used_once_if_the_same_is_asked_again(tmp_path: Path, relay: str) -> None:
    turns = TURN, [("ask", COMMAND), ("ask", COMMAND), ("say", "Done again.")]
    async with model_server(models()) as server:
        folder = folder_of(tmp_path, relay, server)
        put_agent(folder, agent_file(turns))
        async with serving(folder, server) as process:
            name = await folder.write("Publish it")
            wanted = await request(folder, name)
            await process.die()
        await person.until(lambda: not processes_of(tmp_path), 3.0)
        async with serving(folder, server):
            await react(folder, wanted, "👍")
            await person.until(lambda: times(folder) == 1)
            asked = await person.until(lambda: of_kind(folder.records(name), r.ApprovalRequested)[1:])
            assert asked, "the second time is a request of its own"
            assert noted(folder, name, "answers") == ["once"]
            assert noted(folder, name, "sessions") == ["session/new", "session/resume"]
            await answer(folder, await request(folder, name), "no", name)
            await settled(folder, name, "waiting")
        assert times(folder) == 1


async def test_a_yes_after_a_kill_is_not_kept_where_something_else_is_asked(tmp_path: Path, relay: str) -> None:
    turns = TURN, [("ask", "echo other >> ran.txt"), ("ask", COMMAND), ("say", "Done again.")]
    async with model_server(models()) as server:
        folder = folder_of(tmp_path, relay, server)
        put_agent(folder, agent_file(turns))
        async with serving(folder, server) as process:
            name = await folder.write("Publish it")
            wanted = await request(folder, name)
            await process.die()
        async with serving(folder, server):
            await react(folder, wanted, "👍")
            for number in (2, 3):
                await requests(folder, name, number)
                await answer(folder, await request(folder, name), "no", name)
            await first_end(folder, name)
        assert times(folder) == 0
        assert "once" not in noted(folder, name, "answers")
