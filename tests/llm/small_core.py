"""A core in small for the offline model's tests: real files, real processes, the phases' real table and gates."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenex.core.ids import Slug
from tenex.core.messages import (
    AgentText,
    CallRequest,
    CallResult,
    Entry,
    ModelRequest,
    ModelStep,
    Note,
    ToolSpec,
    UserText,
)
from tenex.core.phases import PHASE_ACCESS, PHASE_TRANSITIONS, QUALITY_PHASES, Access, Phase
from tenex.llm.scripted import OfflineModel

TOOLS = {
    "read_file": Access.READ,
    "list_files": Access.READ,
    "write_file": Access.CHANGE,
    "check": Access.RUN,
    "learn": Access.LEARN,
    "complete": Access.SPEAK,
    "ask": Access.SPEAK,
}
ROSTER = [
    {"slug": "project-manager", "name": "PM", "kind": "worker", "role": "", "use_when": "", "phases": ["chat"]},
    {"slug": "planner", "name": "Planner", "kind": "worker", "role": "", "use_when": "", "phases": ["plan"]},
    {"slug": "executor", "name": "Executor", "kind": "worker", "role": "", "use_when": "", "phases": ["execute"]},
    {"slug": "sage", "name": "Sage", "kind": "expert", "role": "", "use_when": "", "phases": []},
]


def offered(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name=name, description="", parameters={"type": "object"}) for name in names)


def work(*entries: Entry, phase: str = "execute", agent: str = "executor", tools: tuple[str, ...] = ()) -> ModelRequest:
    return ModelRequest(
        purpose="work", agent=Slug(agent), phase=phase, system="system", entries=entries, tools=offered(*tools)
    )


def person(text: str) -> UserText:
    return UserText(author="Ada", text=text)


class Workspace:
    """The tools over a real folder; a path in `locked` refuses every write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.locked: set[str] = set()
        self.read: set[str] = set()
        self.touched: set[str] = set()
        self.lessons: list[str] = []
        self.answers: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        self.calls.append((tool, dict(arguments)))
        path = str(arguments.get("path", ""))
        if ".." in path or path.startswith("/"):
            return False, f"{path} lies outside the workspace; give a path inside it."
        match tool:
            case "list_files":
                files = (p for p in self.root.rglob("*") if p.is_file())
                return True, "\n".join(sorted(str(p.relative_to(self.root)) for p in files)) or "(no files)"
            case "read_file":
                if not (self.root / path).is_file():
                    return False, f"There is no file {path}."
                self.read.add(path)
                # as the real tool: the last newline is not shown
                return True, (self.root / path).read_text().removesuffix("\n") or "(The file is empty.)"
            case "write_file":
                return self._write(path, arguments["content"])
            case "check":
                ran = subprocess.run(
                    [sys.executable, "-I", "-B", path], cwd=self.root, capture_output=True, text=True, timeout=20
                )
                return ran.returncode == 0, f"exit status {ran.returncode}\n{ran.stdout}{ran.stderr}"
            case "learn":
                self.lessons.append(arguments["lesson"])
                return True, "Kept."
            case "ask":
                return True, self.answers.pop(0)
        raise AssertionError(f"the model called {tool}")

    def _write(self, path: str, content: str) -> tuple[bool, str]:
        if path in self.locked:
            return False, f"{path} cannot be written: permission denied."
        if (self.root / path).exists() and path not in self.read | self.touched:
            return False, f"{path} exists and you have not read it; read it first."
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(content)
        self.touched.add(path)
        return True, f"Wrote {len(content)} characters."


