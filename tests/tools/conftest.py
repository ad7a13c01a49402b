"""A workspace on the real disk, a roster of three, a registry over both, and what tests of programs need."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tenex.core.config import Agent, AgentKind
from tenex.core.ids import CallId, ConversationId, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy, probe_bubblewrap
from tenex.tools.serialized_calls import Transactions
from tenex.tools.shell import Programs, ShellRules, shell_tool
from tenex.tools.standard import TOOL_NAMES, ToolDependencies, standard_tools
from tenex.tools.workspace import Workspace, digest

NAMED = TOOL_NAMES - {"learn", "ask", "complete", "search_conversation"}

BUBBLEWRAP_WORKS = probe_bubblewrap()
needs_bubblewrap = pytest.mark.skipif(not BUBBLEWRAP_WORKS, reason="bubblewrap does not work on this machine")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed on this machine")

SANDBOXED = ShellRules(policy=RunPolicy.SANDBOXED, timeout=30)


class KeptLessons:
    """Lessons in memory, one per key, as every implementation has to keep them."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, Any]] = {}

    async def record(self, *, idempotency_key: str, **lesson: Any) -> None:
        self.by_key.setdefault(idempotency_key, lesson)


def member(slug: str, kind: AgentKind = AgentKind.WORKER, tools: frozenset[str] = NAMED) -> Agent:
    return Agent(slug=Slug(slug), name=slug, pubkey=PublicKey("0" * 64), kind=kind, tools=tools)


ROSTER = {
    agent.slug: agent
    for agent in (
        member("executor"),
        member("security", AgentKind.EXPERT),
        member("bare", tools=frozenset()),
        member("orchestrator", AgentKind.ORCHESTRATOR),
    )
}


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


def having_read(workspace: Workspace, *paths: str, **more: Any) -> ExecutionContext:
    return make_context(read={path: digest((workspace.root / path).read_bytes()) for path in paths}, **more)


VERIFICATION = make_context(Phase.VERIFICATION, touched=frozenset({"mine.py"}))
CHORES = make_context(Phase.CHORES, touched=frozenset({"mine.py"}))


async def call(
    registry: ToolRegistry, tool: str, context: ExecutionContext | None = None, /, **arguments: Any
) -> ToolResult:
    return await registry.call(tool, arguments, context or make_context())


async def refused(
    registry: ToolRegistry, tool: str, context: ExecutionContext | None = None, /, **arguments: Any
) -> str:
    """The sentence of a call that fails."""
    result = await call(registry, tool, context, **arguments)
    assert not result.ok, result.content
    assert not result.touched
    return result.content


def shell_registry(workspace: Workspace, rules: ShellRules = SANDBOXED, scratch: Path | None = None) -> ToolRegistry:
    return ToolRegistry([shell_tool(Programs(workspace, rules, scratch=scratch))], ROSTER.get)


def recorded_tools(
    workspace: Workspace, folder: Path | None, policy: RunPolicy = RunPolicy.UNSANDBOXED, timeout: float = 60
) -> ToolRegistry:
    """All tools, with checkpoints in the folder if there is one."""
    turns = Transactions(workspace, Checkpoints(folder, workspace.root) if folder else None)
    tools = standard_tools(
        ToolDependencies(
            workspace=workspace,
            lessons=KeptLessons(),
            check=policy,
            shell=ShellRules(policy=policy, timeout=timeout),
            transactions=turns,
        )
    )
    return ToolRegistry(tools, ROSTER.get, turns)


def subjects(folder: Path) -> list[str]:
    """Of the commits of the conversation, the newest first."""
    return git(folder, "log", "--format=%s", f"refs/tenex/{'c' * 64}").splitlines()


async def run(
    registry: ToolRegistry, command: str, at: Phase | ExecutionContext = Phase.EXECUTE, **arguments: Any
) -> ToolResult:
    context = make_context(at) if isinstance(at, Phase) else at
    return await call(registry, "shell", context, command=command, **arguments)


def put(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files with their folders."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)


def fill(root: Path) -> dict[str, str]:
    """A small project, of which the contexts above have changed `mine.py`."""
    files = {
        "app.py": "print(1)\n",
        "src/other.py": "other\n",
        "README.md": "read me\n",
        "mine.py": "mine\n",
        ".gitignore": "*.log\nbuild/\n",
    }
    put(root, files)
    return files


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(errors="replace")
        for path in root.rglob("*")
        if path.is_file()
    }


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


async def until(true: Callable[[], object], what: str) -> None:
    """Wait for a fact about other processes, which send us no event."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)
    assert true(), what


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def processes_in(folder: Path) -> list[int]:
    """The living processes that work in a folder, by whatever number they have outside of a sandbox."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink() == folder and is_alive(int(entry.name)):
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
def registry(workspace: Workspace, lessons: KeptLessons) -> ToolRegistry:
    """Every tool there is."""
    tools = standard_tools(
        ToolDependencies(
            workspace=workspace,
            lessons=lessons,
            check=RunPolicy.UNSANDBOXED,
            shell=ShellRules(policy=RunPolicy.UNSANDBOXED),
            has_sandbox=True,
        )
    )
    return ToolRegistry(tools, ROSTER.get)


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
