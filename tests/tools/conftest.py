"""A workspace on the real disk, a roster of three, and a registry over both."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tenex.core.config import Agent, AgentKind
from tenex.core.ids import CallId, ConversationId, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext
from tenex.tools.check import CheckPolicy
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import probe_bubblewrap
from tenex.tools.shell import ShellPolicy, ShellRules
from tenex.tools.standard import TOOL_NAMES, ToolDependencies, standard_tools
from tenex.tools.workspace import Workspace

NAMED = TOOL_NAMES - {"learn", "ask", "complete", "search_conversation"}

BUBBLEWRAP_WORKS = probe_bubblewrap()
needs_bubblewrap = pytest.mark.skipif(not BUBBLEWRAP_WORKS, reason="bubblewrap does not work on this machine")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed on this machine")


class KeptLessons:
    """Lessons in memory, one per key, as every implementation has to keep them."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, Any]] = {}

    async def record(self, *, idempotency_key: str, **lesson: Any) -> None:
        self.by_key.setdefault(idempotency_key, lesson)


def member(slug: str, kind: AgentKind = AgentKind.WORKER, tools: frozenset[str] = NAMED) -> Agent:
    return Agent(slug=Slug(slug), name=slug, pubkey=PublicKey("0" * 64), kind=kind, tools=tools)


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def anywhere(folder: Path, name: str) -> list[Path]:
    """Every file of that name below a folder."""
    return sorted(folder.rglob(name))


ROSTER = {
    agent.slug: agent
    for agent in (
        member("executor"),
        member("security", AgentKind.EXPERT),
        member("bare", tools=frozenset()),
        member("orchestrator", AgentKind.ORCHESTRATOR),
    )
}


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


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace, with a neighbour that must never be reached."""
    root = tmp_path / "workspace"
    root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret\n")
    return Workspace(root)


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
            check=CheckPolicy.UNSANDBOXED,
            shell=ShellRules(policy=ShellPolicy.UNSANDBOXED),
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
    params=[ShellPolicy.UNSANDBOXED, pytest.param(ShellPolicy.SANDBOXED, marks=needs_bubblewrap)],
    ids=["unsandboxed", "sandboxed"],
)
def policy(request: pytest.FixtureRequest) -> ShellPolicy:
    return request.param  # type: ignore[no-any-return]
