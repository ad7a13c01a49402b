"""Whole conversations over a real relay in which an agent uses MCP servers: gated by phase, replaced, and found."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.status import lines
from tenex.core import records as r
from tenex.core.approvals.rules import Verdict
from tenex.core.errors import UsageError
from tenex.core.messages import NO_USAGE, CallResult, ModelRequest, ModelStep
from tenex.core.phases import Phase
from tenex.core.ports import OnText, ignore_text
from tenex.features.approvals.explanation import explain
from tenex.features.metrics.gauges import Gauges
from tenex.mcp.connection import ServerConnection
from tenex.operations.configuration_check import check_configuration
from tenex.operations.doctor.daemon import problems_in_status
from tenex.operations.listed_tools import listed_tools
from tenex.operations.prompt_preview import preview
from tenex.service.client import ask
from tenex.settings import Settings, load, resolve_paths
from tests.fakes import mcp_server
from tests.kits.mcp_conversations import Scripted, make_repository, talking
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path.resolve() / "data"
    (data / "workspace").mkdir(parents=True)
    return data


@needs_git
@needs_bubblewrap
async def test_an_agent_uses_the_git_server_in_execute_and_is_refused_in_chat(data: Path) -> None:
    root = data / "workspace"
    make_repository(root)
    server = Path(sys.executable).with_name("mcp-server-git")
    settings = f'[mcp.servers.git]\ncommand = "{server}"\nargs = ["--repository", "{root}"]\ntrust = true\n'
    model = Scripted(("git__git_log", {"repo_path": str(root)}))
    async with talking(data, "git__*", settings, model) as talk:
        await person.until(lambda: talk.app.mcp.status()[0]["state"] == "ready")  # a first import takes seconds
        refused = await talk.say("What was done?", "chat")
        assert "git__git_log may not be used by historian in the chat phase" in refused
        assert talk.app.mcp.connections[0].counters.calls == 0
        answered = await talk.say("Look it up.", "execute")
        assert "The first" in answered
        (call,) = talk.seen.of(r.ToolCallStarted)
        assert (call.tool, call.replay) == ("git__git_log", "read")
        assert await talk.app.reload() == []
        assert talk.app.mcp.status()[0]["state"] == "ready"
        names = [spec.name for spec in model.requests[0].tools]
        assert names.index("git__git_log") > names.index("complete"), "the tools of servers are after the built-in ones"
        text = (data / "tenex.toml").read_text()
        (data / "tenex.toml").write_text(text.partition("[mcp.servers.git]")[0])
        await talk.app.reload()
        gone = await talk.say("Again.", "execute")
        assert "There is no tool git__git_log" in gone
    assert not talk.app.mcp.tools


async def test_of_many_tools_the_names_come_first_and_what_is_found_is_added_to_the_next_request(data: Path) -> None:
    (data / "mcp.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "many": {
                        "command": sys.executable,
                        "args": ["-I", "-S", mcp_server.__file__, "--tools", "50"],
                        "trust": True,
                        "sandbox": False,
                    }
                }
            }
        )
    )
    calls = (("find_tools", {"query": "echo text"}), ("many__echo", {"text": "found and called"}))
    model = Scripted(*calls)
    async with talking(data, "many__*", '[mcp]\nservers_file = "mcp.json"\n', model) as talk:
        assert await talk.say("Say it.", "execute") == "I got: found and called"
    first, second, third = (request.tools for request in model.requests)
    assert not [tool.name for tool in first if "__" in tool.name]
    assert second[: len(first)] == first
    assert "many__echo" in {tool.name for tool in second[len(first) :]}
    assert third == second
    assert model.requests[0].system == model.requests[1].system


@pytest.mark.parametrize(
    ("protocol", "answer"), [("--modern", "7"), ("--modern", "decline"), ("", "7")], ids=["newer", "declined", "older"]
)
async def test_a_question_of_a_server_waits_for_the_person_and_the_next_call_has_the_answer(
    data: Path, protocol: str, answer: str
) -> None:
    arguments = ["-I", "-S", mcp_server.__file__, *protocol.split()]
    started = f'command = "{sys.executable}"\nargs = {json.dumps(arguments)}\nsandbox = false\n'
    settings = f"[mcp.servers.shop]\n{started}trust = true\n"
    model = Scripted(("shop__order", {"text": "tea"}), ("shop__order", {"text": "tea"}))
    async with talking(data, "shop__order", settings, model) as talk:
        ended = asyncio.create_task(talk.say("Order tea.", "execute"))
        await person.until(lambda: talk.seen.of(r.QuestionAsked))
        (asked,) = talk.seen.of(r.QuestionAsked)
        assert asked.question.startswith("The MCP server shop asks: How many?\n- count (integer)")
        await talk.write(answer)
        said = {"action": "accept", "content": {"count": 7}} if answer == "7" else {"action": "decline"}
        got = json.loads((await ended).removeprefix("I got: "))
        if protocol:
            got, state = got
            assert state == "open"
        assert {name: got.get(name) for name in said} == said
    result = model.requests[1].entries[-1]
    assert isinstance(result, CallResult)
    assert result.tool == "shop__order"
    assert result.content.endswith(f"it gets the answer: {answer}")


async def test_a_server_that_asks_is_given_no_answer_once_its_work_was_stopped(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[str] = []
    monkeypatch.setattr(ServerConnection, "give_up_all", lambda _, holder: given_up.append(holder))
    started = f'command = "{sys.executable}"\nargs = {json.dumps(["-I", "-S", mcp_server.__file__])}\nsandbox = false\n'
    model = Scripted(("shop__order", {"text": "tea"}))
    async with talking(data, "shop__order", f"[mcp.servers.shop]\n{started}trust = true\n", model) as talk:
        asking = asyncio.create_task(talk.say("Order tea.", "execute"))
        await person.until(lambda: talk.seen.of(r.QuestionAsked))
        assert given_up == []
        await talk.write("/stop")
        await asking
        (run,) = {record.run for record in talk.seen.of(r.RunEnded)}
        assert given_up == [f"{talk.root} {run} "]


@needs_git
@pytest.mark.parametrize(
    ("tool", "trust", "opened"),
    [
        ("shop__echo", True, []),
        ("shop__echo", False, [Phase.VERIFICATION]),
        ("shop__write", True, [Phase.VERIFICATION]),
        ("shop__write", False, [Phase.VERIFICATION]),
    ],
)
async def test_what_may_have_changed_something_outside_opens_verification_alone(
    data: Path, tool: str, *, trust: bool, opened: list[Phase]
) -> None:
    """A call of which only an untrusted server says that it reads went through all three gates."""
    started = f'command = "{sys.executable}"\nargs = {json.dumps(["-I", "-S", mcp_server.__file__])}\nsandbox = false\n'
    settings = f"[mcp.servers.shop]\n{started}trust = {json.dumps(trust)}\n"
    settings += '[[approve]]\ntool = "shop__*"\ndecision = "allow"\n'
    model = Scripted((tool, {"text": "tea"}))
    async with talking(data, "shop__*", settings, model) as talk:
        await talk.app.daemon_journal.record("historian", "", "Tea is sold.", "Tea is sold.", "", "a lesson")
        model.routes = [
            {"phase": "execute", "agents": ["historian"], "reason": "it asks for it"},
            {"agents": ["END"], "reason": "it is answered"},
        ]
        await talk.write("Look for tea.")
        await person.until(lambda: talk.seen.of(r.Ended) or talk.seen.of(r.RouteRejected))
        refused = [record.sentence for record in talk.seen.of(r.RouteRejected)]
        open_gates = [sentence.partition("these gates are open: ")[2].partition(".")[0] for sentence in refused[:1]]
        assert open_gates == opened


async def test_commands_know_the_tools_that_the_daemon_has_listed(data: Path) -> None:
    """Also in the prompt that is shown; without the daemon they say what they do not know."""
    arguments = json.dumps(["-I", "-S", mcp_server.__file__])
    settings = (
        f'[mcp.servers.good]\ncommand = "{sys.executable}"\nargs = {arguments}\nsandbox = false\ntrust = true\n'
        '[[approve]]\ntool = "good__ech"\ndecision = "ask"\n[[approve]]\ntool = "good__echo"\ndecision = "ask"\n'
        '[tools.agents.executor]\nadd = ["good__echo", "good__pud"]\n'
    )
    phase = Phase.EXECUTE

    def read() -> Settings:
        return load(None, data, env={})

    async with talking(data, "good__*", settings, Scripted()):
        decided = await explain(read(), "good__pid", {}, phase, "")
        assert (decided.verdict, decided.note) == (Verdict.ALLOW, ""), "it only reads, as a trusted server says"
        decided = await explain(read(), "good__write", {}, phase, "")
        assert (decided.verdict, decided.note) == (Verdict.ASK, "")
        decided = await explain(read(), "good__echo", {}, phase, "")
        assert decided.rule == "rule 2 of [[approve]] (ask good__echo)"
        with pytest.raises(UsageError, match="The MCP server has no tool good__ech; did you mean `good__echo`"):
            await explain(read(), "good__ech", {}, phase, "")
        shown = await preview(read(), "historian", phase)
        assert {"good__echo", "good__pid"} <= {tool.name for tool in shown.request.tools}
        assert shown.unlisted == ()
        shown = await preview(read(), "executor", phase)
        assert [tool.name for tool in shown.request.tools if "__" in tool.name] == ["good__echo"]
        listed = await listed_tools(resolve_paths(read()))
        _, remarks = await asyncio.to_thread(check_configuration, read(), listed)
        assert "there is no tool good__ech (did you mean good__echo?)" in "\n".join(remarks)
        assert "tools.agents.executor.add: there is no tool good__pud (did you mean good__pid?)" in remarks
    shown = await preview(read(), "historian", phase)
    assert not [tool.name for tool in shown.request.tools if "__" in tool.name]
    assert shown.unlisted == ("good__*",)
    decided = await explain(read(), "good__pid", {}, phase, "")
    assert decided.verdict is Verdict.ASK
    assert "Whether good has this tool is not known" in decided.note


async def test_a_server_that_does_not_run_is_named_and_the_daemon_serves(data: Path) -> None:
    """In the status, by the doctor and in the metrics, beside one that runs but for a tool that is left out."""
    listed = data.parent / "listed.json"
    listed.write_text('[{"name": "odd", "inputSchema": {"type": "string"}}]')
    arguments = json.dumps(["-I", "-S", mcp_server.__file__, "--listed", str(listed)])
    settings = (
        f'[mcp.servers.good]\ncommand = "{sys.executable}"\nargs = {arguments}\nsandbox = false\ntrust = true\n'
        '[mcp.servers.gone]\ncommand = "no-such-program-here"\nsandbox = false\n'
        '[mcp.servers.old]\ntype = "sse"\nurl = "https://x.example"\n'
    )
    model = Scripted(("good__echo", {"text": "served"}))
    async with talking(data, "good__*", settings, model) as talk:
        assert await talk.say("Say it.", "execute") == "I got: served"
        status = await ask(data / "tenex.sock", "status")
        shown = "\n".join(lines(status, ()))
        assert "MCP servers    1 of 3 ready" in shown
        assert "good  10 tools" in shown
        assert "gone: mcp.servers.gone" in shown.replace(str(data / "tenex.toml") + ": ", "")
        messages = {finding.location: finding.message for finding in problems_in_status(status)}
        assert "there is no program no-such-program-here" in messages["mcp.servers.gone"]
        assert "its tool odd is left out: its schema is of the type string" in messages["mcp.servers.good"]
        assert "- good: its tool odd is left out: its schema is of the type string" in shown
        assert 'type "sse" is not supported' in messages["mcp.servers.old"]
        gauges = Gauges(lambda: talk.app.pool, lambda: (), int, lambda: NO_USAGE, talk.app.mcp.status)
        every = [sample for family in gauges.collect() for sample in family.samples]
        samples = {(sample.name, sample.labels.get("server")): sample.value for sample in every}
        assert samples["tenex_mcp_server_ready", "good"] == 1
        assert samples["tenex_mcp_server_ready", "gone"] == 0
        assert samples["tenex_mcp_calls_total", "good"] == 1


class Waiting(Scripted):
    """The same, and before each step of a run it waits for what came of the last one."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__(*calls)
        self.there: Callable[[], bool] = lambda: True

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once the tools are as they are to be."""
        if request.purpose != "route" and any(isinstance(entry, CallResult) for entry in request.entries):
            await person.until(self.there)
        return await super().step(request, on_text)


async def test_tools_that_a_server_adds_or_takes_away_count_from_the_next_turn(data: Path) -> None:
    """Within a run they stay as they are, and with them the provider's cache; a call of one that is gone is refused."""
    arguments = json.dumps(["-I", "-S", mcp_server.__file__])
    settings = (
        f'[mcp.servers.good]\ncommand = "{sys.executable}"\nargs = {arguments}\nsandbox = false\ntrust = true\n'
        '[[approve]]\ntool = "good__grow"\ndecision = "allow"\n'
    )
    model = Waiting(("good__grow", {}), ("good__grown", {"text": "called by its name"}))
    async with talking(data, "good__*", settings, model) as talk:
        model.there = lambda: "good__grown" in talk.app.mcp.tools
        assert await talk.say("Grow.", "execute") == "I got: called by its name"
        first, second, third = (request.tools for request in model.requests)
        assert first == second == third
        assert "good__grown" not in {tool.name for tool in first}

        model.requests.clear()
        model.calls = (("good__grow", {"text": "-echo"}), ("good__echo", {"text": "still there?"}))
        model.there = lambda: "good__echo" not in talk.app.mcp.tools
        answered = await talk.say("Shrink.", "execute")
        assert "There is no tool good__echo" in answered
        offered = [{tool.name for tool in request.tools} for request in model.requests]
        assert {"good__grown", "good__echo"} < offered[0]
        assert offered[0] == offered[-1]

        model.requests.clear()
        model.calls = (("good__pid", {}),)
        await talk.say("And now?", "execute")
        assert "good__echo" not in {tool.name for tool in model.requests[0].tools}
