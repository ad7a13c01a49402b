"""Agents written in Python and the shipped examples, in a daemon: read, reloaded, and at work over a relay."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tenex.app import Application, open_application
from tenex.cli.init import prepare
from tenex.configuration.agents import read_library
from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.phases import Phase
from tenex.main import main
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.settings import load, resolve_paths
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tenex.tools.standard import TOOL_NAMES
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, decision
from tests.fakes.modelserver import model_server, text_of
from tests.fakes.python_agents import ScriptedModel, calls, results
from tests.fakes.scenario import reply
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import MODEL, folder_with_model

PAGES = Path(__file__).parents[1] / "workflows" / "pages"
EXAMPLES = Path(__file__).parents[2] / "config" / "agents"


@asynccontextmanager
async def serving(data: Path, model: ScriptedModel, *files: Path) -> AsyncIterator[tuple[Application, str, Path]]:
    """A daemon in this process whose folder of agents holds these files, its relay, and the folder."""
    async with embedded_relay() as url:
        prepare(data, None, [url])
        settings = load(None, data, env={})
        agents = resolve_paths(settings).agents
        for file in files:
            shutil.copy(file, agents)
        async with open_application(settings, model=model) as app, asyncio.TaskGroup() as group:
            group.create_task(app.serve())
            await app.pool.listening("addressed", 10)
            try:
                yield app, url, agents
            finally:
                app.runtime.stop()


def rests(data: Path, name: str) -> Conversation | None:
    """The conversation once it waits for the user and all is sent."""
    journal = data / "conversations" / name / "journal.jsonl"
    state = fold(ConversationId(name), peek(journal, CONVERSATION) if journal.exists() else [])
    return state if state.cycle.status == "waiting" and not state.delivery.outbox else None


async def asked(data: Path, url: str, text: str) -> tuple[Conversation, dict[str, str]]:
    """Write to the project; the conversation once it rests, and what was sent with the author's key."""
    ring = KeyRing(data / "keys")
    note = person.note(ring.get("owner"), text, ["p", ring.get("project").public])
    await person.publish(url, note)
    state = await person.until(partial(rests, data, note["id"]))
    return state, {event["content"]: event["pubkey"] for event in await person.stored(url, kinds=[1], _e=[note["id"]])}


CLAIMS = ["Tea is a plant.", "Tea is blue."]
NO_SOURCE = "it is green or black"


def checks(request: ModelRequest) -> ModelStep:
    """List two claims, settle one that is none, ask the skeptic about the second, settle both, conclude."""
    if request.agent == "skeptic":
        return ModelStep(text="It is green or black; quite sure.", model="script")
    way = (
        calls("settle", claim=CLAIMS[0], verdict="true", because="too early"),
        calls("list_claims", claims=CLAIMS),
        calls("settle", claim="Tea is dear.", verdict="true", because="no source supports it"),
        calls("skeptic", message=CLAIMS[1]),
        calls("settle", claim=CLAIMS[0], verdict="true", because="it grows"),
        calls("settle", claim=CLAIMS[1], verdict="false", because=NO_SOURCE),
        ModelStep(text="One claim holds, one does not.", model="script"),
    )
    return way[len(results(request))]


async def test_the_shipped_fact_checker_goes_through_its_phases_with_its_sub_agent(tmp_path: Path) -> None:
    model = ScriptedModel(checks, router="fact-checker")
    async with serving(tmp_path, model, EXAMPLES / "fact_checker.py") as (_, url, _):
        state, sent = await asked(tmp_path, url, " ".join(CLAIMS))
    assert sent == {"One claim holds, one does not.": KeyRing(tmp_path / "keys").get("fact-checker").public}
    agent_state = state.memory.agent_states["fact-checker"]
    assert [move.target for move in agent_state.history] == ["checking", "concluding"]
    assert agent_state.values["verdicts"] == {CLAIMS[0]: "true: it grows", CLAIMS[1]: f"false: {NO_SOURCE}"}
    own = [request for request in model.asked if request.agent == "fact-checker"]
    shown = results(own[-1])
    tools = ["settle", "list_claims", "settle", "skeptic", "settle", "settle"]
    assert [(entry.tool, entry.ok) for entry in shown] == list(
        zip(tools, [False, True, False, *[True] * 3], strict=True)
    )
    assert "it belongs to checking" in shown[0].content
    assert "no such claim was listed" in shown[2].content
    assert shown[3].content == "It is green or black; quite sure."
    offers = [{"list_claims", "settle", "skeptic"} & set(names) for names in model.tools]
    assert [names for names in offers if names] == [{"list_claims"}] * 2 + [{"settle", "skeptic"}] * 4
    has_claims = [all(f"- {claim}" in request.system for claim in CLAIMS) for request in own]
    assert has_claims == [False] * 2 + [True] * 4 + [False]