@dataclass
class SmallCore:
    """One conversation."""

    workspace: Workspace
    phase: Phase = Phase.CHAT
    messages: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    said: list[Entry] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    during: dict[str, str] = field(default_factory=dict)
    """A message to send in the middle of a phase's first run."""
    answers: list[str] = field(default_factory=list)
    model: OfflineModel = field(default_factory=OfflineModel)

    def write(self, text: str) -> None:
        after = self.turns[-1]["turn"] if self.turns else None
        self.messages.append({"id": f"m{len(self.messages)}", "from": "Ada", "text": text, "after_turn": after})
        self.said.append(person(text))

    async def until_rest(self) -> str:
        """Route and work until END or USER."""
        for _ in range(20):
            decision = await self.route()
            if decision["agents"] in (["END"], ["USER"]):
                self.answers.append(decision["reason"])
                return str(decision["agents"][0])
            phase = Phase(decision["phase"])
            assert phase == self.phase or PHASE_TRANSITIONS.permits(self.phase, phase), (self.phase, phase)
            self.phase = phase
            self.phases.append(phase.value)
            await self.turn(decision)
        raise AssertionError(f"the conversation does not come to rest: {self.phases}")

    async def route(self) -> dict[str, Any]:
        document = {
            "phase": self.phase.value,
            "permitted": [str(p) for p in PHASE_TRANSITIONS.permitted(self.phase)],
            "cycle": 1,
            "messages": self.messages,
            "turns": self.turns,
            "open_gates": self.open_gates(),
            "can_end": not self.open_gates(),
            "participants": sorted({a for turn in self.turns for a in turn["agents"]}),
            "waived": [],
            "roster": ROSTER,
            "rejections": [],
        }
        request = ModelRequest(
            purpose="route",
            agent=Slug("orchestrator"),
            phase=self.phase.value,
            system="",
            entries=(Note(title="routing", text=json.dumps(document)),),
        )
        return dict(json.loads((await self.model.step(request)).text))

    def open_gates(self) -> list[str]:
        last = max((at for at, turn in enumerate(self.turns) if turn["phase"] == "execute"), default=None)
        if last is None:
            return []
        met = set()
        for turn in self.turns[last + 1 :]:
            verdicts = [c["verdict"] for c in turn["completions"]]
            if turn["phase"] != "verification" or verdicts == ["verified"]:
                met.add(turn["phase"])
        return [phase.value for phase in QUALITY_PHASES if phase.value not in met]

    async def turn(self, decision: dict[str, Any]) -> None:
        number = f"turn-{len(self.turns) + 1}"
        turn = {
            "turn": number,
            "phase": self.phase.value,
            "agents": decision["agents"],
            "reason": "",
            "completions": [],
        }
        self.turns.append(turn)
        completions = [await self.run(slug) for slug in decision["agents"]]
        turn["completions"] = completions
        self.said += [AgentText(author=c["agent"], text=c["text"]) for c in completions]

    async def run(self, slug: str) -> dict[str, Any]:
        self.workspace.read.clear()
        names = tuple(name for name, access in TOOLS.items() if access in PHASE_ACCESS[self.phase])
        entries: list[Entry] = [*self.said]
        if self.workspace.touched:  # as `core.transcript` says it
            changed = f"Files changed in this cycle: {', '.join(sorted(self.workspace.touched))}"
            entries.append(Note(title="Your part", text=changed))
        for _ in range(13):
            step = await self.model.step(work(*entries, phase=self.phase.value, agent=slug, tools=names))
            entries.append(step)
            if not step.calls:
                return completion(slug, {"response": step.text})
            if step.calls[0].tool == "complete":
                return completion(slug, step.calls[0].arguments)
            assert {call.tool for call in step.calls} <= set(names)
            entries += [self._result(call) for call in step.calls]
            if text := self.during.pop(self.phase.value, None):
                self.write(text)
                entries.append(person(text))
        raise AssertionError("the run does not end")

    def _result(self, call: CallRequest) -> CallResult:
        ok, content = self.workspace.call(call.tool, call.arguments)
        return CallResult(id=call.id, tool=call.tool, ok=ok, content=content)


def completion(slug: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "agent": slug,
        "outcome": "finished",
        "text": arguments["response"],
        "summary": arguments.get("summary", ""),
        "verdict": arguments.get("verdict"),
    }


def called(step: ModelStep) -> list[tuple[str, dict[str, Any]]]:
    return [(call.tool, dict(call.arguments)) for call in step.calls]
