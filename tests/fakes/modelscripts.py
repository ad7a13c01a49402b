"""Models for `modelserver` that play orchestrator and agents, distinguished by what they are asked, as a real model is.

A model keeps nothing between two requests: what it answers follows from the request alone, so a restart of either side
changes nothing.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .modelprotocol import Answer, Call, Json, Reply
from .modelserver import text_of
from .routing import read_question
from .scenario import longest_way

_AGENT = re.compile(r"^You are [^\n]*?\(`([a-z0-9-]+)`\)", re.MULTILINE)
_PHASE = re.compile(r"^(?:# |<note title=\")The phase: ([a-z]+)(?:\">)?$", re.MULTILINE)
_FILE = re.compile(r"\b[a-z]+-\d+\.txt\b")
ORCHESTRATOR = "You are the orchestrator of"
UNFINISHED = "TODO"
UNDONE = "Call it again."


class Asked:
    """A request as a model understands it."""

    def __init__(self, request: Json) -> None:
        self.request = request

    @cached_property
    def system(self) -> str:
        roles = ("system", "developer")
        return "\n".join(text_of(message) for message in self.request["messages"] if message["role"] in roles)

    @cached_property
    def words(self) -> str:
        """All that is in the role of the user."""
        return "\n".join(text_of(message) for message in self.request["messages"] if message["role"] == "user")

    @cached_property
    def question(self) -> Json | None:
        """The router's question; None where an agent is asked."""
        if ORCHESTRATOR not in self.system:
            return None
        start = self.words.index("{")
        return read_question(self.words[start : json.JSONDecoder().raw_decode(self.words, start)[1]])

    @cached_property
    def agent(self) -> str:
        found = _AGENT.search(self.system)
        assert found, f"no agent is named in: {self.system[:500]}"
        return found[1]

    @cached_property
    def phase(self) -> str:
        found = _PHASE.search(self.words) or _PHASE.search(self.system)  # an agent with phases of its own has it there
        assert found, f"no phase is named in: {self.words[-500:]}"
        return found[1]

    @cached_property
    def steps(self) -> int:
        """Answers with calls that this run has given before."""
        return sum(bool(message.get("tool_calls")) for message in self.request["messages"])

    @cached_property
    def results(self) -> dict[str, list[str]]:
        """What the calls of this run gave back, by tool, in order; not those that a stop of the daemon left undone."""
        messages = self.request["messages"]
        calls = [call for message in messages for call in message.get("tool_calls") or []]
        names = {call["id"]: call["function"]["name"] for call in calls}
        found: dict[str, list[str]] = {}
        for message in messages:
            if message["role"] == "tool" and UNDONE not in text_of(message):
                found.setdefault(names[message["tool_call_id"]], []).append(text_of(message))
        return found

    @cached_property
    def messages(self) -> int:
        """How many messages of people the agent is shown."""
        return self.words.count('kind="person"')

    @cached_property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.request.get("tools") or []]

    @cached_property
    def file(self) -> str:
        """The file the user speaks of, such as `note-07.txt`."""
        found = _FILE.search(self.words)
        return found[0] if found else "note-00.txt"


def decision(request: Json, value: Any) -> Answer:
    """A routing decision in the way the request asks for: by a tool, if there is one, or as the text."""
    tools = request.get("tools") or []
    if tools:
        return Answer(calls=(Call(tool=tools[0]["function"]["name"], arguments=value),))
    return Answer(text=value if isinstance(value, str) else json.dumps(value))


Router = Callable[[Json], Mapping[str, Any]]
Worker = Callable[[Asked], Reply]


def all_phases(question: Json) -> Mapping[str, Any]:
    """A good orchestrator on the longest way, one agent at a time; it waits for the user in chat and in brainstorm."""
    decision = longest_way(question)
    return {**decision, "agents": ["executor"]} if decision.get("phase") == "execute" else decision


def straight(question: Json) -> Mapping[str, Any]:
    """A good orchestrator that goes to execute at once."""
    if not question["turns"]:
        return {"phase": "execute", "agents": ["executor"], "reason": "the request is clear"}
    if question["phase"] in ("chat", "brainstorm"):
        return {"agents": ["USER"], "reason": "the person has the word"}
    return all_phases(question)


_NEXT = {("chat", 2): "brainstorm", ("brainstorm", 3): "plan"}
"""Where a talk leads, by its phase and the number of messages, as with `all_phases`."""


