"""The offline model under the real core and with the real tools: `decide` and the registry hold it to the rules."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.effects import Effect, ModelCall, ToolCall
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, Note
from tenex.core.signals import Signal, ToolReturned
from tenex.llm.scripted import OfflineModel
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace
from tests.fakes.scenario import Scenario, policy
from tests.tools.conftest import KeptLessons


class OfflinePlay(Scenario):
    """A scenario in which the offline model answers every request, over a real folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.model = OfflineModel()
        self.kept = KeptLessons()
        tools = standard_tools(
            ToolDependencies(workspace=Workspace(root), lessons=self.kept, check=RunPolicy.UNSANDBOXED)
        )
        self.registry = ToolRegistry(tools, lambda slug: self.policy.roster.get(slug))
        known = policy()
        named = frozenset(self.registry.rules())
        roster = {slug: dataclasses.replace(member, tools=named) for slug, member in known.roster.items()}
        config = dataclasses.replace(known, tools=self.registry.rules(), roster=roster)
        super().__init__(self._route, self._work, config=config)

    def _route(self, question: dict[str, Any]) -> str:
        entries = (Note(title="routing", text=json.dumps(question)),)
        request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=entries)
        return asyncio.run(self.model.step(request)).text

    def _work(self, conversation: Conversation, call: ModelCall) -> ModelStep:
        run = conversation.work.runs[call.run]
        tools = self.registry.specs(run.phase, self.policy.roster[run.agent])
        request = ModelRequest(
            purpose="work", agent=run.agent, phase=run.phase, system="", entries=run.entries, tools=tools
        )
        return asyncio.run(self.model.step(request))

    def perform(self, effect: Effect) -> Signal:
        if not isinstance(effect, ToolCall):
            return super().perform(effect)
        call = self.registry.call(effect.request.tool, effect.request.arguments, effect.context)
        return ToolReturned(key=effect.key, result=asyncio.run(call))

    def writes(self, *texts: str) -> str:
        """Several messages, each after the former was answered; the last answer."""
        for text in texts:
            self.user_writes(text)
            self.settle()
        return self.sent_texts()[-1]

    def refusals(self) -> list[Any]:
        """Everything the core refused."""
        kinds = (r.RouteRejected, r.ToolCallRejected, r.ModelReprompted)
        refused: list[Any] = [record for kind in kinds for record in self.records(kind)]
        return [*refused, *(record for record in self.records(r.Waiting) if record.reason == "fallback")]


@pytest.fixture
def scenario(tmp_path: Path) -> OfflinePlay:
    return OfflinePlay(tmp_path)


HELLO = "Create hello.py that prints hello"


@pytest.mark.parametrize(
    ("texts", "status", "answer"),
    [
        (["Plan the work: create hello.py that prints hello"], "ended", "Done.\n\n- Ch"),
        (["Let's brainstorm ideas for a garden app", "create garden.txt with seeds"], "ended", "Done.\n\n- Ch"),
        (["hi", "create a.txt with one", "change one to two in a.txt"], "ended", "Done.\n\n- Ch"),
        ([HELLO, HELLO], "ended", "Done.\n\n- Ch"),
        (["Create a.txt with one", "Change one to two in a.txt", "thank you"], "waiting", "You are"),
        (["Create a.txt with one", "List the files"], "waiting", "The files:\n\n```\na.txt"),
        (["Create a.txt with one", "Read a.txt"], "waiting", "`a.txt`:\n\n```\none\n```"),
        (["Read nothing.txt", "List the files"], "waiting", ""),
        (["Read nothing.txt", "make it blue"], "waiting", "I am"),
        (["Hello there"], "waiting", "Hello."),
        (["How should we structure the billing service?", "thanks"], "waiting", "You are"),
        (["How should we structure the billing service?", HELLO], "ended", "Done.\n\n- Ch"),
        ([HELLO, "no"], "waiting", "All right"),
        (["What can you do?", "thanks", "ok"], "waiting", ""),
        (["", "🙃"], "waiting", ""),
    ],
)
def test_conversations_come_to_rest_without_a_refusal(
    scenario: OfflinePlay, texts: list[str], status: str, answer: str
) -> None:
    last = scenario.writes(*texts)
    assert scenario.refusals() == []
    assert (scenario.conversation.cycle.status, last[: len(answer)]) == (status, answer)
    assert len(scenario.sent_texts()) >= len(texts)


def test_a_request_goes_through_the_phases_in_which_it_is_tried_and_learned_from(scenario: OfflinePlay) -> None:
    scenario.writes(HELLO)
    assert [str(phase) for phase in scenario.phases()] == ["execute", "verification", "chores", "reflection"]
    assert (scenario.root / "hello.py").read_text() == 'print("hello")\n'
    assert any("ran `python hello.py`" in text for text in scenario.sent_texts())
    assert len(scenario.kept.by_key) == 1


@pytest.mark.parametrize("text", ["Refactor server.py", "¿?", "What can you do?", "Create ../x.py that prints hello"])
def test_what_it_cannot_do_is_answered_with_what_to_configure(scenario: OfflinePlay, text: str) -> None:
    assert "models.default" in scenario.writes(text)
    assert list(scenario.root.iterdir()) == []


@pytest.mark.parametrize("steps", range(0, 34, 2))
def test_a_request_at_any_moment_is_carried_out(scenario: OfflinePlay, steps: int) -> None:
    """A second request comes after so many steps of work; both are done in the end."""
    scenario.user_writes(HELLO)
    for _ in range(steps):
        scenario.step()
    scenario.writes("also create bye.py that prints bye")
    assert scenario.conversation.cycle.status == "ended"
    assert {"hello.py", "bye.py"} <= {file.name for file in scenario.root.iterdir()}
    assert [record for record in scenario.records(r.Waiting) if record.reason == "fallback"] == []


@pytest.mark.parametrize("answer", ["greeter", "call it greeter.py please"])
def test_a_missing_name_is_asked_for(scenario: OfflinePlay, answer: str) -> None:
    scenario.writes("Create a script that prints hello")
    assert len(scenario.conversation.work.asks) == 1
    scenario.writes(answer)
    assert scenario.conversation.cycle.status == "ended"
    assert (scenario.root / "greeter.py").read_text() == 'print("hello")\n'


def test_a_failing_program_is_repaired_twice_and_then_reported(scenario: OfflinePlay) -> None:
    last = scenario.writes("Create fails.py with\n```\nraise SystemExit(3)\n```")
    assert last == "Work has stopped: there are issues after 2 repairs. Write how it is to go on, or `/continue`."
    assert "exit status 3" in scenario.sent_texts()[-2]
    assert [str(phase) for phase in scenario.phases()] == ["execute", "verification"] * 3
    assert scenario.conversation.cycle.status == "waiting"
