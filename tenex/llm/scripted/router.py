"""Routing by fixed rules: the newest message chooses the first phase, then the gates are passed in order.

Issues are repaired twice; after that, after failed work, and in chat and brainstorm, the user is next.
"""

import json
from typing import Any

from tenex.core.messages import ModelRequest, Note, without_context
from tenex.core.phases import AFTER_WORK

from .requests import asks_nothing, intent_of, read_request, short
from .worker import NOTHING_DONE, UNDERSTOOD

_REPAIRS = 2  # of a cycle: more of the same rules would not help
_USUAL = {"chat": "project-manager", "brainstorm": "project-manager", "plan": "planner"}

Question = dict[str, Any]
"""The document of `tenex.workflows.phases.router_prompt`."""
Decision = dict[str, Any]


def answer_route(request: ModelRequest) -> str:
    """A routing decision as JSON; a question that cannot be read leads to the user."""
    return json.dumps(_decide(request), ensure_ascii=False)


def _decide(request: ModelRequest) -> Decision:
    notes = [entry.text for entry in request.entries if isinstance(entry, Note) and entry.title == "routing"]
    try:
        question: Question = json.loads(notes[-1])
        question["history"] = [item for item in question["history"] if "decision" not in item]
        for item in question["history"]:
            if "turn" not in item:
                item["text"] = without_context(item["text"])
        if len(question["rejections"]) > 1:  # the first may be of another model
            return _decision(["USER"], f"the decision was rejected: {short(question['rejections'][-1], 200)}")
        return _choose(question) | _settles(question)
    except (LookupError, TypeError, ValueError):
        return _decision(["USER"], "the routing question could not be read")


def _decision(agents: list[str], reason: str, phase: str = "") -> Decision:
    fields = {"agents": agents, "phase": phase, "reason": reason}
    return {name: value for name, value in fields.items() if value}


def _go(question: Question, phase: str, reason: str) -> Decision:
    """Work in a phase: by those still to reflect, else by its usual agent or another that works in it."""
    if phase == "reflection" and question["still_to_reflect"]:
        return _decision(question["still_to_reflect"], reason, phase)
    usual = _USUAL.get(phase, "executor")
    workers = [worker for worker in question["roster"] if worker["kind"] == "worker"]
    workers.sort(key=lambda worker: (worker["slug"] != usual, phase not in worker["phases"]))
    if not workers:
        return _decision(["USER"], f"no agent can work in {phase}")
    return _decision([workers[0]["slug"]], reason, phase)


def _turns(question: Question) -> list[dict[str, Any]]:
    return [item for item in question["history"] if "turn" in item]


def _choose(question: Question) -> Decision:
    turns = _turns(question)
    permitted = question["permitted"]
    if not turns:
        return _answer(question, "there is no message yet")
    phase = turns[-1]["phase"]
    done = [one for one in turns[-1]["completions"] if one["outcome"] == "finished"]
    if not done and phase != "reflection":
        return _answer(question, f"the work in {phase} failed")
    if any((one["summary"] or "").startswith(NOTHING_DONE) for one in done):
        return _answer(question, "the message is answered")
    verdicts = {one["verdict"] for one in done}
    if phase == "verification" and "untried" in verdicts and "verification" not in question["waived"]:
        return _answer(question, "it could not be tried")
    if phase == "verification" and not verdicts <= {"verified", "untried"}:
        if sum(one["verdict"] == "issues" for turn in turns for one in turn["completions"]) > _REPAIRS:
            return _answer(question, f"there are issues after {_REPAIRS} repairs")
        return _go(question, "execute", "verification found issues")
    is_understood = phase == "plan" or any((one["text"] or "").startswith(UNDERSTOOD) for one in done)
    if is_understood and "execute" in permitted:
        return _go(question, "execute", "what is wanted is clear")
    ways = [one for one in ("execute", "chat") if one in permitted]
    if ways and _has_late_request(question):
        return _go(question, ways[0], "the user asked for more in the meantime")
    if phase == "execute" or phase in AFTER_WORK:
        if question["can_end"]:
            return _decision(["END"], "the work is done and no gate is open")
        gates = (gate for gate in question["open_gates"] if gate not in question["waived"])
        if gate := next((gate for gate in gates if gate in (phase, *permitted)), None):
            return _go(question, gate, f"the gate {gate} is open")
    return _answer(question, "the message is answered")


def _since_execution(question: Question) -> list[str]:
    """What was written after a turn that followed the last execution."""
    history = question["history"]
    places = [place for place, item in enumerate(history) if "turn" in item]
    executed = max((place for place in places if history[place]["phase"] == "execute"), default=-1)
    start = next((place for place in places if place > executed), len(history)) if executed >= 0 else 0
    return [without_context(item["text"]) for item in history[start:] if "turn" not in item]


def _settles(question: Question) -> Decision:
    """What was written in a gate and is thanks or a wish to end, as a part of the decision."""
    late = _since_execution(question) if question["phase"] in AFTER_WORK else []
    settles = [{"words": text, "as": "thanks"} for text in late if asks_nothing(text)]
    return {"settles": settles} if settles else {}


def _has_late_request(question: Question) -> bool:
    return any(intent_of(text, "", is_asked=False) == "execute" for text in _since_execution(question))


def _answer(question: Question, why_not: str) -> Decision:
    """Go where the messages since the last turn lead, as far as that phase is permitted; wait where there are none."""
    history = question["history"]
    here = question["phase"]
    if not history or "turn" in history[-1]:
        return _decision(["USER"], why_not)
    texts = [without_context(str(item["text"])) for item in history if "turn" not in item]
    intent = intent_of(texts[-1], here if _turns(question) else "", is_asked=any(map(read_request, texts)))
    wanted = (intent, "execute" if intent == "plan" else "chat", "chat")
    phase = next((one for one in wanted if one in (here, *question["permitted"])), here)
    return _go(question, phase, f"“{short(texts[-1])}” leads to {phase}")
