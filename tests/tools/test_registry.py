"""The gate holds when tools are listed and when they are called; whatever a model does wrong is a result."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from tenex.core.config import Replay
from tenex.core.errors import InternalError
from tenex.core.ids import Slug
from tenex.core.phases import PHASES, Access, Phase
from tenex.core.ports import ToolResult, Tools
from tenex.tools.arguments import Arguments
from tenex.tools.ask_complete import COMPLETE_SPEC
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell_runner import ShellRules
from tenex.tools.standard import TOOL_NAMES, standard_tools
from tenex.tools.tool import LARGEST, Refusal, boolean, integer, object_schema, string
from tenex.tools.workspace import Workspace

from .conftest import ROSTER, SKILLS, Bench, KeptLessons, make_context, make_tool, put

DESIGNED = {
    "read_file": (Access.READ, Replay.READ),
    "list_files": (Access.READ, Replay.READ),
    "read_skill": (Access.READ, Replay.READ),
    "search_files": (Access.READ, Replay.READ),
    "git_status": (Access.READ, Replay.READ),
    "git_diff": (Access.READ, Replay.READ),
    "attach": (Access.READ, Replay.IDEMPOTENT),
    "git_commit": (Access.CHANGE, Replay.ONCE),
    "write_file": (Access.CHANGE, Replay.IDEMPOTENT),
    "edit_file": (Access.CHANGE, Replay.ONCE),
    "move_file": (Access.CHANGE, Replay.ONCE),
    "delete_file": (Access.CHANGE, Replay.ONCE),
    "check": (Access.RUN, Replay.IDEMPOTENT),
    "shell": (Access.RUN, Replay.ONCE),
    "shell_start": (Access.RUN, Replay.ONCE),
    "shell_read": (Access.READ, Replay.READ),
    "shell_stop": (Access.RUN, Replay.ONCE),
    "python": (Access.RUN, Replay.ONCE),
    "search_conversation": (Access.SPEAK, Replay.READ),
    "ask": (Access.SPEAK, Replay.READ),
    "complete": (Access.SPEAK, Replay.READ),
    "learn": (Access.LEARN, Replay.IDEMPOTENT),
}
"""What each tool may do, and what becomes of a call whose result was lost: the one list of tools kept by hand."""


def designed(*access: Access) -> set[str]:
    return {name for name, (its_access, _) in DESIGNED.items() if its_access in access}


ALL, SPEAK = set(DESIGNED), {"ask", "complete"}
READ, CHANGE, RUN, TALK = map(designed, (Access.READ, Access.CHANGE, Access.RUN, Access.SPEAK))

BACKGROUND = {"shell_start", "shell_read", "shell_stop"}
HAVE_BACKGROUND = (Phase.EXECUTE, Phase.VERIFICATION)

WORKER = {
    phase: designed(*facts.access)
    - (set() if facts.may_ask else TALK - {"complete"})
    - (set() if phase in HAVE_BACKGROUND else BACKGROUND)
    for phase, facts in PHASES.items()
}
EXECUTOR = ROSTER[Slug("executor")]


def permitted(slug: str, phase: Phase) -> set[str]:
    """Who may use what, from the two tables: of phases, and of tools."""
    return {
        "executor": WORKER[phase],
        "security": WORKER[phase] - CHANGE - RUN,
        "bare": WORKER[phase] & (TALK | {"learn"}),
        "orchestrator": set(),
    }[slug]


@pytest.fixture(autouse=True)
def repository(root: Path) -> None:
    """What git takes for a repository."""
    put(root, {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": ""})


@pytest.mark.parametrize("slug", sorted(ROSTER))
@pytest.mark.parametrize("phase", Phase)
async def test_what_is_listed_and_what_is_called_are_what_the_table_permits(
    tools: Bench, phase: Phase, slug: str
) -> None:
    """Every tool is called in every phase by every agent: exactly the permitted ones are carried out."""
    agent, offered = ROSTER[Slug(slug)], permitted(slug, phase)
    every = [spec.name for spec in tools.specs(None, agent)]
    assert set(every) == set().union(*(permitted(slug, one) for one in Phase))
    assert [spec.name for spec in tools.specs(phase, agent)] == [name for name in every if name in offered]

    async def body(*_: Any) -> ToolResult:
        return ToolResult(ok=True, content="done")

    rules = tools.rules()
    counted = Bench(
        [replace(make_tool(name, rules[name].access, body), phases=rules[name].phases) for name in ALL - SPEAK]
    )
    for name in sorted(ALL | {"unknown"}):
        result = await counted.do(name, make_context(phase, slug))
        assert result.ok is (name in offered - SPEAK)
        if name not in offered:
            assert "may not be used" in result.content or "There is no tool" in result.content
            assert all(word in result.content for word in offered)
            assert offered or "You may use no tools now" in result.content


async def test_calls_of_unknown_agents_and_of_what_the_daemon_does_are_refused(tools: Bench) -> None:
    assert "no longer in the roster" in await tools.refused("read_file", make_context(agent="gone"), path="a")
    assert "by the daemon itself" in await tools.refused("complete", response="done")


def test_rules_name_access_and_replay_of_every_tool(tools: Bench) -> None:
    assert tools.specs(Phase.EXECUTE, EXECUTOR.slug) == tools.specs(Phase.EXECUTE, EXECUTOR)
    port: Tools = tools  # the type checker's half of this test
    assert port.specs(Phase.EXECUTE, Slug("unknown")) == ()
    assert {name: (rule.access, rule.replay) for name, rule in tools.rules().items()} == DESIGNED
    assert TOOL_NAMES == ALL
    assert COMPLETE_SPEC in tools.specs(Phase.CHAT, EXECUTOR)
    assert "additionalProperties" not in COMPLETE_SPEC.parameters, "what only calls are checked by is not sent"


@pytest.mark.parametrize(
    ("given", "without"),
    [
        ({}, RUN | {"git_status", "git_diff", "git_commit", "shell_read"}),
        ({"check": RunPolicy.OFF, "has_sandbox": True}, RUN | {"git_commit", "shell_read"}),
        ({"shell": ShellRules(policy=RunPolicy.UNSANDBOXED)}, {"check", "git_status", "git_diff", "git_commit"}),
    ],
)
def test_what_cannot_be_confined_is_offered_only_where_it_is_permitted(
    workspace: Workspace, lessons: KeptLessons, given: dict[str, Any], without: set[str]
) -> None:
    tools = standard_tools(ToolDependencies(workspace=workspace, lessons=lessons, skills=SKILLS, **given))
    assert {tool.name for tool in tools} == ALL - SPEAK - without
    with pytest.raises(InternalError, match=f"two tools named {tools[0].name}"):
        Bench([*tools, tools[0]])


@pytest.mark.parametrize(
    ("files", "is_offered"),
    [
        ({}, True),
        ({"Makefile": "all:"}, True),
        ({"a.py": ""}, True),
        ({"package.json": "{}", "scripts.py": ""}, True),
        ({"package.json": "{}"}, False),
        ({"Cargo.toml": "", "Makefile": ""}, False),
    ],
)
def test_check_is_offered_in_projects_of_python(
    workspace: Workspace, lessons: KeptLessons, files: dict[str, str], is_offered: bool
) -> None:
    put(workspace.root, files)
    tools = standard_tools(ToolDependencies(workspace=workspace, lessons=lessons, check=RunPolicy.UNSANDBOXED))
    assert ("check" in {tool.name for tool in tools}) is is_offered


def test_git_tools_are_offered_in_repositories(workspace: Workspace, lessons: KeptLessons) -> None:
    parts = ToolDependencies(workspace=workspace, lessons=lessons, has_sandbox=True, commits=True)
    assert {tool.name for tool in standard_tools(parts)} >= GIT
    (workspace.root / ".git/HEAD").unlink()
    assert not GIT & {tool.name for tool in standard_tools(parts)}


GIT = {"git_status", "git_diff", "git_commit"}


async def call_one(body: Any, arguments: Any, tool_cap: float | None = None, **caps: Any) -> ToolResult:
    """Call the one tool of a registry, which every agent may use in reflection."""
    tools = Bench([make_tool("learn", Access.LEARN, body, tool_cap)], **caps)
    return await tools.call("learn", arguments, make_context(Phase.REFLECTION))


@pytest.mark.parametrize("caps", [{"time_cap": 0.02}, {"tool_cap": 0.02}])
async def test_a_call_that_takes_too_long_is_given_up_and_cancelled(caps: dict[str, float]) -> None:
    stopped: list[BaseException] = []

    async def body(*_: Any) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            stopped.append(error)
            raise
        raise AssertionError

    assert "did not end within 0.02 s" in (await call_one(body, {}, **caps)).content
    assert stopped


BROKEN = "learn failed; it may have done a part, so check before repeating. The error: {}: private"
LONG = ToolResult(ok=True, content="x" * 150, touched=("a",), read={"a": "1"}, lesson="l")


@pytest.mark.parametrize(
    ("outcome", "ok", "content"),
    [
        (LONG, True, "x" * 100 + "\n[Cut: 50 more characters.]"),
        # a name on disk may be no UTF-8, and a result is written to the journal
        (ToolResult(ok=True, content="a\udcffb"), True, "a?b"),
        (Refusal("Not this one."), False, "Not this one."),
        (RuntimeError("private"), False, BROKEN.format("RuntimeError")),
        (TimeoutError("private"), False, BROKEN.format("TimeoutError")),
    ],
)
async def test_results_are_cut_and_failures_are_results(
    outcome: ToolResult | Exception, ok: bool, content: str
) -> None:
    async def body(*_: Any) -> ToolResult:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with structlog.testing.capture_logs() as logs:
        result = await call_one(body, {}, output_cap=100)
    assert (result.ok, result.content) == (ok, content)
    if outcome is LONG:
        assert (result.touched, dict(result.read), result.lesson) == (("a",), {"a": "1"}, "l")
    failures = [(line["error"], __file__ in line["where"]) for line in logs if line["event"] == "tool.failed"]
    assert failures == ([(type(outcome).__name__, True)] if "The error" in content else [])
    assert "private" not in str(logs)


async def test_a_tool_that_was_not_called_is_not_to_be_checked(workspace: Workspace) -> None:
    class Full(Transactions):
        async def run(self, *_: Any) -> ToolResult:
            raise OSError(28, "No space left on device")

    async def body(*_: Any) -> ToolResult:
        raise AssertionError

    result = await Bench([make_tool("shell", Access.RUN, body)], Full(workspace)).do("shell")
    assert result.content == "shell was not called. The error: OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize("arguments", [{"bogus": 1}, [1, 2], "text"])
async def test_arguments_that_do_not_fit_never_reach_the_tool(arguments: Any) -> None:
    async def body(*_: Any) -> ToolResult:
        raise AssertionError

    assert "arguments are invalid" in (await call_one(body, arguments)).content


async def test_the_log_holds_no_text_of_a_call(tools: Bench) -> None:
    with structlog.testing.capture_logs() as logs:
        await tools.do("write_file", path="a.txt", content="private")
        await tools.do("my private tool")
    assert [line["event"] for line in logs] == ["tool.returned", "tool.returned"]
    assert "private" not in str(logs)


READ_ARGUMENTS = Arguments(
    "read",
    object_schema(
        {"path": string("where", min_length=1, max_length=5)},
        {
            "n": integer("how many"),
            "all": boolean("all"),
            "verdict": {"enum": ["good", "bad"]},
            "list": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        },
    ),
)


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({}, "`path` is missing"),
        ({"path": ""}, "`path` must satisfy `minLength: 1`"),
        ({"path": None}, '`path` must satisfy `type: "string"`'),
        ({"path": "secret"}, "`path` must satisfy `maxLength: 5`"),
        ({"path": "a", "n": 0}, "`n` must satisfy `minimum: 1`"),
        ({"path": "a", "n": LARGEST + 1}, "`n` must satisfy `maximum: 10000000`"),
        ({"path": "a", "verdict": "secret"}, '`verdict` must satisfy `enum: ["good", "bad"]`'),
        ({"path": "a", "list": ["a", {}]}, '`list.1` must satisfy `type: "string"`'),
        ([], 'the arguments must satisfy `type: "object"`'),
        (
            {"n": 0, "all": 1, "x": 2},
            '`path` is missing; `x` is not known; `all` must satisfy `type: "boolean"`; `n` must satisfy `minimum: 1`',
        ),
        (
            {"path": "a", **{f"x{number}": 1 for number in range(50)}},
            "; ".join(f"`x{number}` is not known" for number in range(8)) + "; and 42 more",
        ),
    ],
)
def test_each_error_names_its_parameter_and_no_value(given: Any, sentences: str) -> None:
    assert READ_ARGUMENTS.fault(given) == (
        f"read was not called, because its arguments are invalid: {sentences}. It takes: path, n, all, verdict, list."
    )
    assert READ_ARGUMENTS.fault({"path": "a", "n": 9, "all": True, "verdict": "bad", "list": ["x"]}) is None


def test_an_invalid_schema_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="not a JSON Schema"):
        Arguments("t", {"type": "nonsense"})
    with pytest.raises(InternalError, match="of type object"):
        Arguments("t", {"type": "string"})


SANDBOXED = ShellRules(policy=RunPolicy.SANDBOXED)


@pytest.mark.parametrize(
    ("given", "asking"),
    [
        ({"shell": SANDBOXED, "has_sandbox": True, "check": RunPolicy.SANDBOXED, "commits": True}, set()),
        ({"shell": ShellRules(policy=RunPolicy.SANDBOXED, network=True)}, {"shell", "shell_start", "python"}),
        ({"shell": ShellRules(policy=RunPolicy.UNSANDBOXED)}, {"shell", "shell_start", "python"}),
        ({"check": RunPolicy.UNSANDBOXED, "check_asks": True}, {"check"}),
        ({"has_sandbox": True, "commits": True, "commit_asks": True}, {"git_commit"}),
    ],
)
def test_what_may_have_an_effect_outside_asks(
    workspace: Workspace, lessons: KeptLessons, given: dict[str, Any], asking: set[str]
) -> None:
    tools = standard_tools(ToolDependencies(workspace=workspace, lessons=lessons, **given))
    assert {tool.name for tool in tools if tool.rule.asks} == asking