def diligent(asked: Asked) -> Answer:
    """A good agent: reads, drafts, verifies by reading, repairs, tidies, learns; several calls in an answer."""
    file, notes = asked.file, asked.file.replace(".txt", ".md")
    done = asked.results
    if (next_phase := _NEXT.get((asked.phase, asked.messages))) and "hand_over" in asked.tools:
        return calls(("hand_over", {"phase": next_phase, "reason": f"on to {next_phase}"}))
    match asked.phase:
        case "plan" if "list_files" not in done:
            return calls(("list_files", {}))
        case "plan":
            return complete(response=f"1. Write {file}.\n2. Describe it in {notes}.", summary=f"{file}, then {notes}")
        case "execute":
            return _executing(asked, file, notes, drafts=True)
        case "verification" if "read_file" not in done:
            return calls(("read_file", {"path": notes}), ("read_file", {"path": file}))
        case "verification" if UNFINISHED in done["read_file"][-1]:
            return complete(response=f"{file} is unfinished.", verdict="issues", issues=f"{file} says {UNFINISHED}")
        case "verification":
            return complete(response=f"{file} says what it should.", verdict="verified")
        case "chores" if "read_file" not in done:
            return calls(("read_file", {"path": notes}))
        case "chores" if "write_file" not in done:
            return calls(("write_file", {"path": notes, "content": f"# About {file}\n"}))
        case "chores":
            return complete(response=f"{notes} describes {file}.", summary="notes written")
        case "reflection" if "learn" not in done:
            lesson = "A draft that says TODO is found in verification; write it whole at once."
            return calls(("learn", {"title": f"About {file}", "lesson": lesson}))
        case _:
            return Answer(text=f"This is the word of {asked.agent} in {asked.phase} on {file}.")


def swift(asked: Asked) -> Answer:
    """The same, but for its first draft, which is the last one."""
    if asked.phase == "execute":
        return _executing(asked, asked.file, asked.file.replace(".txt", ".md"), drafts=False)
    return diligent(asked)


def brisk(asked: Asked) -> Answer:
    """An agent that needs as few answers as it can: its last call and `complete` come in one."""
    match asked.phase:
        case "execute":
            done = {"response": f"{asked.file} is there.", "summary": f"{asked.file} is new; read it"}
            return calls(("write_file", {"path": asked.file, "content": "all done\n"}), ("complete", done))
        case "verification" if "read_file" not in asked.results:
            return calls(("read_file", {"path": asked.file}))
        case "chores":
            return complete(response="Nothing is left to tidy.", summary="nothing to do")
        case "reflection":
            lesson = {"title": asked.agent, "lesson": "Write it whole at once."}
            return calls(("learn", lesson), ("complete", {"response": "I write it whole at once."}))
        case _:
            return diligent(asked)


def _executing(asked: Asked, file: str, notes: str, *, drafts: bool) -> Answer:
    read = asked.results.get("read_file")
    if read is None:
        return calls(("list_files", {}), ("read_file", {"path": file}), ("read_file", {"path": notes}))
    if "write_file" not in asked.results:
        is_draft = drafts and UNFINISHED not in read[0]  # the second round is the one that repairs it
        content = f"{file}: {UNFINISHED}\n" if is_draft else f"{file}: all done\n"
        files = ("write_file", {"path": file, "content": content}), ("write_file", {"path": notes, "content": "#\n"})
        return calls(*files, reasoning="I shall write both files at once.")
    return complete(response=f"I wrote {file} and {notes}.", summary=f"{file}: new. {notes}: new.")


@dataclass(frozen=True, slots=True)
class Team:
    """An orchestrator and agents; call it with a request."""

    router: Router = straight
    worker: Worker = diligent

    def __call__(self, request: Json) -> Reply:
        asked = Asked(request)
        if asked.question is not None:
            return decision(request, self.router(asked.question))
        return self.worker(asked)


def team(request: Json) -> Reply:
    """The team that goes straight to execute: `python -m tests.fakes.modelserver tests.fakes.modelscripts:team`."""
    return Team()(request)


def calls(*wanted: tuple[str, Json], reasoning: str = "") -> Answer:
    return Answer(calls=tuple(Call(tool=tool, arguments=given) for tool, given in wanted), reasoning=reasoning)


def complete(**arguments: str) -> Answer:
    return calls(("complete", arguments))
