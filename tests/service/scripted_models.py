"""Models of orders (`moments`), by their names."""

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenex.core.errors import ModelUnavailable
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep, Note, Usage, UserText
from tenex.core.phases import Phase
from tenex.core.ports import Model, OnText, ignore_text
from tenex.core.values import replace
from tenex.llm.scripted import OfflineModel
from tests.fakes.python_agents import ScriptedModel, calls, results


def edits(request: ModelRequest) -> ModelStep:
    """Read `pets.txt`, change it with `edit_file`, and look what came of it."""
    seen = results(request)
    if len(seen) == 1:
        return calls("edit_file", path="pets.txt", edits=[{"old": "cat", "new": "dog"}])
    if len(seen) < 3:
        return calls("read_file", path="pets.txt")
    return ModelStep(text=f"It is now: {seen[-1].content}", model="script")


NEXT = {"chat": "execute", "execute": "verification", "verification": "chores", "chores": "reflection"}
WRITES = ("write_file", {"content": "as it was agreed\n"})
STEPS: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "planner": [("set_state", {"field": "stage", "value": 1}), WRITES],
    "executor": [
        ("ask_planner", {"message": "How shall it be built?"}),
        ("set_state", {"field": "stage", "value": 1}),
        WRITES,
        ("set_state", {"field": "stage", "value": 2}),
    ],
}


def asks(request: ModelRequest) -> ModelStep:
    """Ask which colour, and say what the answer was."""
    answers = results(request)
    if not answers:
        return calls("ask", question="Which colour?")
    return ModelStep(text=f"I paint it {answers[-1].content}.", model="script")


def watches(request: ModelRequest) -> ModelStep:
    """Start a command in the background, look what it prints, and end without stopping it."""
    seen = results(request)
    if not seen:
        return calls("shell_start", command="echo watching; exec sleep 600")
    if len(seen) == 1:
        return calls("shell_read", id=seen[0].content.split()[0])
    return ModelStep(text="I have watched.", model="script")


def looks_into(request: ModelRequest) -> ModelStep:
    """Look into the newest file that people have sent: by a program, by the tools that read; then try to change it."""
    texts = " ".join(entry.text for entry in request.entries if isinstance(entry, UserText))
    named = re.findall(r"/inbox/[\w.-]+", texts)
    if not named:
        return ModelStep(text=f"I was sent nothing: {texts}", model="script")
    ways = (
        calls("shell", command=f"sha256sum {named[-1]}; echo changed > {named[-1]}"),
        calls("list_files", path="/inbox"),
        calls("read_file", path=named[-1]),
        calls("search_files", path="/inbox", pattern="total"),
        calls("write_file", path=named[-1], content="changed"),
    )
    seen = results(request)
    if len(seen) < len(ways):
        return ways[len(seen)]
    return ModelStep(text="\n".join(result.content for result in seen), model="script")


class Household:
    """An executor that has its planner write a plan, goes through its own phases by it, and then the cycle's to END."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "route":
            phase = json.loads(next(entry.text for entry in request.entries if isinstance(entry, Note)))["phase"]
            way = {"agents": ["executor"], "phase": NEXT[phase]} if phase in NEXT else {"agents": ["END"]}
            return ModelStep(text=json.dumps({**way, "reason": "it is next"}), model="script")
        steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
        if request.phase is Phase.VERIFICATION:
            written = [f"{agent}.txt" for agent in STEPS]
            if steps < len(written):
                return calls("read_file", path=written[steps])
            return calls("complete", response="It works", verdict="verified")
        if request.phase is not Phase.EXECUTE:
            return ModelStep(text=f"{request.agent} has done {request.phase}", model="script")
        if steps == len(STEPS[request.agent]):
            return ModelStep(text=f"{request.agent} is done", model="script")
        tool, arguments = STEPS[request.agent][steps]
        return calls(tool, **arguments, **({"path": f"{request.agent}.txt"} if tool == "write_file" else {}))


class Appender:
    """An executor that runs commands in one step and reports the last result, whatever it is; nothing else is asked."""

    def __init__(self, *commands: str) -> None:
        self.commands = commands

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if request.purpose == "route":
            question = json.loads(next(entry.text for entry in request.entries if isinstance(entry, Note)))
            is_first = question["phase"] == "chat"
            way = {"agents": ["executor"], "phase": "execute"} if is_first else {"agents": ["USER"]}
            return ModelStep(text=json.dumps({**way, "reason": "it is next"}), model="script")
        seen = results(request)
        if not seen:
            wanted = tuple(_shell(number, line) for number, line in enumerate(self.commands))
            return ModelStep(calls=wanted, model="script")
        return ModelStep(text=f"It gave: {seen[-1].content}", model="script")


def _shell(number: int, line: str) -> CallRequest:
    return CallRequest(id=CallId(f"c{number}"), tool="shell", arguments={"command": line})


class Paid(OfflineModel):
    """Has a price."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        step = await super().step(request, on_text)
        return replace(step, usage=Usage(input_tokens=1000, output_tokens=10, cost_usd=0.01))


class Away(OfflineModel):
    """Cannot be reached until there is a file `go`."""

    def __init__(self, marks: Path) -> None:
        super().__init__()
        self.marks = marks

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        if not (self.marks / "go").exists():
            raise ModelUnavailable("connection refused by the model's server")
        return await super().step(request, on_text)


class Stuck(Away):
    """Blocks the whole loop."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        (self.marks / "held").touch()
        while True:
            time.sleep(0.01)  # noqa: ASYNC251  (that is the point)


MODELS: Mapping[str, Callable[[Path], Model]] = {
    "offline": lambda _: OfflineModel(),
    "editor": lambda _: ScriptedModel(edits, "executor", "execute"),
    "asker": lambda _: ScriptedModel(asks, "executor", "execute"),
    "household": lambda _: Household(),
    "reader": lambda _: ScriptedModel(looks_into, "executor", "execute"),
    "watcher": lambda _: ScriptedModel(watches, "executor", "execute"),
    "appender": lambda _: Appender("echo ran >> ran.txt"),
    "appender twice": lambda _: Appender("echo ran >> ran.txt", "echo again >> ran.txt"),
    "paid": lambda _: Paid(),
    "away": Away,
    "stuck": Stuck,
}
