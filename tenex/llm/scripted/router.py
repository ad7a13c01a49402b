"""Routing by fixed rules: the newest message chooses the first phase, then the gates are passed in order.

Issues are repaired twice and failed work is tried again once; after that, and in chat and brainstorm, the user is next.
"""

import json
from typing import Any

from tenex.core.messages import ModelRequest, Note

from .requests import intent_of, read_request, short
from .worker import NOTHING_DONE, UNDERSTOOD

_REPAIRS = 2  # rounds of repair in a row: more of the same rules would not help
_USUAL = {"chat": "project-manager", "brainstorm": "project-manager", "plan": "planner"}

Question = dict[str, Any]
"""The document of `tenex.workflows.phases.router_prompt`."""


def answer_route(request: ModelRequest) -> str:
    """A routing decision as JSON; a question that cannot be read leads to the user."""
    notes = [entry.text for entry in request.entries if isinstance(entry, Note) and entry.title == "routing"]
    try:
        question: Question = json.loads(notes[-1])
        if len(question["rejections"]) > 1:  # the first may be of another model
            return _decision(["USER"], f"the decision was rejected: {short(question['rejections'][-1], 200)}")
        return _choose(question)
    except (LookupError, TypeError, ValueError):
        return _decision(["USER"], "the routing question could not be read")


def _decision(agents: list[str], reason: str, phase: str = "") -> str:
    fields = {"agents": agents, "phase": phase, "reason": reason}
    return json.dumps({name: value for name, value in fields.items() if value}, ensure_ascii=False)


def _go(question: Question, phase: str, reason: str) -> str:
    """Work in a phase: by those still to reflect, else by its usual agent or another that works in it."""
    if phase == "reflection" and question["still_to_reflect"]:
        return _decision(question["still_to_reflect"], reason, phase)
    usual = _USUAL.get(phase, "executor")
    workers = [worker for worker in question["roster"] if worker["kind"] == "worker"]
    workers.sort(key=lambda worker: (worker["slug"] != usual, phase not in worker["phases"]))
    if not workers:
        return _decision(["USER"], f"no agent can work in {phase}")
    return _decision([workers[0]["slug"]], reason, phase)


def _choose(question: Question) -> str:
    if not question["turns"]:
        return _answer(question, "there is no message yet")
    last = question["turns"][-1]
    phase, done = last["phase"], [one for one in last["completions"] if one["outcome"] == "finished"]
    verdicts = {one["verdict"] for one in done}
    if not done and phase != "reflection":
        return _repeat(question, phase, last["agents"], "failed work is tried again", 1)
    if any((one["summary"] or "").startswith(NOTHING_DONE) for one in done):
        return _answer(question, "the message is answered")
    if phase == "verification" and verdicts != {"verified"}:
        return _repeat(question, "execute", [], "verification found issues", _REPAIRS)
    is_understood = any((one["text"] or "").startswith(UNDERSTOOD) for one in done)
    if (phase == "plan" or is_understood) and "execute" in question["permitted"]:
        return _go(question, "execute", "what is wanted is clear")
    for target in ("execute", "chat") if question["can_end"] else ("execute",):
        if target in question["permitted"] and _has_late_request(question):
            return _go(question, target, "the user asked for more in the meantime")
    if phase in ("execute", "verification", "chores", "reflection"):
        if question["can_end"]:
            return _decision(["END"], "the work is done and no gate is open")
        gates = (gate for gate in question["open_gates"] if gate not in question["waived"])
        if gate := next((gate for gate in gates if gate in (phase, *question["permitted"])), None):
            return _go(question, gate, f"the gate {gate} is open")
    return _answer(question, "the message is answered")


def _repeat(question: Question, phase: str, agents: list[str], reason: str, times: int) -> str:
    """Work in a phase again, unless its turns since the newest message were that many, or a user has stopped it."""
    turns, written = question["turns"], {message["after_turn"] for message in question["messages"]}
    start = max((at for at, turn in enumerate(turns, start=1) if turn["turn"] in written), default=0)
    is_stopped = any(one["outcome"] == "stopped" for one in turns[-1]["completions"])
    if is_stopped or sum(turn["phase"] == phase for turn in turns[start:]) > times:
        return _answer(question, f"the work in {phase} was stopped, or has failed too often")
    return _decision(agents, reason, phase) if agents else _go(question, phase, reason)


def _has_late_request(question: Question) -> bool:
    """Whether a request came after the last execution; one during reflection is carried over by END."""
    turns = question["turns"]
    executed = max((at for at, turn in enumerate(turns, start=1) if turn["phase"] == "execute"), default=0)
    late = {turn["turn"] for turn in turns[executed:] if turn["phase"] != "reflection"}
    texts = [one["text"] for one in question["messages"] if one["after_turn"] in late or not executed]
    return any(intent_of(text, "", is_asked=False) == "execute" for text in texts)


def _answer(question: Question, why_not: str) -> str:
    """Go where the messages since the last turn lead, as far as that phase is permitted; wait where there are none."""
    messages, turns = question["messages"], question["turns"]
    if not messages or (turns and messages[-1]["after_turn"] != turns[-1]["turn"]):
        return _decision(["USER"], why_not)
    texts, here = [str(message["text"]) for message in messages], question["phase"]
    intent = intent_of(texts[-1], here if turns else "", is_asked=any(map(read_request, texts)))
    wanted = (intent, "execute" if intent == "plan" else "chat", "chat")
    phase = next((one for one in wanted if one in (here, *question["permitted"])), here)
    return _go(question, phase, f"“{short(texts[-1])}” leads to {phase}")
