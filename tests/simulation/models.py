"""Models that mean well and choose by the dice, and what models state that is of no use."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tenex.core.messages import ModelRequest, ModelStep
from tests.fakes.scenario import reply

ONWARD = {
    "chat": ("execute", "plan", "brainstorm"),
    "brainstorm": ("plan", "execute"),
    "plan": ("execute",),
    "execute": ("verification", "verification", "chat"),
    "verification": ("chores", "chores", "execute"),
    "chores": ("reflection",),
}
JUNK = ("", "hm", "{", '{"agents": 7}', '{"agents": ["wizard"]}', '{"agents": ["END", "executor"]}', "\ud800")
LEAPS = tuple(f'{{"phase": "{phase}", "agents": ["helper"], "reason": "at once"}}' for phase in ONWARD)
"""To any phase from anywhere: most are no way, or one that a gate bars."""


def route(dice: Random, question: dict[str, Any]) -> dict[str, Any]:
    """Go on towards the end, stay now and then, and wait for the user now and then."""
    phase, left = question["phase"], question["still_to_reflect"]
    if phase == "reflection":
        return {"agents": left or ["END"], "reason": "what was learnt"}
    if question["turns"] and dice.random() < 0.15:
        return {"agents": ["USER"], "reason": "the person is next"}
    agents = dice.sample(["executor", "helper", "planner"], dice.randint(1, 3))
    if dice.random() < 0.1:
        return {"agents": agents, "reason": "once more"}
    target = dice.choice(ONWARD[phase])
    if target == "reflection" and not left:
        return {"agents": ["END"], "reason": "nobody has anything to reflect on"}
    return {"phase": target, "agents": left if target == "reflection" else agents, "reason": f"on to {target}"}


def work(dice: Random, request: ModelRequest, own: Sequence[tuple[str, dict[str, Any]]] = ()) -> ModelStep:
    """Use some tools, ask now and then, and come to an end; `own` are the calls it also makes."""
    steps = sum(isinstance(entry, ModelStep) for entry in request.entries)
    done = ("complete", {"response": f"{request.agent} did {request.phase}", "verdict": "verified"})
    if steps >= dice.randint(0, 4):
        return reply("", done) if request.phase == "verification" or dice.random() < 0.5 else reply("it is done")
    tools = {
        "execute": ["read_file", "write_file", "send", "check", "read_file"],
        "verification": ["read_file", "check"],
        "chores": ["read_file", "write_file"],
        "reflection": ["learn"],
    }.get(str(request.phase), ["read_file"])
    calls = [(dice.choice(tools), {"path": "a", "lesson": "test early"}) for _ in range(dice.randint(1, 3))]
    if request.phase != "reflection" and dice.random() < 0.12:
        calls.insert(dice.randint(0, len(calls)), ("ask", {"question": f"Which of {dice.randint(2, 99)}?"}))
    for call in own:
        calls.insert(dice.randint(0, len(calls)), call)
    return reply("thinking", *calls, *([done] if dice.random() < 0.2 else []))


def garbage(dice: Random, purpose: str) -> ModelStep:
    if purpose == "route" or dice.random() < 0.5:
        return reply(dice.choice(JUNK + LEAPS))
    return reply("", ("teleport", {}), ("complete", {"response": 7}), ("ask", {}))