def does_research(request: ModelRequest) -> ModelStep:
    """Plan, gather three findings, conclude; try in each phase what belongs to another."""
    find = [("append_state", {"field": "data", "value": f"finding {n}"}) for n in range(4)]
    read, write = ("read_file", {"path": "a.txt"}), ("write_file", {"path": "b.txt", "content": "what follows"})
    plan = ("set_state", {"field": "research_plan", "value": "read a"})
    way = {0: reply("", read, plan), 2: reply("", read, write, *find[:3]), 7: reply("", find[3], write)}
    return way.get(len(results(request)), reply("It follows that a."))


async def test_the_shipped_researcher_plans_researches_and_concludes(tmp_path: Path) -> None:
    model = ScriptedModel(does_research, router="researcher", phase="execute")
    async with serving(tmp_path, model, EXAMPLES / "researcher.md") as (_, url, _):
        (tmp_path / "workspace" / "a.txt").write_text("a")
        state, sent = await asked(tmp_path, url, "What follows from a.txt?")
    assert "It follows that a." in sent
    assert (tmp_path / "workspace" / "b.txt").read_text() == "what follows"
    found = state.memory.agent_states["researcher"]
    assert [(move.source, move.target) for move in found.history] == [
        ("planning", "research"),
        ("research", "analysis"),
    ]
    assert found.values == {"research_plan": "read a", "data": [f"finding {n}" for n in range(4)]}
    scoped = {"read_file", "search_files", "write_file"}
    offered = [set(names) & scoped for names in model.tools]
    assert offered == [set(), {"read_file", "search_files"}, {"write_file"}, {"write_file"}]
    assert all({"set_state", "append_state"} <= set(names) for names in model.tools)
    words = ["Focus on creating", "The plan: read a", *(f"form conclusions from all {n} findings" for n in (3, 4))]
    assert [[word for word in words if word in request.system] for request in model.asked] == [[word] for word in words]
    shown = results(model.asked[-1])
    refused = [entry.tool for entry in shown if not entry.ok and "your phase " in entry.content]
    assert (refused, len(shown)) == (["read_file", "write_file"], 9)


PRIVATE = "The worst: no one has tried it with an empty file."


def objects(request: Json) -> Answer:
    """Route to the critic once; it plans in private, leaves out the plan the first time, and gives its answer."""
    asked = Asked(request)
    if asked.question is not None:
        who = "USER" if asked.question["turns"] else "critic"
        return decision(request, {"agents": [who], "reason": "it is theirs"})
    word = {"name": "complete", "arguments": {"response": "Try it with an empty file."}}
    action = f"```tool\n{json.dumps(word)}\n```"
    is_again = '<note title="Refused">' in text_of(request["messages"][-1])
    return Answer(text=f"<risks>{PRIVATE}</risks>\n{action}" if is_again else action)


async def test_the_shipped_critic_plans_in_a_private_state_and_publishes_only_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    assert main(["--data", str(data), "agents", "add", "--like", "critic"]) == 0
    async with embedded_relay() as url, model_server(objects) as server:
        monkeypatch.setenv("LOCAL_KEY", server.key)
        folder = folder_with_model(data, url, server)
        settings = load(None, data, env={"TENEX_MODELS__DEFAULT": MODEL}, parse_key=parse_public_key)
        async with open_application(settings) as app, asyncio.TaskGroup() as group:
            group.create_task(app.serve())
            await app.pool.listening("addressed", 10)
            name = await folder.write("Is `rm -r` of the cache a good plan?")
            await person.until(lambda: rests(data, name))
            app.runtime.stop()
        stored = await person.stored(url)
    assert any(event["content"] == "Try it with an empty file." for event in stored)
    assert PRIVATE not in json.dumps(stored)
    (step,) = [record.step for record in of_kind(folder.records(name), r.ModelResponded)]
    assert (step.thinking, step.usage.calls) == (f"risks:\n{PRIVATE}", 2)
    prompts = [Asked(exchange.request).system for exchange in server.exchanges]
    assert sum("Risks: List what may go wrong" in prompt and "Thinking: " in prompt for prompt in prompts) == 2


