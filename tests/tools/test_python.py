"""A program of Python runs as a command does: in the workspace, confined, bounded, and only where something may run."""

from pathlib import Path

import pytest

from tenex.core.config import Replay
from tenex.core.phases import Access, Phase
from tenex.core.ports import ToolResult
from tenex.tools.registry import ToolRegistry
from tenex.tools.shell import LONGEST_COMMAND, ShellPolicy, ShellRules, python_tool
from tenex.tools.workspace import Workspace
from tenex.tools.write_policy import is_confined

from .conftest import ROSTER, make_context, member


@pytest.fixture
def registry(workspace: Workspace, scratch: Path, policy: ShellPolicy) -> ToolRegistry:
    rules = ShellRules(policy=policy, timeout=30)
    tool = python_tool(workspace, rules, may_write=lambda context: not is_confined(context.phase), scratch=scratch)
    runner = member("runner", tools=frozenset({"python"}))
    return ToolRegistry([tool], {**ROSTER, runner.slug: runner}.get)


async def run(registry: ToolRegistry, program: str, phase: Phase = Phase.EXECUTE) -> ToolResult:
    return await registry.call("python", {"program": program}, make_context(phase, "runner"))


async def test_a_program_imports_from_the_workspace(registry: ToolRegistry, workspace: Workspace) -> None:
    (workspace.root / "sums.py").write_text("def six(n): return 6 * n\n")
    result = await run(registry, "from sums import six\nopen('out', 'w').write('ä')\nprint(six(7))")
    assert result == ToolResult(ok=True, content="The command ended with exit status 0. Output:\n42")
    assert (workspace.root / "out").read_text() == "ä"


async def test_a_failing_program_reports_the_line(registry: ToolRegistry) -> None:
    result = await run(registry, "x = 1\nprint(x / 0)")
    assert not result.ok
    assert 'File "<string>", line 2' in result.content
    assert "ZeroDivisionError" in result.content


async def test_1_2_it_counts_as_running(registry: ToolRegistry, workspace: Workspace) -> None:
    rule = registry.rules()["python"]
    assert (rule.access, rule.replay) == (Access.RUN, Replay.ONCE)
    for phase in (Phase.CHAT, Phase.BRAINSTORM, Phase.PLAN, Phase.REFLECTION):
        result = await run(registry, "open('out', 'w')", phase)
        assert "may not be used" in result.content
    assert not (workspace.root / "out").exists()


async def test_what_no_command_line_can_hold_is_refused(registry: ToolRegistry) -> None:
    assert "`program` holds a NUL" in (await run(registry, "x\0")).content
    assert "`program` has" in (await run(registry, "#" * (LONGEST_COMMAND + 1))).content
    assert "half of a pair" in (await run(registry, "'\ud83d'")).content
