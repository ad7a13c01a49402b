"""A workspace on the real disk, a roster of three, a registry over both, and what tests of programs need."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tenex.core.config import Agent, AgentKind, Replay
from tenex.core.ids import CallId, ConversationId, PublicKey, Slug
from tenex.core.phases import Access, Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs, ShellRules
from tenex.tools.skills import Skill, Skills
from tenex.tools.standard import TOOL_NAMES, standard_tools
from tenex.tools.tool import Body, Tool, object_schema
from tenex.tools.turn_views import TurnViews
from tenex.tools.workspace import Workspace, digest
from tests.programs import needs_bubblewrap

NAMED = TOOL_NAMES - {"learn", "ask", "complete", "search_conversation"}

SKILLS = Skills((Skill(name="pdf", description="d", folder=Path("/nowhere"), place=Path("/nowhere")),))

SANDBOXED = ShellRules(policy=RunPolicy.SANDBOXED, timeout=30)


class KeptLessons:
    """Lessons in memory, one per key, as every implementation has to keep them."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, Any]] = {}

    def lessons(self, agent: str) -> list[Any]:
        return []

    async def record(self, *, idempotency_key: str, check: Callable[[list[Any]], None], **lesson: Any) -> None:
        if idempotency_key not in self.by_key:
            check([])
            self.by_key[idempotency_key] = lesson

    async def remove_lesson(self, seq: int, /) -> None:
        return None


def _agent(slug: str, kind: AgentKind = AgentKind.WORKER, tools: frozenset[str] = NAMED) -> Agent:
    return Agent(slug=Slug(slug), name=slug, pubkey=PublicKey("0" * 64), kind=kind, tools=tools)


_EXPERT, _ROUTER = _agent("security", AgentKind.EXPERT), _agent("orchestrator", AgentKind.ORCHESTRATOR)
ROSTER = {agent.slug: agent for agent in (_agent("executor"), _EXPERT, _agent("bare", tools=frozenset()), _ROUTER)}


def make_context(phase: Phase = Phase.EXECUTE, agent: str = "executor", **more: Any) -> ExecutionContext:
    """A context as the core would give it."""
    return ExecutionContext(
        conversation_id=ConversationId("c" * 64),
        cycle=1,
        turn="turn-1",
        phase=phase,
        previous_phase=None,
        handoff=None,
        agent=Slug(agent),
        call_id=CallId("k1"),
        **{"idempotency_key": "c:1", **more},
    )


def having_read(root: Path, *paths: str, **more: Any) -> ExecutionContext:
    return make_context(read={path: digest((root / path).read_bytes()) for path in paths}, **more)


VERIFICATION = make_context(Phase.VERIFICATION, touched=frozenset({"mine.py"}))
CHORES = make_context(Phase.CHORES, touched=frozenset({"mine.py"}))


class Bench(ToolRegistry):
    """A registry as tests call it."""

    def __init__(self, tools: Iterable[Tool], transactions: Transactions | None = None, **caps: Any) -> None:
        super().__init__(tools, ROSTER.get, transactions, **caps)

    async def do(self, tool: str, context: ExecutionContext | None = None, /, **arguments: Any) -> ToolResult:
        return await self.call(tool, arguments, context or make_context())

    async def refused(self, tool: str, context: ExecutionContext | None = None, /, **arguments: Any) -> str:
        """The sentence of a call that fails."""
        result = await self.do(tool, context, **arguments)
        assert not result.ok, result.content
        assert not result.touched
        return result.content

    async def run(self, command: str, at: Phase | ExecutionContext = Phase.EXECUTE, /, **arguments: Any) -> ToolResult:
        """Call the shell."""
        return await self.do("shell", make_context(at) if isinstance(at, Phase) else at, command=command, **arguments)


def make_tool(name: str, access: Access, body: Body, time_cap: float | None = None) -> Tool:
    """One that is called without arguments."""
    schema = object_schema({})
    return Tool(
        name=name, description="", parameters=schema, access=access, replay=Replay.ONCE, body=body, time_cap=time_cap
    )


def shell_only(workspace: Workspace, rules: ShellRules = SANDBOXED, scratch: Path | None = None) -> Bench:
    return Bench([shell_tool(Programs(workspace, rules, scratch=scratch))])


def every_tool(
    workspace: Workspace,
    checkpoints: Path | Checkpoints | None = None,
    policy: RunPolicy = RunPolicy.UNSANDBOXED,
    timeout: float = 60,
    lessons: KeptLessons | None = None,
) -> Bench:
    shadow = Checkpoints(checkpoints, workspace.root) if isinstance(checkpoints, Path) else checkpoints
    views = TurnViews(workspace.root.with_name("views"), workspace)
    turns = Transactions(workspace, shadow, views=views)
    known = ToolDependencies(
        workspace=workspace,
        lessons=lessons or KeptLessons(),
        check=policy,
        shell=ShellRules(policy=policy, timeout=timeout),
        has_sandbox=True,
        commits=True,
        transactions=turns,
        views=views,
        skills=SKILLS,
    )
    return Bench(standard_tools(known), turns)


