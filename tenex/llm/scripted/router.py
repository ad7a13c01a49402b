"""Routing by fixed rules: the newest message chooses the first phase, then the gates are passed in order.

Issues are repaired twice and failed work is tried again once; after that, and in chat and brainstorm, the user is next.
"""

import json
from typing import Any

from tenex.core.messages import ModelRequest, Note

from .requests import intent_of, read_request, short
from .worker import NOTHING_DONE, UNDERSTOOD, small_talk

_REPAIRS = 2  # rounds of repair in a row: more of the same rules would not help
_USUAL = {"chat": "project-manager", "brainstorm": "project-manager", "plan": "planner"}

Question = dict[str, Any]
"""The document of `tenex.workflows.phases.router_prompt`."""
Turn = dict[str, Any]


def answer_route(request: ModelRequest) -> str:
    """A routing decision as JSON; a question that cannot be read leads to the user."""
    notes = [entry.text for entry in request.entries if isinstance(entry, Note) and entry.title == "routing"]
    try:
        question: Question = json.loads(notes[-1])
        rejections = question["rejections"]
        if not rejections:
            return _choose(question)
        if len(rejections) == 1 and (gate := _open_gate(question)):
            return _go(question, gate, f"the gate {gate} is open")
        if len(rejections) == 1 and _news(question):
            return _by_text(question)
        return _wait(f"the decision was rejected: {short(rejections[-1], 200)}")
    except (LookupError, TypeError, ValueError):
        return _wait("the routing question could not be read")


def _decision(agents: list[str], reason: str, phase: str = "") -> str:
    fields = {"agents": agents, "phase": phase, "reason": reason}
    return json.dumps({name: value for name, value in fields.items() if value}, ensure_ascii=False)


def _wait(reason: str) -> str:
    return _decision(["USER"], reason)


def _go(question: Question, phase: str, reason: str) -> str:
    """Work in a phase: by those still to reflect, else by its usual agent or another that works in it."""
    if phase == "reflection" and question["still_to_reflect"]:
        return _decision(question["still_to_reflect"], reason, phase)
    usual = _USUAL.get(phase, "executor")
    workers = [worker for worker in question["roster"] if worker["kind"] == "worker"]
    workers.sort(key=lambda worker: (worker["slug"] != usual, phase not in worker["phases"]))
    return _decision([workers[0]["slug"]], reason, phase) if workers else _wait(f"no agent can work in {phase}")


def _on(question: Question, gate: str, reason: str) -> str:
    """Go on to a gate, or past waived ones to the next, or to the end."""
    if question["can_end"]:
        return _decision(["END"], "the work is done and the gates ahead are waived")
    if gate in question["waived"]:
        gate = _open_gate(question) or gate
    return _go(question, gate, reason)


def _open_gate(question: Question) -> str | None:
    gates = (gate for gate in question["open_gates"] if gate not in question["waived"])
    return next((gate for gate in gates if gate in question["permitted"]), None)


def _news(question: Question) -> list[str]:
    """The messages since the last turn opened."""
    last = question["turns"][-1]["turn"] if question["turns"] else None
    return [message["text"] for message in question["messages"] if message["after_turn"] == last]


def _since(question: Question) -> list[Turn]:
    """The turns since the newest message; all of them where there are none."""
    turns: list[Turn] = question["turns"]
    newest = question["messages"][-1]["after_turn"] if question["messages"] else None
    start = next((at for at, turn in enumerate(turns, start=1) if turn["turn"] == newest), 0)
    return turns[start:] or turns


def _finished(turn: Turn) -> list[dict[str, Any]]:
    return [completion for completion in turn["completions"] if completion["outcome"] == "finished"]


def _choose(question: Question) -> str:
    news = _news(question)
    if not question["turns"]:
        return _by_text(question) if question["messages"] else _wait("there is no message yet")
    last = question["turns"][-1]
    done = _finished(last)
    if not done and last["phase"] != "reflection":
        return _after_failure(question, last)
    match last["phase"]:
        case "plan" if "execute" in question["permitted"]:
            return _go(question, "execute", "the plan is made")
        case "execute" if not all((one["summary"] or "").startswith(NOTHING_DONE) for one in done):
            return _on(question, "verification", "the changes have to be tested")
        case "verification":
            return _after_verification(question, {one["verdict"] for one in done})
        case "chores":
            return _on(question, "reflection", "the workspace is tidy")
        case "reflection":
            return _after_reflection(question)
        case "chat" if not news and any((one["text"] or "").startswith(UNDERSTOOD) for one in done):
            return _go(question, "execute", "the request is understood")
        case _:
            return _by_text(question) if news else _wait("the message is answered")


def _by_text(question: Question) -> str:
    """Go where the newest message leads, as far as that phase is permitted."""
    texts = [message["text"] for message in question["messages"]]
    last = question["turns"][-1]["phase"] if question["turns"] else ""
    intent = "chat" if small_talk(texts[-1]) else intent_of(texts[-1])
    if intent == "assent":
        is_asked = last == "plan" or any(map(read_request, texts))
        intent = "execute" if is_asked else "plan" if last == "brainstorm" else "chat"
    wanted = (intent, "execute" if intent == "plan" else "chat", "chat")
    phase = next((one for one in wanted if one in (question["phase"], *question["permitted"])), question["phase"])
    return _go(question, phase, f"“{short(texts[-1])}” leads to {phase}")


def _after_failure(question: Question, last: Turn) -> str:
    news = _news(question)
    if news and intent_of(news[-1]) != "assent":
        return _by_text(question)
    if not news and any(completion["outcome"] == "stopped" for completion in last["completions"]):
        return _wait("the work was stopped")
    failed = [turn for turn in _since(question) if turn["phase"] == last["phase"] and not _finished(turn)]
    if not news and len(failed) > 1:
        return _wait(f"the work in {last['phase']} failed a second time")
    return _decision(last["agents"], "failed work is tried again", last["phase"])


def _after_verification(question: Question, verdicts: set[str | None]) -> str:
    if verdicts == {"verified"}:
        if _has_new_request(question):
            return _go(question, "execute", "the user asked for more in the meantime")
        return _on(question, "chores", "the work is verified")
    if "issues" not in verdicts:
        return _wait("verification ended without a verdict")
    rounds = sum(one["verdict"] == "issues" for turn in _since(question) for one in turn["completions"])
    if rounds > _REPAIRS and not _news(question):
        return _wait(f"verification still finds issues after {_REPAIRS} repairs")
    return _go(question, "execute", "verification found issues")


def _after_reflection(question: Question) -> str:
    if question["can_end"] and _has_new_request(question):
        return _go(question, "chat", "the user asked for more in the meantime")
    if question["can_end"]:
        return _decision(["END"], "everyone has reflected and no gate is open")
    if question["still_to_reflect"] and "reflection" in question["open_gates"]:
        return _go(question, "reflection", "they have not reflected yet")
    gate = _open_gate(question)
    return _go(question, gate, f"the gate {gate} is open") if gate else _wait("an open gate cannot be reached")


def _has_new_request(question: Question) -> bool:
    """Whether a request came after the last execution began; one during reflection is carried over by END."""
    phases = [turn["phase"] for turn in question["turns"]]
    executed = len(phases) - phases[::-1].index("execute") if "execute" in phases else 0
    late = {turn["turn"] for turn in question["turns"][executed:] if turn["phase"] != "reflection"}
    return any(message["after_turn"] in late and read_request(message["text"]) for message in question["messages"])
