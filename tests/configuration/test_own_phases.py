"""An agent of front matter over a relay: it goes through its own phases, with the prompt and the tools of each."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

from tenex.app import open_application
from tenex.cli.init import prepare
from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.messages import CallResult, ModelRequest, ModelStep, Note
from tenex.core.ports import OnText, ignore_text
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import KeyRing
from tenex.settings import load
from tests.fakes.scenario import reply
from tests.service import person

EXAMPLE = Path(__file__).parents[2] / "config" / "agents" / "researcher.md"


class Researcher:
    """Plans, gathers three findings, concludes; tries in each phase what belongs to another."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer."""
        if request.purpose == "route":
            question = json.loads(next(entry.text for entry in request.entries if isinstance(entry, Note)))
            go = {"agents": ["researcher"], "phase": "execute", "reason": "research is wanted"}
            return reply(json.dumps({"agents": ["USER"], "reason": "it is answered"} if question["turns"] else go))
        self.requests.append(request)
        find = [("append_state", {"field": "data", "value": f"finding {n}"}) for n in range(3)]
        steps = [
            reply("", ("read_file", {"path": "a.txt"}), ("set_state", {"field": "research_plan", "value": "read a"})),
            reply("", ("read_file", {"path": "a.txt"}), ("write_file", {"path": "b.txt", "content": "x"}), *find),
            reply(
                "",
                ("append_state", {"field": "data", "value": "finding 3"}),
                ("write_file", {"path": "b.txt", "content": "what follows"}),
            ),
        ]
        return steps[len(self.requests) - 1] if len(self.requests) <= len(steps) else reply("It follows that a.")


class Recorder:
    """What became durable."""

    def __init__(self) -> None:
        self.records: list[r.Record] = []

    def on_records(self, conversation: Conversation, records: Any) -> None:
        """Keep it."""
        self.records += records

    def of(self, kind: type[r.Record]) -> list[Any]:
        """The records of a kind."""
        return [record for record in self.records if isinstance(record, kind)]


async def test_the_shipped_researcher_plans_researches_and_concludes(tmp_path: Path) -> None:
    model, recorder, data = Researcher(), Recorder(), tmp_path / "data"
    async with embedded_relay() as url:
        prepare(data, None, [url])
        shutil.copy(EXAMPLE, data / "agents" / "researcher.md")
        (data / "workspace" / "a.txt").write_text("a")
        settings = load(None, data, env={})
        async with open_application(settings, model=model, observers=[recorder]) as app, asyncio.TaskGroup() as group:
            ready = asyncio.Event()

            async def is_ready() -> None:
                ready.set()

            group.create_task(app.serve(is_ready))
            await ready.wait()
            owner = KeyRing(data / "keys").get("owner")
            asked = person.note(owner, "What follows from a.txt?", ["p", app.project.public])
            await person.publish(url, asked)
            view = data / "conversations" / asked["id"] / "conversation.json"
            await person.until(lambda: recorder.of(r.Waiting) and view.exists())
            await person.until(lambda: json.loads(view.read_text())["status"] == "waiting")
            shown = json.loads(view.read_text())["agents"]["researcher"]
            published = await person.stored(url, _e=[asked["id"]])
            app.runtime.stop()

    assert [(move["from"], move["to"]) for move in shown["history"]] == [
        ("planning", "research"),
        ("research", "analysis"),
    ]
    assert shown["phase"] == "analysis"
    assert shown["state"] == {"research_plan": "read a", "data": [f"finding {n}" for n in range(4)]}
    assert any(event["content"] == "It follows that a." for event in published)
    assert (data / "workspace" / "b.txt").read_text() == "what follows"

    refused = [(record.tool, "your phase " in record.sentence) for record in recorder.of(r.ToolCallRejected)]
    assert refused == [("read_file", True), ("write_file", True)]
    scoped = {"read_file", "search_files", "write_file"}
    offered = [{tool.name for tool in request.tools} & scoped for request in model.requests]
    assert offered == [set(), {"read_file", "search_files"}, {"write_file"}, {"write_file"}]
    assert all({"set_state", "append_state"} <= {tool.name for tool in request.tools} for request in model.requests)
    words = ["Focus on creating", "The plan: read a", *(f"form conclusions from all {n} findings" for n in (3, 4))]
    for request, now in zip(model.requests, words, strict=True):
        assert [word for word in words if word in request.system] == [now]
    results = [entry.ok for entry in model.requests[-1].entries if isinstance(entry, CallResult)]
    assert results == [False, True, True, False, *[True] * 5]
