"""Tools of MCP servers are gated like others, give back text and files, and are not repeated where that may harm."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenex.app.mcp_tools import MOST_PICTURES, MOST_TEXT, McpTools
from tenex.app.mcp_views import McpViews
from tenex.core.config import Agent, AgentKind, Replay
from tenex.core.ids import CallId, ConversationId, PublicKey, Slug
from tenex.core.messages import CallResult, ToolSpec
from tenex.core.phases import Access, Phase
from tenex.core.port_values import AttachedFile, FileDestination, QuestionReply
from tenex.core.ports import FileSender, ToolResult
from tenex.core.work import found_tools
from tenex.mcp.config import Configured, ServerConfig
from tenex.mcp.hidden import Hidden
from tenex.mcp.results import read_result
from tenex.mcp.servers import McpServers
from tenex.tools.registry import ToolRegistry
from tenex.tools.sent_files import SentFiles
from tenex.tools.standard import TOOL_NAMES
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace
from tests.mcp.conftest import config, connection_to, launch
from tests.service.person import until
from tests.tools.conftest import make_context, make_tool


def agent(slug: str, *tools: str, kind: AgentKind = AgentKind.WORKER) -> Agent:
    return Agent(slug=Slug(slug), name=slug, pubkey=PublicKey("0" * 64), kind=kind, tools=frozenset(tools))


AGENTS = {
    member.slug: member
    for member in (
        agent("executor", "own", "faulty__*"),
        agent("picky", "own", "faulty__echo"),
        agent("bare", "own"),
        agent("security", "faulty__*", kind=AgentKind.EXPERT),
    )
}


async def _own(*_: Any) -> ToolResult:
    return ToolResult(ok=True, content="own")


class Bench:
    """A registry over one tool of ours and those of servers."""

    def __init__(self, servers: McpServers, folder: Path, uploads: FileSender | None = None) -> None:
        self.servers = servers
        self.folder = folder
        views = McpViews(
            servers, TurnViews(folder / "views", Workspace(folder)), lambda server, _: launch(server, folder)
        )
        self.registry = ToolRegistry(
            [make_tool("own", Access.CHANGE, _own)],
            AGENTS.get,
            source=McpTools(servers, views, self._keep, folder, lambda: SentFiles(uploads, most=10_000, never=())),
        )

    async def _keep(self, conversation: ConversationId, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    async def do(self, tool: str, phase: Phase = Phase.EXECUTE, slug: str = "executor", **arguments: Any) -> ToolResult:
        return await self.registry.call(tool, arguments, make_context(phase, slug))

    async def order(self, *answers: QuestionReply, text: str = "") -> ToolResult:
        """Call the tool that asks, with what was answered to it so far."""
        return await self.registry.call("faulty__order", {"text": text}, make_context(answers=answers))

    def names(self, slug: str, phase: Phase | None = None) -> list[str]:
        return [spec.name for spec in self.registry.specs(phase, Slug(slug))]


@asynccontextmanager
async def bench_with(folder: Path, *servers: ServerConfig, uploads: FileSender | None = None) -> AsyncIterator[Bench]:
    manager = McpServers(
        lambda server: launch(server, folder),
        connect=lambda server, _, on_tools: connection_to(server, folder, on_tools),
    )
    manager.apply(Configured(servers=servers))
    await manager.settle(20)
    try:
        yield Bench(manager, folder, uploads)
    finally:
        await manager.close()


async def test_an_agent_has_what_it_names_and_the_others_are_offered_the_same_as_without_servers(
    tmp_path: Path,
) -> None:
    async with bench_with(tmp_path, config()) as bench:
        without = ToolRegistry([make_tool("own", Access.CHANGE, _own)], AGENTS.get)
        for phase in (None, *Phase):
            assert bench.registry.specs(phase, Slug("bare")) == without.specs(phase, Slug("bare"))
        assert bench.names("picky")[-1] == "faulty__echo"
        assert {"faulty__die", "faulty__echo"} < set(bench.names("executor"))
        assert not (await bench.do("faulty__pid", slug="picky")).ok


async def test_without_trust_a_tool_runs_programs_asks_and_is_never_repeated(tmp_path: Path) -> None:
    """Whatever its annotations claim; an expert, who runs nothing, has none of them, and chat and plan neither."""
    async with bench_with(tmp_path, config()) as bench:
        rule = bench.registry.rules()["faulty__echo"]
        assert (rule.access, rule.replay, rule.asks) == (Access.RUN, Replay.ONCE, True)
        assert (await bench.do("faulty__echo", text="hi")).content == "hi"
        for phase in (Phase.CHAT, Phase.PLAN):
            refused = await bench.do("faulty__echo", phase, text="hi")
            assert f"may not be used by executor in the {phase} phase" in refused.content
        assert not (await bench.do("faulty__echo", slug="security")).ok


async def test_the_annotations_of_a_trusted_server_count_and_a_setting_counts_for_any(tmp_path: Path) -> None:
    server = config(trust=True, replay={"die": "idempotent"})
    async with bench_with(tmp_path, server) as bench:
        policy = bench.registry.rules()
        echo, fail, die = (policy[f"faulty__{name}"] for name in ("echo", "fail", "die"))
        assert (echo.access, echo.replay, echo.asks) == (Access.READ, Replay.READ, False)
        assert (fail.access, fail.replay, fail.asks) == (Access.RUN, Replay.IDEMPOTENT, True)
        assert die.replay is Replay.IDEMPOTENT
        assert (await bench.do("faulty__echo", Phase.PLAN, "security", text="hi")).ok
        assert not (await bench.do("faulty__echo", Phase.CHAT, text="hi")).ok


async def test_a_lost_call_is_made_again_where_that_does_no_harm_and_else_its_outcome_is_unknown(
    tmp_path: Path,
) -> None:
    async with bench_with(tmp_path, config(trust=True, replay={"die": "read"})) as bench:
        twice = await bench.do("faulty__die")
        assert twice.content == "unknown: faulty ended while this ran, and before that too; check before repeating"
        assert bench.servers.connections[0].counters.starts == 2
    async with bench_with(tmp_path, config()) as bench:
        lost = await bench.do("faulty__die")
        assert not lost.ok
        assert lost.content == "unknown: faulty ended while this ran; check before repeating"
        assert (await bench.do("faulty__echo", text="back")).content == "back"


@pytest.mark.parametrize(
    ("replies", "got", "asked"),
    [
        ([], None, "{question}"),
        ([("{question}", "7")], 7, ""),
        ([("The MCP server faulty asks: Delete everything?\nAnswer yes or no.", "7")], None, "{question}"),
        ([("The MCP server other asks: How many?", "7"), ("{question}", "8")], 8, ""),
        ([("{question}", "many")], None, "That was no answer. count is a number.\n{question}"),
        ([("{question}", "many"), ("That was no answer. count is a number.\n{question}", "9")], 9, ""),
        ([("{question}", "many"), ("{question}", "9")], None, "That was no answer. count is a number.\n{question}"),
    ],
    ids=str,
)
async def test_an_answer_counts_for_the_question_that_it_was_given_to(
    tmp_path: Path, replies: list[tuple[str, str]], got: int | None, asked: str
) -> None:
    async with bench_with(tmp_path, config("faulty", "--modern", trust=True)) as bench:
        question = (await bench.registry.call("faulty__order", {}, make_context())).question
        assert question.startswith("The MCP server faulty asks: How many?\n- count (integer)")
        answers = tuple(QuestionReply(question=text.format(question=question), text=answer) for text, answer in replies)
        result = await bench.registry.call("faulty__order", {}, make_context(answers=answers))
    assert result.question == asked.format(question=question)
    if got is not None:
        assert json.loads(result.content)[0]["content"] == {"count": got}


# ---- a server of an older protocol asks while its call waits ----


def answered(result: ToolResult, text: str = "7") -> QuestionReply:
    """A person's answer to a question."""
    assert result.question.startswith("The MCP server faulty asks: How many")
    return QuestionReply(question=result.question, text=text)