def subjects(folder: Path) -> list[str]:
    """Of the commits of the conversation, the newest first."""
    return git(folder, "log", "--format=%s", f"refs/tenex/{'c' * 64}").splitlines()


def put(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files with their folders."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)


def fill(root: Path) -> dict[str, str]:
    """A small project, of which the contexts above have changed `mine.py`."""
    files = {"app.py": "print(1)\n", "src/other.py": "other\n", "README.md": "read me\n", "mine.py": "mine\n"}
    files[".gitignore"] = "*.log\nbuild/\n"
    put(root, files)
    return files


def contents(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text(errors="replace") for path in files}


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def git(root: Path, *arguments: str) -> str:
    """Run the real git as a person would, without that person's settings."""
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"], "HOME": "/"}
    who = ["-c", "user.name=someone", "-c", "user.email=someone@example.com"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=root, env=alone, check=True, capture_output=True, text=True, errors="replace"
    )
    return done.stdout


def fails(number: int) -> Callable[..., NoReturn]:
    """A system call that fails with this error number."""

    def call(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return call


def make_deep(inside: Path, levels: int, name: str = "d", at: Callable[[int, int], None] | None = None) -> None:
    """Folders one in the other, deeper than a path can name; `at` gets each number and open folder."""
    here = os.open(inside, os.O_RDONLY)
    for number in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
        if at is not None:
            at(number, here)
    os.close(here)


FAMILY = """
sleep 600 & echo $! > child
setsid sh -c 'sleep 600 & echo $! > orphan' &
(trap '' TERM HUP INT; sleep 600; sleep 600) & echo $! > stubborn
while [ ! -s orphan ]; do sleep 0.01; done
touch born
"""
"""A command with a child, a grandchild that has left its group and session, and one that ignores signals."""

DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.tools.conftest import every_tool
from tenex.tools.sandbox import RunPolicy
from tenex.tools.workspace import Workspace
root, checkpoints, policy, command = sys.argv[1:]
tools = every_tool(Workspace(Path(root)), Path(checkpoints), RunPolicy(policy), 600)
asyncio.run(tools.run(command))
"""


async def killed_daemon(
    root: Path, command: str, sign: str, checkpoints: Path, policy: RunPolicy = RunPolicy.UNSANDBOXED
) -> None:
    """Run a command, and kill the daemon that runs it once there is a file named `sign`."""
    line = [sys.executable, "-c", DAEMON, str(root), str(checkpoints), policy, command]
    daemon = await asyncio.create_subprocess_exec(*line, cwd=Path(__file__).parents[2])
    await until((root / sign).exists, "the command works")
    daemon.kill()
    await daemon.wait()
    await until(lambda: not processes_in(root), "the command is gone too")


async def until(true: Callable[[], object], what: str) -> None:
    """Wait for a fact about other processes, which send us no event."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)
    assert true(), what


def using(store: Path) -> list[str]:
    """The processes that see a mount of a view."""
    found = []
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):  # gone
            if str(store) in mounts.read_text():
                found.append(mounts.parent.name)
    return found


def processes_in(folder: Path) -> list[int]:
    """The living processes that work in a folder, by whatever number they have outside of a sandbox."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone, or dead: those have no folder
            if (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace, with a neighbour that must never be reached."""
    put(tmp_path, {"outside/secret.txt": "the secret\n"})
    (tmp_path / "workspace").mkdir()
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def root(workspace: Workspace) -> Path:
    return workspace.root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return tmp_path / "outside"


@pytest.fixture
def lessons() -> KeptLessons:
    return KeptLessons()


@pytest.fixture
def tools(workspace: Workspace, lessons: KeptLessons) -> Bench:
    return every_tool(workspace, lessons=lessons)


@pytest.fixture
def recorded(workspace: Workspace, folder: Path) -> Bench:
    """Every tool, with checkpoints."""
    return every_tool(workspace, folder)


@pytest.fixture
def sandboxed(workspace: Workspace) -> Bench:
    """The shell in its sandbox."""
    return shell_only(workspace)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the checkpoints."""
    return tmp_path / "checkpoints"


@pytest.fixture(
    params=[RunPolicy.UNSANDBOXED, pytest.param(RunPolicy.SANDBOXED, marks=needs_bubblewrap)],
    ids=["unsandboxed", "sandboxed"],
)
def policy(request: pytest.FixtureRequest) -> RunPolicy:
    return request.param  # type: ignore[no-any-return]
