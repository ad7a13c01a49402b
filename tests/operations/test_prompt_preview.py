"""A preview is what the daemon would send, found out without touching anything."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.errors import UsageError
from tenex.core.messages import AgentText, Note, UserText
from tenex.core.phases import Phase
from tenex.main import main
from tenex.operations.prompt_preview import SAMPLE, preview
from tenex.prompting import builtin_prompts
from tenex.runtime import functions
from tenex.settings import Settings, load
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.fakes.routing import read_question

LOOPER = """
from threading import Event
from tenex.workflows.agents import BaseAgent, tool

class Looper(BaseAgent):
    __system_message__ = "You loop."
    __description__ = "Loops"

    @tool("Enter", condition=lambda self: Event().wait(60))
    def enter(self) -> str: ...

    @tool("Leave", condition=lambda self: True)
    def leave(self) -> str: ...
"""
"""An agent with a condition that does not return for a minute."""


def settings(data: Path, **more: Any) -> Settings:
    return load(None, data, overrides=more or None)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one conversation in it, held by the offline model."""
    data = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--data", str(data), "--port", "0", "--message", SAMPLE]) == 0
    return data


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in sorted(folder.rglob("*")) if f.is_file()}


def started(data: Path) -> list[r.RunStarted]:
    (journal,) = (path for path in data.glob("conversations/*/journal.jsonl") if path.parent.name != "_daemon")
    return [record for record in peek(journal, CONVERSATION) if isinstance(record, r.RunStarted)]


async def test_the_system_prompt_is_byte_for_byte_the_one_the_daemon_recorded(demo: Path, tmp_path: Path) -> None:
    first = started(demo)[0]
    (tmp_path / "workspace").mkdir()  # before anything was learned, as it was then
    shown = await preview(settings(tmp_path), str(first.agent), Phase.EXECUTE)
    assert shown.request.system == first.system
    assert shown.request.entries[0] == UserText(author="you", text=SAMPLE, role="owner", key="0" * 64)


async def test_in_a_real_conversation_real_words_and_real_lessons_are_shown(demo: Path) -> None:
    before = files(demo)
    name = next(path.name for path in (demo / "conversations").iterdir() if len(path.name) == 64)
    shown = (await preview(settings(demo), "executor", Phase.EXECUTE, conversation=name[:8])).request
    assert "# Lessons of earlier work" in shown.system
    assert [type(entry) for entry in shown.entries][:2] == [UserText, AgentText]
    asked = (await preview(settings(demo), "orchestrator", conversation=name)).request
    assert isinstance(asked.entries[0], Note)
    question = read_question(asked.entries[0].text)
    assert (question["phase"], question["can_end"]) == ("reflection", True)
    assert [turn["phase"] for turn in question["turns"]] == ["execute", "verification", "chores", "reflection"]
    assert files(demo) == before


async def test_settings_choose_tools_and_models_and_no_key_is_needed(tmp_path: Path) -> None:
    """By default a run begins where the agent usually works."""
    real = {"default": "openai:gpt-5"}
    with_one = {"default": "offline", "phases": {"plan": "openai:gpt-5"}}
    for policy, models, offered in (
        ("on", real, True),
        ("off", {}, False),
        ("auto", {}, True),
        ("auto", real, False),
        ("auto", with_one, False),
    ):
        chosen = settings(tmp_path, tools={"check": policy}, models=models)
        shown = await preview(chosen, "executor", Phase.EXECUTE)
        assert ("check" in {tool.name for tool in shown.request.tools}) is offered
    chosen = settings(tmp_path, models={"default": ["openai:gpt-5", "offline"], "router": "anthropic:x"})
    assert (await preview(chosen, "orchestrator")).models == ("anthropic:x",)
    shown = await preview(chosen, "planner")
    assert (shown.models, shown.request.phase) == (("openai:gpt-5", "offline"), Phase.PLAN)
    assert any(entry.title == "The phase: plan" for entry in shown.request.entries if isinstance(entry, Note))
    assert 500 < shown.tokens < 20_000


async def test_an_agent_that_speaks_by_states_is_shown_as_its_model_is_asked(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    text = (builtin_prompts() / "agents" / "planner.md").read_text()
    (agents / "planner.md").write_text(text.replace("---\n", "---\noutput: true\n", 1))
    native = await preview(settings(tmp_path), "planner")
    assert "Thinking: " not in native.request.system, "the offline model knows no states"
    provider = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}
    chosen = settings(tmp_path, models={"default": "local:m", "providers": {"local": provider}})
    shown = await preview(chosen, "planner")
    assert "Thinking: " in shown.request.system
    assert '"name": "..."' in shown.request.system
    assert shown.request.tools == ()


async def test_a_condition_that_does_not_return_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "TIMEOUT", 0.1)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "looper.py").write_text(LOOPER)
    shown = await asyncio.wait_for(preview(settings(tmp_path), "looper", Phase.EXECUTE), 20)
    offered = {tool.name for tool in shown.request.tools}
    assert "enter" not in offered, "its condition gave no answer"
    assert "leave" in offered


async def test_a_missing_agent_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no agent 'ghost'; there are: executor"):
        await preview(settings(tmp_path), "ghost")
