"""Agents written in Python in a daemon: read from files, reloaded, and at work over a relay."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import ConfigurationError
from tenex.core.ids import ConversationId, Slug
from tenex.core.messages import CallResult
from tenex.core.phases import Phase
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing
from tenex.settings import load, resolve_paths
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tests.fakes.python_agents import ScriptedModel, manages, researches
from tests.service import person

PAGES = Path(__file__).parents[1] / "workflows" / "pages"


@asynccontextmanager
async def serving(data: Path, model: ScriptedModel, *pages: str) -> AsyncIterator[tuple[Application, str, Path]]:
    """A daemon in this process whose folder of agents holds these pages."""
    async with embedded_relay() as url:
        prepare(data, None, [url])
        settings = load(None, data, env={})
        agents = resolve_paths(settings).agents
        agents.mkdir(parents=True, exist_ok=True)
        for page in pages:
            shutil.copy(PAGES / page, agents)
        async with open_application(settings, model=model) as app, asyncio.TaskGroup() as group:
            ready = asyncio.Event()

            async def up() -> None:
                await app.pool.listening("addressed", 10)
                ready.set()

            group.create_task(app.serve(up))
            await ready.wait()
            try:
                yield app, url, agents
            finally:
                app.runtime.stop()


def rests(data: Path, name: str) -> Conversation | None:
    """The conversation once it waits for the user and all is sent."""
    journal = data / "conversations" / name / "journal.jsonl"
    state = fold(ConversationId(name), peek(journal, CONVERSATION) if journal.exists() else [])
    return state if state.status == "waiting" and not state.outbox else None


def test_the_page_s_agent_works_in_a_conversation_over_a_relay(tmp_path: Path) -> None:
    model = ScriptedModel(researches, router="research-agent")

    async def main() -> None:
        async with serving(tmp_path, model, "research_agent.py") as (_, url, _):
            ring = KeyRing(tmp_path / "keys")
            note = person.note(ring.get("owner"), "Research tea", ["p", ring.get("project").public])
            await person.publish(url, note)

            state = await person.until(partial(rests, tmp_path, note["id"]))
            sent = [event["content"] for event in await person.stored(url, authors=[ring.get("research-agent").public])]
            assert "Done: Analysis of 3 data points" in sent
            agent_state = state.agent_states["research-agent"]
            assert (agent_state.phase, len(agent_state.values["data"])) == ("analysis", 3)

    asyncio.run(main())
    own = [[name for name in names if name in ("create_plan", "gather_data", "analyze")] for names in model.tools]
    assert own == [["create_plan"], *[["gather_data"]] * 3, *[["analyze"]] * 2]
    assert "Current phase: planning\nFocus on creating a research plan." in model.asked[0].system
    assert "Current phase: research\nExecute the research plan" in model.asked[1].system


def test_the_page_s_agent_calls_its_sub_agents_over_a_relay(tmp_path: Path) -> None:
    model = ScriptedModel(manages, router="project-agent")

    async def main() -> None:
        async with serving(tmp_path, model, "project_agent.py") as (_, url, _):
            ring = KeyRing(tmp_path / "keys")
            note = person.note(ring.get("owner"), "Build a shed", ["p", ring.get("project").public])
            await person.publish(url, note)
            state = await person.until(partial(rests, tmp_path, note["id"]))
            sent = {event["content"]: event["pubkey"] for event in await person.stored(url, kinds=[1], _e=[note["id"]])}
            assert sent == {"All done.": ring.get("project-agent").public}, "answers of sub-agents are for their caller"
            assert (state.agent_states["project-agent"].phase, list(state.agent_states)) == (
                "review",
                ["project-agent"],
            )

    asyncio.run(main())
    assert [request.agent for request in model.asked].count(Slug("planner-agent")) == 1
    results = {entry.tool: entry for entry in model.asked[-1].entries if isinstance(entry, CallResult)}
    assert (results["reviewer"].ok, results["reviewer"].content) == (True, "reviewer-agent did what was asked")
    assert (results["planner"].ok, "it belongs to planning" in results["planner"].content) == (False, True)
    own = ("planner", "executor", "reviewer")
    offers = [[name for name in names if name in own] for names in model.tools if "complete" in names]
    assert [names for names in offers if names] == [["planner"]] * 2 + [["executor"]] * 3 + [["reviewer"]] * 2


def test_files_are_read_again_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, ScriptedModel(researches), "research_agent.py") as (app, _, agents):
            before = app.current.now
            assert before.rules.roster[Slug("research-agent")].name == "Research Agent"
            offered = [spec.name for spec in before.tools.specs(Phase.CHAT, Slug("research-agent"))]
            assert {"create_plan", "gather_data", "analyze"} < set(offered)
            assert "create_plan" not in [spec.name for spec in before.tools.specs(Phase.EXECUTE, Slug("executor"))]

            (agents / "second_agent.py").write_text((PAGES / "research_agent.py").read_text())
            await app.reload()
            assert Slug("second-agent") in app.current.now.rules.roster, "two agents may have a tool of one name"

            (agents / "broken.py").write_text("import nothing_of_that_name\n")
            (agents / "empty.py").write_text("x = 1\n")
            (agents / "second-agent.md").write_text("no front matter")
            shell = (PAGES / "research_agent.py").read_text().replace("create_plan", "shell").replace("data:", "phase:")
            (agents / "shell_agent.py").write_text(shell)
            kept = app.current.now
            with pytest.raises(ConfigurationError) as caught:
                await app.reload()
            shown = "\n".join(caught.value.faults)
            for word in (
                "broken.py: it failed while it was loaded: line 1: ModuleNotFoundError",
                "empty.py: it holds no BaseAgent",
                "second_agent.py: there is second-agent.md too",
                "a field of state cannot be called phase",
            ):
                assert word in shown, word
            assert app.current.now is kept

    asyncio.run(main())
