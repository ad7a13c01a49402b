"""A workspace on the real disk, a roster of three, and a registry over both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ids import CallId, ConversationId, PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext
from tenex.core.roster import Agent, Kind
from tenex.tools.check import CheckPolicy
from tenex.tools.registry import ToolRegistry
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace

NAMED = frozenset({"read_file", "list_files", "search_files", "write_file", "edit_file", "check"})


class KeptLessons:
    """Lessons in memory, one per key, as every implementation has to keep them."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[str, Any]] = {}

    async def record(self, *, idempotency_key: str, **lesson: Any) -> None:
        self.by_key.setdefault(idempotency_key, lesson)


def member(slug: str, kind: Kind = Kind.WORKER, tools: frozenset[str] = NAMED) -> Agent:
    return Agent(slug=Slug(slug), name=slug, pubkey=PublicKey("0" * 64), kind=kind, tools=tools)


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


ROSTER = {
    agent.slug: agent
    for agent in (
        member("executor"),
        member("security", Kind.EXPERT),
        member("bare", tools=frozenset()),
        member("orchestrator", Kind.ORCHESTRATOR),
    )
}

MakeContext = Callable[..., ExecutionContext]


def make_context(phase: Phase = Phase.EXECUTE, agent: str = "executor", **more: Any) -> ExecutionContext:
    """A context as the core would give it; everything that matters to a test is said there."""
    return ExecutionContext(
        conversation_id=ConversationId("c" * 64), cycle=1, turn="turn-1", phase=phase, previous_phase=None,
        handoff=None, agent=Slug(agent), call_id=CallId("k1"), **{"idempotency_key": "c:1", **more},
    )  # fmt: skip


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
    return ToolRegistry(standard_tools(workspace, lessons, check=CheckPolicy.UNSANDBOXED), ROSTER.get)