async def test_a_call_that_asks_by_a_request_stays_open_and_gets_the_answer(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        first = await bench.order()
        assert first.question.startswith("The MCP server faulty asks: How many?\n- count (integer)\nAnswer with the ")
        assert (await bench.do("faulty__echo", text="meanwhile")).content == "meanwhile"
        unclear = await bench.order(answered(first, "many"))
        assert unclear.question.startswith("That was no answer. count is a number.")
        reply = QuestionReply(question=unclear.question, text="7")
        done = await bench.order(answered(first, "many"), reply)
        assert json.loads(done.content) == {"action": "accept", "content": {"count": 7}}
        assert bench.servers.connections[0].counters.calls == 2, "the echo, and one order"
        again = await bench.order()
        declined = await bench.order(answered(again, "decline"))
        assert json.loads(declined.content) == {"action": "decline"}


async def test_a_server_that_no_longer_waits_is_called_again_with_the_answer(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        first = await bench.order(text="impatient")
        await bench.do("faulty__echo", text="now it fails")
        done = await bench.order(answered(first), text="impatient")
        assert json.loads(done.content)["content"] == {"count": 7}
        assert bench.servers.connections[0].counters.calls == 3


@pytest.mark.parametrize("ended", ["server", "daemon"])
@pytest.mark.parametrize("trust", [True, False])
async def test_a_call_that_waited_when_its_server_or_the_daemon_ended_is_made_again_where_that_does_no_harm(
    tmp_path: Path, *, trust: bool, ended: str
) -> None:
    server = config(trust=trust)
    async with bench_with(tmp_path, server) as bench:
        first = await bench.order()
        if ended == "server":
            connection = bench.servers.connections[0]
            os.kill(int((await bench.do("faulty__pid")).content), signal.SIGKILL)
            await until(lambda: connection.state != "ready")
            done = await bench.order(answered(first))
    if ended == "daemon":
        async with bench_with(tmp_path, server) as bench:
            done = await bench.order(answered(first))
    if trust:
        assert json.loads(done.content)["content"] == {"count": 7}
    else:
        assert done.content == (
            "unknown: faulty, or the daemon, ended while this waited for an answer; check before repeating"
        )


async def test_a_question_that_may_be_of_several_calls_is_refused(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        connection = bench.servers.connections[0]
        hanging = asyncio.create_task(bench.do("faulty__hang"))
        await until(lambda: connection.counters.calls == 1)
        refused = await bench.order()
        assert "It cannot be seen whose question this is" in refused.content
        hanging.cancel()
        await asyncio.wait([hanging])


@pytest.mark.parametrize("protocol", [(), ("--modern",)], ids=["older", "newer"])
async def test_a_server_that_asks_without_end_is_refused_after_three_questions(
    tmp_path: Path, protocol: tuple[str, ...]
) -> None:
    async with bench_with(tmp_path, config("faulty", *protocol)) as bench:
        answers: list[QuestionReply] = []
        for number in range(3):
            result = await bench.order(*answers, text="again")
            is_last = "\nThis is question 3 of this call, and the last" in result.question
            assert is_last == (number == 2)
            answers.append(answered(result))
        refused = await bench.order(*answers, text="again")
        assert (refused.ok, refused.question) == (False, "")
        assert refused.content.startswith("unknown: faulty has asked 3 questions in this call and wanted to ask ")
        assert (await bench.do("faulty__echo", text="fine")).content == "fine"


async def test_results_are_bounded_and_files_are_kept_for_people(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        long = await bench.do("faulty__echo", text="x" * 100_000)
        assert len(long.content) < MOST_TEXT + 100
        shown = await bench.do("faulty__image")
        place = tmp_path / "faulty__image-1-2.png"
        where = f"files/{place.name} of the conversation"
        why = "it was not sent: this program uploads no files"
        assert shown.content == f"a picture\n[An image (image/png, 15 bytes) is kept for people: {where}; {why}]"
        assert shown.files == ()
        assert place.read_bytes().startswith(b"\x89PNG")
        failed = await bench.do("faulty__fail")
        assert (failed.ok, failed.content) == (False, "it broke")


class Uploads:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, data: bytes, **more: Any) -> AttachedFile:
        self.sent.append({"data": data, **more})
        return AttachedFile(name=more["name"], media_type=more["media_type"], size=len(data), url="https://b.example/1")


async def test_pictures_go_to_the_person_and_no_more_than_four_with_one_answer(tmp_path: Path) -> None:
    uploads = Uploads()
    async with bench_with(tmp_path, config(), uploads=uploads) as bench:
        shown = await bench.do("faulty__image")
        assert shown.content == "a picture\n[An image (image/png, 15 bytes) goes to the person with your answer]"
        (sent,) = uploads.sent
        assert (sent["name"], sent["media_type"]) == ("faulty__image-1-2.png", "image/png")
        assert sent["data"].startswith(b"\x89PNG")
        assert [file.url for file in shown.files] == ["https://b.example/1"]
        assert list(tmp_path.glob("*.png")) == [], "the daemon keeps no copy"

        full = make_context(destination=FileDestination(waiting=MOST_PICTURES))
        kept = await bench.registry.call("faulty__image", {}, full)
        assert kept.content.endswith("; it was not sent: 4 pictures go with your answer already]")
        assert (kept.files, len(uploads.sent)) == ((), 1)
        assert len(list(tmp_path.glob("*.png"))) == 1
        for named, sent_as in (("text/html", "application/octet-stream"), ("image/svg+xml", "image/svg+xml")):
            await bench.do("faulty__image", text=named)
            assert uploads.sent[-1]["media_type"] == sent_as


async def test_tools_come_and_go_while_the_registry_is_in_use(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        policy = bench.registry.rules()
        assert "faulty__grown" not in policy
        await bench.do("faulty__grow")
        while "faulty__grown" not in policy:
            await bench.servers.connections[0].call("pid", {})
        assert "faulty__grown" in bench.names("executor")
        bench.servers.apply(Configured())
        assert "faulty__echo" not in policy
        gone = await bench.do("faulty__echo")
        assert "There is no tool faulty__echo now: its server was removed, does not run, or does not" in gone.content


async def test_arguments_are_checked_before_the_server_sees_them(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        wrong = await bench.do("faulty__echo", text=7)
        assert "was not called, because its arguments are invalid" in wrong.content
        assert bench.servers.connections[0].counters.calls == 0


async def test_a_result_is_without_what_its_server_was_given_as_a_secret(tmp_path: Path) -> None:
    token = "a token of ours"
    leaky = config("faulty", "--leaks", env={"TOKEN": token}, hidden=Hidden((token,), (token,)))
    async with bench_with(tmp_path, leaky) as bench:
        assert (await bench.do("faulty__fail")).content == "it broke: [redacted]"


# ---- many tools ----


def _offered(specs: tuple[ToolSpec, ...], *results: str) -> tuple[ToolSpec, ...]:
    entries = [
        CallResult(id=CallId(str(n)), tool="find_tools", ok=True, content=result) for n, result in enumerate(results)
    ]
    listed, added = found_tools.split(specs, entries)
    return (*listed, *added)


async def test_fifty_tools_are_named_and_what_is_found_is_added_at_the_end(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config("faulty", "--tools", "50", trust=True)) as bench:
        specs = bench.registry.specs(None, Slug("executor"))
        first = _offered(specs)
        names = [spec.name for spec in first]
        assert names[-1] == "find_tools"
        assert not any("__" in name for name in names)
        about = first[-1].description
        assert "- faulty__thing_7: Does the thing with the number 7" in about
        assert len(about) < 10_000
        answer = await bench.do("find_tools", query="the thing 7, echo")
        assert answer.ok
        assert len(answer.content.splitlines()) == 9
        later = _offered(specs, answer.content)
        assert later[: len(first)] == first, "what a provider has in its cache begins with the same bytes"
        assert {"faulty__thing_7", "faulty__echo"} <= {spec.name for spec in later[len(first) :]}
        again = await bench.do("find_tools", query="faulty__pid")
        assert _offered(specs, answer.content, again.content)[: len(later)] == later
        assert (await bench.do("faulty__thing_8", text="called by its name")).ok


async def test_few_tools_are_listed_whole_and_an_agent_without_servers_does_not_have_find_tools(tmp_path: Path) -> None:
    async with bench_with(tmp_path, config()) as bench:
        assert "find_tools" not in bench.names("executor")
    async with bench_with(tmp_path, config("faulty", "--tools", "50")) as bench:
        assert "find_tools" in bench.names("executor")
        assert {"find_tools"}.isdisjoint(bench.names("bare") + bench.names("picky"))
        assert not (await bench.do("find_tools", slug="bare", query="x")).ok
        missing = await bench.do("find_tools", query="unheard")
        assert missing.content.startswith("None of the 60 tools of servers has these words.")


def test_no_tool_of_ours_looks_like_one_of_a_server() -> None:
    assert not [name for name in TOOL_NAMES if "__" in name]


# ---- results ----


def _block(kind: str, **values: Any) -> Any:
    return SimpleNamespace(type=kind, **values)


def test_parts_of_results_become_text_or_files() -> None:
    result: Any = SimpleNamespace(
        is_error=False,
        structured_content={"a": 1},
        content=[
            _block("resource", resource=SimpleNamespace(uri="file:///x", text="inside")),
            _block("resource_link", name="page", uri="https://x.example"),
            _block("image", mime_type="image/png", data="%%%"),
            _block("hologram"),
        ],
    )
    assert read_result(result).parts == (
        "[file:///x]\ninside",
        "[A link to page: https://x.example]",
        "[An image (image/png) was left out: it is damaged.]",
        "[A part of the kind hologram was left out.]",
    )
    only = SimpleNamespace(is_error=False, structured_content={"a": "ä"}, content=[])
    assert read_result(only).parts == ('{"a": "ä"}',)
