"""How much of a request its agent's request before it holds from the first byte on, which is what providers cache."""

from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.decide.agent_phases import offered
from tenex.core.effects import Effect, ModelCall, Route
from tenex.core.ids import PublicKey, Slug
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.phases import Phase
from tenex.core.signals import Signal
from tenex.llm.serialized import serialized
from tenex.prompting import PromptLibrary
from tenex.prompting.prompter import ConversationPrompter
from tenex.runtime.actor import prompted
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.standard import ToolDependencies, standard_tools
from tenex.tools.workspace import Workspace
from tests.fakes.scenario import Scenario, reply, rules

BYTES_PER_TOKEN = 4


class Requests(Scenario):
    """A scenario with the built-in agents, prompts and tools, which keeps what would be sent."""

    def __init__(self, library: PromptLibrary, root: Path, router: Any, worker: Any) -> None:
        kit: Any = {"workspace": Workspace(root), "lessons": None, "check": RunPolicy.UNSANDBOXED}
        registry = ToolRegistry(standard_tools(ToolDependencies(**kit)), lambda slug: self.rules.roster.get(slug))
        roster = {one.slug: one.agent(PublicKey(f"{number:064}")) for number, one in enumerate(library.roster)}
        super().__init__(router, worker)
        self.rules = Policy(roster=roster, tools=registry.rules(), project=rules().project)
        self.specs = registry.specs
        self.prompts = ConversationPrompter(
            library,
            rules=lambda: self.rules,
            tools=self.specs,
            lessons=lambda slug, conversation: (),
            workspace_notes=lambda: None,
            project_name="demo",
        )
        self.sent: list[tuple[str, bytes]] = []

    def _seal(self, record: r.Record) -> r.Record:
        if isinstance(record, r.RunStarted):
            return prompted(self.conversation, record, self.prompts.work)
        return super()._seal(record)

    def perform(self, effect: Effect) -> Signal:
        """Keep the request first."""
        if isinstance(effect, ModelCall):
            run = self.conversation.runs[effect.run]
            tools = offered(self.conversation, run, self.rules, self.specs)
            about: Any = {"purpose": "work", "agent": run.agent, "phase": run.phase, "tools": tools}
            request = ModelRequest(**about, system=effect.system, entries=effect.entries)
            self.sent.append((run.agent, serialized(request)))
        elif isinstance(effect, Route):
            question = self.prompts.route(self.conversation)
            self.sent.append((question.agent, serialized(question)))
        return super().perform(effect)

    def shared(self) -> float:
        """The share of the requests that have one of the same agent before them."""
        same = whole = 0
        before: dict[str, bytes] = {}
        for agent, text in self.sent:
            if agent in before:
                pairs = enumerate(zip(before[agent], text, strict=False))
                same += next((at for at, (one, two) in pairs if one != two), len(text))
                whole += len(text)
            before[agent] = text
        return same / whole


def done(**arguments: str) -> tuple[str, dict[str, Any]]:
    return ("complete", arguments)


def hello(conversation: Conversation, call: ModelCall) -> ModelStep:
    """Agents that need few steps."""
    run = conversation.runs[call.run]
    match run.phase:
        case Phase.EXECUTE:
            end = done(response="I wrote hello.py.", summary="hello.py: new; `python hello.py` prints hello")
            return reply("", ("write_file", {"path": "hello.py", "content": "print('hello')\n"}), end)
        case Phase.VERIFICATION if run.steps == 0:
            return reply("", ("read_file", {"path": "hello.py"}))
        case Phase.VERIFICATION:
            return reply("", done(response="It prints hello.", verdict="verified"))
        case Phase.CHORES:
            return reply("", done(response="There was nothing to tidy.", summary="nothing to do"))
        case Phase.REFLECTION:
            return reply("", done(response="Nothing here is worth a lesson."))
        case _:
            return reply("I see. Which part of it matters most to you, and what may it cost? " * 3)


def test_of_a_simple_request_most_is_the_same_as_before(library: PromptLibrary, tmp_path: Path) -> None:

    def router(question: dict[str, Any]) -> dict[str, Any]:
        following = {
            "chat": {"phase": "execute", "agents": ["executor"]},
            "execute": {"phase": "verification", "agents": ["project-manager"]},
            "verification": {"phase": "chores", "agents": ["executor"]},
            "chores": {"phase": "reflection", "agents": question["still_to_reflect"]},
        }
        return {**following.get(question["phase"], {"agents": ["END"]}), "reason": "it is next"}

    scenario = Requests(library, tmp_path, router, hello)
    scenario.converse("create hello.py that prints hello")
    assert scenario.conversation.status == "ended"
    assert scenario.shared() > 0.8, "most runs here have one request, which begins with another phase"
    agents = [text for agent, text in scenario.sent if agent != scenario.rules.project.slug]
    question = next(text for agent, text in scenario.sent if agent == scenario.rules.project.slug)
    assert len(agents) <= 6
    assert (sum(map(len, agents)) + len(question)) / BYTES_PER_TOKEN < 15_000


def test_over_a_hundred_messages_of_chat_most_is_the_same_as_before(library: PromptLibrary, tmp_path: Path) -> None:
    def router(question: dict[str, Any]) -> dict[str, Any]:
        answered = question["turns"] and question["messages"][-1]["after_turn"] != question["turns"][-1]["turn"]
        return {"agents": ["USER" if answered else "project-manager"], "reason": "they talk"}

    scenario = Requests(library, tmp_path, router, hello)
    for number in range(100):
        scenario.converse(f"Part {number} of what I plan: it matters, and it should be simple. " * 3)
    scenario.sent = [sent for sent in scenario.sent if sent[0] == Slug("project-manager")]
    assert len(scenario.sent) == 100
    assert scenario.shared() > 0.9
