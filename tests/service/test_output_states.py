"""An agent that speaks by states, in a real daemon before a real server: Proxy Base Agent's own class, over a relay."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tenex.core import records as r
from tenex.service.client import ask
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, decision
from tests.fakes.modelserver import model_server, text_of
from tests.kits.output_states import SECRET, call, critique, put
from tests.output_states.kit import Engine
from tests.programs import needs_bubblewrap

from . import person
from .kit import Folder, of_kind, tenex_here
from .loopback import folder_with_model, serving, settled

PROGRAM = """import os, time
with open("started", "a") as file:
    file.write("once ")
print(os.environ["HOME"])
time.sleep(60)
"""
QUICK = 'import os\nprint("home", os.environ["HOME"], 6 * 7)'


FIRST = f"{critique('it may take long')}```python\n{PROGRAM}```"
SECOND = f"{critique('it has hung, so be quick')}```python\n{QUICK}\n```"
SPOILT = f"{SECRET} outside of any state, then {call('complete', response='not this')}"
LAST = critique("it is done") + call("complete", response="The answer is 42.", summary="done")


ROUTES: list[Json] = [
    {"phase": "plan", "agents": ["executor"], "reason": "it is wanted"},
    {"phase": "execute", "agents": ["executor"], "reason": "it is wanted"},
    {"agents": ["USER"], "reason": "the person has the word"},
]


def by_states(request: Json) -> Answer:
    """An orchestrator that plans, executes and waits; an executor that runs where it may not, and where it may."""
    asked = Asked(request)
    if asked.question is not None:
        return decision(request, ROUTES[len(asked.question["turns"])])
    sent = sum(message["role"] == "assistant" for message in request["messages"])
    refused = '<note title="Refused">' in text_of(request["messages"][-1])
    planned = critique("planned") + call("complete", response="A plan.", summary="planned")
    answers = [planned if refused else FIRST] if asked.phase == "plan" else [FIRST, SECOND, LAST if refused else SPOILT]
    return Answer(text=answers[min(sent, len(answers) - 1)])


@asynccontextmanager
async def overheard(url: str) -> AsyncIterator[list[str]]:
    """Every frame the relay gives to somebody who asks for everything, ephemeral events among them."""
    frames: list[str] = []

    async def listen(socket: ClientConnection) -> None:
        async for frame in socket:
            frames.append(str(frame))  # noqa: PERF401  (it is read meanwhile)

    async with connect(url, max_size=None, proxy=None) as socket:
        await socket.send(json.dumps(["REQ", "all", {}]))
        listening = asyncio.create_task(listen(socket))
        yield frames
        listening.cancel()


@needs_bubblewrap
async def test_1_2_a_conversation_by_states_outlives_a_kill_and_publishes_no_thoughts(
    tmp_path: Path, relay: str
) -> None:
    async with model_server(by_states) as server, overheard(relay) as frames:
        folder = folder_with_model(tmp_path / "data", relay, server)
        folder.edit('kind = "openai"', 'kind = "openai"\ngrammar = "structural_tag"')
        put(folder)
        # by rule a call with an unknown result would have to be verified
        routed = {"TENEX_CONVERSATIONS__ROUTE_BY_RULE": "false"}
        async with serving(folder, server, **routed) as process:
            name = await folder.write("What is six times seven?")
            started = folder.workspace / "started"
            await person.until(lambda: started.is_file() and started.read_text())
            await process.die()
        async with serving(folder, server, **routed) as process:
            seen: list[Json] = []
            watched = asyncio.create_task(watch(folder, seen))
            await settled(folder, name, "waiting")
            watched.cancel()
        assert not process.errors
        stored = await person.stored(relay)
    assert started.read_text() == "once ", "what was cut off is not repeated"
    records = folder.records(name)
    steps = [record.step for record in of_kind(records, r.ModelResponded)]
    assert [call.tool for step in steps for call in step.calls] == ["complete", "python", "python", "complete"]
    assert all(step.thinking.startswith(f"critique:\n{SECRET}") for step in steps), "people can read it on disk"
    results = {record.tool: record.content for record in of_kind(records, r.ToolCallCompleted)}
    assert "home /tmp/home 42" in results["python"], "it ran in the sandbox"
    assert [step.usage.calls for step in steps] == [2, 1, 1, 2], "what was refused is paid for"
    check_requests(server.exchanges)
    assert any("The answer is 42." in event["content"] for event in stored)
    assert frames
    critiques = [one for one in seen if one["kind"] == "closed" and one["state"] == "critique"]
    assert {(one["emoji"], one["color"], one["conversation"]) for one in critiques} == {("🔍", "dim red", name)}
    assert SECRET in critiques[-1]["text"], "the operator of this machine sees it"
    assert SECRET not in "".join(frames) + json.dumps(stored), "nothing private is on a relay, not for a moment"
    assert server.refused == []


def check_requests(exchanges: Any) -> None:
    """What the executor's model was sent: a grammar for the tools of the phase, its own words, results as text."""
    asked = [Asked(exchange.request) for exchange in exchanges]
    asked = [one for one in asked if one.question is None]
    planning, executing = ([one for one in asked if one.phase == phase] for phase in ("plan", "execute"))
    sent = [group[0].request["structured_outputs"]["structural_tag"] for group in (planning, executing)]
    grammars = [Engine.of_tag(json.loads(one)) for one in sent]
    assert [engine.accepts(FIRST) for engine in grammars] == [False, True], "the phase is in the grammar"
    assert [engine.accepts(LAST) for engine in grammars] == [True, True]
    assert all("tools" not in one.request for one in asked)
    assert ["Critique: Name what may go wrong" in one.system for one in asked] == [True] * len(asked)
    assert "```python" not in planning[0].system
    after_the_kill = executing[1].request["messages"]
    assert text_of(after_the_kill[-2]) == FIRST.removesuffix("```").rstrip() + "\n```", "its words, from the journal"
    assert "Result of python, which failed" in text_of(after_the_kill[-1])
    assert "the process stopped while this ran" in text_of(after_the_kill[-1])