async def test_files_are_read_again_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    page = PAGES / "research_agent.py"
    async with serving(tmp_path, ScriptedModel(checks), page) as (app, _, agents):
        before = app.current.now
        assert before.policy.roster[Slug("research-agent")].name == "Research Agent"
        offered = [spec.name for spec in before.tools.specs(Phase.CHAT, Slug("research-agent"))]
        assert {"create_plan", "gather_data", "analyze"} < set(offered)
        assert "create_plan" not in [spec.name for spec in before.tools.specs(Phase.EXECUTE, Slug("executor"))]

        shutil.copy(page, agents / "second_agent.py")
        await app.reload()
        assert Slug("second-agent") in app.current.now.policy.roster, "two agents may have a tool of one name"

        (agents / "broken.py").write_text("import nothing_of_that_name\n")
        (agents / "empty.py").write_text("x = 1\n")
        (agents / "second-agent.md").write_text("no front matter")
        shell = page.read_text().replace("create_plan", "shell").replace("data:", "phase:")
        (agents / "shell_agent.py").write_text(shell)
        kept = app.current.now
        await app.reload()
        now = app.current.now.policy
        assert set(now.disabled_agents) == {"broken", "empty", "second-agent", "shell-agent"}
        shown = "\n".join(fault for faults in now.disabled_agents.values() for fault in faults)
        for word in (
            "broken.py: it failed while it was loaded: line 1: ModuleNotFoundError",
            "empty.py: it holds no BaseAgent",
            "second_agent.py: there is second-agent.md too",
            "a field of state cannot be called phase",
        ):
            assert word in shown, word
        assert set(now.roster) == set(kept.policy.roster) - {"second-agent"}, "the others are read as they are"


# ---- without a daemon ----

LEAD = """
from tenex.workflows.agents import AgentLink, BaseAgent, Link
{source}

class Lead(BaseAgent):
    __system_message__ = "You lead."
    {link}: Link[{kind}] = AgentLink()
"""
OWN = 'class Planner(BaseAgent):\n    __system_message__ = "You plan."'
IMPORTED = "from tests.workflows.pages.project_agent import PlannerAgent"


def write(file: Path, link: str = "planning", source: str = OWN, kind: str = "Planner") -> None:
    """A file of an agent that calls another."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(LEAD.format(link=link, source=source, kind=kind))


def test_a_sub_agent_cannot_have_the_name_of_a_tool(tmp_path: Path) -> None:
    write(tmp_path / "lead.py", "shell")
    library = read_library(tmp_path, TOOL_NAMES, code_refusal="")
    fault = f"{tmp_path / 'lead.py'}: shell is a tool of the daemon's. Call the link by another name."
    assert library.faults == {"lead": (fault,)}


@pytest.mark.parametrize("slug", ["lead", "planner"])
def test_an_agent_in_python_is_not_copied_as_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slug: str
) -> None:
    file = tmp_path / "agents" / "lead.py"
    write(file)
    assert main(["--data", str(tmp_path), "agents", "add", slug]) == 2
    assert f"{slug} is written in Python, in {file}" in capsys.readouterr().err
    assert not list(file.parent.glob("*.md"))


def test_a_sub_agent_s_class_is_called_and_not_routed_to_and_may_serve_several_files(tmp_path: Path) -> None:
    write(tmp_path / "lead.py")
    for name in ("second", "third"):
        write(tmp_path / f"{name}.py", source=IMPORTED, kind="PlannerAgent")
    library = read_library(tmp_path, TOOL_NAMES, code_refusal="")
    found = {str(slug): one.agent(PublicKey("k")).is_called_only for slug, one in library.definitions.items()}
    assert (found["planner-agent"], found["planner"], found["lead"]) == (True, True, False)
