"""The gate holds when tools are listed and when they are called; whatever a model does wrong is a result."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import structlog

from tenex.core.config import Replay
from tenex.core.errors import InternalError
from tenex.core.ids import Slug
from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult, Tools
from tenex.tools.ask_complete import complete_spec
from tenex.tools.check import CheckPolicy
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import ShellPolicy, ShellRules
from tenex.tools.standard import TOOL_NAMES, ToolDependencies, standard_tools
from tenex.tools.tool import Refusal, Tool, object_schema
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, KeptLessons, make_context

READ = {"read_file", "list_files", "search_files", "git_status", "git_diff"}
CHANGE, RUN = {"write_file", "edit_file", "move_file", "delete_file"}, {"check", "shell", "python"}
SPEAK = {"ask", "complete"}
TALK = SPEAK | {"search_conversation"}

WORKER = {
    Phase.CHAT: TALK,
    Phase.BRAINSTORM: TALK | READ,
    Phase.PLAN: TALK | READ,
    Phase.EXECUTE: TALK | READ | CHANGE | RUN,
    Phase.VERIFICATION: TALK | READ | RUN,
    Phase.CHORES: TALK | READ | CHANGE | RUN,
    Phase.REFLECTION: {"complete", "learn"},
}
BARE = {phase: {"complete", "learn"} if phase is Phase.REFLECTION else TALK for phase in Phase}
ALL = READ | CHANGE | RUN | TALK | {"learn"}


def permitted(slug: str, phase: Phase) -> set[str]:
    """The table, written out by hand from the design."""
    return {
        "executor": WORKER[phase],
        "security": WORKER[phase] - CHANGE - RUN,
        "bare": BARE[phase],
        "orchestrator": set(),
    }[slug]


TABLE = list(itertools.product(Phase, sorted(ROSTER)))


@pytest.mark.parametrize(("phase", "slug"), TABLE)
def test_what_is_listed_is_exactly_what_the_table_permits(registry: ToolRegistry, phase: Phase, slug: str) -> None:
    agent = next(agent for known, agent in ROSTER.items() if known == slug)
    assert {spec.name for spec in registry.specs(phase, agent)} == permitted(slug, phase)


@pytest.mark.parametrize(("phase", "slug"), TABLE)
async def test_what_is_called_is_gated_by_the_same_table(phase: Phase, slug: str) -> None:
    """Every tool is called in every phase by every agent: exactly the permitted ones are carried out."""
    carried_out: list[str] = []

    def counted(name: str, access: Access) -> Tool:
        async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
            carried_out.append(name)
            return ToolResult(ok=True, content="done")

        return Tool(
            name=name, description="", parameters=object_schema({}), access=access, replay=Replay.ONCE, body=body
        )

    classes = {
        Access.READ: READ,
        Access.CHANGE: CHANGE,
        Access.RUN: RUN,
        Access.LEARN: {"learn"},
        Access.SPEAK: TALK - SPEAK,
    }
    tools = [counted(name, access) for access, names in classes.items() for name in names]
    registry = ToolRegistry(tools, ROSTER.get)
    for name in sorted(ALL | {"unknown"}):
        result = await registry.call(name, {}, make_context(phase, slug))
        may = name in permitted(slug, phase) - SPEAK
        assert result.ok is may
        if name not in permitted(slug, phase):
            assert "may not be used" in result.content or "There is no tool" in result.content
            offered = permitted(slug, phase)
            assert all(word in result.content for word in offered)
            assert offered or "You may use no tools now" in result.content
    assert set(carried_out) == permitted(slug, phase) - SPEAK


async def test_a_call_is_judged_by_the_phase_it_is_made_in(registry: ToolRegistry, workspace: Workspace) -> None:
    """The race of one answer: the tool was offered in execute, and a call before it has moved on to verification."""
    assert "write_file" in {spec.name for spec in registry.specs(Phase.EXECUTE, ROSTER[make_context().agent])}
    result = await registry.call("write_file", {"path": "a", "content": "x"}, make_context(Phase.VERIFICATION))
    assert not result.ok
    assert "verification" in result.content
    assert not (workspace.root / "a").exists()
    gone = await registry.call("read_file", {"path": "a"}, make_context(agent="gone"))
    assert "no longer in the roster" in gone.content
    elsewhere = await registry.call("complete", {"response": "done"}, make_context())
    assert "by the daemon itself" in elsewhere.content


def test_rules_name_access_and_replay_of_every_tool(registry: ToolRegistry) -> None:
    rules = registry.rules()
    assert set(rules) == ALL
    once = {name for name, rule in rules.items() if rule.replay is Replay.ONCE}
    idempotent = {name for name, rule in rules.items() if rule.replay is Replay.IDEMPOTENT}
    assert once == {"edit_file", "move_file", "delete_file", "shell", "python"}
    assert idempotent == {"write_file", "check", "learn"}
    assert {name for name, rule in rules.items() if rule.access is Access.CHANGE} == CHANGE


@pytest.mark.parametrize(
    ("given", "without"),
    [
        ({}, RUN | {"git_status", "git_diff"}),
        ({"check": CheckPolicy.OFF, "has_sandbox": True}, RUN),
        ({"shell": ShellRules(policy=ShellPolicy.UNSANDBOXED)}, {"check", "git_status", "git_diff"}),
    ],
)
def test_what_cannot_be_confined_is_offered_only_where_it_is_permitted(
    workspace: Workspace, lessons: KeptLessons, given: dict[str, Any], without: set[str]
) -> None:
    tools = standard_tools(ToolDependencies(workspace=workspace, lessons=lessons, **given))
    assert {tool.name for tool in tools} == ALL - SPEAK - without


def test_complete_is_the_same_in_every_phase(registry: ToolRegistry) -> None:
    for phase in Phase:
        (offered,) = (spec for spec in registry.specs(phase, ROSTER[make_context().agent]) if spec.name == "complete")
        assert offered == complete_spec()
    assert offered.parameters["required"] == ["response"]
    assert "additionalProperties" not in offered.parameters, "what only calls are checked by is not sent"
    assert list(offered.parameters["properties"]) == ["response", "summary", "verdict", "issues"]


@pytest.mark.parametrize("slug", sorted(ROSTER))
def test_all_that_an_agent_may_use_in_any_phase_is_listed_in_one_order(registry: ToolRegistry, slug: Slug) -> None:
    every = [spec.name for spec in registry.specs(None, ROSTER[slug])]
    assert set(every) == set().union(*(permitted(slug, phase) for phase in Phase))
    for phase in Phase:
        here = [spec.name for spec in registry.specs(phase, ROSTER[slug])]
        assert here == [name for name in every if name in here]


def one(body: Any, **more: Any) -> ToolRegistry:
    """A registry with one tool that every agent may use in reflection."""
    tool = Tool(
        name="learn",
        description="",
        parameters=object_schema({}),
        access=Access.LEARN,
        replay=Replay.ONCE,
        body=body,
        time_cap=more.pop("tool_cap", None),
    )
    return ToolRegistry([tool], ROSTER.get, **more)


async def call_one(registry: ToolRegistry, arguments: Any = None) -> ToolResult:
    return await registry.call("learn", {} if arguments is None else arguments, make_context(Phase.REFLECTION))


@pytest.mark.parametrize("caps", [{"time_cap": 0.02}, {"tool_cap": 0.02}])
async def test_a_call_that_takes_too_long_is_given_up_and_cancelled(caps: dict[str, float]) -> None:
    cancelled = asyncio.Event()

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    result = await call_one(one(body, **caps))
    assert "did not end within 0.02 s" in result.content
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (
            ToolResult(ok=True, content="x" * 150, touched=("a",), read={"a": "1"}, lesson="l"),
            ToolResult(
                ok=True,
                content="x" * 100 + "\n[Cut: 50 more characters.]",
                touched=("a",),
                read={"a": "1"},
                lesson="l",
            ),
        ),
        # a name on disk may be no UTF-8, and a result is written to the journal
        (ToolResult(ok=True, content="a\udcffb"), ToolResult(ok=True, content="a?b")),
        (Refusal("Not this one."), ToolResult(ok=False, content="Not this one.")),
    ],
    ids=["long", "not text", "refusal"],
)
async def test_results_are_cut_and_refusals_passed_on(outcome: ToolResult | Refusal, expected: ToolResult) -> None:
    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    assert await call_one(one(body, output_cap=100)) == expected


@pytest.mark.parametrize("error", [RuntimeError("private words"), TimeoutError("private words"), OSError(5, "private")])
async def test_a_broken_tool_is_a_result_and_a_log_line_without_content(error: Exception) -> None:
    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        raise error

    with structlog.testing.capture_logs() as logs:
        result = await call_one(one(body))
    assert not result.ok
    assert type(error).__name__ in result.content
    (line,) = (line for line in logs if line["event"] == "tool.failed")
    assert line["error"] == type(error).__name__
    assert __file__ in line["where"]
    assert "private" not in result.content + str(logs)


@pytest.mark.parametrize("arguments", [{"bogus": 1}, [1, 2], "text"])
async def test_arguments_that_do_not_fit_never_reach_the_tool(arguments: Any) -> None:
    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        raise AssertionError

    result = await call_one(one(body), arguments)
    assert "arguments are invalid" in result.content


async def test_the_log_holds_no_text_of_a_call(registry: ToolRegistry) -> None:
    with structlog.testing.capture_logs() as logs:
        await registry.call("write_file", {"path": "a.txt", "content": "private"}, make_context())
        await registry.call("my private tool", {}, make_context())
    assert [line["event"] for line in logs] == ["tool.returned", "tool.returned"]
    assert "private" not in str(logs)


def test_the_registry_is_the_port_and_knows_every_name(registry: ToolRegistry) -> None:
    tools: Tools = registry  # the type checker's half of this test
    executor = make_context().agent
    assert tools.specs(Phase.EXECUTE, executor) == registry.specs(Phase.EXECUTE, ROSTER[executor])
    assert tools.specs(Phase.EXECUTE, Slug("unknown")) == ()
    assert set(registry.rules()) == TOOL_NAMES


def test_two_tools_of_one_name_are_a_bug(workspace: Workspace, lessons: KeptLessons) -> None:
    tools = standard_tools(ToolDependencies(workspace=workspace, lessons=lessons))
    with pytest.raises(InternalError, match="two tools named read_file"):
        ToolRegistry([*tools, tools[0]], ROSTER.get)