async def watch(folder: Folder, seen: list[Json]) -> None:
    """Look on over the socket, as `tenex chat` does."""
    after = (await ask(folder.data / "tenex.sock", "watch"))["after"]
    while True:
        answer = await ask(folder.data / "tenex.sock", "watch", patience=30, after=after)
        after = answer["after"]
        seen += answer["entries"]


FAULTS = [
    ("yes please", "`output` must be lines of `key: value`"),
    ("{plan: thinking}", "`output.plan` must be a list, such as"),
    ("{mni: 1}", "Did you mean `min`?"),
    ("{min: 4}", "min_planning_loops is 4 and max_planning_loops 3"),
    ("{max: many}", "`output.max` must be a whole number"),
    ("{plan: [thinkin]}", "there is no state `thinkin`"),
    ("{plan: [thinking, thinking]}", "Two states are called thinking"),
    ("{plan: [python]}", "takes an action and is not allowed in `plan`"),
    ("{act: [thinking]}", "is private and takes no action"),
    ("{act: []}", "nothing could ever be done"),
    ("{plan: ['states.py:Missing']}", "`states.py:Missing` is no subclass of AgentState"),
    ("{plan: ['nowhere.py:State']}", "nowhere.py: it failed while it was loaded"),
    ("{plan: ['../states.py:Critique']}", "lies beside the agents"),
]


@pytest.mark.parametrize(("output", "sentence"), FAULTS)
async def test_a_fault_of_the_front_matter_is_named_before_anything_runs(
    tmp_path: Path, output: str, sentence: str
) -> None:
    folder = Folder(tmp_path / "data", "ws://127.0.0.1:9")
    put(folder, f"output: {output}")
    code, _, err = await tenex_here("config", "check", "--data", folder.data)
    assert code == 3
    assert sentence in " ".join(err.split())
    assert "executor.md:" in err


REPORTER = '''
from tenex.workflows.agents import BaseAgent
from tenex.output_states import AgentState, JsonStateMachine, StateMachine, Thinking


class Report(AgentState):
    def __init__(self):
        super().__init__("report", "report", ("<report>", "</report>"), "green", "R")

    @property
    def state_machine(self):
        schema = {"type": "object", "properties": {"risk": {"type": "string"}}, "required": ["risk"]}
        return StateMachine({0: [(JsonStateMachine(schema), 1)]}, 0, [1])

    @property
    def state_prompt(self):
        return "Report."

    def readable_format(self, string):
        import json
        return f"Risk: {json.loads(string)['risk']}"


class Reporter(BaseAgent):
    """Reports risks."""

    __system_message__ = "You report."
    kind = "expert"
    output = {"plan": [Thinking], "act": [Report], "min": 0}
'''


async def test_an_agent_in_python_answers_by_states_and_people_read_its_readable_format(
    tmp_path: Path, relay: str
) -> None:
    left = ['<report>{"risk": 1}</report>', '<report>{"risk": "none"}</report>']

    def model(request: Json) -> Answer:
        asked = Asked(request)
        if asked.question is None:
            return Answer(text=left.pop(0))
        if asked.question["turns"]:
            return decision(request, {"agents": ["USER"], "reason": "the person has the word"})
        return decision(request, {"agents": ["reporter"], "reason": "it is wanted"})

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        (folder.data / "agents" / "reporter.py").write_text(REPORTER)
        async with serving(folder, server):
            name = await folder.write("What may go wrong?")
            await settled(folder, name, "waiting")
        stored = await person.stored(relay)
    assert left == []
    assert [event["content"] for event in stored if "Risk" in event["content"]] == ["Risk: none"]
    assert not [event for event in stored if "{" in event["content"] and event["kind"] != 0]
