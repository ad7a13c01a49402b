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
from tenex.tools.check import CheckPolicy
from tenex.tools.registry import ToolRegistry
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace
from tests.fakes.play import Play, rules


class Notebook:
    """Keeps lessons in a list."""

    def __init__(self) -> None:
        self.lessons: list[str] = []

    async def record(self, **fields: Any) -> None:
        self.lessons.append(fields["lesson"])


class OfflinePlay(Play):
    """A play whose every mind is the offline model, over a real folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.model = OfflineModel()
        self.notebook = Notebook()
        tools = standard_tools(Workspace(root), self.notebook, check=CheckPolicy.UNSANDBOXED)
        self.registry = ToolRegistry(tools, lambda slug: self.rules.roster.get(slug))
        known = rules()
        named = frozenset(self.registry.rules())
        roster = {slug: dataclasses.replace(member, tools=named) for slug, member in known.roster.items()}
        config = dataclasses.replace(known, tools=self.registry.rules(), roster=roster)
        super().__init__(self._route, self._work, config=config)

    def _route(self, question: dict[str, Any]) -> str:
        entries = (Note(title="routing", text=json.dumps(question)),)
        request = ModelRequest(purpose="route", agent=Slug("o"), phase="chat", system="", entries=entries)
        return asyncio.run(self.model.step(request)).text

    def _work(self, conversation: Conversation, call: ModelCall) -> ModelStep:
        run = conversation.runs[call.run]
        tools = self.registry.specs(run.phase, self.rules.roster[run.agent])
        request = ModelRequest(
            purpose="work", agent=run.agent, phase=run.phase, system="", entries=run.entries, tools=tools
        )
        return asyncio.run(self.model.step(request))

    def perform(self, effect: Effect) -> Signal:
        if not isinstance(effect, ToolCall):
            return super().perform(effect)
        call = self.registry.call(effect.request.tool, effect.request.arguments, effect.context)
        return ToolReturned(key=effect.key, result=asyncio.run(call))

    def refusals(self) -> list[Any]:
        """Everything the core refused."""
        waits = [record for record in self.all(r.Waiting) if record.reason == "fallback"]
        return [*self.all(r.RouteRejected), *self.all(r.ToolCallRejected), *self.all(r.ModelReprompted), *waits]


@pytest.fixture
def play(tmp_path: Path) -> OfflinePlay:
    return OfflinePlay(tmp_path)


def test_a_request_reaches_its_end_without_a_refusal(play: OfflinePlay) -> None:
    """No routing answer and no call is refused on the way, and the program is there."""
    play.person("Create hello.py that prints hello")
    play.settle()
    assert play.conversation.status == "ended"
    assert [str(phase) for phase in play.phases()] == ["execute", "verification", "chores", "reflection"]
    assert play.refusals() == []
    assert (play.root / "hello.py").read_text() == 'print("hello")\n'
    assert any("ran `python hello.py`" in text for text in play.said())
    assert len(play.notebook.lessons) == 1


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        (["Plan the work: create hello.py that prints hello"], "ended"),
        (["Let's brainstorm ideas for a garden app", "create garden.txt with seeds"], "ended"),
        (["hi", "create a.txt with one", "change one to two in a.txt"], "ended"),
        (["Create hello.py that prints hello", "Create hello.py that prints hello"], "ended"),
        (["Create a.txt with one", "Append two to a.txt", "make a list of milk and eggs in todo.md"], "ended"),
        (["Refactor server.py"], "waiting"),
        (["What can you do?", "thanks", "ok"], "waiting"),
        (["", "🙃"], "waiting"),
    ],
)
def test_conversations_come_to_rest_without_a_refusal(play: OfflinePlay, texts: list[str], status: str) -> None:
    """Several messages, each after the former was answered: every one is answered."""
    for text in texts:
        play.person(text)
        play.settle()
    assert play.refusals() == []
    assert play.conversation.status == status
    assert len(play.said()) >= len(texts)


def test_what_was_there_keeps_its_form(play: OfflinePlay) -> None:
    """A file of the person's is changed in the one place, whatever `read_file` shows of its end."""
    (play.root / "notes.txt").write_text("one\r\n\r\n  two cats\n")
    (play.root / "empty.txt").write_text("")
    play.person("Change cats to dogs in notes.txt and append three to empty.txt")
    play.settle()
    assert play.conversation.status == "ended"
    assert (play.root / "notes.txt").read_bytes() == b"one\r\n\r\n  two dogs\n"
    assert (play.root / "empty.txt").read_text() == "three\n"


@pytest.mark.parametrize("steps", range(0, 34, 2))
def test_a_request_at_any_moment_is_carried_out(play: OfflinePlay, steps: int) -> None:
    """A second request comes after so many steps of work; both are done in the end."""
    play.person("Create hello.py that prints hello")
    for _ in range(steps):
        play.step()
    play.person("also create bye.py that prints bye")
    play.settle()
    assert play.conversation.status == "ended"
    assert (play.root / "hello.py").exists()
    assert (play.root / "bye.py").exists()
    assert [record for record in play.all(r.Waiting) if record.reason == "fallback"] == []


def test_an_ask_is_answered_by_the_next_message(play: OfflinePlay) -> None:
    play.person("Create a script that prints hello. Ask me which name it should have")
    play.settle()
    assert len(play.conversation.asks) == 1
    play.person("greeter")
    play.settle()
    assert play.conversation.status == "ended"
    assert (play.root / "greeter.py").exists()
